//! Resolves a run's references and settles which value a variable has.

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
/// A sensitive variable without a value, or with an empty one, goes by its name alone; whether it may
/// be left out is for [`settle_declared`](super::settle_declared) to say. A variable that is not
/// sensitive and has no value is left to the module's default; `null` is a value for it, as in
/// Terraform. Of several entries of one name the last counts.
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
        without_value: Vec::new(),
    };
    let mut inputs = Inputs::default();
    // Of several outputs of one name the last counts.
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
        if let Some(message) = judge(name, variable)? {
            left_out.push(message);
            continue;
        }
        // Terraform takes the variable itself before `TF_VAR_*`.
        let input = name.strip_prefix(INPUT_PREFIX);
        let is_overruled = input.is_some_and(|name| variables.places.contains_key(name));
        if is_overruled && variable.sensitive {
            continue;
        }
        let value = resolver.environment_variable(name, variable)?;
        if let Some(value) = value {
            environment.put(name, value, variable.sensitive);
        }
    }
    let Resolver { mut unresolved, words, mut without_value, .. } = resolver;
    without_value.retain(|name| !environment.places.contains_key(input_variable(name).as_str()));
    if !unresolved.is_empty() {
        unresolved.extend(without_value.into_iter().map(Unresolved::without_value));
        return Err(VariableError::Unresolved(unresolved));
    }
    inputs.without_value = without_value;
    inputs.variables = variables.list;
    inputs.environment = environment.list;
    inputs.warnings.extend(warning(&words));
    for name in replaced {
        inputs.messages.push(format!("Variable `{name}` is taken from an upstream output"));
    }
    inputs.messages.extend(left_out);
    inputs.messages.extend(summary(&inputs.variables, "variable"));
    inputs.messages.extend(summary(&inputs.environment, "environment variable"));
    Ok(inputs)
}

/// What to say of variables whose value may be a secret or the name of one. Their values are never
/// shown: they are used as secrets.
fn warning(names: &[String]) -> Option<String> {
    let (first, more) = names.split_first()?;
    let variable = input_variable(if more.is_empty() { first } else { "NAME" });
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let said = if more.is_empty() {
        "its value is used as the secret itself, but it may be the name of a secret that is not set"
    } else {
        "each value is used as the secret itself, but it may be the name of a secret that is not set"
    };
    Some(format!(
        "{list}: {said}. If it is a name, set the environment variable of that name or `{variable}`; if it is the secret itself, --sensitive-values literal silences this warning"
    ))
}

/// Names with their values, each once, in the order in which they came.
#[derive(Default)]
struct Entries<'names> {
    list: Vec<(String, SecretString, bool)>,
    places: HashMap<&'names str, usize>,
}

impl<'names> Entries<'names> {
    /// Adds an entry, in the place of an earlier one of that name.
    fn put(&mut self, name: &'names str, value: SecretString, sensitive: bool) {
        match self.places.entry(name) {
            Entry::Occupied(place) => {
                let entry = &mut self.list[*place.get()];
                (entry.1, entry.2) = (value, sensitive);
            }
            Entry::Vacant(place) => {
                place.insert(self.list.len());
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

/// Whether Terraform may get the variable; if not, `Ok` says what the log has to tell.
fn judge(name: &str, variable: &EnvironmentVariable) -> Result<Option<String>, VariableError> {
    if !is_environment_name(name) {
        return Err(VariableError::EnvironmentName(name.to_owned()));
    }
    names::judge(name, variable.value.expose_secret())
}

/// Whether the operating system and people can tell such a name from others.
pub(in crate::workspace) fn is_environment_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('=') && !name.contains(char::is_control)
}

/// What became of a sensitive value.
enum Found {
    /// It led to a secret.
    Secret(SecretString),
    /// It is the secret itself.
    Itself,
    /// It led nowhere, which is noted.
    Nothing,
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
    /// Sensitive variables that came without a value or with an empty one.
    without_value: Vec<String>,
}

impl Resolver<'_> {
    /// The value as JSON text and whether it is sensitive; none when there is none, which for a
    /// secret is also noted.
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
            Some(text) if !(self.literal || text.is_empty()) => self.secret(name, text)?,
            None if json == "null" => self.default_secret(name)?,
            Some(text) if text.is_empty() && !self.literal => self.default_secret(name)?,
            _ => Found::Itself,
        };
        match found {
            Found::Secret(secret) => as_json(name, &secret).map(Some),
            Found::Itself => Ok(given.map(|value| (value.clone(), true))),
            Found::Nothing => Ok(None),
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
            Found::Itself
        } else if is_input && text.is_empty() {
            self.default_secret(name)?
        } else if is_input {
            self.secret(name, text)?
        } else if let Some(lookup) = self.sources.guess_ambient(text) {
            self.look_up(name, &lookup)?.map_or(Found::Nothing, Found::Secret)
        } else {
            Found::Itself
        };
        let value = match found {
            Found::Secret(secret) => Some(secret),
            Found::Itself => Some(variable.value.clone()),
            Found::Nothing => None,
        };
        match value {
            Some(value) if value.expose_secret().contains('\0') => {
                Err(VariableError::EnvironmentValue(name.to_owned()))
            }
            value => Ok(value),
        }
    }

    /// Resolves the sensitive value `text` of a variable of the module.
    fn secret(&mut self, name: &str, text: &str) -> Result<Found, VariableError> {
        match self.sources.guess(text) {
            Guess::Secret => Ok(Found::Itself),
            Guess::Reference(lookup) => {
                Ok(self.look_up(name, &lookup)?.map_or(Found::Nothing, Found::Secret))
            }
            Guess::Either(lookup) => {
                let secret = self.find(name, &lookup)?;
                if secret.is_none() {
                    self.words.push(name.to_owned());
                }
                Ok(secret.map_or(Found::Itself, Found::Secret))
            }
        }
    }

    /// The secret of a variable without a value: it goes by its name alone.
    fn default_secret(&mut self, name: &str) -> Result<Found, VariableError> {
        let secret = self.find(name, &Lookup { reference: None, showable: true })?;
        Ok(match secret {
            Some(secret) => Found::Secret(secret),
            None if self.literal => Found::Itself,
            None => {
                self.without_value.push(name.to_owned());
                Found::Nothing
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
