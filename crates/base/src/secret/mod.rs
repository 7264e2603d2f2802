//! Prevents leaks of secrets: redacts output, wipes files that contain secrets, and zeroes memory
//! when it is freed.
//!
//! The values themselves are [`secrecy::SecretString`]s, which cannot be printed and are zeroed on
//! drop. This module handles the copies of a value outside of that type.

mod disk;
mod memory;
mod redact;

pub use disk::private::PrivateDirectory;
pub use disk::wipe::WipeError;
pub use disk::wipe::{Layout, remove_directory, wipe_directory, wipe_file};
pub use memory::{ZeroingAllocator, wipe_stack};
pub use redact::held::LineRedactor;
pub use redact::json::{holds_no_secret, redact_json, redact_labels, redact_values, scalars};
pub use redact::lines::{is_ordinary_word, secret_lines};
pub use redact::names::Names;
pub use redact::redactor::{MASK, Redactor};
pub use redact::text::redact_text;
pub use redact::xml::redact_xml;
