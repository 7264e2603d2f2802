{% if options.endpoint.is_none() %}
export BUTLER_ENDPOINT="${BUTLER_REGISTRY_URL:?is not set: the address of the registry}"
{%- endif %}
# shellcheck disable=SC2317 # A trap calls the function.
{= failure|at(0) =}
{%- if options.cache %}
if [ -n "$CACHE" ]; then
    # Files that other runs must not read stay in the pod.
    export BUTLER_CACHE_DIR="$CACHE" BUTLER_RECOVERY_DIR="$HOME/recovery"
fi
{%- endif %}
{%- if let Some(identity) = identity %}
stage="logging in to the cloud"
set -e
{%- if options.cloud.aws.is_some() %}
AWS_ID_TOKEN=/var/run/secrets/butler-runner/aws
{%- endif %}
{%- if options.cloud.gcp.is_some() %}
GCP_ID_TOKEN=/var/run/secrets/butler-runner/gcp
{%- endif %}
{%- if options.cloud.azure.is_some() %}
AZURE_ID_TOKEN=/var/run/secrets/butler-runner/azure
{%- endif %}
{= identity|at(0) =}
set +e
{%- endif %}
stage="starting butler-runner"
butler-runner -V >&2 || exit
# From here on the runner reports failures itself. Tekton signals this shell and the runner. The shell always
# waits for the runner, to return its results.
trap - EXIT HUP
trap : TERM INT
code=0
butler-runner execute || code=$?
status=$(sed -n 's/^ *"status": *"\([a-z_]*\)".*/\1/p' "$BUTLER_REPORT_DIR/result.json" 2>/dev/null | head -n 1)
printf '%s' "$code" >"$(results.exit-code.path)"
printf '%s' "${status:-unknown}" >"$(results.status.path)"
exit "$code"
