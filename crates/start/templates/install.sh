# Downloads butler-runner {{ version|comment }}, verifies it, and installs it.
set -eu
directory="{{ directory|at(0) }}"
(
    from={{ from|shell }}
    {%- if !pinned.is_empty() %}
    # Only these archives are accepted, regardless of the release.
    pinned={{ pinned|shell }}
    {%- endif %}
    fail() { echo "butler-runner is not installed: $*" >&2; exit 1; }
    case "$(uname -s)" in
        Linux) system=linux ;;
        Darwin) system=darwin ;;
        *) fail "no release for $(uname -s)" ;;
    esac
    case "$(uname -m)" in
        x86_64 | amd64) machine=amd64 ;;
        aarch64 | arm64) machine=arm64 ;;
        *) fail "no release for $(uname -m)" ;;
    esac
    archive="butler-runner_${system}_$machine.tar.gz"
    command -v curl >/dev/null || fail "curl is missing"

    umask 022
    mkdir -p "$directory"
    place=$(mktemp -d "$directory/install.XXXXXX")
    trap 'rm -rf "$place"' EXIT
    cd "$place"
    {%- if let Some(ca_bundle) = ca_bundle %}
    # curl reads one file, so the system's certificates and the bundle are combined.
    for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
        if [ -f "$file" ]; then cat "$file" >authorities.pem; break; fi
    done
    cat {{ ca_bundle|shell }} >>authorities.pem || fail "the CA bundle cannot be read"
    {%- endif %}
    fetch() {
        # Proxies are taken from HTTPS_PROXY and NO_PROXY.
        curl --fail --location --silent --show-error --proto '=https' --proto-redir '=https' \
            {%- if ca_bundle.is_some() %}
            --cacert authorities.pem \
            {%- endif %}
            --retry 5 --retry-connrefused --connect-timeout 20 --max-time 600 \
            --output "$1" "$from/$1" || fail "$from/$1 cannot be downloaded"
    }
    digest() {
        if command -v sha256sum >/dev/null; then sha256sum "$1"
        elif command -v shasum >/dev/null; then shasum -a 256 "$1"
        else fail "neither sha256sum nor shasum is installed, so it cannot be verified"
        fi
    }

    fetch "$archive"
    found=$(digest "$archive") || exit 1
    # The digest is before the first space.
    found=${found%% *}
    {%- if pinned.is_empty() %}
    fetch "$archive.sha256"
    read -r wanted name <"$archive.sha256" || [ -n "$wanted" ] || fail "$archive.sha256 is empty"
    [ "${name#\*}" = "$archive" ] || fail "$archive.sha256 is about another file"
    [ "$found" = "$wanted" ] || fail "$archive has the digest $found, the release has $wanted"
    {%- else %}
    case " $pinned " in
        *" $found "*) ;;
        *) fail "$archive has the digest $found, which is not one of the allowed digests" ;;
    esac
    {%- endif %}
    {%- if attested %}
    # With the GitHub CLI and a token, also verifies that the project's release workflow built it.
    if [ -n "${GH_TOKEN:-}" ] && gh attestation --help >/dev/null 2>&1; then
        gh attestation verify "$archive" --repo butlerdotdev/butler-runner >&2 ||
            fail "$archive was not built by its project"
    else
        echo "the attestation of butler-runner is not checked: this needs gh and GH_TOKEN" >&2
    fi
    {%- endif %}
    tar -xzf "$archive" butler-runner
    chmod 755 butler-runner
    mv -f butler-runner "$directory/butler-runner"
)
PATH="$directory:$PATH"
export PATH
