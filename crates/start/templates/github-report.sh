{% include "github-token.sh" %}
BUTLER_TOKEN=$token
{= function|at(0) =}
report_failure 1 "$STAGE"
