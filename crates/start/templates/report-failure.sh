# Ends a run that butler-runner has not taken over: it would stay `running` otherwise.
report_failure() { # report_failure <exit code> <what the job was doing>
    { set +x; } 2>/dev/null # A trace would show the token.
    set +eu
    case "$BUTLER_RUN_ID:$BUTLER_TOKEN" in
        :* | *: | *[!A-Za-z0-9:._~+/=-]*)
            echo "the registry is not told of the failure: no valid run id or token" >&2
            return
            ;;
    esac
    request() { # request <endpoint> [<option of curl>...]
        endpoint=$1
        shift
        # The token goes through standard input: arguments are in the list of processes.
        printf 'header = "Authorization: Bearer %s"\n' "$BUTLER_TOKEN" |
            curl --config - --no-verbose --fail --silent --show-error --globoff --proto '=http,https' \
                --retry 2 --connect-timeout 10 --max-time 30 --header 'Content-Type: application/json' \
                "$@" --url "${BUTLER_ENDPOINT%/}/v1/ci/module-runs/$BUTLER_RUN_ID/$endpoint"
    }
    {%- if let Some(ca_bundle) = ca_bundle %}
    # curl trusts one file: the system's certificates or these.
    ask() { request "$@" || request "$@" --cacert {= ca_bundle|shell =}; }
    {%- else %}
    ask() { request "$@"; }
    {%- endif %}
    # A run that has ended, or that another job executes, is not changed.
    now=$(ask status | sed -n 's/.*"status"[[:space:]]*:[[:space:]]*"\([a-z_]*\)".*/\1/p')
    case "$now" in
        planned | confirmed | applying | succeeded | failed | cancelled | timed_out | discarded | skipped)
            echo "the registry is not told of the failure: the run is $now" >&2
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
        '' | application/json*) echo "the registry was told that the run failed" >&2 ;;
        *) echo "the registry could not be told that the run failed: cancel the run there" >&2 ;;
    esac
}
