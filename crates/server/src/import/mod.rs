//! Turns the configuration of other tools into that of a server.
//!
//! What a server has no counterpart for is never dropped in silence: each key becomes a setting or a note.

mod atlantis;
mod burrito;
mod fields;
mod output;
mod repository_url;

pub use atlantis::atlantis;
pub use burrito::burrito;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::{ConfigError, parse};

/// A configuration that was made from that of another tool.
#[derive(Debug)]
pub struct Imported {
    /// The configuration, as YAML. It begins with the notes, as comments.
    pub yaml: String,
    /// How many repositories it has.
    pub repositories: usize,
    /// How many layers it has.
    pub layers: usize,
    /// What has no counterpart, and what is left to do.
    pub notes: BTreeSet<String>,
}

/// The configuration of another tool cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is not valid YAML.
    #[error("{0}")]
    Yaml(String),
    /// The file is not a configuration of this tool.
    #[error("`{}`: {why}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The result is not valid.
    #[error("the result is not a valid configuration:\n{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Result(Vec<ConfigError>),
}

/// The documents of a YAML file. Scalars are texts as they are written.
fn documents(path: &Path, text: &str) -> Result<Vec<Value>, ImportError> {
    butler_base::yaml::texts(text)
        .map_err(|error| ImportError::Yaml(ConfigError::parsing(path, &error).to_string()))
}

/// The documents of a YAML file, which must be mappings.
fn mappings(path: &Path, text: &str) -> Result<Vec<fields::Fields>, ImportError> {
    let mappings = documents(path, text)?.into_iter().map(|document| match document {
        Value::Object(object) => Ok(fields::Fields::new(object)),
        _ => Err(ImportError::Other {
            path: path.to_owned(),
            why: "it has a document that is not a mapping".to_owned(),
        }),
    });
    mappings.collect()
}

/// Checks the result by the rules of a server.
fn checked(output: output::Output) -> Result<Imported, ImportError> {
    let (repositories, layers) = (output.repositories.len(), output.layers.len());
    let (yaml, notes) = output.into_yaml().map_err(ImportError::Yaml)?;
    // An installation without layers is not a mistake of its configuration.
    if layers > 0 {
        parse(&[(PathBuf::from("imported"), yaml.clone())]).map_err(ImportError::Result)?;
    }
    Ok(Imported { yaml, repositories, layers, notes })
}

#[cfg(test)]
mod tests;
