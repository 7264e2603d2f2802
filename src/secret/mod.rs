//! Keeps secrets from being seen: replaced in every line before any sink, wiped from the disk.
//!
//! Values themselves live in [`secrecy::SecretString`], which cannot be printed and is zeroed on
//! drop. This module owns what happens where they could show up again.

mod json;
mod private;
mod redactor;
mod wipe;

pub use json::redact_json;
pub use private::PrivateDirectory;
pub use redactor::Redactor;
pub use wipe::WipeError;
pub(crate) use wipe::{Layout, wipe_directory, wipe_file};
