//! The configuration of a run as the registry sends it.

mod entries;
mod shape;
mod wire;

pub use wire::{ConfigError, Parsed, parse_config};
