//! What a plan does, resource by resource and attribute by attribute.

use serde::Serialize;

/// What is done with a resource.
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
    /// A data source that is read while the plan is applied.
    Read,
    /// Given up without being destroyed.
    Forget,
    /// Nothing is done with it but what stands beside: it is renamed or imported.
    Nothing,
}

/// What became of a planned change when an apply ended before all of them were done.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeOutcome {
    /// It was done.
    Done,
    /// The resource was created, but its creation failed afterwards: the next apply replaces it.
    Tainted,
    /// It was begun and failed.
    Failed,
    /// It was begun, and the tool ended before it was completed: the state may not show what is there.
    Interrupted,
    /// It was not begun.
    NotStarted,
}

/// All that a plan changes, as far as there is room for it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// What is done with resources, in the plan's order.
    pub planned: Vec<PlannedChange>,
    /// What was done with them by others, as the plan has found it.
    pub drift: Vec<PlannedChange>,
    /// Outputs of the root module; the path of each begins with its name.
    pub outputs: Vec<AttributeChange>,
    /// How many more resources and parts of outputs there are than are listed.
    pub left_out: usize,
}

/// What a plan does with one resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlannedChange {
    /// `module.network.aws_vpc.main["a"]`.
    pub address: String,
    /// What it was called before, where that was otherwise.
    pub previous_address: Option<String>,
    /// What is done.
    pub action: Action,
    /// Whether it is taken over from elsewhere.
    pub imported: bool,
    /// Why, where the tool says so, in its words: `replace_because_tainted` for example.
    pub reason: Option<String>,
    /// What changes in it; those that stay are left out.
    pub attributes: Vec<AttributeChange>,
    /// How many more attributes change than are listed.
    pub more_attributes: usize,
    /// What became of it; none as long as nothing was applied, or when that is not known.
    pub outcome: Option<ChangeOutcome>,
}

/// What becomes of one attribute.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AttributeChange {
    /// `tags.Name`, `ingress[0].from_port`; `jsondecode(policy).Version` inside of a string.
    pub path: String,
    /// What it was; none where it was not there.
    pub before: Option<Shown>,
    /// What it will be; none where it will not be there.
    pub after: Option<Shown>,
    /// Whether the resource has to be replaced because of it.
    pub forces_replacement: bool,
}

/// A value as it may be shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Shown {
    /// Masked JSON text, cut where it is very long.
    Value(String),
    /// A text of several lines, masked, cut where it is very long.
    Text(String),
    /// The tool says that it is sensitive, or it is a secret that the run was given.
    Sensitive,
    /// Not known before it is applied.
    Unknown,
}
