#!/usr/bin/env bash
# Runs the data plane's tests under ThreadSanitizer.
#
# The standard library must be instrumented too, or every lock of its would look like a race: so it
# is built from source, which the component rust-src of rustup holds, and cargo's option for that is
# unstable, which RUSTC_BOOTSTRAP allows on a stable toolchain. Takes about ten minutes on two cores.
# What the kernel does to memory that it shares with the rings is out of the sanitizer's sight.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../dataplane"
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/src/rust" ]; then
  command -v rustup >/dev/null || {
    echo "error: the source of Rust's standard library is missing." >&2
    echo "Install rustup, or the package of your distribution that holds it." >&2
    exit 1
  }
  rustup component add rust-src
fi
target=$(rustc --version --verbose | sed -n 's/^host: //p')
# Exported, for the library that the tests of librbd load finds the sanitizer in their program.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=target/races
export RUSTFLAGS="-Zsanitizer=thread -Clink-arg=-Wl,--export-dynamic"
exec cargo test --locked -Zbuild-std --target "$target" --no-fail-fast --lib --bins --tests \
  -p grampus-blockdev -p grampus-fuse -p grampus-journaled -p grampus-librbd \
  -p grampus-pacing -p grampus-readahead -p grampus-readcache -p grampus-volumed "$@"
