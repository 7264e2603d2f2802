//! Keeps secrets from being seen: replaced in every line before any sink, wiped from the disk, and
//! from memory when it is freed.
//!
//! Values themselves live in [`secrecy::SecretString`], which cannot be printed and is zeroed on
//! drop. This module owns what happens where they could show up again.

mod base64;
mod buffer;
mod escapes;
#[cfg(test)]
mod fuzz_tests;
mod json;
mod memory;
mod mounts;
mod names;
mod patterns;
mod private;
mod redactor;
mod sorted;
mod text;
mod unescape;
mod wipe;
mod xml;

pub use buffer::append;
pub use json::{holds_no_secret, redact_json, redact_labels, redact_values, scalars};
pub use memory::ZeroingAllocator;
pub use names::Names;
pub use private::PrivateDirectory;
pub use redactor::{MASK, Redactor};
pub use text::redact_text;
pub use wipe::WipeError;
pub use wipe::{Layout, wipe_directory, wipe_file};
pub use xml::redact_xml;
