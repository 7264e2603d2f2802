//! The names of the Roles of an installation, by which those of an earlier one are found.

/// The names of the Roles of a server, and of their bindings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoleNames {
    /// In the namespace of the attempts. Servers of other namespaces have the same name.
    pub attempts: String,
    /// In the namespaces of the objects of followers.
    pub followers: String,
    /// In the namespaces of custom resources.
    pub resources: String,
}

impl RoleNames {
    /// Those of the server in this namespace.
    #[must_use]
    pub fn of(server: &str) -> Self {
        Self {
            attempts: "butler-server".to_owned(),
            followers: format!("butler-followers-{server}"),
            resources: format!("butler-resources-{server}"),
        }
    }
}
