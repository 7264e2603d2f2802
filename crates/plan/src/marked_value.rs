//! A value of a plan with the marks at its position: sensitive or unknown.

use serde_json::value::RawValue;

use super::marks::{MAX_DEPTH, contains_true};
use super::members::elements;

/// A value of a plan with its marks; none if it is `null`.
#[derive(Clone, Copy, Default)]
pub(super) struct MarkedValue<'a> {
    pub(super) value: Option<&'a RawValue>,
    pub(super) sensitive: Option<&'a RawValue>,
    pub(super) unknown: Option<&'a RawValue>,
}

/// The kind of a value.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum ValueKind {
    Nothing,
    Object,
    List,
    Text,
    Other,
}

impl<'a> MarkedValue<'a> {
    pub(super) fn kind(self) -> ValueKind {
        match self.value.and_then(|json| json.get().as_bytes().first()) {
            None => ValueKind::Nothing,
            Some(b'{') => ValueKind::Object,
            Some(b'[') => ValueKind::List,
            Some(b'"') => ValueKind::Text,
            Some(_) => ValueKind::Other,
        }
    }

    /// The part, or none if it is `null`.
    pub(super) fn of(
        value: Option<&'a RawValue>,
        sensitive: Option<&'a RawValue>,
        unknown: Option<&'a RawValue>,
    ) -> Self {
        let value = value.filter(|json| json.get() != "null");
        Self { value, sensitive, unknown }
    }

    pub(super) fn is_unknown(self) -> bool {
        self.unknown.is_some_and(|json| json.get() == "true")
            || (self.value.is_none() && self.unknown.is_some_and(contains_true))
    }

    /// Whether the whole value is hidden: it is marked as a whole, or its marks do not fit it.
    pub(super) fn is_hidden(self, depth: usize) -> bool {
        let Some(marks) = self.sensitive.filter(|marks| contains_true(marks)) else { return false };
        match (self.kind(), marks.get().as_bytes().first()) {
            _ if marks.get() == "true" || depth >= MAX_DEPTH => true,
            (ValueKind::Nothing, _) | (ValueKind::Object, Some(b'{')) => false,
            (ValueKind::List, Some(b'[')) => {
                let count = |json: Option<&RawValue>| {
                    json.and_then(|json| Some(elements(json).ok()?.len()))
                };
                count(self.value) != count(Some(marks))
            }
            _ => true,
        }
    }

    pub(super) fn same(self, other: Self) -> bool {
        let text = |json: Option<&'a RawValue>| json.map(RawValue::get);
        text(self.value) == text(other.value) && !other.unknown.is_some_and(contains_true)
    }
}
