# In its image, read-only and without privileges. `docker run` hands signals on to the runner, which
# `docker exec` does not. Values come from the environment, so that none is in the process list.
rm -rf "{= temporary|at(0) =}"/butler-tmp.* || true # of an earlier job
temporary=$(mktemp -d "{= temporary|at(0) =}/butler-tmp.XXXXXX")
exec docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges \
    --user "$(id -u):$(id -g)" --volume "$temporary:/tmp" \
    {%- for volume in volumes %}
    --volume "{= volume|at(4) =}" \
    {%- endfor %}
    {%- for name in handed_on %}
    --env {= name|at(4) =} \
    {%- endfor %}
    {= image|shell =} butler-runner execute
