//! Local states of other modules that a module reads (`data "terraform_remote_state"` in HCL).

use hcl_edit::expr::{Expression, Object, ObjectKey};
use hcl_edit::structure::Body;

use butler_protocol::backend::LOCAL;

/// The type of data sources that read another state.
pub(super) const REMOTE_STATE: &str = "terraform_remote_state";

/// References to the module's own directory, in which the tool runs.
const OWN_DIRECTORY: [&str; 3] = ["${path.module}", "${path.root}", "${path.cwd}"];

/// The place of a local state of another module, from literal settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LocalStateBlock {
    /// The state file, absolute or relative to the module.
    pub path: Option<String>,
    /// The directory for the states of other workspaces.
    pub workspace_dir: Option<String>,
    /// The workspace.
    pub workspace: Option<String>,
}

/// The state that a block `terraform_remote_state` reads; none if it is not local, or if a setting must be evaluated.
pub(super) fn local_state(body: &Body) -> Option<LocalStateBlock> {
    let setting = |name: &str| body.get_attribute(name).map(|given| &given.value);
    if setting("backend").and_then(Expression::as_str) != Some(LOCAL.name) {
        return None;
    }
    let empty = Object::new();
    let config = match setting("config") {
        Some(Expression::Object(config)) => config,
        Some(_) => return None,
        None => &empty,
    };
    let configured = |wanted: &str| {
        let is_wanted = |key: &ObjectKey| match key {
            ObjectKey::Ident(name) => name.as_str() == wanted,
            ObjectKey::Expression(name) => match name {
                Expression::Variable(name) => name.as_str() == wanted,
                name => name.as_str() == Some(wanted),
            },
        };
        config.iter().find(|(key, _)| is_wanted(key)).map(|(_, value)| value.expr())
    };
    Some(LocalStateBlock {
        path: configured("path").map(text).transpose().ok()?,
        workspace_dir: configured("workspace_dir").map(text).transpose().ok()?,
        workspace: setting("workspace").map(text).transpose().ok()?,
    })
}

/// The setting must be evaluated.
struct Computed;

fn text(expression: &Expression) -> Result<String, Computed> {
    if let Some(text) = expression.as_str() {
        return Ok(text.to_owned());
    }
    let Expression::StringTemplate(_) = expression else { return Err(Computed) };
    let template = expression.to_string();
    let template = template.trim().trim_matches('"');
    let text = OWN_DIRECTORY.iter().fold(template.to_owned(), |text, own| text.replace(own, "."));
    if text.contains(['$', '%', '\\']) { Err(Computed) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<LocalStateBlock> {
        local_state(&hcl_edit::parser::parse_body(text).unwrap())
    }

    #[test]
    fn literal_places_of_local_states_are_read() {
        for (text, path) in [
            (
                "backend = \"local\"\nconfig = { path = \"/states/up.tfstate\" }",
                Some("/states/up.tfstate"),
            ),
            (
                "backend = \"local\"\nconfig = {\n  \"path\" = \"${path.module}/../up.tfstate\"\n}",
                Some("./../up.tfstate"),
            ),
            ("backend = \"local\"", None),
        ] {
            let found = read(text).unwrap();
            assert_eq!(
                found,
                LocalStateBlock { path: path.map(str::to_owned), ..Default::default() }
            );
        }
        let named = "backend = \"local\"\nworkspace = \"blue\"\nconfig = { workspace_dir = \"w\" }";
        let expected = LocalStateBlock {
            path: None,
            workspace_dir: Some("w".to_owned()),
            workspace: Some("blue".to_owned()),
        };
        assert_eq!(read(named), Some(expected));
    }

    #[test]
    fn places_that_must_be_evaluated_and_other_backends_are_not_read() {
        for text in [
            "backend = \"s3\"\nconfig = { path = \"x\" }",
            "config = { path = \"x\" }",
            "backend = \"local\"\nconfig = var.config",
            "backend = \"local\"\nconfig = { path = var.path }",
            "backend = \"local\"\nconfig = { path = \"${var.path}/x\" }",
            "backend = \"local\"\nworkspace = terraform.workspace",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
