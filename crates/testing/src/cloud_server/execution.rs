//! Plans and applies with the real Terraform, in the directory of an uploaded configuration.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::kept::Kept;
use crate::environment::{find_program, search_path};

/// Replaces the block that names the server: the server keeps the state itself.
const OVERRIDE: &str = "terraform {\n  backend \"local\" {}\n}\n";

/// Terraform in this directory, as an agent of a server runs it.
fn terraform(directory: &Path, arguments: &[&str], log: &Path) -> Command {
    let mut command = Command::new(find_program("terraform").expect("terraform is on PATH"));
    let log = File::options().create(true).append(true).open(log).unwrap();
    command
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", search_path())
        .env("HOME", directory)
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_INPUT", "0")
        .env("TF_CLI_ARGS", "-no-color")
        .stdin(Stdio::null())
        .stderr(log.try_clone().unwrap())
        .stdout(log);
    command
}

/// Runs a command of a run, and records its process until it ends. Returns whether it succeeded.
fn execute(shared: &Mutex<Kept>, id: &str, mut command: Command) -> bool {
    let mut child = command.spawn().unwrap();
    let process = i32::try_from(child.id()).unwrap();
    shared.lock().unwrap().run_mut(id).unwrap().process = Some(process);
    let status = child.wait().unwrap();
    shared.lock().unwrap().run_mut(id).unwrap().process = None;
    status.success()
}

/// Plans the newest run, unless it waits for another one.
pub(super) fn plan(shared: &Arc<Mutex<Kept>>) {
    let mut kept = shared.lock().unwrap();
    let state = kept.states.last().cloned();
    let Some(run) = kept.next() else { return };
    run.status = "planning";
    let (id, directory, log) = (run.id.clone(), run.directory.clone(), run.logs[0].clone());
    let mut arguments = vec!["plan", "-detailed-exitcode", "-out=saved.plan"];
    arguments.extend(run.is("is-destroy").then_some("-destroy"));
    arguments.extend(run.is("refresh-only").then_some("-refresh-only"));
    let is_saved = run.is("save-plan");
    drop(kept);
    std::fs::write(directory.join("server_override.tf"), OVERRIDE).unwrap();
    if let Some(state) = state {
        std::fs::write(directory.join("terraform.tfstate"), state).unwrap();
    }
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let quiet = directory.join("init.log");
        let is_ready = execute(&shared, &id, terraform(&directory, &["init"], &quiet));
        // With changes, the exit code is 2.
        let is_empty = execute(&shared, &id, terraform(&directory, &arguments, &log));
        let shown = terraform(&directory, &["show", "-json", "saved.plan"], &quiet)
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        std::fs::write(directory.join("plan.json"), &shown.stdout).unwrap();
        let mut kept = shared.lock().unwrap();
        let run = kept.run_mut(&id).unwrap();
        run.has_changes = !is_empty;
        run.status = match (is_ready && shown.status.success(), is_empty, is_saved) {
            (false, ..) => "errored",
            (true, true, _) => "planned_and_finished",
            (true, false, true) => "planned_and_saved",
            (true, false, false) => "planned",
        };
    });
}

/// Applies the plan of a run.
pub(super) fn apply(shared: &Arc<Mutex<Kept>>, id: &str) {
    let mut kept = shared.lock().unwrap();
    let Some(run) = kept.run_mut(id) else { return };
    run.status = "applying";
    let (id, directory, log) = (run.id.clone(), run.directory.clone(), run.logs[1].clone());
    drop(kept);
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let is_applied =
            execute(&shared, &id, terraform(&directory, &["apply", "saved.plan"], &log));
        let state = directory.join("terraform.tfstate");
        let mut kept = shared.lock().unwrap();
        if let Ok(state) = std::fs::read(state) {
            kept.states.push(state.into());
        }
        let is_cancelled = kept.actions.contains(&format!("{id} cancel"));
        kept.run_mut(&id).unwrap().status = match (is_applied, is_cancelled) {
            (true, _) => "applied",
            (false, true) => "canceled",
            (false, false) => "errored",
        };
    });
}
