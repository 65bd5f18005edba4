#!/usr/bin/env bash
# Makes the checkout ready: what Debian must have, the virtual environment, and volumed.
#
#   scripts/setup.sh runtime   what `./grampus` needs
#   scripts/setup.sh dev       and what the tests need
#   scripts/setup.sh check     the same without volumed, for tests that start no lab
#
# Says nothing and takes some milliseconds when nothing is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=${1:-runtime}
wants_volumed=yes
case $mode in
  runtime | dev) ;;
  check) mode=dev wants_volumed=no ;;
  *) echo "usage: scripts/setup.sh runtime|dev|check" >&2; exit 2 ;;
esac
# Who brings a volumed along needs none of ours.
[ -z "${GRAMPUS_VOLUMED:-}" ] || wants_volumed=no

# program=Debian package
programs=(
  mmdebstrap=mmdebstrap runc=runc ip=iproute2 losetup=mount mount=mount umount=mount
  findmnt=util-linux setpriv=util-linux ssh=openssh-client
)
[ "$mode" = dev ] && programs+=(chromium=chromium fc-list=fontconfig)

missing=()
for pair in "${programs[@]}"; do
  command -v "${pair%%=*}" >/dev/null 2>&1 || missing+=("${pair##*=}")
done
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
# What makes a virtual environment is needed until there is one.
[ -x .venv/bin/python ] || python3 -c 'import ensurepip, venv' >/dev/null 2>&1 ||
  missing+=(python3-venv)

if [ ${#missing[@]} -gt 0 ]; then
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
  if [ "$(id -u)" != 0 ]; then
    echo "error: these Debian packages are missing: ${missing[*]}" >&2
    echo "Install them as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "Installing Debian packages: ${missing[*]}" >&2
  log=$(mktemp)
  # Package lists may be absent or old on a fresh machine.
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes \
    --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "error: the packages could not be installed; the whole output is in $log" >&2
    exit 1
  fi
  rm -f "$log"
fi

# Whether the environment is what this mode needs; `dev` holds all of `runtime`.
has_venv() {
  local stamp
  for stamp in ".venv/.grampus-$mode" .venv/.grampus-dev; do
    if [ "$(cat "$stamp" 2>/dev/null)" = "$1" ] && [ -x .venv/bin/python ] &&
      [ -x .venv/bin/grampus ]; then return 0; fi
  done
  return 1
}

ensure_venv() {
  local wanted extra python=python3
  # Its own python, once it is there: `python3` may be a launcher that takes long to find one.
  [ ! -x .venv/bin/python ] || python=.venv/bin/python
  wanted=$({ pwd; "$python" --version; cat pyproject.toml constraints.txt; } | sha256sum)
  if has_venv "$wanted"; then return 0; fi
  if [ ! -w . ]; then
    echo "error: the virtual environment (.venv) is not up to date, and $(id -un) may not write here." >&2
    echo "Run scripts/setup.sh once as the owner of this checkout." >&2
    exit 1
  fi
  echo "Setting up the virtual environment (.venv) ..." >&2
  # One set-up at a time: two commands may find the checkout fresh together.
  exec 9>.venv.lock
  flock 9
  if has_venv "$wanted"; then return 0; fi
  [ -x .venv/bin/python ] || python3 -m venv .venv
  extra=""
  [ "$mode" = dev ] && extra="[dev]"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint constraints.txt --editable ".$extra"
  .venv/bin/python -m compileall -q src >/dev/null
  echo "$wanted" >".venv/.grampus-$mode"
  exec 9>&-
}

# volumed, the driver of volumes, is built from dataplane/. Without it volumes are attached through
# a slower driver, and say so: no reason to stop here.
volumed=dataplane/target/release/volumed
volumed_stamp=dataplane/target/.grampus-volumed

# What it is built from, as one digest: its crate, and those of ours that it names.
digest_of_volumed() {
  local crates
  mapfile -t crates < <(sed -n 's/^grampus-\([a-z-]*\)\.workspace.*/\1/p' dataplane/volumed/Cargo.toml)
  crates=("${crates[@]/#/dataplane/}")
  {
    printf '%s\0' dataplane/Cargo.toml dataplane/Cargo.lock
    find dataplane/volumed "${crates[@]}" \( -name tests -o -name benches -o -name fake \) -prune \
      -o -type f \( -name '*.rs' -o -name Cargo.toml \) -print0 | LC_ALL=C sort -z
  } | xargs -0 sha256sum | sha256sum
}

# Whether there is a cargo that dataplane/Cargo.toml takes.
has_cargo() {
  local required found
  required=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' dataplane/Cargo.toml)
  found=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p') || true
  [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$required" "$found" | sort -V | head -n 1)" = "$required" ]
}

ensure_volumed() {
  local wanted log
  wanted=$(digest_of_volumed)
  case $(cat "$volumed_stamp" 2>/dev/null) in
    "built $wanted") [ ! -x "$volumed" ] || return 0 ;;
    "failed $wanted") [ "$mode" = dev ] || return 0 ;; # said already, and nothing has changed
    "no-cargo $wanted") has_cargo || return 0 ;;
  esac
  mkdir -p dataplane/target 2>/dev/null && [ -w dataplane/target ] || return 0
  # One build at a time; the one before us may have made ours too.
  exec 8>dataplane/target/.grampus-volumed.lock
  flock --nonblock 8 || { echo "Waiting for another build of volumed ..." >&2 && flock 8; }
  if [ "$(cat "$volumed_stamp" 2>/dev/null)" = "built $wanted" ] && [ -x "$volumed" ]; then return 0; fi
  if ! has_cargo && [ "$(id -u)" != 0 ]; then
    echo "note: volumed cannot be built without cargo, so volumes use a slower driver." >&2
    echo "Run scripts/ensure-rust.sh as root once, or install Rust yourself." >&2
    echo "no-cargo $wanted" >"$volumed_stamp"
    return 0
  fi
  echo "Building volumed, the driver of volumes (once; some minutes) ..." >&2
  log=dataplane/target/.grampus-volumed.log
  if { has_cargo || scripts/ensure-rust.sh; } >"$log" 2>&1 &&
    scripts/cargo-release.sh --package grampus-volumed >>"$log" 2>&1
  then
    echo "built $wanted" >"$volumed_stamp"
  else
    grep -E '^(error|ensure-rust)' "$log" | tail -n 3 >&2 || true
    echo "note: volumed could not be built, so volumes use a slower driver." >&2
    echo "The whole output is in $log; \`make setup\` tries again." >&2
    echo "failed $wanted" >"$volumed_stamp"
  fi
}

ensure_venv
[ "$wants_volumed" = no ] || ensure_volumed
