//! What a process costs, exactly: the kernel stops it and all below it where a program is started and
//! where one ends (ptrace(2)), so nothing is sampled and nothing is missed.

use std::path::Path;
use std::process::{Command, Output};

use nix::sys::ptrace::{self, Event, Options};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use tokio::sync::oneshot;

use super::traced::{Traced, traceable};

/// What a process has cost when it and all that it started had ended.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) output: Output,
    /// The programs that were started below it, in order: of each the name and the first argument.
    pub(crate) programs: Vec<String>,
    /// The most memory that was in use at once by the process itself, in bytes: with the pages of
    /// its file, and without its children.
    pub(crate) memory: u64,
}

impl Account {
    /// Runs `command` to its end.
    pub(crate) async fn of(command: &Command) -> Self {
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
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEEXIT;
    let traced = Traced::start(shell, below);
    let process = traced.pid();
    let (mut programs, mut memory, mut ended) = (Vec::new(), None, None);
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
                } else if event == Event::PTRACE_EVENT_EXIT as i32 && thread == process {
                    memory = Some(most_memory(process));
                }
                (thread, None)
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            other => unreachable!("{other:?}"),
        };
        // A thread may be gone meanwhile, with its process.
        let _ = ptrace::cont(thread, signal);
    }
    // Where the shell's own start was seen too, it comes before that of the process itself.
    let own = programs.iter().position(|words| !words.starts_with("sh ")).expect("it was started");
    programs.drain(..=own);
    Account {
        output: traced.ended(ended.expect("it was waited for")),
        programs,
        memory: memory.expect("it was stopped at its end"),
    }
}

/// The name of a process's program and its first argument.
fn words(process: Pid) -> String {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap();
    let line = String::from_utf8(line).unwrap();
    let mut words = line.split_terminator('\0');
    let program = Path::new(words.next().unwrap()).file_name().unwrap().to_str().unwrap();
    std::iter::once(program).chain(words.next()).collect::<Vec<_>>().join(" ")
}

/// The most memory that a process has had at once, in bytes.
fn most_memory(process: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect(&status);
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
