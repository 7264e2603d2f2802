# The token is read from the event's file: the environment of a step is printed.
token=$(tr ',{}' '\n' <"$GITHUB_EVENT_PATH" |
  sed -n 's/^[[:space:]]*"callback_token"[[:space:]]*:[[:space:]]*"\([^"\\][^"\\]*\)".*/\1/p')
