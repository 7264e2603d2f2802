//! A reference to a secret.

/// A secret by name: a key of a Kubernetes secret, or a secret of the CI system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecretReference {
    /// The namespace, if one is named.
    pub namespace: Option<String>,
    /// The secret's name.
    pub name: String,
    /// The key in the secret, if one is named.
    pub key: Option<String>,
}
