//! Turns flags and environment into [`Settings`]: the one reader of the environment.
//!
//! [`SETTINGS`] is the one table of what can be set; `--help`, docs/settings.md and every error are held
//! to it. What leaves this module is checked: files exist, URLs can be used, the token can be sent.
//! Nothing is sent from here, and nothing secret is ever part of a message.

mod after_plan;
mod arguments;
mod child_environment;
mod choices;
mod ci_job;
mod cluster;
mod directories;
mod doctor;
mod environment;
mod error;
mod mirrors;
mod parse;
mod proxies;
mod reader;
mod resolve;
mod resolved;
pub mod setting;
mod source;
mod table;
mod telemetry;
mod token;
mod trigger;
pub mod variable;

pub use after_plan::find_program;
pub use arguments::Arguments;
pub use choices::choices;
pub use cluster::{cluster_access, cluster_template};
pub use doctor::{Access, DoctorSettings};
pub use environment::Environment;
pub use error::SettingsError;
pub use mirrors::{FOREIGN_KEYS, FOREIGN_MIRRORS, ForeignMirror};
pub use parse::{bytes, interval};
pub use resolved::{
    CleanSettings, LocalRequest, LogFormat, Logging, PlanJson, PlanStatus, RunSource, Settings,
    ToolSettings,
};
pub use setting::SETTINGS;
pub use table::{Kind, Section, Setting, Variable};
pub use trigger::{HandedOn, trigger_settings};
pub use variable::VARIABLES;
