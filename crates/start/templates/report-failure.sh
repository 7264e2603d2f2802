# Ends a run for which butler-runner did not start: otherwise it would stay `running`.
report_failure() { # report_failure <exit code> <what the job was doing>
    { set +x; } 2>/dev/null # A trace would show the token.
    set +eu
    case "$BUTLER_RUN_ID:$BUTLER_TOKEN" in
        :* | *: | *[!A-Za-z0-9:._~+/=-]*)
            echo "the failure is not reported to the registry: no valid run id or token" >&2
            return
            ;;
    esac
    request() { # request <endpoint> [<option of curl>...]
        endpoint=$1
        shift
        # The token is passed on standard input, because arguments are in the process list.
        printf 'header = "Authorization: Bearer %s"\n' "$BUTLER_TOKEN" |
            curl --config - --no-verbose --fail --silent --show-error --globoff --proto '=http,https' \
                --retry 2 --connect-timeout 10 --max-time 30 --header 'Content-Type: application/json' \
                "$@" --url "${BUTLER_ENDPOINT%/}/v1/ci/module-runs/$BUTLER_RUN_ID/$endpoint"
    }
    {%- if let Some(ca_bundle) = ca_bundle %}
    # curl reads one file: tries the system's certificates first, then the bundle.
    ask() { request "$@" || request "$@" --cacert {= ca_bundle|shell =}; }
    {%- else %}
    ask() { request "$@"; }
    {%- endif %}
    # Does not change a run that has ended, or that another job executes.
    now=$(ask status | sed -n 's/.*"status"[[:space:]]*:[[:space:]]*"\([a-z_]*\)".*/\1/p')
    case "$now" in
        planned | confirmed | applying | succeeded | failed | cancelled | timed_out | discarded | skipped)
            echo "the failure is not reported to the registry: the run is $now" >&2
            return
            ;;
    esac
    reason="the job ended before butler-runner started, while $2: {= job|at(0) =}"
    reason=$(printf '%s' "$reason" | tr -d '[:cntrl:]' | sed 's/["\\]/\\&/g')
    ask logs --output /dev/null \
        --data "{\"logs\":[{\"sequence\":1,\"stream\":\"stderr\",\"content\":\"$reason\"}]}"
    type=$(ask status --output /dev/null --write-out '%{content_type}' \
        --data "{\"status\":\"failed\",\"exit_code\":$1,\"plan_summary\":\"$reason\",\"error\":{\"message\":\"$reason\"}}") ||
        type=failed
    case "$type" in
        '' | application/json*) echo "the failure of the run was reported to the registry" >&2 ;;
        *) echo "the failure of the run could not be reported to the registry: cancel the run there" >&2 ;;
    esac
}
