//! The process table of `/proc`. Without `/proc` it is empty.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Inner;
use crate::platform::Pid;

/// A process when the table was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Pid,
    /// Whether it has ended and was not reaped yet.
    pub(super) is_zombie: bool,
    /// The start time, in clock ticks since the system's start: unique together with the pid.
    pub(super) start: u64,
    /// The process that began its session.
    pub(super) session: Pid,
}

impl Process {
    /// Whether it was started with this variable; false if its environment is not readable. None if
    /// it has no variables, as in the moment in which it executes another program.
    pub(super) fn has_variable(&self, name: &str, value: &str) -> Option<bool> {
        let wanted = format!("{name}={value}");
        match std::fs::read(format!("/proc/{}/environ", self.pid)) {
            Ok(variables) if variables.is_empty() => None,
            Ok(variables) => {
                let mut variables = variables.split(|byte| *byte == 0);
                Some(variables.any(|variable| variable == wanted.as_bytes()))
            }
            Err(_) => Some(false),
        }
    }

    /// Whether it has all of these arguments, in this order; others may be between them.
    fn has_arguments(&self, arguments: &[OsString]) -> bool {
        std::fs::read(format!("/proc/{}/cmdline", self.pid)).is_ok_and(|line| {
            let mut words = line.split(|byte| *byte == 0).skip(1);
            let given = |wanted: &OsString| words.any(|word| word == wanted.as_encoded_bytes());
            !arguments.is_empty() && arguments.iter().all(given)
        })
    }
}

/// Whether a process runs a provider of Terraform or OpenTofu: their executables are named by a rule.
pub(super) fn is_provider(pid: Pid) -> bool {
    let executable = executable(pid);
    let name = executable.as_deref().and_then(std::path::Path::file_name);
    name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"terraform-provider-"))
}

/// The processes below `ancestor` that run `inner`, except for those that another of them started.
///
/// If no process runs its executable, that is a script which starts another one with the same
/// arguments, and the arguments identify it. Of several matches, the child is the right one,
/// because a shell dies of a signal without forwarding it.
pub(super) fn running_below(ancestor: Pid, inner: &Inner) -> Vec<Pid> {
    let all = processes();
    let program = inner.program.canonicalize().ok();
    let runs = |process: &Process| program.is_some() && executable(process.pid) == program;
    let has_arguments = |process: &Process| process.has_arguments(&inner.arguments);
    let mut found = first_below(&all, ancestor, &runs);
    if found.is_empty() {
        found = first_below(&all, ancestor, &has_arguments);
    }
    let mut innermost = Vec::new();
    while let Some(pid) = found.pop() {
        // A forked process has its parent's arguments until it executes another program.
        let own = executable(pid);
        let becomes = |child: &Process| has_arguments(child) && executable(child.pid) != own;
        let below = first_below(&all, pid, &becomes);
        if below.is_empty() {
            innermost.push(pid);
        }
        found.extend(below);
    }
    innermost
}

/// The processes below `ancestor` that are `wanted`, except for those below another match.
fn first_below(all: &[Process], ancestor: Pid, wanted: &dyn Fn(&Process) -> bool) -> Vec<Pid> {
    let (mut found, mut parents) = (Vec::new(), vec![ancestor]);
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|it| it.parent == parent && !it.is_zombie) {
            if wanted(child) { &mut found } else { &mut parents }.push(child.pid);
        }
    }
    found
}

/// The executable of a process, if it is readable.
fn executable(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The process with this id.
pub(super) fn process(pid: Pid) -> std::io::Result<Process> {
    // Bytes, because a name need not be UTF-8.
    let stat = std::fs::read(format!("/proc/{pid}/stat"))?;
    parse(pid, &String::from_utf8_lossy(&stat))
        .ok_or_else(|| std::io::Error::other(format!("/proc/{pid}/stat has another format")))
}

/// All visible processes.
pub(super) fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| process(Pid::from_raw(pid)).ok())
        .collect()
}

/// Parses a line of `/proc/PID/stat` (proc(5)). The name, in brackets, can contain any byte.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: Pid::from_raw(fields.get(1)?.parse().ok()?),
        start: fields.get(19)?.parse().ok()?,
        session: Pid::from_raw(fields.get(3)?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_process_is_not_parsed_as_other_fields() {
        let rest = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 99";
        let process = parse(Pid::from_raw(5), &format!("5 (a) Z 1 (b) {rest}")).unwrap();
        let expected = Process {
            pid: Pid::from_raw(5),
            parent: Pid::from_raw(7),
            is_zombie: false,
            start: 4711,
            session: Pid::from_raw(1),
        };
        assert_eq!(process, expected);
        assert_eq!(parse(Pid::from_raw(5), "5 (a) S"), None);
    }

    #[test]
    fn this_process_and_its_variables_are_in_the_table() {
        let own = processes().into_iter().find(|process| process.pid == Pid::this()).unwrap();
        assert_eq!((own.parent, own.is_zombie), (Pid::parent(), false));
        #[expect(clippy::disallowed_methods, reason = "compared with what the kernel says")]
        let path = std::env::var("PATH").unwrap();
        assert_eq!(own.has_variable("PATH", &path), Some(true));
        assert_eq!(own.has_variable("PATH", "x"), Some(false));
    }
}
