#!/bin/sh
# shellcheck disable=SC2016 # Backticks in messages are not commands.
# The entry point of the image: interprets the arguments of `docker run IMAGE`.
#   none            a run if its settings are in the environment, the help otherwise
#   a flag          a flag of butler-runner
#   a command       a command of butler-runner: `docker run IMAGE exec`
#   anything else   a program of the image: CI systems start a shell in it
set -eu

if [ $# -eq 0 ]; then
    # One of these variables is enough, because `execute` reports the missing ones.
    if [ -n "${BUTLER_ENDPOINT:-}${BUTLER_URL:-}${BUTLER_RUN_ID:-}${BUTLER_TOKEN:-}${BUTLER_TOKEN_FILE:-}${BUTLER_CONFIG:-}${BUTLER_LOCAL:-}" ]; then
        exec butler-runner execute
    fi
    exec butler-runner --help
fi

case "$1" in
    -*) exec butler-runner "$@" ;;
esac
# Commands are recognized by their help, so that this script needs no list of them.
if butler-runner "$1" --help >/dev/null 2>&1; then
    exec butler-runner "$@"
fi
if ! command -v "$1" >/dev/null; then
    printf 'error: `%s` is neither a command of butler-runner nor a program in this image\n' "$1" >&2
    echo 'hint: `butler-runner --help` lists the commands' >&2
    exit 127
fi
exec "$@"
