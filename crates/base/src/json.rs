//! The members of a JSON object as unparsed JSON text, in their order.
//!
//! A name that stands twice has two members: a reader that keeps one of them would miss what another
//! reader of the same text sees. Each call parses one level, so the depth of a text does not matter.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of the object `json`.
///
/// # Errors
/// If it is not an object.
pub fn members(json: &str) -> serde_json::Result<Vec<(String, &RawValue)>> {
    serde_json::from_str::<Members<'_>>(json).map(|members| members.0)
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_kept_in_its_order() {
        let json = r#" {"b": 1.10, "a": {"b": [1, 2]}, "b": null} "#;
        let members = members(json).unwrap();
        let members: Vec<_> = members.iter().map(|(name, json)| (&**name, json.get())).collect();
        assert_eq!(members, [("b", "1.10"), ("a", r#"{"b": [1, 2]}"#), ("b", "null")]);
    }

    #[test]
    fn only_a_whole_object_has_members_at_any_depth() {
        for json in ["", "[]", "1", "{", "{}x", r#"{"a": 1,}"#, r#"{"a" 1}"#] {
            assert!(members(json).is_err(), "{json}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(members(&deep).unwrap().len(), 1);
    }
}
