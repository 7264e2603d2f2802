//! The server, and the commands that ask it.

mod access;
mod approve;
mod breaker;
mod client;
mod config;
mod follow;
mod follower;
mod follower_client;
mod follower_install;
mod follower_job;
mod install_differences;
mod installed;
mod layer;
mod obsolete_roles;
mod run;
mod serve;
mod show;
mod store;
mod webhook;

pub(super) use access::AccessCommand;
pub(super) use breaker::BreakerCommand;
pub(super) use config::ConfigCommand;
pub(super) use follower::FollowerCommand;
pub(super) use layer::Layer;
pub(super) use run::RunCommand;
pub(super) use serve::Serve;
pub(super) use store::StoreCommand;

use super::flags::Selection;
use crate::settings::setting::{
    CA_BUNDLE, DATA, PUBLIC_URL, SERVER_CONFIG, STORE, STORE_PASSWORD_FILE,
};
use crate::settings::{HANDED_ON, PATHS_HANDED_ON, SERVER_SETTINGS, Section, Setting};

/// The settings of `serve`: its own, and those that it hands on to attempts.
struct ServeFlags;

impl Selection for ServeFlags {
    fn has(setting: &Setting) -> bool {
        !matches!(setting.section, Section::Client | Section::Installation)
    }

    fn table() -> impl Iterator<Item = &'static Setting> {
        SERVER_SETTINGS.iter().copied().chain(HANDED_ON).chain(PATHS_HANDED_ON)
    }
}

/// The settings of the commands that ask a server.
struct ClientFlags;

impl Selection for ClientFlags {
    fn has(setting: &Setting) -> bool {
        setting.section == Section::Client || [&DATA, &CA_BUNDLE].contains(&setting)
    }

    const GLOBAL: bool = true;

    fn table() -> impl Iterator<Item = &'static Setting> {
        SERVER_SETTINGS.iter().copied().chain([&CA_BUNDLE])
    }
}

/// The settings of the commands that work on a data directory.
struct DataFlags;

impl Selection for DataFlags {
    fn has(setting: &Setting) -> bool {
        *setting == DATA
    }

    const GLOBAL: bool = true;

    fn table() -> impl Iterator<Item = &'static Setting> {
        SERVER_SETTINGS.iter().copied()
    }
}

/// The settings of `store migrate`, beside the data directory.
struct DatabaseFlags;

impl Selection for DatabaseFlags {
    fn has(setting: &Setting) -> bool {
        [&STORE, &STORE_PASSWORD_FILE, &CA_BUNDLE].contains(&setting)
    }

    fn table() -> impl Iterator<Item = &'static Setting> {
        SERVER_SETTINGS.iter().copied().chain([&CA_BUNDLE])
    }
}

/// The settings of `config webhook`.
struct WebhookFlags;

impl Selection for WebhookFlags {
    fn has(setting: &Setting) -> bool {
        [SERVER_CONFIG, PUBLIC_URL].contains(setting)
    }

    fn table() -> impl Iterator<Item = &'static Setting> {
        SERVER_SETTINGS.iter().copied()
    }
}
