//! The changes of a plan, resource by resource and attribute by attribute.

use serde::{Deserialize, Serialize};

/// The action on a resource.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Created.
    Create,
    /// Changed in place.
    Update,
    /// Destroyed and created, in either order.
    Replace,
    /// Destroyed.
    Delete,
    /// A data source that is read during the apply.
    Read,
    /// Removed from the state without being destroyed.
    Forget,
    /// Not changed, but renamed or imported.
    Nothing,
    /// An `action` block that is executed.
    Execute,
    /// Drift: changed outside of Terraform.
    Changed,
    /// Drift: deleted outside of Terraform.
    Gone,
}

/// The outcome of a planned change after an incomplete apply.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeOutcome {
    /// Completed.
    Done,
    /// The resource was created, but a later step of its creation failed: the next apply replaces
    /// it.
    Tainted,
    /// Started and failed.
    Failed,
    /// Started, and the tool ended before it was complete: the state may be incomplete.
    Interrupted,
    /// Completed, but not in the stored state: the tool could not store its state, or was killed before it did.
    NotInState,
    /// Reported as completed, and the state cannot be read.
    Unknown,
    /// Not started.
    NotStarted,
}

/// The changes of a plan, up to a size limit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// The `action` blocks that are executed, with their settings.
    pub actions: Vec<PlannedChange>,
    /// Changes of resources, in the plan's order.
    pub planned: Vec<PlannedChange>,
    /// Drift: changes outside of Terraform that the plan found.
    pub drift: Vec<PlannedChange>,
    /// Changes of the root module's outputs; each path begins with the name of the output.
    pub outputs: Vec<AttributeChange>,
    /// The number of omitted resources and parts of outputs.
    pub left_out: usize,
}

/// The change of one resource, or an `action` block that is executed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlannedChange {
    /// `module.network.aws_vpc.main["a"]`.
    pub address: String,
    /// The previous address, if it differs.
    pub previous_address: Option<String>,
    /// The action.
    pub action: Action,
    /// Whether the resource is imported.
    pub imported: bool,
    /// The id under which it is imported, as JSON text.
    pub import_id: Option<String>,
    /// The reason in words, if the tool gives one.
    pub reason: Option<String>,
    /// The changed attributes.
    pub attributes: Vec<AttributeChange>,
    /// The number of omitted attributes.
    pub more_attributes: usize,
    /// The outcome; absent if nothing was applied, or if it is unknown.
    pub outcome: Option<ChangeOutcome>,
}

impl PlannedChange {
    /// A change without attributes and remarks.
    #[must_use]
    pub fn new(action: Action, address: String) -> Self {
        Self {
            address,
            previous_address: None,
            action,
            imported: false,
            import_id: None,
            reason: None,
            attributes: Vec::new(),
            more_attributes: 0,
            outcome: None,
        }
    }
}

/// The change of one attribute.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AttributeChange {
    /// `tags.Name`, `ingress[0].from_port`; `jsondecode(policy).Version` inside of a string.
    pub path: String,
    /// The value before; absent if the attribute is added.
    pub before: Option<Shown>,
    /// The value after; absent if the attribute is removed.
    pub after: Option<Shown>,
    /// Whether this attribute forces a replacement of the resource.
    pub forces_replacement: bool,
}

impl AttributeChange {
    /// Whether the attribute is listed although it stays as it is, as those of an import are.
    pub(crate) fn stays(&self) -> bool {
        let is_known = matches!(&self.after, Some(Shown::Value(_) | Shown::Text(_)));
        is_known && self.before == self.after
    }
}

/// A value for display.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Shown {
    /// Redacted JSON text, truncated if it is very long.
    Value(String),
    /// A redacted text of several lines, truncated if it is very long.
    Text(String),
    /// The tool marks it as sensitive, or it is a registered secret.
    Sensitive,
    /// Unknown until the apply.
    Unknown,
}
