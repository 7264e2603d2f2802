//! Reads configuration in HCL's native syntax.

use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};

use super::declaration::{BackendBlock, BlockSetting, TypeKind};
use super::findings::{Findings, PartialDeclaration};
use super::remote_states::{REMOTE_STATE, local_state};
use crate::hcl::{expression_as_json, expression_texts, json_string};

/// Adds the declarations in `text` to `findings`. Returns false if it is not valid HCL.
pub(super) fn read(text: &str, findings: &mut Findings) -> bool {
    let Ok(body) = hcl_edit::parser::parse_body(text) else {
        return false;
    };
    for block in body.blocks() {
        let label = block.labels.first().map(hcl_edit::structure::BlockLabel::as_str);
        match (block.ident.as_str(), label) {
            ("terraform", None) => settings(block, findings),
            ("language", None) => language(block, findings),
            ("variable", Some(name)) => findings.variable(name, declaration(&block.body, text)),
            ("provider", Some(name)) => findings.provider(name),
            ("resource" | "data" | "ephemeral", Some(kind)) => {
                findings.resource(kind);
                if kind == REMOTE_STATE {
                    findings.module.local_states.extend(local_state(&block.body));
                }
            }
            _ => {}
        }
    }
    true
}

fn settings(block: &Block, findings: &mut Findings) {
    if let Some(given) = block.body.get_attribute("required_version") {
        // Terraform also takes a heredoc, parentheses, and a number.
        match expression_as_json(&given.value).and_then(|json| constraint_text(&json)) {
            Some(constraint) => findings.required_version(&constraint),
            None => findings.unread_required_version(),
        }
    }
    for block in block.body.blocks() {
        match block.ident.as_str() {
            "backend" => {
                let kind = block.labels.first().map_or("", hcl_edit::structure::BlockLabel::as_str);
                findings.backend(BackendBlock {
                    kind: kind.to_owned(),
                    path: setting(&block.body, "path"),
                    workspace_dir: setting(&block.body, "workspace_dir"),
                });
            }
            "cloud" => {
                findings.backend(BackendBlock { kind: "cloud".to_owned(), ..Default::default() });
            }
            "encryption" => findings.module.has_encryption = true,
            "required_providers" => {
                for requirement in block.body.attributes() {
                    findings.required_provider(requirement.key.as_str());
                }
            }
            _ => {}
        }
    }
}

/// The text of a constraint in JSON, which is a string or a number. `None` if it must be evaluated.
pub(super) fn constraint_text(json: &str) -> Option<String> {
    let is_number = json.starts_with(|first: char| first.is_ascii_digit());
    let text = json_string(json).or_else(|| is_number.then(|| json.to_owned()))?;
    (!text.contains("${") && !text.contains("%{")).then(|| text.trim().to_owned())
}

/// The versions of `OpenTofu` with which the module is compatible.
fn language(block: &Block, findings: &mut Findings) {
    let blocks = block.body.blocks().filter(|inner| inner.ident.as_str() == "compatible_with");
    for constraint in blocks.filter_map(|inner| inner.body.get_attribute("opentofu")) {
        if let Some(constraint) = constraint.value.as_str() {
            findings.compatible_with_tofu(constraint);
        }
    }
}

fn setting(body: &Body, name: &str) -> BlockSetting {
    match body.get_attribute(name).map(|given| &given.value) {
        None | Some(Expression::Null(_)) => BlockSetting::Unset,
        Some(value) => value
            .as_str()
            .map_or(BlockSetting::Computed, |text| BlockSetting::Text(text.to_owned())),
    }
}

fn declaration(body: &Body, source: &str) -> PartialDeclaration {
    // A value that is not literally false counts: Terraform also takes `"true"`, `(true)` and `1 == 1`.
    let flag = |name| {
        let value = body.get_attribute(name).map(|given| &given.value);
        value.map(|value| value.as_bool() != Some(false) && !value.is_null())
    };
    PartialDeclaration {
        kind: body.get_attribute("type").map(|given| type_kind(&given.value)),
        sensitive: flag("sensitive"),
        ephemeral: flag("ephemeral"),
        has_default: body.has_attribute("default"),
        defaults: body
            .get_attribute("default")
            .map(|given| expression_texts(&given.value, source))
            .unwrap_or_default(),
    }
}

/// How a type parses strings, by Terraform's own rule: only a primitive type uses the text
/// unchanged. The quoted forms are those of Terraform 0.11 and of JSON syntax.
pub(super) fn type_kind(expression: &Expression) -> TypeKind {
    match expression {
        Expression::Variable(name) => match name.as_str() {
            "string" | "number" | "bool" => TypeKind::Primitive,
            "any" => TypeKind::Any,
            _ => TypeKind::Complex,
        },
        Expression::String(text) => quoted_type_kind(text),
        _ => TypeKind::Complex,
    }
}

/// [`type_kind`] of a type expression in quotes, with or without `${}` around it.
pub(super) fn quoted_type_kind(text: &str) -> TypeKind {
    let bare = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    match hcl_edit::parser::parse_expr(bare.trim()) {
        // A string in a string could nest without a limit.
        Ok(Expression::String(_)) | Err(_) => TypeKind::Complex,
        Ok(expression) => type_kind(&expression),
    }
}
