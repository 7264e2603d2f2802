{% include "github-token.sh" %}
if [ -z "$token" ]; then
  echo "::error::the event does not contain callback_token"
  exit 1
fi
printf '%s\n' "$token" | sed 's/^/::add-mask::/'
