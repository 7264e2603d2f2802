# In its image, read-only and without privileges. `docker run` hands signals on to the runner, which
# `docker exec` does not. Values come from the environment, so that none is in the process list.
rm -rf "{= temporary|at(0) =}"/butler-tmp.* || true # of an earlier job
temporary=$(mktemp -d "{= temporary|at(0) =}/butler-tmp.XXXXXX")
# Pulled while this shell can still fail: it is gone once the container starts.
docker image inspect {= image|shell =} >/dev/null 2>&1 || docker pull --quiet {= image|shell =}
{%- if let Some(last) = last %}
{= last|at(0) =}
{%- endif %}
exec docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges \
    --user "$(id -u):$(id -g)" --volume "$temporary:/tmp" \
    {%- for volume in volumes %}
    --volume "{= volume|at(4) =}" \
    {%- endfor %}
    {%- for name in optional_files %}
    ${{= name|at(4) =}:+--volume "${= name|at(4) =}:${= name|at(4) =}:ro"} \
    {%- endfor %}
    {%- for name in handed_on %}
    --env {= name|at(4) =} \
    {%- endfor %}
    {= image|shell =} butler-runner execute
