#!/bin/sh
# Writes SHA256SUMS for the archives of a release, and FILE.sha256 next to each of them.
# Usage: checksums.sh DIRECTORY
set -eu
cd "${1:?the directory with the archives}"
sum() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
archives=$(find . -maxdepth 1 -name 'butler-runner_*' ! -name '*.sha256' | sed 's|^\./||' | LC_ALL=C sort)
[ -n "$archives" ] || { echo "error: there is no archive in \`$1\`" >&2; exit 1; }
# The names contain no spaces.
# shellcheck disable=SC2086
sum $archives >SHA256SUMS
for archive in $archives; do sum "$archive" >"$archive.sha256"; done
