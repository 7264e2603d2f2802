#!/bin/sh
# shellcheck disable=SC2016 # Backticks in messages are not commands.
# Installs butler-runner: downloads a release, verifies it, and puts one file into a directory.
# Does not need root. Usage: install.sh [--version X.Y.Z] [--to DIRECTORY] [--attestation]
set -eu

usage() {
    cat <<'USAGE'
install.sh [options]
  --version X.Y.Z    which release; by default the newest
  --to DIRECTORY     where the runner goes; by default ~/.local/bin, for root /usr/local/bin
  --checksum SHA256  what the archive has to be, instead of what the release says
  --attestation      also have `gh attestation verify` prove that the project's own workflow built it
  --releases URL     where releases are, for a mirror laid out like the project's
Proxies and certificates are those of curl and wget: https_proxy, CURL_CA_BUNDLE, SSL_CERT_FILE.
USAGE
}

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $1"
    [ $# -lt 2 ] || say "hint: $2"
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# The names of the release's archives.
platform() {
    case "$(uname -s)" in
        Linux) system=linux ;;
        Darwin) system=darwin ;;
        *) fail "there is no release for \`$(uname -s)\`" 'on Windows unpack butler-runner_windows_amd64.tar.gz' ;;
    esac
    case "$(uname -m)" in
        x86_64 | amd64) machine=amd64 ;;
        aarch64 | arm64) machine=arm64 ;;
        *) fail "there is no release for \`$(uname -m)\`" 'amd64 and arm64 are built' ;;
    esac
    printf '%s_%s' "$system" "$machine"
}

download() { # download <url> <file>
    if has curl; then
        curl --proto '=https' --proto-redir '=https' --tlsv1.2 --fail --silent --show-error --location \
            --retry 3 --connect-timeout 30 --output "$2" "$1"
    elif has wget; then
        wget --https-only --quiet --tries=3 --timeout=30 --output-document="$2" "$1"
    else
        fail 'neither curl nor wget is there' 'install one of them'
    fi || fail "cannot download \`$1\`" 'is there such a version, and may this machine reach the site?'
}

sha256() { # sha256 <file>
    if has sha256sum; then
        sha256sum "$1"
    elif has shasum; then
        shasum -a 256 "$1"
    elif has openssl; then
        openssl dgst -sha256 -r "$1"
    else
        fail 'there is nothing to compute a SHA-256 with' 'install sha256sum, shasum or openssl'
    fi | cut -d ' ' -f 1
}

# The line of the list for the archive.
listed() { # listed <list> <archive>
    awk -v name="$2" '
        NF == 2 && ($2 == name || $2 == "*" name) { sum = $1; count++ }
        END { if (count == 1) print sum }
    ' "$1"
}

value() { [ -n "${2:-}" ] || fail "\`$1\` needs a value" '`--help` shows what there is'; }

main() {
    version='' directory='' checksum='' attestation=no
    releases=https://github.com/butlerdotdev/butler-runner/releases
    while [ $# -gt 0 ]; do
        case "$1" in
            --version) value "$@"; version=${2#v}; shift ;;
            --to) value "$@"; directory=$2; shift ;;
            --checksum) value "$@"; checksum=$2; shift ;;
            --releases) value "$@"; releases=${2%/}; shift ;;
            --attestation) attestation=yes ;;
            -h | --help) usage; exit 0 ;;
            *) fail "there is no option \`$1\`" '`--help` shows what there is' ;;
        esac
        shift
    done
    case "$releases" in
        https://*) ;;
        *) fail "\`$releases\` is not https" 'a checksum from the same place proves nothing without TLS' ;;
    esac
    if [ -z "$directory" ]; then
        if [ "$(id -u)" -eq 0 ]; then directory=/usr/local/bin; else directory=${HOME:?}/.local/bin; fi
    fi
    if [ "$attestation" = yes ] && ! has gh; then
        fail 'there is no `gh` to verify the attestation with' 'https://cli.github.com'
    fi

    archive=butler-runner_$(platform).tar.gz
    if [ -n "$version" ]; then place=$releases/download/v$version; else place=$releases/latest/download; fi
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM

    say "downloading $place/$archive"
    download "$place/$archive" "$work/$archive"
    if [ -z "$checksum" ]; then
        download "$place/SHA256SUMS" "$work/SHA256SUMS"
        checksum=$(listed "$work/SHA256SUMS" "$archive")
        [ -n "$checksum" ] || fail "the release's SHA256SUMS does not name \`$archive\` exactly once"
    fi
    actual=$(sha256 "$work/$archive")
    [ "$actual" = "$(printf '%s' "$checksum" | tr 'A-F' 'a-f')" ] ||
        fail "\`$archive\` is not what was published: it has SHA-256 \`$actual\` and should have \`$checksum\`" \
            'nothing was installed; if it stays like this, something on the way changes downloads'
    if [ "$attestation" = yes ]; then
        gh attestation verify "$work/$archive" --repo butlerdotdev/butler-runner >&2 ||
            fail "cannot verify that the project built \`$archive\`" 'nothing was installed'
    fi

    tar -xzf "$work/$archive" -C "$work" butler-runner || fail "cannot unpack \`$archive\`"
    chmod 0755 "$work/butler-runner"
    mkdir -p "$directory" || fail "cannot create \`$directory\`" 'name another with --to'
    # Copied next to the target and then renamed, so that other processes start either the old or the new version.
    new=$directory/.butler-runner.$$
    trap 'rm -rf "$work" "$new"' EXIT
    cp "$work/butler-runner" "$new" || fail "cannot write into \`$directory\`" 'name another with --to'
    "$new" -V >/dev/null || fail "what was downloaded does not run on this machine"
    mv -f "$new" "$directory/butler-runner"
    say "installed $("$directory/butler-runner" -V) as $directory/butler-runner"
    case ":${PATH}:" in
        *":$directory:"*) ;;
        *) say "hint: $directory is not on PATH" ;;
    esac
}

# At the end, so that an incomplete download of this script has no effect.
main "$@"
