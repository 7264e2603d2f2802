//! What the files of a module can read of their commit, as far as that follows from their text.
//!
//! A module reads files by paths in its expressions. [`survey()`] follows those that it understands: literal
//! texts, `path.module` and its like, and what is made from them without knowing a variable. For all others
//! it says so, and its callers must then expect that the module reads any file of the commit.

mod calls;
mod evaluate;
mod expressions;
mod json;
mod path_text;
mod reference;
mod survey;
mod terragrunt;
#[cfg(test)]
mod tests;
mod words;

pub(super) use reference::{Cause, Findings, Reference, Role, Start};
pub(super) use survey::{survey_file, survey_files, survey_values};
