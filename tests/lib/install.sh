# shellcheck shell=bash
# What the tests need, installed where it is missing. Sourced from the repository's root.

CACHE=$PWD/tests/.cache
export PATH=$CACHE/cargo/bin:$PATH
# Exit status of a stage that could not run here and need not.
readonly SKIPPED=77
# Of Debian packages.
readonly REDIS_VERSION=5:7.0.15-1~deb12u10
readonly NGINX_VERSION=1.22.1-9+deb12u11
readonly CADDY_VERSION=2.6.2-5
readonly HAPROXY_VERSION=2.6.12-1+deb12u4
readonly PROMETHEUS_VERSION=2.42.0+ds-5+deb12u1
# Of crates.
# shellcheck disable=SC2034 # used by those who source this file
readonly CARGO_DENY_VERSION=0.20.2 CARGO_FUZZ_VERSION=0.13.2 CARGO_MUTANTS_VERSION=27.1.0 CARGO_NEXTEST_VERSION=0.9.143

mkdir -p "$CACHE"

# A line that stands below the stage's result.
notice() {
  echo "notice: $*"
}

skip() {
  notice "$*"
  exit "$SKIPPED"
}

fail() {
  notice "$*"
  exit 1
}

# need_command NAME HOW: a command that a person has to install.
need_command() {
  command -v "$1" >/dev/null || fail "$1 is not there: $2"
}

# need_package COMMAND PACKAGE: a command out of a Debian package.
need_package() {
  if command -v "$1" >/dev/null; then
    return
  fi
  need_command apt-get "install $2 by hand"
  local as_root=()
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
      fail "$1 is not there, and installing it needs root: apt-get install $2"
    fi
    as_root=(sudo -n)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq || true
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "$2" || fail "apt-get could not install $2"
}

