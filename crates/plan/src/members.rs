//! The members of a JSON object and the elements of an array, as unparsed JSON text.

use std::io::Result;

use serde_json::value::RawValue;

/// The members of an object in their order, without their content.
#[derive(Default)]
pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    pub(super) fn find(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// `before_sensitive` for `before`, `sensitive_values` for `values`, `config_sensitive` for
    /// `config_values`.
    pub(super) fn marks_of(&self, name: &str) -> Option<&'a RawValue> {
        match name.strip_suffix("values") {
            Some("") => self.find("sensitive_values"),
            Some(stem) => self.find(&format!("{stem}sensitive")),
            None => self.find(&format!("{name}_sensitive")),
        }
    }

    pub(super) fn is_marked_sensitive(&self) -> bool {
        self.find("sensitive").is_some_and(|json| json.get() == "true")
    }
}

pub(super) fn members(json: &RawValue) -> Result<Members<'_>> {
    Ok(Members(butler_base::json::members(json.get())?))
}

pub(super) fn elements(json: &RawValue) -> Result<Vec<&RawValue>> {
    Ok(serde_json::from_str(json.get())?)
}
