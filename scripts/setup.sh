#!/usr/bin/env bash
# Makes the checkout ready: what Debian must have, and the virtual environment.
#
#   scripts/setup.sh runtime   what `./grampus` needs
#   scripts/setup.sh dev       and what the tests need
#
# Says nothing and takes some milliseconds when nothing is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=${1:-runtime}
case $mode in
  runtime | dev) ;;
  *) echo "usage: scripts/setup.sh runtime|dev" >&2; exit 2 ;;
esac

# program=Debian package
programs=(
  mmdebstrap=mmdebstrap runc=runc ip=iproute2 losetup=mount mount=mount umount=mount
  findmnt=util-linux setpriv=util-linux
)
[ "$mode" = dev ] && programs+=(chromium=chromium fc-list=fontconfig)

missing=()
for pair in "${programs[@]}"; do
  command -v "${pair%%=*}" >/dev/null 2>&1 || missing+=("${pair##*=}")
done
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3-venv)

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

wanted=$({ echo "$mode"; pwd; python3 --version; cat pyproject.toml constraints.txt; } | sha256sum)
stamp=.venv/.grampus-$mode
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -x .venv/bin/grampus ] && exit 0

echo "Setting up the virtual environment (.venv) ..." >&2
# One set-up at a time: two commands may find the checkout fresh together.
exec 9>.venv.lock
flock 9
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  [ -x .venv/bin/python ] || python3 -m venv .venv
  extra=""
  [ "$mode" = dev ] && extra="[dev]"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint constraints.txt --editable ".$extra"
  .venv/bin/python -m compileall -q src >/dev/null
  echo "$wanted" >"$stamp"
fi
