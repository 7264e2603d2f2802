//! Turns flags and environment into [`Settings`]: the one reader of the environment.
//!
//! [`SETTINGS`] lists all settings; `--help`, docs/settings.md and error messages are made from it. Callers may rely on
//! checked values: files exist, URLs are usable, the token is valid in a header. This module sends no requests, and no
//! message contains a secret.

mod after_plan;
mod arguments;
mod attempts;
mod child_environment;
mod choices;
mod ci_job;
mod cluster;
mod directories;
mod doctor;
mod environment;
mod error;
mod git_environment;
mod installation;
mod jobs;
mod mirrors;
mod parse;
mod proxies;
mod reader;
mod resolve;
mod resolved;
mod server;
mod server_address;
pub mod setting;
mod source;
mod table;
mod telemetry;
mod token;
mod tool_settings;
mod trigger;
pub mod variable;
mod webhook;

pub use after_plan::find_program;
pub use arguments::Arguments;
pub use attempts::{HANDED_ON, PATHS_HANDED_ON};
pub use choices::choices;
pub use cluster::{cluster_access, cluster_template};
pub use doctor::{DoctorSettings, RegistryAccess};
pub use environment::Environment;
pub use error::SettingsError;
pub use installation::egress_ports;
pub use mirrors::{KEYS_OF_OTHER_TOOLS, MIRRORS_OF_OTHER_TOOLS, OtherToolMirror};
pub use parse::{bytes, interval};
pub use resolved::{
    CleanSettings, Isolation, IsolationLevel, LocalRequest, LogFormat, Logging, PlanJson,
    PlanStatus, RunSource, Settings, ToolSettings, UserRange,
};
pub use server::{ServerAccess, ServerConfig, ServerSettings, data_directory, database};
pub use server_address::ServerAddress;
pub use setting::{SERVER_SETTINGS, SETTINGS};
pub use table::{Kind, Section, Setting, Variable};
pub use trigger::{TriggeredRun, trigger_settings};
pub use variable::VARIABLES;
pub use webhook::WebhookSettings;
