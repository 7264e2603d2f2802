//! The commands that users type in a module directory: `plan`, `apply`, `destroy`, `drift`,
//! `validate` and `test`, with real Terraform and at a real terminal.

mod approval;
mod options;
mod saved_plans;
mod usage;

use std::path::PathBuf;

use butler_testing::environment::{find_program, search_path};
use butler_testing::world::{RunEnd, World};

/// One resource whose input can be set.
const MODULE: &str = r#"
variable "size" { default = "small" }
resource "terraform_data" "server" { input = var.size }
output "server" { value = terraform_data.server.output }
"#;

/// A world with the directory `module`, which has no registry.
async fn world(files: &[(&str, &str)]) -> World {
    let world = World::new(&[]).await;
    std::fs::create_dir(world.path("module")).unwrap();
    for (name, text) in files {
        write(&world, name, text);
    }
    world
}

fn write(world: &World, name: &str, text: &str) {
    let path = world.path("module").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The runner with `words`, in the module's directory.
fn command(world: &World, words: &[&str]) -> tokio::process::Command {
    let mut command = world.command(words);
    command.current_dir(world.path("module"));
    command
}

/// Runs the command to its end.
async fn run(world: &World, words: &[&str]) -> RunEnd {
    let output = command(world, words).output().await.unwrap();
    world.end(&output)
}

/// Runs a command that must succeed.
async fn run_successfully(world: &World, words: &[&str]) -> RunEnd {
    let end = run(world, words).await;
    assert_eq!(end.code, Some(0), "{words:?}: {}{}", end.stdout, end.stderr);
    end
}

/// Puts a Terraform first on PATH that executes `script`, in which `$real` is the real Terraform.
pub(crate) fn wrap_terraform(world: &mut World, script: &str) {
    let directory = world.path("bin");
    std::fs::create_dir(&directory).unwrap();
    let real = find_program("terraform").unwrap();
    let script = format!("#!/bin/sh\nreal='{}'\n{script}\n", real.display());
    let program = directory.join("terraform");
    // Another process writes the file. If this process had it open for writing, a child that
    // another test starts at the same time could inherit the descriptor, and the file could not be
    // executed.
    let write = "printf '%s' \"$2\" >\"$1\" && chmod 755 \"$1\"";
    let mut shell = std::process::Command::new("sh");
    let written = shell.args(["-c", write, "sh"]).arg(&program).arg(script).status();
    assert!(written.unwrap().success());
    let inherited = search_path();
    let path = std::iter::once(directory).chain(std::env::split_paths(&inherited));
    world.set("PATH", std::env::join_paths(path).unwrap());
}

fn state_file(world: &World) -> PathBuf {
    world.path("module/terraform.tfstate")
}

/// The input of the resource `server` in the state; `None` without a state.
fn applied(world: &World) -> Option<String> {
    let state = std::fs::read(state_file(world)).ok()?;
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
    let value = &state["outputs"]["server"]["value"];
    value.as_str().map(str::to_owned)
}
