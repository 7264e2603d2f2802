//! The position of an attribute in a resource.

use std::io::Result;

use super::clean::PlanCopy;
use super::marks::PieceVisitor;

/// One step into a value.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(untagged)]
pub(super) enum PathStep {
    /// The member of an object.
    Name(String),
    /// The element of a list.
    Index(usize),
    /// Neither of these.
    Other(serde::de::IgnoredAny),
}

/// A position in a value.
#[derive(Clone, Default)]
pub(super) struct Path {
    pub(super) steps: Vec<PathStep>,
    /// As displayed.
    pub(super) shown: String,
}

impl Path {
    /// The path of an output.
    pub(super) fn of_output(name: String) -> Self {
        Self { steps: Vec::new(), shown: name }
    }

    pub(super) fn member(&self, name: &str, cleaned: &mut PlanCopy<'_, Vec<u8>>) -> Result<Self> {
        cleaned.name(name)?;
        let literal = cleaned.take();
        let masked: String = serde_json::from_str(&literal)?;
        let is_word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        };
        let shown = match (self.shown.is_empty(), is_word(&masked)) {
            (true, true) => masked,
            (false, true) => format!("{}.{masked}", self.shown),
            (_, false) => format!("{}[{literal}]", self.shown),
        };
        Ok(self.with(PathStep::Name(name.to_owned()), shown))
    }

    pub(super) fn element(&self, index: usize) -> Self {
        self.with(PathStep::Index(index), format!("{}[{index}]", self.shown))
    }

    pub(super) fn inside(&self) -> Self {
        Self { steps: self.steps.clone(), shown: format!("jsondecode({})", self.shown) }
    }

    fn with(&self, step: PathStep, shown: String) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { steps, shown }
    }
}
