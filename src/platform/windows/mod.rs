//! Windows: jobs instead of process groups, console events instead of signals, and access control
//! lists instead of modes.

mod children;
mod console;
pub mod fs;
mod machine;
mod signals;

pub use children::{
    Family, Pid, Pipe, ask_to_end, bear_limits, become_subreaper, end_with, ended_child,
    has_children, is_alive, kill_child, reap, rest, signal_of, stderr_pipe, stdout_pipe,
};
pub use console::{Change, Changes, is_apart, is_in_foreground, is_the_platforms, suspend};
pub use machine::{
    NULL_DEVICE, Room, erase_variables, has_keychain, has_room, host_name, is_in_memory, is_local,
    open_files, os_string, pin_name_lookups, room, shield_process, user_name, variables,
};
pub use signals::{Chores, Ending, Signal, StopSignals};
