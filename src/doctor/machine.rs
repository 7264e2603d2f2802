//! Checks git, the limit of open files, and the system that started the runner.

use super::finding::Finding;
use crate::settings::Settings;
use crate::tool::ToolOptions;
use butler_base::platform::fs::{AccessFlags, access};
use butler_base::platform::{Landlock, landlock, open_files, user_change_problem};

/// Terraform opens a few files and sockets for each provider.
const MIN_OPEN_FILES: u64 = 256;

/// The system that started the runner, and the resulting grace period.
pub(super) fn describe_system(systems: &[&'static str], run: Option<&Settings>) -> Finding {
    let name = if systems.is_empty() { "no CI system".to_owned() } else { systems.join(", in ") };
    let grace = run.map(|run| {
        let grace = humantime::format_duration(run.grace_period);
        format!("; the grace period of the tool is {grace}")
    });
    Finding::note("system", format!("{name}{}", grace.unwrap_or_default()))
}

pub(super) fn check_machine(options: &ToolOptions) -> Vec<Finding> {
    vec![
        check_git(options),
        check_open_files(),
        describe_isolation(landlock(), user_change_problem().as_deref()),
    ]
}

/// Terraform needs git for modules from git; the runner does not.
fn check_git(options: &ToolOptions) -> Finding {
    let path = options.search_path.as_deref().unwrap_or_default();
    let name = format!("git{}", std::env::consts::EXE_SUFFIX);
    let mut candidates = std::env::split_paths(path).map(|directory| directory.join(&name));
    let found = candidates.find(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok());
    match found {
        Some(path) => Finding::ok("git", format!("`{}`, for modules from git", path.display())),
        None => Finding::warning("git", "cannot find git on PATH: Terraform needs it for modules from git; the runner itself does not")
            .hint("install git"),
    }
}

fn check_open_files() -> Finding {
    let Some(soft) = open_files() else {
        return Finding::note("limits", "cannot read the limit of open files");
    };
    if soft < MIN_OPEN_FILES {
        Finding::warning("limits", format!("only {soft} files may be open"))
            .hint(format!("raise the limit: ulimit -n {MIN_OPEN_FILES}"))
    } else {
        Finding::ok("limits", format!("{soft} files may be open"))
    }
}

/// What `--isolation` can do on this machine.
fn describe_isolation(landlock: Option<Landlock>, user_problem: Option<&str>) -> Finding {
    let message = match landlock {
        None => {
            let missing = "this kernel does not have Landlock: --isolation landlock fails";
            return match user_problem {
                None => Finding::ok("isolation", format!("{missing}, --isolation user works")),
                Some(problem) => Finding::note(
                    "isolation",
                    format!("{missing}, --isolation user too: {problem}"),
                ),
            };
        }
        Some(Landlock::FilesButTruncation) => {
            "Landlock isolates files, but does not prevent truncation, which needs Linux 6.2"
        }
        Some(Landlock::Files) => "Landlock isolates files, but not signals, which needs Linux 6.12",
        Some(Landlock::FilesAndSignals) => "Landlock isolates files and signals",
    };
    Finding::ok("isolation", message)
}
