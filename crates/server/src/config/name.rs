//! The names of layers that a glob generates.

use sha2::{Digest, Sha256};

use crate::model::{InvalidLayerName, LayerName};

/// The name of the layer for `path`: the path with `/` as `.`, behind the name of the layer set and
/// a dot if there is one. Other characters become `_`, and eight digits of the path's SHA-256 keep
/// such names apart.
///
/// # Errors
/// If the name is too long.
pub fn generated_name(set: Option<&str>, path: &str) -> Result<LayerName, InvalidLayerName> {
    let is_allowed = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
    let dotted = path.replace('/', ".");
    let mut name: String =
        dotted.chars().map(|one| if is_allowed(one) { one } else { '_' }).collect();
    if name != dotted {
        name.push_str(&hex::encode(&Sha256::digest(path)[..4]));
    }
    LayerName::try_from(match set {
        Some(set) => format!("{set}.{name}"),
        None => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_from_paths() {
        let name = |set, path| generated_name(set, path).unwrap().to_string();
        assert_eq!(name(None, "envs/prod/web"), "envs.prod.web");
        assert_eq!(name(Some("apps"), "envs/prod/apps/web"), "apps.envs.prod.apps.web");
        let (one, other) = (name(None, "envs/prod eu"), name(None, "envs/prod+eu"));
        assert!(one.starts_with("envs.prod_eu") && one.len() == "envs.prod_eu".len() + 8, "{one}");
        assert_ne!(one, other);
        assert!(generated_name(None, &"x/".repeat(120)).is_err());
    }
}
