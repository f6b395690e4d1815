#!/usr/bin/env bash
# What count.awk makes of each runner's last words.
set -euo pipefail
cd "$(dirname "$0")"

failures=0

# counts STATUS OUTPUT "PASSED FAILED"
counts() {
  local counted
  counted=$(printf '%b' "$2" | awk -v status="$1" -f count.awk)
  if [[ $counted != "$3" ]]; then
    printf 'status %s, %q: counted %s, not %s\n' "$1" "$2" "$counted" "$3"
    failures=$((failures + 1))
  fi
}

# Stages that count nothing count as one.
counts 0 '' '1 0'
counts 1 'error: it does not build\n' '0 1'
counts 77 'notice: not here\n' '0 0'

counts 0 '     Summary [   1.203s] 310 tests run: 310 passed, 2 skipped\n' '310 0'
counts 0 '\033[32m     Summary\033[0m [   1.2s] 31 tests run: 31 passed (1 slow), 0 skipped\n' '31 0'
counts 100 '     Summary [   9.000s] 12 tests run: 9 passed, 2 failed, 1 timed out, 0 skipped\n' '9 3'
counts 100 '     Summary [   9.000s] 5/12 tests run: 4 passed, 1 failed, 0 skipped\n' '4 1'

counts 0 'test result: ok. 3 passed; 0 failed; 0 ignored\ntest result: ok. 4 passed; 0 failed;\n' '7 0'
counts 101 'test result: FAILED. 3 passed; 2 failed; 0 ignored\n' '3 2'
counts 0 'Testing prose/64\nSuccess\n\nTesting code/64\nSuccess\n' '2 0'

counts 0 '# tests 5\n# pass 5\n# fail 0\n# cancelled 0\n' '5 0'
counts 1 'ℹ pass 5\nℹ fail 1\nℹ cancelled 2\n' '5 3'

counts 0 'Ran 4 tests in 0.1s\n\nOK (skipped=1)\n' '3 0'
counts 1 'Ran 4 tests in 0.1s\n\nFAILED (failures=1, errors=2)\n' '1 3'

counts 0 'PASS a\nPASS b\n' '2 0'
counts 1 'PASS a\nFAIL b\n' '1 1'
counts 0 'talk\n6 passed, 0 failed\n' '6 0'

# A runner that says well and a stage that ends badly.
counts 1 '# pass 5\n# fail 0\n' '5 1'
counts 1 'PASS a\n' '1 1'

((failures == 0))
