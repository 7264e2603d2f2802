//! Resolves a run's references and decides which value a variable has.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use secrecy::{ExposeSecret, SecretString};
use serde_json::value::RawValue;

use super::{Inputs, Unresolved, VariableError, names};
use butler_protocol::references::SecretSources;
use butler_protocol::references::{Guess, INPUT_PREFIX, Lookup, input_variable};
use butler_protocol::spec::{EnvironmentVariable, RunSpec, SensitiveValues, Variable};
use butler_source::hcl::{is_identifier, json_string, nests_too_deep};

/// Resolves every reference of the run; the secrets never leave the returned value.
///
/// The secret of a sensitive variable without a value, or with an empty one, is searched by the variable's name.
/// [`apply_declarations`](super::apply_declarations) decides whether it may be missing. A variable that is not sensitive
/// and has no value gets the module's default; `null` is a value for it, as in Terraform. The last of several entries
/// with the same name wins.
///
/// # Errors
/// Names every variable that cannot be resolved, and how to supply it.
pub fn resolve(spec: &RunSpec, sources: &SecretSources) -> Result<Inputs, VariableError> {
    let literal = [spec.sensitive_values, sources.values].contains(&SensitiveValues::Literal);
    let mut resolver = Resolver {
        sources,
        literal,
        unresolved: Vec::new(),
        words: Vec::new(),
        empty: Vec::new(),
        without_value: Vec::new(),
    };
    let mut inputs = Inputs::default();
    // The last of several outputs with the same name wins.
    let upstream: HashMap<&str, &SecretString> =
        spec.upstream_outputs.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let mut variables = Entries::default();
    let mut environment = Entries::default();
    let mut replaced = Vec::new();
    let mut left_out = Vec::new();
    for (name, variable) in &spec.variables {
        if !is_identifier(name) {
            return Err(VariableError::Name(name.clone()));
        }
        if let Some(value) = upstream.get(name.as_str()) {
            variables.put(name, (*value).clone(), variable.sensitive);
            replaced.push(name);
        } else if let Some((value, sensitive)) = resolver.variable(name, variable)? {
            variables.put(name, value, sensitive);
        }
    }
    let is_replaced: HashSet<&String> = replaced.iter().copied().collect();
    for (name, value) in &spec.upstream_outputs {
        if !is_identifier(name) {
            return Err(VariableError::Name(name.clone()));
        }
        if !is_replaced.contains(name) {
            variables.put(name, value.clone(), false);
        }
    }
    for (name, value, _) in &variables.list {
        let json = value.expose_secret();
        if serde_json::from_str::<&RawValue>(json).is_err() {
            return Err(VariableError::Json(name.clone()));
        }
        if nests_too_deep(json) {
            return Err(VariableError::TooDeep(name.clone()));
        }
    }
    for (name, variable) in &spec.environment {
        if let Some(message) = check_variable(name, variable)? {
            left_out.push(message);
            continue;
        }
        // For Terraform, a variable in a file wins over `TF_VAR_*`.
        let input = name.strip_prefix(INPUT_PREFIX);
        let is_overruled = input.is_some_and(|name| variables.indices.contains_key(name));
        if is_overruled && variable.sensitive {
            continue;
        }
        let value = resolver.environment_variable(name, variable)?;
        if let Some(value) = value {
            environment.put(name, value, variable.sensitive);
        }
    }
    let Resolver { mut unresolved, words, empty, mut without_value, .. } = resolver;
    without_value.retain(|name| !environment.indices.contains_key(input_variable(name).as_str()));
    if !unresolved.is_empty() {
        unresolved.extend(without_value.into_iter().map(Unresolved::without_value));
        return Err(VariableError::Unresolved(unresolved));
    }
    inputs.without_value = without_value;
    inputs.typed = upstream.keys().map(|name| (*name).to_owned()).collect();
    inputs.variables = variables.list;
    inputs.environment = environment.list;
    inputs.warnings.extend(warning(&words));
    inputs.warnings.extend(warning_of_empty(&empty));
    for name in replaced {
        inputs.messages.push(format!("Variable `{name}` is taken from an upstream output"));
    }
    inputs.messages.extend(left_out);
    inputs.messages.extend(summary(&inputs.variables, "variable"));
    inputs.messages.extend(summary(&inputs.environment, "environment variable"));
    Ok(inputs)
}

