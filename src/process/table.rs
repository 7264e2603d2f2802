//! The system's table of processes, as `/proc` has it. Where there is none it is empty.

use std::path::Path;

use nix::unistd::Pid;

/// A process at the moment of looking.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Pid,
    /// Whether it has ended and nobody has taken its exit status.
    pub(super) is_zombie: bool,
    /// When it was started, in clock ticks since the system was: a pid and this are unique.
    pub(super) start: u64,
}

impl Process {
    /// Whether it was started with this variable. Where that may not be read, it was not.
    pub(super) fn has_variable(&self, name: &str, value: &str) -> bool {
        let wanted = format!("{name}={value}");
        std::fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|variables| {
            variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        })
    }
}

/// The processes below `ancestor` that run `program`, but for those that another of them started.
pub(super) fn running_below(ancestor: Pid, program: &Path) -> Vec<Pid> {
    let Ok(program) = program.canonicalize() else { return Vec::new() };
    let all = processes();
    let (mut found, mut parents) = (Vec::new(), vec![ancestor]);
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|it| it.parent == parent && !it.is_zombie) {
            let runs = std::fs::read_link(format!("/proc/{}/exe", child.pid));
            if runs.is_ok_and(|path| path == program) {
                found.push(child.pid);
            } else {
                parents.push(child.pid);
            }
        }
    }
    found
}

/// All processes that can be seen.
pub(super) fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| {
            // Bytes, because a name need not be UTF-8.
            let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            parse(Pid::from_raw(pid), &String::from_utf8_lossy(&stat))
        })
        .collect()
}

/// Reads a line of `/proc/PID/stat` (proc(5)). The name, in brackets, may hold anything.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: Pid::from_raw(fields.get(1)?.parse().ok()?),
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_other_fields() {
        let rest = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 99";
        let process = parse(Pid::from_raw(5), &format!("5 (a) Z 1 (b) {rest}")).unwrap();
        let expected = Process {
            pid: Pid::from_raw(5),
            parent: Pid::from_raw(7),
            is_zombie: false,
            start: 4711,
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
        assert!(own.has_variable("PATH", &path));
        assert!(!own.has_variable("PATH", "x"));
    }
}
