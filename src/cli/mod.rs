//! The command line: parses it, runs the command, and returns its exit code.
//!
//! Only this module uses clap, prints to standard output, and chooses the runtime. Each subcommand has
//! its own file. Other modules never receive a parsed command line, only
//! [`Arguments`](crate::settings::Arguments).

mod assignments;
mod ci_status;
mod ci_target;
mod clean;
mod columns;
mod command_line;
mod commands;
mod complete;
mod complete_request;
mod deferred;
mod demo;
mod dispatch;
mod doctor;
mod execute;
mod flags;
mod generate;
mod help_text;
mod internal;
mod kubernetes;
mod logging;
mod manual;
mod module_directory;
mod output;

mod runtime;
mod schema;
mod screen;
mod self_update;
mod server;
mod single_dash;
mod tool;
mod trigger;
mod usage;
mod version;

pub use command_line::command;
pub use dispatch::main;
