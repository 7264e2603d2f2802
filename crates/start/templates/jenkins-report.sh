set -eu
# The step has begun, and has reported a failure itself.
if [ "$(cat "$WORKSPACE/.butler/began" 2>/dev/null)" = "$BUILD_TAG" ]; then exit 0; fi
BUTLER_RUN_ID="$RUN_ID" BUTLER_TOKEN="$CALLBACK_TOKEN"
{= function|at(0) =}
report_failure 1 "reading the credentials of the job"
