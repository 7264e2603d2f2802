//! Reads a file of Atlantis.

use std::path::Path;

use serde_json::{Map, Value};

use super::super::{ImportError, documents};

/// The only document of a file, in which scalars are texts.
pub(super) fn mapping(path: &Path, text: &str) -> Result<Map<String, Value>, ImportError> {
    let other = |why: &str| ImportError::Other { path: path.to_owned(), why: why.to_owned() };
    match <[Value; 1]>::try_from(documents(path, text)?) {
        Ok([Value::Object(file)]) => Ok(file),
        Ok(_) => Err(other("it is not a mapping")),
        Err(found) if found.is_empty() => Err(other("it is empty")),
        Err(_) => Err(other("it has several documents")),
    }
}
