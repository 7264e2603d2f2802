"""The measured modules, and the scripts that plan and apply them without a runner."""

PLAN = """\
git clone --quiet --depth 1 --branch main {url} clone
cd clone
terraform init -input=false -no-color
terraform plan -input=false -no-color -out=plan.tfplan
terraform show -json plan.tfplan > plan.json
"""

APPLY = """\
git clone --quiet --depth 1 --branch main {url} clone
cd clone
terraform init -input=false -no-color
terraform apply -input=false -no-color -auto-approve
"""


def resources(count):
    """A module with this number of resources, without a provider to download."""
    return {
        "main.tf": f"""\
resource "terraform_data" "hello" {{
  count = {count}
  input = "hello ${{count.index}}"
}}
output "greetings" {{
  value = terraform_data.hello[*].output
}}
"""
    }


def lines(count):
    """A module whose apply prints this number of numbered lines."""
    text = f"bench line %07d of {count}"
    awk = f'BEGIN {{ for (i = 1; i <= {count}; i++) printf \\"{text}\\\\n\\", i }}'
    return {
        "main.tf": f"""\
resource "terraform_data" "lines" {{
  provisioner "local-exec" {{
    command = "awk '{awk}'"
  }}
}}
"""
    }


# Replaces terraform in a run, and responds immediately. Its plans differ, as those of terraform do.
STAND_IN = """\
#!/bin/sh
case "$1" in
version) echo '{{"terraform_version":"1.11.4","platform":"linux_amd64"}}' ;;
init) echo 'Terraform has been successfully initialized!' ;;
plan)
  for argument; do case "$argument" in -out=*) echo "$$" > "${{argument#-out=}}" ;; esac; done
  echo 'Plan: 1 to add, 0 to change, 0 to destroy.' ;;
show) {show} ;;
validate) {validate}; echo '{{"valid":true,"error_count":0,"warning_count":0,"diagnostics":[]}}' ;;
output) echo '{{}}' ;;
esac
"""

# The number of different secrets in a plan. Each needs memory in the runner's redactor.
SECRETS = 1000

CHANGE = (
    '{"address":"terraform_data.hello[%(index)d]","mode":"managed","type":"terraform_data",'
    '"name":"hello","index":%(index)d,"provider_name":"terraform.io/builtin/terraform","change":'
    '{"actions":["create"],"before":null,"after":{"input":{"text":"%(text)s","list":[1,2,3],'
    '"secret":"hidden %(secret)d"},"triggers_replace":null},"after_unknown":{"id":true},'
    '"before_sensitive":false,"after_sensitive":{"input":{"secret":true}}}}'
)


def stand_in(show, validate=":"):
    """A script that replaces terraform; `show` and `validate` are the commands for these subcommands."""
    return STAND_IN.format(show=show, validate=validate)


def small_plan():
    """A plan's JSON with one change."""
    return _plan(1)


def large_plan(path, size):
    """Writes a plan's JSON of at least `size` bytes that consists of changes, like `show -json`."""
    text = "lorem ipsum dolor sit amet, " * 60
    length = len(_change(100_000, text))
    path.write_text(_plan(size // length + 1, text))


def _change(index, text):
    return CHANGE % {"index": index, "secret": index % SECRETS, "text": text}


def _plan(count, text="hello"):
    changes = ",".join(_change(index, text) for index in range(count))
    return (
        '{"format_version":"1.2","terraform_version":"1.11.4",'
        f'"resource_changes":[{changes}],"applyable":true,"complete":true,"errored":false}}'
    )
