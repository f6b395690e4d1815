# Counts single tests in a stage's output and prints `PASSED FAILED`. `status` is the stage's
# exit status: a failure that no runner has counted is one all the same.

# The number in front of `word`, 0 where there is none.
function before(word) {
  return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : 0
}

{ gsub(/\033\[[0-9;]*m/, "") }

# cargo-nextest
/^ *Summary \[.*\] +[0-9]+(\/[0-9]+)? tests? run:/ {
  found = 1
  passed += before("passed")
  failed += before("failed") + before("exec failed") + before("timed out")
}

# cargo test
/^test result: / {
  found = 1
  passed += before("passed;")
  failed += before("failed;")
}

# criterion, where every benchmark runs once
/^Success$/ { found = 1; passed++ }

# node:test
/^(#|ℹ) pass [0-9]+$/ { found = 1; passed += $3 }
/^(#|ℹ) (fail|cancelled) [0-9]+$/ { failed += $3 }

# Python's unittest
/^Ran [0-9]+ tests? in / { found = 1; ran = $2 }
/^(OK|FAILED)( \(.*\))?$/ {
  bad = 0
  rest = $0
  while (match(rest, /(failures|errors)=[0-9]+/)) {
    bad += substr(rest, index(rest, "=") + 1)
    rest = substr(rest, RSTART + RLENGTH)
  }
  skips = match($0, /skipped=[0-9]+/) ? substr($0, RSTART + 8) + 0 : 0
  passed += ran - bad - skips
  failed += bad
  ran = 0
}

# Scripts that count for themselves, and the checks of lib/stages.sh
/^[0-9]+ passed, [0-9]+ failed$/ { found = 1; passed += $1; failed += $3 }
/^PASS / { found = 1; passed++ }
/^FAIL / { found = 1; failed++ }

END {
  if (status == 77) {
    # Skipped: what was counted before counts.
  } else if (status != 0 && failed == 0) {
    failed = 1
  } else if (!found) {
    passed = 1
  }
  print passed + 0, failed + 0
}
