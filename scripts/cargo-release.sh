#!/usr/bin/env bash
# Build released programs of the data plane, all with the same flags of rustc: cargo compiles what
# was compiled with other flags again, and volumed takes two minutes of CPU time.
#
#   scripts/cargo-release.sh --package NAME [OPTIONS OF cargo build]
#
# No program has paths of this machine in it, because a Debian package may be made of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
checkout=$PWD
home=~
# The last prefix that matches is used.
flags=(
  "--remap-path-prefix=$home=/build"
  "--remap-path-prefix=${CARGO_HOME:-$home/.cargo}=/cargo"
  "--remap-path-prefix=$checkout=/grampus"
)
# The separator of CARGO_ENCODED_RUSTFLAGS: paths may have spaces.
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
cd dataplane
# Without what make says of its own jobs, which cargo would try to share, and warn.
MAKEFLAGS='' exec cargo build --locked --release --quiet --target-dir target "$@"