# unpacked FOLDER PACKAGE...: Debian packages in the cache, unpacked and not installed: the first at the
# locked version, NAME=VERSION, or at the one that this Debian has.
unpacked() {
  local folder=$CACHE/$1 locked=$2
  shift 2
  need_command apt-get "install ${locked%%=*} by hand"
  rm -rf "$folder"
  mkdir -p "$folder/packages"
  (
    cd "$folder/packages"
    if ! apt-get download -qq "$locked" "$@"; then
      # The lists of packages may be older than the lock. Without root, they stay so.
      if ((EUID == 0)); then apt-get update -qq || true; else sudo -n apt-get update -qq || true; fi
      apt-get download -qq "$locked" "$@" || apt-get download -qq "${locked%%=*}" "$@"
    fi
  ) || fail "apt-get could not download ${locked%%=*}"
  local package
  for package in "$folder"/packages/*.deb; do
    dpkg-deb -x "$package" "$folder/unpacked"
  done
}

# with_libraries FILE PROGRAM: makes FILE run a program that was unpacked beside it, such as usr/bin/NAME.
with_libraries() {
  cat >"$1" <<PROGRAM
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")/unpacked
LD_LIBRARY_PATH=\$(echo "\$here"/usr/lib/*-linux-gnu* "\$here"/lib/*-linux-gnu* | tr ' ' :) exec "\$here/$2" "\$@"
PROGRAM
  chmod +x "$1"
}

# A Redis server in the cache, unless there is one.
need_redis() {
  if [[ -x $CACHE/redis/redis-server ]] || command -v redis-server >/dev/null; then
    return
  fi
  unpacked redis "redis-tools=$REDIS_VERSION" libjemalloc2 liblzf1
  # The program is one with its tools, and does what its name says.
  ln -s redis-check-rdb "$CACHE/redis/unpacked/usr/bin/redis-server"
  with_libraries "$CACHE/redis/redis-server" usr/bin/redis-server
}

# libraries_of PACKAGE...: the libraries that Debian packages ask for, but those that everything needs.
libraries_of() {
  apt-cache depends "$@" |
    awk '$1 == "Depends:" && $2 ~ /^(lib|zlib)/ && $2 !~ /^lib(c6|gcc-s1|stdc\+\+6|js-)/ { print $2 }'
}

# need_unpacked NAME PACKAGE PROGRAM: a program of a Debian package in the cache, with the libraries that
# the package asks for, unless there is one.
need_unpacked() {
  local name=$1 locked=$2 program=$3
  if [[ -x $CACHE/$name/$name ]] || command -v "$name" >/dev/null; then
    return
  fi
  local libraries
  libraries=$(libraries_of "${locked%%=*}")
  # What a library of an unusual kind needs is not on every machine either.
  if [[ -n $libraries ]]; then
    # shellcheck disable=SC2046,SC2086 # one word each
    libraries=$(printf '%s\n' $libraries $(libraries_of $libraries) | sort -u)
  fi
  # shellcheck disable=SC2086 # one word each
  unpacked "$name" "$locked" $libraries
  with_libraries "$CACHE/$name/$name" "$program"
}

need_nginx() {
  need_unpacked nginx "nginx=$NGINX_VERSION" usr/sbin/nginx
}

need_caddy() {
  need_unpacked caddy "caddy=$CADDY_VERSION" usr/bin/caddy
}

need_haproxy() {
  need_unpacked haproxy "haproxy=$HAPROXY_VERSION" usr/sbin/haproxy
}

need_promtool() {
  need_unpacked promtool "prometheus=$PROMETHEUS_VERSION" usr/bin/promtool
}

# need_crate NAME VERSION: a cargo subcommand. Its own speed does not matter, so that the
# quick build will do.
need_crate() {
  if [[ " $("$1" --version 2>/dev/null) " == *" $2 "* ]]; then
    return
  fi
  CARGO_TARGET_DIR=$CACHE/cargo-build \
    cargo install --locked --debug --root "$CACHE/cargo" "$1@$2" || fail "cannot install $1 $2"
  rm -rf "$CACHE/cargo-build"
}

# Runs a command unless the files after `--` are the same as when it last succeeded.
# once_for STAMP COMMAND... -- FILE...
once_for() {
  local stamp=$CACHE/$1.stamp command=()
  shift
  while [[ $1 != -- ]]; do
    command+=("$1")
    shift
  done
  shift
  local now
  now=$(cat -- "$@" | sha256sum)
  if [[ -f $stamp && $(<"$stamp") == "$now" ]]; then
    return
  fi
  rm -f "$stamp"
  "${command[@]}"
  echo "$now" >"$stamp"
}

# The clients of tests/package.json, at tests/node_modules.
need_npm_packages() {
  need_command node "install Node.js 20 or later"
  need_command npm "install npm"
  if (($(node --print 'process.versions.node.split(".")[0]') < 20)); then
    fail "Node.js $(node --version) is too old: install 20 or later"
  fi
  once_for npm install_npm_packages -- tests/package.json tests/package-lock.json
  ln -sfn .cache/npm/node_modules tests/node_modules
}

install_npm_packages() {
  mkdir -p "$CACHE/npm"
  cp tests/package.json tests/package-lock.json tests/.npmrc "$CACHE/npm"
  (cd "$CACHE/npm" && npm ci --loglevel=error) || fail "npm could not install the clients of tests/package.json"
}

# need_pip_packages NAME REQUIREMENTS: the packages of a file with hashes, importable from
# now on.
need_pip_packages() {
  need_command python3 "install Python 3.11 or later"
  once_for "python-$1" install_pip_packages "$@" -- "$2"
  export PYTHONPATH=$CACHE/python-$1${PYTHONPATH:+:$PYTHONPATH}
}

install_pip_packages() {
  python3 -m pip --version >/dev/null 2>&1 || need_package pip3 python3-pip
  rm -rf "$CACHE/python-$1"
  python3 -m pip install --quiet --root-user-action=ignore --require-hashes --no-deps \
    --target "$CACHE/python-$1" --requirement "$2" || fail "pip could not install $2"
}

# The gateway that the tests outside of Rust start, as TETHER_BIN: a copy, since a build that
# begins meanwhile would replace the original.
need_gateway() {
  if [[ -n ${TETHER_BIN-} ]]; then
    return
  fi
  cargo build --locked
  local target
  target=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
  install -D "$target/debug/tether" "$CACHE/bin/tether"
  export TETHER_BIN=$CACHE/bin/tether
}
