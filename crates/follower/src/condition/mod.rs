//! Conditions on JSON objects. Nothing is inferred from texts that commands print.

mod check;
mod path;
mod reading;
mod words;

pub use check::{Check, Condition, Test};
pub use path::{JsonPath, JsonPathError};
pub use reading::{Closeout, Owner, Reading};
pub(crate) use words::said_of_condition;
