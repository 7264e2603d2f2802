//! A minimal stand-in for Terraform.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::mpsc::channel;

/// The name of the executable.
pub(crate) const NAME: &str = "terraform";

/// A directory in which an apply and its child lock the files [`LOCKS`] and then wait.
pub(crate) const HOLD: &str = "TF_VAR_hold";

/// The files that an apply with [`HOLD`] and its child lock.
pub(crate) const LOCKS: [&str; 2] = ["command.lock", "child.lock"];

const PLAN: &str = r#"{"format_version":"1.2","terraform_version":"1.11.4","resource_changes":[{"address":"terraform_data.one","mode":"managed","type":"terraform_data","name":"one","provider_name":"terraform.io/builtin/terraform","change":{"actions":["create"],"before":null,"after":{"input":"x"},"after_unknown":{"id":true},"before_sensitive":false,"after_sensitive":{}}}]}"#;

const OUTPUTS: &str = r#"{"one":{"sensitive":false,"type":"string","value":"x"}}"#;

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("version") => println!(r#"{{"terraform_version":"1.11.4"}}"#),
        Some("plan") => {
            let out = arguments.iter().find_map(|it| it.strip_prefix("-out=")).unwrap();
            std::fs::write(out, "a plan").unwrap();
            println!("Plan: 1 to add, 0 to change, 0 to destroy.");
        }
        Some("show") => println!("{PLAN}"),
        Some("output") => println!("{OUTPUTS}"),
        Some("apply") => {
            println!("terraform_data.one: Creating...");
            if let Some(place) = std::env::var_os(HOLD) {
                return hold(Path::new(&place), LOCKS[0]);
            }
            println!("Apply complete! Resources: 1 added, 0 changed, 0 destroyed.");
        }
        Some("hold") => return hold(Path::new(&arguments[1]), LOCKS[1]),
        _ => {}
    }
    ExitCode::SUCCESS
}

/// Holds a lock until Ctrl-Break, which it handles as a Go program does.
fn hold(place: &Path, name: &str) -> ExitCode {
    let lock = std::fs::File::create(place.join(name)).unwrap();
    lock.lock().unwrap();
    let child = (name == LOCKS[0]).then(|| {
        Command::new(std::env::current_exe().unwrap()).arg("hold").arg(place).spawn().unwrap()
    });
    let (sender, receiver) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::signal::windows::ctrl_break().unwrap().recv().await;
            sender.send(()).unwrap();
        });
    });
    receiver.recv().unwrap();
    println!("Interrupt received.\nGracefully shutting down...");
    std::io::stdout().flush().unwrap();
    if let Some(mut child) = child {
        child.wait().unwrap();
    }
    ExitCode::FAILURE
}
