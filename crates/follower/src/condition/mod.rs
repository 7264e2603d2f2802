//! Conditions on JSON objects. Nothing is inferred from texts that commands print.

mod check;
mod path;
mod reading;

pub use check::{Check, Condition, Test};
pub use path::{JsonPath, JsonPathError};
pub use reading::{Closeout, Owner, Reading};
