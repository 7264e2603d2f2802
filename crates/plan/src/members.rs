//! The members of a JSON object and the elements of an array, as unparsed JSON text.

use std::fmt;
use std::io::Result;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
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
    Ok(serde_json::from_str(json.get())?)
}

pub(super) fn elements(json: &RawValue) -> Result<Vec<&RawValue>> {
    Ok(serde_json::from_str(json.get())?)
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}
