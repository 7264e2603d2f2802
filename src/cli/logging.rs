//! The runner's own log: on standard error, so that standard output is the tool's.

use std::io::IsTerminal;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use super::flags::Selection;
use crate::settings::{Environment, LogFormat, Logging, Section, Setting, variable};

/// The flags for the log, which every subcommand has.
pub(super) struct LogFlags;

impl Selection for LogFlags {
    fn has(setting: &Setting) -> bool {
        setting.section == Section::Log
    }

    const GLOBAL: bool = true;
}

/// Starts the log of this process. A second call changes nothing.
pub(super) fn start(logging: &Logging, environment: &Environment) {
    // The filter was read before; an empty one logs errors only.
    let filter = EnvFilter::try_new(&logging.filter).unwrap_or_default();
    let filter = filter.and(filter_fn(may_be_logged));
    let colours =
        std::io::stderr().is_terminal() && environment.value(variable::NO_COLOR.name).is_none();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let layer = match logging.format {
        LogFormat::Text => lines.with_target(false).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    // Only a test can have started one before.
    let _ = Registry::default().with(layer).try_init();
}

/// Libraries are not heard below `info`, whatever the filter says: their traces hold what goes
/// over the wire, and with it the token.
fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || metadata.target().starts_with("butler_runner")
}
