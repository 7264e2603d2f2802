//! The programs that a process starts: the kernel stops it and all its descendants at each start of a
//! program (ptrace(2)), so none is missed.

use std::path::Path;
use std::process::{Command, Output};

use nix::sys::ptrace::{self, Event, Options};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use tokio::sync::oneshot;

use super::traced::{Traced, traceable};

/// Measurements of a process after it and all its descendants have ended.
#[derive(Debug)]
pub struct Account {
    /// How it ended, and what it printed.
    pub output: Output,
    /// The programs that were started below it, in order: the name and the first argument of each.
    pub programs: Vec<String>,
}

impl Account {
    /// Runs `command` to its end.
    pub async fn of(command: &Command) -> Self {
        let shell = traceable(command);
        let (account, closed) = oneshot::channel();
        std::thread::spawn(move || account.send(follow(shell)).unwrap());
        closed.await.expect("its thread has said why it failed")
    }
}

fn follow(shell: Command) -> Account {
    let below = Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC;
    let traced = Traced::start(shell, below);
    let process = traced.pid();
    let (mut programs, mut ended) = (Vec::new(), None);
    while let Some(status) = Traced::next() {
        let (thread, signal) = match status {
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                if thread == process {
                    ended = Some(status);
                }
                continue;
            }
            WaitStatus::PtraceEvent(thread, _, event) => {
                if event == Event::PTRACE_EVENT_EXEC as i32 {
                    programs.push(words(thread));
                }
                (thread, None)
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            other => unreachable!("{other:?}"),
        };
        // A thread may have ended in the meantime, with its process.
        let _ = ptrace::cont(thread, signal);
    }
    // If the start of the shell was seen as well, it precedes that of the process itself.
    let own = programs.iter().position(|words| !words.starts_with("sh ")).expect("it was started");
    programs.drain(..=own);
    Account { output: traced.ended(ended.expect("it was waited for")), programs }
}

/// The name of a process's program and its first argument.
fn words(process: Pid) -> String {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap();
    let line = String::from_utf8(line).unwrap();
    let mut words = line.split_terminator('\0');
    let program = Path::new(words.next().unwrap()).file_name().unwrap().to_str().unwrap();
    std::iter::once(program).chain(words.next()).collect::<Vec<_>>().join(" ")
}
