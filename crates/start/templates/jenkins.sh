set -eu
{%- if has_credentials %}
# From here on this shell reports failures.
mkdir -p "$WORKSPACE/.butler"
printf '%s' "$BUILD_TAG" >"$WORKSPACE/.butler/began"
{%- endif %}
export CI=true
export BUTLER_ENDPOINT BUTLER_RUN_ID="$RUN_ID" BUTLER_TOKEN="$CALLBACK_TOKEN"
export BUTLER_REPORT_DIR="$WORKSPACE/.butler/report" BUTLER_REPORT="$WORKSPACE/.butler/report.html"
{%- if options.cache %}
# The workspace stays on the agent, so later runs use the installed tools.
export BUTLER_CACHE_DIR="$WORKSPACE/.butler/cache"
{%- else %}
export BUTLER_CACHE_DIR="$WORKSPACE_TMP/butler-cache"
{%- endif %}
export BUTLER_RECOVERY_DIR="$WORKSPACE/.butler/recovery"
{= failure|at(0) =}
rm -rf "$BUTLER_REPORT_DIR" "$BUTLER_REPORT"
mkdir -p "$WORKSPACE/.butler" "$WORKSPACE_TMP" "$BUTLER_CACHE_DIR"
{%- if let Some(install) = install %}
stage="installing butler-runner"
{= install|at(0) =}
{%- endif %}
{%- if let Some(identity) = identity %}
stage="logging in to the cloud"
{= identity|at(0) =}
{%- endif %}
stage="starting butler-runner"
# Stop runs in the registry: an aborted build ends providers and provisioners before Terraform.
{%- if let Some(container) = container %}
{= container|at(0) =}
{%- else %}
# This shell reports a runner that does not start on this machine. Not every shell does so after a failed `exec`.
butler-runner -V >&2
exec butler-runner execute
{%- endif %}
