//! Windows: jobs instead of process groups, console events instead of signals, and access control
//! lists instead of modes.

mod children;
mod console;
pub mod fs;
mod machine;
mod signals;

pub use children::{
    Family, Pid, Pipe, ask_to_end, bear_limits, child_pid, end_with, kill_child, new_session, reap,
    replace_process, rest, signal_of, stderr_pipe, stdout_pipe,
};
pub use console::{
    Changes, forget_typed, is_apart, is_in_foreground, is_the_platforms, suspend, typed_line,
};
pub use machine::{
    NULL_DEVICE, REPLACES_RUNNING, address_space, host_name, is_same_variable, open_files,
    os_string, raise_open_files, room, user_name, variables,
};
pub use signals::{Chores, Ending, Signal, StopSignals};