/// The warning about variables whose value can be a secret or the name of one. It does not contain the values, which are
/// used as secrets.
fn warning(names: &[String]) -> Option<String> {
    let (first, more) = names.split_first()?;
    let variable = input_variable(if more.is_empty() { first } else { "NAME" });
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let text = if more.is_empty() {
        "its value is used as the secret itself, but it may be the name of a secret that is not set"
    } else {
        "each value is used as the secret itself, but it may be the name of a secret that is not set"
    };
    Some(format!(
        "{list}: {text}. If it is a name, set the environment variable of that name or `{variable}`; if it is the secret itself, --sensitive-values literal silences this warning"
    ))
}

/// The warning about sensitive environment variables with an empty value, such as a secret that the registry could not read.
fn warning_of_empty(names: &[String]) -> Option<String> {
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let text = "sensitive in the run, but the value is empty; check the secret in the registry";
    (!names.is_empty()).then(|| format!("{list}: {text}"))
}

/// Values by name without duplicates, in the order of their first entries.
#[derive(Default)]
struct Entries<'names> {
    list: Vec<(String, SecretString, bool)>,
    indices: HashMap<&'names str, usize>,
}

impl<'names> Entries<'names> {
    /// Adds an entry, or replaces an earlier one with the same name.
    fn put(&mut self, name: &'names str, value: SecretString, sensitive: bool) {
        match self.indices.entry(name) {
            Entry::Occupied(index) => {
                let entry = &mut self.list[*index.get()];
                (entry.1, entry.2) = (value, sensitive);
            }
            Entry::Vacant(slot) => {
                slot.insert(self.list.len());
                self.list.push((name.to_owned(), value, sensitive));
            }
        }
    }
}

fn summary(list: &[(String, SecretString, bool)], what: &str) -> Option<String> {
    let plural = if list.len() == 1 { "" } else { "s" };
    let mut text = format!("Resolved {} {what}{plural}: ", list.len());
    for (index, (name, _, sensitive)) in list.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { ", " });
        text.push_str(name);
        text.push_str(if *sensitive { " [sensitive]" } else { "" });
    }
    (!list.is_empty()).then_some(text)
}

/// Checks the name by the rules of the operating system and of [`names::check_name`].
fn check_variable(
    name: &str,
    variable: &EnvironmentVariable,
) -> Result<Option<String>, VariableError> {
    if !is_environment_name(name) {
        return Err(VariableError::EnvironmentName(name.to_owned()));
    }
    names::check_name(name, variable.value.expose_secret())
}

/// Whether the operating system accepts the name, and it can be shown.
pub(in crate::workspace) fn is_environment_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('=') && !name.contains(char::is_control)
}

/// The result of the search for the secret of a sensitive value.
enum FoundSecret {
    /// The value is a reference to this secret.
    Referenced(SecretString),
    /// The value itself is the secret.
    Literal,
    /// The value is a reference to a missing secret, which is recorded.
    Missing,
}

/// The secret of a variable as the JSON text of a string, marked as sensitive.
fn as_json(name: &str, secret: &SecretString) -> Result<(SecretString, bool), VariableError> {
    serde_json::to_string(secret.expose_secret())
        .map(|json| (SecretString::from(json), true))
        .map_err(|_| VariableError::Json(name.to_owned()))
}

struct Resolver<'sources> {
    sources: &'sources SecretSources,
    /// Whether sensitive values are never references.
    literal: bool,
    unresolved: Vec<Unresolved>,
    /// Variables whose value may be the secret itself or the name of one.
    words: Vec<String>,
    /// Sensitive environment variables with an empty value.
    empty: Vec<String>,
    /// Sensitive variables that came without a value or with an empty one.
    without_value: Vec<String>,
}

