//! A user: the role, the layers and the token.

use butler_registry::TokenHash;
use globset::{Glob, GlobSet, GlobSetBuilder};

/// What a token allows. Each role includes the ones before it.
#[derive(
    Clone,
    Copy,
    Debug,
    Eq,
    Ord,
    PartialEq,
    PartialOrd,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Starts and approves runs.
    Operator,
    /// Everything.
    Administrator,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Administrator];

    /// The name, as in files and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }
}

/// A person or program with a token.
#[derive(Clone, Debug)]
pub struct User {
    /// The name, for `approvedBy` and `pausedBy`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The layers for which it may send changes; all of them if `None`.
    pub layers: Option<Layers>,
    /// The hash of its token.
    pub token: TokenHash,
}

/// A user as administrators see it.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub(super) struct UserView {
    /// The name.
    name: String,
    /// What it may do.
    role: Role,
    /// Globs of the layers for which it may send changes; `null` for all layers.
    layers: Option<Vec<String>>,
}

impl User {
    /// The user without its hash.
    pub(super) fn view(&self) -> UserView {
        let layers = self.layers.as_ref().map(|layers| layers.globs.clone());
        UserView { name: self.name.clone(), role: self.role, layers }
    }

    /// Globs of the layers for which the user may send changes; `None` for all layers.
    pub(crate) fn layer_globs(&self) -> Option<&[String]> {
        self.layers.as_ref().map(|layers| layers.globs.as_slice())
    }

    /// Whether the user may send changes for `layer`, or for more than one layer if it is `None`.
    pub(crate) fn may_change(&self, layer: Option<&str>) -> bool {
        match (&self.layers, layer) {
            (None, _) => true,
            (Some(layers), Some(layer)) => layers.set.is_match(layer),
            (Some(_), None) => false,
        }
    }
}

/// Globs of the names of layers.
#[derive(Clone, Debug)]
pub struct Layers {
    globs: Vec<String>,
    set: GlobSet,
}

impl Layers {
    /// The layers whose names match one of `globs`. A `*` matches any number of any characters.
    ///
    /// # Errors
    /// If a glob is not valid.
    pub fn new<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<Self, globset::Error> {
        let (mut written, mut set) = (Vec::new(), GlobSetBuilder::new());
        for glob in globs {
            set.add(Glob::new(glob)?);
            written.push(glob.to_owned());
        }
        Ok(Self { globs: written, set: set.build()? })
    }
}
