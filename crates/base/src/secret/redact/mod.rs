//! Redacts secrets in text, in every encoding in which tools print them.

pub(super) mod base64;
pub(super) mod escapes;
#[cfg(test)]
mod fuzz_tests;
pub(super) mod held;
pub(super) mod joined;
pub(super) mod json;
pub(super) mod lines;
pub(super) mod names;
pub(super) mod patterns;
pub(super) mod redactor;
pub(super) mod sorted;
pub(super) mod text;
pub(super) mod unescape;
mod wrapped;
pub(super) mod xml;
