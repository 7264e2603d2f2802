//! Features of POSIX systems.

mod children;
pub mod fs;
mod machine;
mod signals;
mod terminal;

pub use children::{
    Family, Pipe, ask_to_end, bear_limits, child_pid, end_with, kill_child, new_session, reap,
    replace_process, rest, signal_of, stderr_pipe, stdout_pipe,
};
pub use machine::{
    NULL_DEVICE, REPLACES_RUNNING, address_space, host_name, is_same_variable, open_files,
    os_string, raise_open_files, room, user_name, variables,
};
pub use nix::sys::signal::Signal;
pub use nix::unistd::Pid;
pub use signals::{Chores, Ending, StopSignals};
pub use terminal::{
    Changes, forget_typed, is_apart, is_in_foreground, is_the_platforms, suspend, typed_line,
};
