//! A stand-in for Terraform where timing and signals must be exact: a shell script that writes
//! down what it was started with and which signals it got.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::world::World;

/// What the stand-in does at `plan`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtPlan {
    /// Waits, and ends with 1 at the first SIGTERM, as Terraform does.
    Wait,
    /// Waits, with a child of its own, and ignores SIGTERM.
    Ignore,
    /// Ends with 1 at once.
    Fail,
    /// Ends with 0 at once; `apply` then waits, and ends with 0 at the first SIGTERM, as Terraform
    /// does where it was nearly done.
    Pass,
    /// Does this in the module's directory, with its records in `$record`, and ends with 1.
    Do(&'static str),
}

/// The stand-in's records.
pub(crate) struct StandIn {
    record: PathBuf,
}

impl StandIn {
    /// Puts the stand-in in front of the world's PATH.
    pub(crate) fn install(world: &mut World, at_plan: AtPlan) -> Self {
        let trap = match at_plan {
            AtPlan::Wait => "trap 'echo TERM >> \"$record/signals\"; echo stopping; exit 1' TERM",
            AtPlan::Ignore => "trap 'echo TERM >> \"$record/signals\"' TERM; sleep 1000 &",
            AtPlan::Fail => "exit 1",
            AtPlan::Pass => "exit 0",
            AtPlan::Do(act) => &format!("{act}\n  exit 1"),
        };
        let commands = format!(
            r#"
version) echo '{{"terraform_version":"1.11.4","platform":"linux_amd64"}}' ;;
plan)
  env > "$record/environment"
  echo "$@" > "$record/arguments"
  {trap}
  echo 'planning'
  : > "$record/planning"
  while :; do echo waiting; sleep 0.05; done ;;
show) echo '{{"format_version":"1.2"}}' ;;
apply)
  trap 'echo TERM >> "$record/signals"; exit 0' TERM
  : > "$record/planning"
  while :; do echo waiting; sleep 0.05; done ;;
output) echo '{{}}' ;;
"#
        );
        Self::write(world, &commands)
    }

    /// The same, but that it waits in `command`, and ends there with 1 at the first SIGTERM.
    pub(crate) fn waiting_at(world: &mut World, command: &str) -> Self {
        let commands = format!(
            r#"
version) echo '{{"terraform_version":"1.11.4","platform":"linux_amd64"}}' ;;
{command})
  trap 'echo TERM >> "$record/signals"; echo stopping; exit 1' TERM
  : > "$record/planning"
  while :; do echo waiting; sleep 0.05; done ;;
show) echo '{{"format_version":"1.2"}}' ;;
output) echo '{{}}' ;;
*) echo "this is $1" ;;
"#
        );
        Self::write(world, &commands)
    }

    /// The stand-in as it does these commands, each with its records in `$record`.
    pub(crate) fn doing(world: &mut World, commands: &[(&str, &str)]) -> Self {
        let special: String =
            commands.iter().flat_map(|(name, act)| [*name, ")\n  ", act, " ;;\n"]).collect();
        let commands = format!(
            r#"
{special}
version) echo '{{"terraform_version":"1.11.4","platform":"linux_amd64"}}' ;;
show) echo '{{"format_version":"1.2"}}' ;;
output) echo '{{}}' ;;
*) echo "this is $1" ;;
"#
        );
        Self::write(world, &commands)
    }

    fn write(world: &mut World, commands: &str) -> Self {
        let (directory, record) = (world.path("bin"), world.path("record"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::create_dir(&record).unwrap();
        let script =
            format!("#!/bin/sh\nrecord='{}'\ncase \"$1\" in\n{commands}esac\n", record.display());
        let file = directory.join("terraform");
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut path = directory.into_os_string();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        world.variables.push(("PATH".into(), path));
        Self { record }
    }

    /// Waits until `plan` runs, or `apply` where `plan` passes, or what it is to wait in.
    pub(crate) async fn planning(&self) {
        let planning = self.record.join("planning");
        let appeared = async {
            while !planning.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let bound = std::time::Duration::from_mins(1);
        tokio::time::timeout(bound, appeared).await.expect("the stand-in was never asked to plan");
    }

    /// What was written down under `name`; nothing where nothing was.
    pub(crate) fn record(&self, name: &str) -> String {
        std::fs::read_to_string(self.record.join(name)).unwrap_or_default()
    }
}
