# shellcheck shell=bash
# The stages of tests/run, each a function that runs with `set -e`. Sourced after install.sh.

# Seconds that each fuzz target runs: enough to see that it runs, and a new hole at once.
readonly FUZZ_SEC=8
# Seconds that the advisory database may take to come.
readonly ADVISORIES_SEC=120

# check NAME COMMAND...: one counted check; the stage continues after a failure, and `checked`
# ends it.
checks_failed=0
check() {
  local name=$1
  shift
  if "$@"; then
    echo "PASS $name"
  else
    echo "FAIL $name"
    checks_failed=$((checks_failed + 1))
  fi
}
checked() {
  ((checks_failed == 0))
}

stage_scripts() {
  need_package shellcheck shellcheck
  check shellcheck shellcheck --external-sources tests/run tests/lib/*.sh tests/*/run benches/*/run fuzz/nightly packaging/release examples/*.sh examples/*/run .ci/run
  check count tests/lib/count_test.sh
  checked
}

stage_fmt() {
  check gateway cargo fmt --check
  check peers cargo fmt --check --manifest-path benches/peers/Cargo.toml
  checked
}

stage_clippy() {
  check gateway cargo clippy --all-targets --locked -- -D warnings
  # It compiles our parser from its source, outside of the gateway.
  check peers cargo clippy --locked --manifest-path benches/peers/Cargo.toml \
    --target-dir "${CARGO_TARGET_DIR-target}/peers" -- -D warnings
  checked
}

# All tests but those of stage_report.
stage_test() {
  need_redis
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --no-fail-fast -E 'not test(/schedules::|^report::/)'
    cargo test --doc --locked
  else
    cargo test --locked --no-fail-fast -- --skip schedules::
  fi
}

# The tests whose figures people want to see.
stage_report() {
  need_redis
  cargo test --locked --lib schedules:: -- --nocapture
  cargo test --locked --test gateway report:: -- --nocapture
}

stage_doc() {
  RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps
}

# Compiles the package as crates.io would get it, so that nothing that the build needs is left out. Its
# dependencies have been downloaded by then.
stage_package() {
  cargo package --locked --offline --allow-dirty
}

# Every benchmark once, in the build that the tests have made already: whether it runs, not
# how fast.
stage_bench() {
  local benches
  benches=$(targets bench Cargo.toml)
  [[ -n $benches ]] || skip "there are no benches"
  # shellcheck disable=SC2046,SC2086 # one word each
  cargo test --locked $(printf -- '--bench %s ' $benches)
}

stage_clients() {
  tests/clients/run
}

stage_openapi() {
  tests/openapi/run
}

stage_operations() {
  tests/operations/run
}

stage_grammars() {
  tests/grammars/run
}

stage_tools() {
  tests/tools/run
}

stage_browser() {
  tests/browser/run
}

stage_real_model() {
  [[ -x tests/real_model/run ]] || skip "tests/real_model/run is not there"
  tests/real_model/run
}

# Fails if a user sees results as only the model should see them. Wrong answers are no failure: the
# model is too small for right ones.
stage_effect() {
  tests/effect/run --short
}

# Some hundred streams, because the gateway of the other stages is slow: what depends on time is shown, not checked.
stage_soak() {
  local package=(--manifest-path tests/soak/Cargo.toml)
  local build=(--quiet --locked --release --target-dir "$CACHE/soak-build" "${package[@]}")
  check fmt cargo fmt --check "${package[@]}"
  check clippy cargo clippy --all-targets "${build[@]}" -- -D warnings
  check test cargo test "${build[@]}"
  check soak tests/soak/run --short
  checked
}

stage_deny() {
  need_crate cargo-deny "$CARGO_DENY_VERSION"
  local part
  for part in bans licenses sources; do
    check "$part" cargo deny --locked check "$part"
  done
  if timeout "$ADVISORIES_SEC" cargo deny --locked fetch db; then
    check advisories cargo deny --locked check --disable-fetch advisories
  else
    notice "the advisory database cannot be fetched here: advisories are not checked"
  fi
  checked
}

# Unsafe code is forbidden here, so a sanitizer would only check the dependencies.
readonly FUZZ_OPTIONS=(--sanitizer none)

# fuzz_build TARGET...
fuzz_build() {
  local target
  for target; do
    cargo +nightly fuzz build "${FUZZ_OPTIONS[@]}" --features gateway "$target"
  done
}

# fuzz_target TARGET FOLDER... -- OPTION...: runs a target. New inputs go into the first folder.
fuzz_target() {
  local target=$1 dictionary=fuzz/json.dict longest=4096 features=()
  is_light "$target" || features=(--features gateway)
  shift
  case $target in
  parser_* | parse_batch) dictionary=fuzz/parser.dict longest=512 ;;
  sse_decoder | upstream_framing) longest=512 ;;
  esac
  cargo +nightly fuzz run "${FUZZ_OPTIONS[@]}" "${features[@]}" "$target" "$@" -dict="$dictionary" -max_len="$longest"
}

# Whether a fuzz target compiles without the gateway, in seconds instead of minutes.
is_light() {
  case $1 in
  parser_chunks | parser_repair | sse_decoder | upstream_framing) ;;
  *) return 1 ;;
  esac
}

# Runs the light targets for a moment; `fuzz/nightly` runs all. The stage `test` replays every corpus.
# New inputs stay in the cache: what belongs into the committed corpus, a person decides.
stage_fuzz() {
  local target targets
  targets=$(targets bin fuzz/Cargo.toml)
  [[ -n $targets ]] || skip "there are no fuzz targets"
  cargo +nightly --version >/dev/null 2>&1 ||
    skip "no nightly toolchain: the committed corpora were replayed by the stage test"
  need_crate cargo-fuzz "$CARGO_FUZZ_VERSION"
  for target in $targets; do
    is_light "$target" || continue
    mkdir -p "$CACHE/fuzz/$target" "fuzz/corpus/$target"
    check "$target" fuzz_target "$target" "$CACHE/fuzz/$target" "fuzz/corpus/$target" -- \
      -max_total_time="$FUZZ_SEC" -timeout=10
  done
  checked
}

# targets KIND MANIFEST: the names of a package's targets of one kind.
targets() {
  cargo metadata --no-deps --format-version 1 --manifest-path "$2" 2>/dev/null |
    python3 -c '
import json, sys
text = sys.stdin.read()
packages = json.loads(text)["packages"] if text else []
for package in packages:
    for target in package["targets"]:
        if sys.argv[1] in target["kind"]:
            print(target["name"])
' "$1"
}
