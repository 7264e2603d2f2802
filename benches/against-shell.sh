#!/usr/bin/env bash
# A plan of a tiny module by the runner, beside the script that a user would write instead: clone,
# init, plan, show. Both take turns, so that a busy machine disturbs both alike.
# Usage: benches/against-shell.sh RUNNER [ROUNDS]
set -euo pipefail

runner=$(realpath "${1:?the path of butler-runner}")
rounds=${2:-15}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/tmp HOME=$work/home CHECKPOINT_DISABLE=1
unset TF_CLI_CONFIG_FILE
mkdir "$TMPDIR" "$HOME" "$work/module"

cat > "$work/module/main.tf" <<'MODULE'
resource "terraform_data" "hello" {
  count = 3
  input = "hello ${count.index}"
}
output "greetings" {
  value = terraform_data.hello[*].output
}
MODULE
git -C "$work/module" -c init.defaultBranch=main init --quiet
git -C "$work/module" add --all
git -C "$work/module" -c user.name=bench -c user.email=bench@localhost commit --quiet --message module

cat > "$work/run.json" <<CONFIG
{"operation": "plan", "source": {"gitRepo": "file://$work/module", "gitRef": "main"}}
CONFIG

by_script() {
    local clone=$TMPDIR/clone
    git clone --quiet --depth 1 --branch main "file://$work/module" "$clone"
    (
        cd "$clone"
        terraform init -input=false -no-color
        terraform plan -input=false -no-color -out=plan.tfplan
        terraform show -json plan.tfplan > plan.json
    ) > "$work/log" 2>&1
    rm -rf "$clone"
}

by_runner() {
    "$runner" -q execute --config "$work/run.json" --report-dir "$work/report" > /dev/null 2>&1
}

milliseconds() { # milliseconds <command>: how long it takes
    local start=${EPOCHREALTIME/./}
    "$1"
    echo $(((${EPOCHREALTIME/./} - start) / 1000))
}

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)], all[1], all[NR] }'; }

by_script
by_runner
for ((round = 0; round < rounds; round++)); do
    milliseconds by_script >> "$work/script"
    milliseconds by_runner >> "$work/runner"
done
read -r script script_min script_max < <(median < "$work/script")
read -r own own_min own_max < <(median < "$work/runner")
printf 'plan of a tiny module, n = %s pairs (median, min-max, in ms)\n' "$rounds"
printf '  script  %5s  %s-%s\n' "$script" "$script_min" "$script_max"
printf '  runner  %5s  %s-%s\n' "$own" "$own_min" "$own_max"
awk -v runner="$own" -v script="$script" 'BEGIN { printf "  ratio   %5.2f\n", runner / script }'
