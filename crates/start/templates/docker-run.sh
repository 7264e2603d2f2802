# The runner in its image, read-only and without privileges. `docker run` forwards signals to the runner, unlike
# `docker exec`. Values are passed in the environment, so that they are not in the process list.
rm -rf "{= temporary|at(0) =}"/butler-tmp.* || true # of an earlier job
temporary=$(mktemp -d "{= temporary|at(0) =}/butler-tmp.XXXXXX")
# The image is pulled before `exec`, so that this shell can still report an error.
docker image inspect {= image|shell =} >/dev/null 2>&1 || docker pull --quiet {= image|shell =}
set -- docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges \
    --user "$(id -u):$(id -g)" --volume "$temporary:/tmp" \
    {%- for volume in volumes %}
    --volume "{= volume|at(4) =}" \
    {%- endfor %}
    {%- for name in optional_files %}
    ${{= name|at(4) =}:+--volume "${= name|at(4) =}:${= name|at(4) =}:ro"} \
    {%- endfor %}
    {%- for name in environment %}
    --env {= name|at(4) =} \
    {%- endfor %}
    {= image|shell =} butler-runner
# A container or a runner that does not start on this machine is reported by this shell too.
"$@" -V >&2
{%- if let Some(last_command) = last_command %}
{= last_command|at(0) =}
{%- endif %}
exec "$@" execute