impl Resolver<'_> {
    /// The value as JSON text and whether it is sensitive; `None` without a value. A missing secret is recorded.
    fn variable(
        &mut self,
        name: &str,
        variable: &Variable,
    ) -> Result<Option<(SecretString, bool)>, VariableError> {
        let given = variable.value.as_ref();
        if let Some(reference) = &variable.reference {
            let lookup = Lookup { reference: Some(reference.clone()), showable: true };
            let secret = self.look_up(name, &lookup)?;
            return secret.map(|secret| as_json(name, &secret)).transpose();
        }
        if !variable.sensitive {
            return Ok(given.map(|value| (value.clone(), false)));
        }
        let json = given.map_or("null", |value| value.expose_secret().trim());
        let text = json_string(json);
        let found = match &text {
            Some(text) if !(self.literal || text.is_empty()) => {
                self.secret(name, self.sources.guess(text))?
            }
            None if json == "null" => self.default_secret(name)?,
            Some(text) if text.is_empty() && !self.literal => self.default_secret(name)?,
            _ => FoundSecret::Literal,
        };
        match found {
            FoundSecret::Referenced(secret) => as_json(name, &secret).map(Some),
            FoundSecret::Literal => Ok(given.map(|value| (value.clone(), true))),
            FoundSecret::Missing => Ok(None),
        }
    }

    fn environment_variable(
        &mut self,
        name: &str,
        variable: &EnvironmentVariable,
    ) -> Result<Option<SecretString>, VariableError> {
        let text = variable.value.expose_secret();
        let is_input = name.starts_with(INPUT_PREFIX);
        let found = if !variable.sensitive || self.literal {
            FoundSecret::Literal
        } else if is_input && text.is_empty() {
            self.default_secret(name)?
        } else if text.is_empty() {
            self.empty.push(name.to_owned());
            FoundSecret::Literal
        } else if is_input {
            self.secret(name, self.sources.guess(text))?
        } else {
            self.secret(name, self.sources.guess_ambient(text))?
        };
        let value = match found {
            FoundSecret::Referenced(secret) => Some(secret),
            FoundSecret::Literal => Some(variable.value.clone()),
            FoundSecret::Missing => None,
        };
        match value {
            Some(value) if value.expose_secret().contains('\0') => {
                Err(VariableError::EnvironmentValue(name.to_owned()))
            }
            value => Ok(value),
        }
    }

    /// Resolves the sensitive value of the variable `name`, from what its text was taken for.
    fn secret(&mut self, name: &str, guess: Guess) -> Result<FoundSecret, VariableError> {
        match guess {
            Guess::Secret => Ok(FoundSecret::Literal),
            Guess::Reference(lookup) => Ok(self
                .look_up(name, &lookup)?
                .map_or(FoundSecret::Missing, FoundSecret::Referenced)),
            Guess::Either(lookup) => {
                let secret = self.find(name, &lookup)?;
                if secret.is_none() {
                    self.words.push(name.to_owned());
                }
                Ok(secret.map_or(FoundSecret::Literal, FoundSecret::Referenced))
            }
            Guess::Unreadable => {
                let secret = self.find(name, &Lookup { reference: None, showable: false })?;
                if secret.is_none() {
                    self.unresolved.push(Unresolved::unreadable(name.to_owned()));
                }
                Ok(secret.map_or(FoundSecret::Missing, FoundSecret::Referenced))
            }
        }
    }

    /// The secret of a variable without a value, searched by the variable's name.
    fn default_secret(&mut self, name: &str) -> Result<FoundSecret, VariableError> {
        let secret = self.find(name, &Lookup { reference: None, showable: true })?;
        Ok(match secret {
            Some(secret) => FoundSecret::Referenced(secret),
            None if self.literal => FoundSecret::Literal,
            None => {
                self.without_value.push(name.to_owned());
                FoundSecret::Missing
            }
        })
    }

    fn find(&self, name: &str, lookup: &Lookup) -> Result<Option<SecretString>, VariableError> {
        self.sources
            .find(name, lookup)
            .map_err(|source| VariableError::Reference { name: name.to_owned(), source })
    }

    fn look_up(
        &mut self,
        name: &str,
        lookup: &Lookup,
    ) -> Result<Option<SecretString>, VariableError> {
        let secret = self.find(name, lookup)?;
        if secret.is_none() {
            let ways = self.sources.advice(name, lookup);
            self.unresolved.push(Unresolved { name: name.to_owned(), ways });
        }
        Ok(secret)
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
