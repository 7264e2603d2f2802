//! Keeps secrets from being seen: replaced in every line before any sink, wiped from the disk.
//!
//! Values themselves live in [`secrecy::SecretString`], which cannot be printed and is zeroed on
//! drop. This module owns what happens where they could show up again.

mod base64;
mod broken;
mod escapes;
mod json;
mod patterns;
mod redactor;
mod sorted;
mod wipe;

pub use json::redact_json;
pub use redactor::Redactor;
pub(crate) use wipe::wipe_file;
pub use wipe::{PrivateDirectory, WipeError};
