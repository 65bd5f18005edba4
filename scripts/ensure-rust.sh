#!/usr/bin/env bash
# Make cargo, clippy and rustfmt available, in the version that dataplane/Cargo.toml asks for.
#
# An existing toolchain that is new enough is used as it is. Otherwise Debian's packages are
# installed (needs root): on Debian 12 those named *-web, which follow newer releases of Rust
# than the release's own; on later releases the plain ones. Nothing is ever removed.
# What is done goes to stderr.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
required="$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' "$here/dataplane/Cargo.toml")"

say() { printf 'ensure-rust: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# Whether version $1 is at least $2; an empty $1 never is.
at_least() { [[ -n "$1" && "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]; }

# Version of a tool, such as `1.85.0` from `cargo 1.85.0 (d73d2caf9 2024-12-31)`; empty if absent.
version_of() { "$@" --version 2>/dev/null | sed -n '1s/^[a-z]* \([0-9.]*\).*/\1/p' || true; }

# Upstream version that apt would install of package $1, such as `1.85.0`; empty if none.
candidate_of() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9.]*\).*/\1/p'
}

# The names of what is missing, one a line; nothing when the toolchain is complete.
observe_missing() {
    at_least "$(version_of cargo)" "$required" || echo cargo
    at_least "$(version_of rustc)" "$required" || echo rustc
    [[ -n "$(version_of cargo clippy)" ]] || echo clippy
    [[ -n "$(version_of cargo fmt)" ]] || echo rustfmt
}

missing="$(observe_missing | paste -sd ' ')"
if [[ -z "$missing" ]]; then
    say "using $(cargo --version), which is $required or later"
    exit 0
fi
say "missing, or older than $required: $missing"

command -v apt-get >/dev/null || fail "install Rust $required or later with clippy and rustfmt."
[[ "$(id -u)" == 0 ]] || fail "run this as root, or install Rust $required or later yourself."

say "asking apt for its package lists"
DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2
if at_least "$(candidate_of rustc)" "$required"; then
    packages=(cargo rustc rust-clippy rustfmt)
elif at_least "$(candidate_of rustc-web)" "$required"; then
    packages=(cargo-web rustc-web rust-web-clippy rustfmt-web)
else
    fail "apt has no Rust $required or later: on Debian 12 enable its security updates."
fi

say "installing ${packages[*]}"
# --no-remove: the two families exclude each other, and removing one is for the user to decide.
DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-remove --no-install-recommends \
    "${packages[@]}" >&2 || fail "apt could not install ${packages[*]}; its reason is above."

hash -r
missing="$(observe_missing | paste -sd ' ')"
[[ -z "$missing" ]] ||
    fail "installed, but $missing on PATH is still missing or older: $(command -v cargo || true)."
say "using $(cargo --version)"
