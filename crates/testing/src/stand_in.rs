//! A stand-in for Terraform where timing and signals must be exact: a shell script that writes
//! down what it was started with and which signals it got. It ends with its world, even if its
//! runner was killed.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::world::{World, eventually};

/// The behaviour of the stand-in at `plan`.
#[derive(Clone, Copy, Debug)]
pub enum AtPlan {
    /// Waits, and ends with 1 at the first SIGTERM, as Terraform does.
    Wait,
    /// Waits, with a child of its own, and ignores SIGTERM.
    Ignore,
    /// Exits with 1 immediately.
    Fail,
    /// Exits with 0 immediately. `apply` then waits, and exits with 0 at the first SIGTERM, as
    /// Terraform does if it was nearly done.
    Pass,
    /// Executes this in the module's directory, with its records in `$record`, and exits with 1.
    Do(&'static str),
    /// Executes this, as above, and exits with 0. `apply` then records `applied` and exits with 0
    /// immediately.
    Through(&'static str),
}

/// A case for every other command: prints a line with its name.
const NAMES_ITSELF: &str = r#"*) echo "this is $1" ;;"#;

/// The stand-in's records.
pub struct StandIn {
    record: PathBuf,
}

impl StandIn {
    /// Installs the stand-in first on the world's PATH.
    pub fn install(world: &mut World, at_plan: AtPlan) -> Self {
        let trap = match at_plan {
            AtPlan::Wait => "trap 'echo TERM >> \"$record/signals\"; echo stopping; exit 1' TERM",
            AtPlan::Ignore => "trap 'echo TERM >> \"$record/signals\"' TERM; sleep 1000 &",
            AtPlan::Fail => "exit 1",
            AtPlan::Pass => "exit 0",
            AtPlan::Do(act) => &format!("{act}\n  exit 1"),
            AtPlan::Through(act) => &format!("{act}\n  exit 0"),
        };
        let at_apply = match at_plan {
            AtPlan::Through(_) => ": > \"$record/applied\"; exit 0",
            _ => "trap 'echo TERM >> \"$record/signals\"; exit 0' TERM",
        };
        let cases = format!(
            r#"plan)
  env > "$record/environment"
  echo "$@" > "$record/arguments"
  {trap}
  echo 'planning'
  : > "$record/planning"
  while [ -e "$record" ]; do echo waiting; sleep 0.05; done ;;
apply)
  {at_apply}
  : > "$record/planning"
  while [ -e "$record" ]; do echo waiting; sleep 0.05; done ;;"#
        );
        Self::write(world, &cases, "")
    }

    /// A stand-in that executes `act` at `command`, then prints `waiting` until there is a record
    /// `go`, and exits with 1. All other commands exit with 0 immediately.
    pub fn install_waiting(world: &mut World, command: &str, act: &str) -> Self {
        let cases = format!(
            r#"{command})
  echo "$@" > "$record/arguments"
  {act}
  : > "$record/planning"
  while [ -e "$record" ] && [ ! -e "$record/go" ]; do echo waiting; sleep 0.02; done
  exit 1 ;;"#
        );
        Self::write(world, &cases, "")
    }

    /// A stand-in that waits in `command`, and exits there with 1 at the first SIGTERM.
    pub fn waiting_at(world: &mut World, command: &str) -> Self {
        let cases = format!(
            r#"{command})
  trap 'echo TERM >> "$record/signals"; echo stopping; exit 1' TERM
  : > "$record/planning"
  while [ -e "$record" ]; do echo waiting; sleep 0.05; done ;;"#
        );
        Self::write(world, &cases, NAMES_ITSELF)
    }

    /// A stand-in with scripts for these commands, each with its records in `$record`.
    pub fn doing(world: &mut World, commands: &[(&str, &str)]) -> Self {
        let cases: String =
            commands.iter().flat_map(|(name, act)| [*name, ")\n  ", act, " ;;\n"]).collect();
        Self::write(world, &cases, NAMES_ITSELF)
    }

    /// Installs a script with these cases before those of the other commands.
    fn write(world: &mut World, cases: &str, otherwise: &str) -> Self {
        let (directory, record) = (world.path("bin"), world.path("record"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::create_dir(&record).unwrap();
        let script = format!(
            r#"#!/bin/sh
record='{record}'
case "$1" in
{cases}
version) echo '{{"terraform_version":"1.11.4","platform":"linux_amd64"}}' ;;
show) echo '{{"format_version":"1.2"}}' ;;
output) echo '{{}}' ;;
{otherwise}
esac
"#,
            record = record.display()
        );
        let file = directory.join("terraform");
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut path = directory.into_os_string();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        world.variables.push(("PATH".into(), path));
        Self { record }
    }

    /// Lets a waiting stand-in continue.
    pub fn resume(&self) {
        std::fs::write(self.record.join("go"), "").unwrap();
    }

    /// Waits until `plan`, `apply` or the command in which the stand-in waits is running.
    pub async fn wait_until_running(&self) {
        let planning = self.record.join("planning");
        eventually("a plan that is asked for", || planning.exists()).await;
    }

    /// Whether `apply` was executed with [`AtPlan::Through`].
    pub fn applied(&self) -> bool {
        self.record.join("applied").exists()
    }

    /// The record `name`; empty if it does not exist.
    pub fn record(&self, name: &str) -> String {
        std::fs::read_to_string(self.record.join(name)).unwrap_or_default()
    }
}
