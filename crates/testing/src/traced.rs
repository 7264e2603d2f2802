//! Processes that are traced (ptrace(2)) from their first instruction on. A test can stop one at an
//! exact state of its files, or record the programs that it starts.
//!
//! A stopped process halts before and after each system call of each of its threads, and continues
//! only if the expected state is not reached. So the state is observed directly after the call that
//! created it.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A traced process. All requests must come from the thread that started it. It is killed when that
/// thread ends.
pub(super) struct Traced {
    pid: Pid,
    stdout: File,
    stderr: File,
}

impl Traced {
    /// Starts the command of [`traceable`] with these trace options.
    pub(super) fn start(mut shell: Command, options: Options) -> Self {
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        shell.stdin(Stdio::piped());
        shell.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
        #[expect(
            clippy::zombie_processes,
            reason = "it is waited for as the traced process that it is"
        )]
        let mut child = shell.spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        ptrace::seize(pid, options | Options::PTRACE_O_EXITKILL).unwrap();
        ptrace::interrupt(pid).unwrap();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        Self { pid, stdout, stderr }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The next event of the process or of a process traced with it; `None` when all have ended.
    pub(super) fn next() -> Option<WaitStatus> {
        // Only children of this thread: other tests may wait for theirs.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        match waitpid(None, Some(flags)) {
            Err(Errno::ECHILD) => None,
            status => Some(status.unwrap()),
        }
    }

    /// The output of the process, with its exit status.
    pub(super) fn ended(self, status: WaitStatus) -> Output {
        let raw = match status {
            WaitStatus::Exited(_, code) => code << 8,
            WaitStatus::Signaled(_, signal, _) => signal as i32,
            other => unreachable!("{other:?} is no end"),
        };
        let read = |mut file: File| {
            use std::io::{Read, Seek};
            let mut content = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut content).unwrap();
            content
        };
        Output {
            status: std::os::unix::process::ExitStatusExt::from_raw(raw),
            stdout: read(self.stdout),
            stderr: read(self.stderr),
        }
    }
}

/// `command`, started by a shell that can be traced before it executes the command, so that no
/// event is missed.
pub(super) fn traceable(command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "read go; exec \"$0\" \"$@\" < /dev/null"]).arg(command.get_program());
    shell.args(command.get_args()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        shell.current_dir(directory);
    }
    shell
}

/// A process that is stopped in the state that the test waited for.
pub struct Stopped {
    pid: Pid,
    orders: Sender<Order>,
    tracer: JoinHandle<Output>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Order {
    GoOn,
    Kill,
}

impl Stopped {
    /// Starts `command` and stops it as soon as `reached` holds.
    pub fn at(command: &Command, reached: impl Fn() -> bool + Send + 'static) -> Self {
        let shell = traceable(command);
        let (told, tell) = channel();
        let (orders, order) = channel();
        let tracer = std::thread::spawn(move || trace(shell, &reached, &told, &order));
        match tell.recv() {
            Ok(pid) => Self { pid, orders, tracer },
            Err(RecvError) => panic!("it ended before that: {:?}", tracer.join()),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Kills it in its stopped state.
    pub fn kill(self) {
        self.orders.send(Order::Kill).unwrap();
        self.tracer.join().unwrap();
    }

    /// Lets it continue to its end.
    pub fn resume(self) -> Output {
        self.orders.send(Order::GoOn).unwrap();
        self.tracer.join().unwrap()
    }
}

fn trace(
    shell: Command,
    reached: &dyn Fn() -> bool,
    told: &Sender<Pid>,
    order: &Receiver<Order>,
) -> Output {
    let traced =
        Traced::start(shell, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE);
    let pid = traced.pid;
    let mut told = Some(told);
    let status = loop {
        let (thread, signal) = match Traced::next().expect("it has not ended") {
            status @ (WaitStatus::Exited(ended, _) | WaitStatus::Signaled(ended, ..)) => {
                if ended == pid {
                    break status;
                }
                continue;
            }
            WaitStatus::PtraceSyscall(thread) => {
                if reached()
                    && let Some(told) = told.take()
                {
                    told.send(pid).unwrap();
                    if order.recv() == Ok(Order::Kill) {
                        kill(pid, Signal::SIGKILL).unwrap();
                        continue;
                    }
                }
                (thread, None)
            }
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            other => unreachable!("{other:?}"),
        };
        // A thread may have ended in the meantime, with its process.
        let _ = ptrace::syscall(thread, signal);
    };
    let output = traced.ended(status);
    assert!(told.is_none(), "it never came to that: {output:?}");
    output
}
