//! The configuration of a run as the registry sends it.

mod entries;
mod shape;
mod wire;

pub use wire::{ConfigError, Parsed, StopStatus, parse_config};
