//! `schema`: prints JSON Schemas of the runner's input and output, for editors and pipelines.
//!
//! The schemas of the settings file and of a run are maintained manually; tests compare them with the parsers. The
//! others are made from the types. In a run, settings for Terraform have the schema of the settings file, and unknown
//! keys are allowed.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::output::{complain, print};
use crate::exit::Exit;
use crate::tool::ToolStatus;
use crate::workspace::{NAME_RULES, VariableTreatment};

const SETTINGS: &str = include_str!("schema/settings.json");
const RUN: &str = include_str!("schema/run.json");

/// Print the JSON Schema of a document
#[derive(Args)]
pub(super) struct Schema {
    /// The document
    document: Document,
}

#[derive(Clone, Copy, ValueEnum)]
enum Document {
    /// The file of --settings
    Settings,
    /// A run in the registry's format, as --config reads it
    Run,
    /// The output of `tool status --json`
    Status,
    /// The configuration of `serve`
    Server,
    /// The file of --followers
    Followers,
}

impl Schema {
    pub(super) fn run(self) -> u8 {
        let text = match self.document {
            Document::Settings => Ok(settings_schema()),
            Document::Run => run_schema().map(|schema| format!("{schema:#}\n")),
            Document::Status => pretty(&ToolStatus::schema()),
            Document::Followers => pretty(&butler_follower::config::Registry::schema()),
            Document::Server => pretty(&butler_server::config::schema()),
        };
        match text {
            Ok(text) => print(text.as_bytes()),
            Err(error) => {
                complain(&format!("a schema is broken (a bug): {error}"), None);
                Exit::Failed.code()
            }
        }
    }
}

fn pretty(schema: &schemars::Schema) -> serde_json::Result<String> {
    serde_json::to_string_pretty(schema).map(|text| text + "\n")
}

/// The schema of the settings file, with the names that are not allowed in `env`.
fn settings_schema() -> String {
    let (mut allowed, mut refused) = (Vec::new(), vec!["TF_TOKEN_.+".to_owned()]);
    for rule in NAME_RULES {
        let Some(beginning) = rule.name.strip_suffix('*') else {
            let names = if rule.treatment == VariableTreatment::Refused {
                &mut refused
            } else {
                &mut allowed
            };
            names.push(rule.name.to_owned());
            continue;
        };
        if rule.treatment == VariableTreatment::Refused {
            // The first matching rule applies.
            let earlier = allowed.iter().filter_map(|name| name.strip_prefix(beginning));
            let earlier: Vec<_> = earlier.map(|rest| format!("{rest}$")).collect();
            let except = if earlier.is_empty() {
                String::new()
            } else {
                format!("(?!{})", earlier.join("|"))
            };
            refused.push(format!("{beginning}{except}.*"));
        } else {
            allowed.push(format!("{beginning}.*"));
        }
    }
    SETTINGS.replace("REFUSED_NAMES", &format!("^({})$", refused.join("|")))
}

/// The schema of a run, which contains the schema of its settings.
fn run_schema() -> serde_json::Result<Value> {
    let mut settings: Value = serde_json::from_str(&settings_schema())?;
    let definitions = settings.as_object_mut().and_then(|schema| {
        schema.remove("$schema");
        schema.remove("$defs")
    });
    let mut definitions = definitions.unwrap_or_default();
    definitions["terraformSettings"] = settings;
    allow_unknown_keys(&mut definitions);
    let mut run: Value = serde_json::from_str(RUN)?;
    run["$defs"] = definitions;
    Ok(run)
}

/// Allows unknown keys in `schema`.
fn allow_unknown_keys(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| {
                name != "additionalProperties" || *value != Value::Bool(false)
            });
            members.values_mut().for_each(allow_unknown_keys);
        }
        Value::Array(elements) => elements.iter_mut().for_each(allow_unknown_keys),
        _ => {}
    }
}
