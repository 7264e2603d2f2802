//! Keeps secrets from being seen: replaced in every line before any sink, wiped from the disk, and
//! from memory when it is freed.
//!
//! Values themselves live in [`secrecy::SecretString`], which cannot be printed and is zeroed on
//! drop. This module owns what happens where they could show up again.

mod json;
mod memory;
mod redactor;
mod wipe;

pub use json::redact_json;
pub use memory::{ZeroingAllocator, zero_memory_of_openssl, zero_stack};
pub use redactor::Redactor;
pub(crate) use wipe::wipe_file;
pub use wipe::{PrivateDirectory, WipeError};
