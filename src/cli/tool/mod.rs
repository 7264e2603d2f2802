//! `tool`: installs, lists, verifies, removes and starts versions of Terraform, `OpenTofu` and
//! Terragrunt on this machine.
//!
//! Each subcommand is a file. It gets a [`toolbox::Toolbox`] and returns a
//! [`command_output::CommandOutput`], which `command` prints as text or as JSON. `exec` has no output
//! of its own: the tool replaces this process.

mod bar;
mod bundle;
mod command;
mod command_output;
mod exec;
mod install;
mod install_source;
mod list;
mod prune;
mod status;
mod toolbox;
mod uninstall;
mod use_version;
mod verify;
mod which;

pub(super) use bar::meter;
pub(super) use command::Tool;
