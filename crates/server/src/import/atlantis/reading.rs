//! Reads a file of Atlantis.

use std::path::Path;

use butler_base::yaml;
use serde_json::{Map, Value};

use super::super::ImportError;
use crate::config::ConfigError;

/// The only document of a file, in which scalars are texts.
pub(super) fn mapping(path: &Path, text: &str) -> Result<Map<String, Value>, ImportError> {
    let documents = yaml::texts(text)
        .map_err(|error| ImportError::Yaml(ConfigError::parsing(path, &error).to_string()))?;
    let other = |why: &str| ImportError::Other { path: path.to_owned(), why: why.to_owned() };
    match <[Value; 1]>::try_from(documents) {
        Ok([Value::Object(file)]) => Ok(file),
        Ok(_) => Err(other("it is not a mapping")),
        Err(documents) if documents.is_empty() => Err(other("it is empty")),
        Err(_) => Err(other("it has several documents")),
    }
}
