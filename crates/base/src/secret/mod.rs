//! Keeps secrets from being seen: replaced in every line before any sink, wiped from the disk, and
//! from memory when it is freed.
//!
//! Values themselves live in [`secrecy::SecretString`], which cannot be printed and is zeroed on
//! drop. This module owns what happens where they could show up again.

mod disk;
mod memory;
mod redact;

pub use disk::private::PrivateDirectory;
pub use disk::wipe::WipeError;
pub use disk::wipe::{Layout, wipe_directory, wipe_file};
pub use memory::ZeroingAllocator;
pub use redact::json::{holds_no_secret, redact_json, redact_labels, redact_values, scalars};
pub use redact::names::Names;
pub use redact::redactor::{MASK, Redactor};
pub use redact::text::redact_text;
pub use redact::xml::redact_xml;
