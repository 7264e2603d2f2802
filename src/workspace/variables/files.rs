//! Writes the variable files for Terraform.
//!
//! Values keep their text, so that numbers keep every digit. Each value is on lines of its own, because Terraform quotes
//! the lines of a value in its errors.

use std::fmt::Write;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use semver::Version;

use super::{Inputs, VariableError, VariableFiles};
use butler_base::secret::PrivateDirectory;
use butler_protocol::spec::{Product, ToolRequest};
use butler_source::hcl::{self, Shape, json_string};
use butler_source::module::{Module, TypeKind};

/// Writes the variable files (mode 0600) into `private`.
///
/// # Errors
/// If a value does not have the syntax of its declared type, or if a file cannot be written.
pub fn write_variable_files(
    inputs: &Inputs,
    module: &Module,
    tool: &Version,
    private: &PrivateDirectory,
) -> Result<VariableFiles, VariableError> {
    let ephemeral = |name: &str| module.variables.get(name).is_some_and(|found| found.ephemeral);
    let applies = saved_plan_takes_variables(tool);
    let all: Vec<_> = inputs.variables.iter().collect();
    let again: Vec<_> =
        all.iter().copied().filter(|(name, ..)| applies && ephemeral(name)).collect();
    Ok(VariableFiles {
        plan: write_files("variables", &all, inputs, module, private)?,
        apply: write_files("ephemeral", &again, inputs, module, private)?,
    })
}

/// Writes `variables` to `<name>.tfvars.json`, and those whose text is HCL to `<name>.tfvars`. A file without variables
/// is not written.
fn write_files(
    name: &str,
    variables: &[&(String, SecretString, bool)],
    inputs: &Inputs,
    module: &Module,
    private: &PrivateDirectory,
) -> Result<Vec<PathBuf>, VariableError> {
    let mut json = String::new();
    let mut native = String::new();
    for (name, value, _) in variables {
        let value = value.expose_secret();
        let declared = module.variables.get(name).map_or(TypeKind::Undeclared, |found| found.kind);
        let is_text = declared == TypeKind::Any && inputs.typed.contains(name);
        let kind = if is_text { TypeKind::Primitive } else { declared };
        if let Some(text) = hcl_text(name, value, kind)? {
            let _ = writeln!(native, "{name} = {}", hcl::parenthesized(&text));
        } else {
            let start = if json.is_empty() { "{\n" } else { ",\n" };
            let _ = write!(json, "{start}\"{name}\":\n{value}");
        }
    }
    let mut files = Vec::new();
    if !json.is_empty() {
        json.push_str("\n}\n");
        files.push(private.write(&format!("{name}.tfvars.json"), json.as_bytes())?);
    }
    if !native.is_empty() {
        files.push(private.write(&format!("{name}.tfvars"), native.as_bytes())?);
    }
    Ok(files)
}

/// The value's text if Terraform must read it as HCL: the text of a variable whose type is a collection, as for `-var` and
/// `TF_VAR_` values. For `any` only what JSON cannot write: every other value arrives with its type, so that a text such
/// as `012`, `1.10` or `true` is a text.
fn hcl_text(name: &str, value: &str, kind: TypeKind) -> Result<Option<String>, VariableError> {
    let Some(text) = json_string(value) else {
        return Ok(None);
    };
    let failed = |source| VariableError::Hcl { name: name.to_owned(), source };
    match kind {
        TypeKind::Undeclared | TypeKind::Primitive => Ok(None),
        TypeKind::Any => Ok(hcl::is_only_hcl(&text).then_some(text)),
        TypeKind::Complex => match hcl::shape(&text) {
            Ok(Shape::Literal | Shape::Computed) => Ok(Some(text)),
            Ok(Shape::Reference) => Err(failed(None)),
            Err(source) => Err(failed(Some(source))),
        },
    }
}

/// Whether `apply` of a saved plan accepts `-var-file`. Before 1.10 there are no ephemeral variables, and apply refuses the
/// flag for a saved plan.
#[must_use]
pub fn saved_plan_takes_variables(tool: &Version) -> bool {
    (tool.major, tool.minor) >= (1, 10)
}

/// Whether `apply` of a saved plan accepts all variables of the plan. `OpenTofu` compares them with those in the plan. Before
/// 1.11 it refuses the flags, and takes variables of its encryption from `TF_VAR_…` only.
#[must_use]
pub fn saved_plan_takes_all_variables(tool: &ToolRequest) -> bool {
    let version = &tool.version;
    tool.product == Product::OpenTofu && (version.major, version.minor) >= (1, 11)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use butler_source::module::VariableDeclaration;

    fn written(kind: TypeKind, json: &str) -> Result<Vec<(String, String)>, VariableError> {
        let base = tempfile::tempdir().unwrap();
        let private = PrivateDirectory::create(base.path(), "run-").unwrap();
        let mut module = Module::default();
        let declaration = VariableDeclaration { kind, ..VariableDeclaration::default() };
        module.variables.insert("x".to_owned(), declaration);
        let inputs =
            Inputs { variables: vec![("x".to_owned(), json.into(), false)], ..Inputs::default() };
        let files = write_variable_files(&inputs, &module, &Version::new(1, 11, 4), &private)?;
        assert!(files.apply.is_empty());
        let content = files.plan.iter().map(|path| {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        });
        Ok(content.collect())
    }

    #[test]
    fn text_is_read_as_hcl_only_if_the_type_is_not_primitive() {
        let json = |json: &str| {
            vec![("variables.tfvars.json".to_owned(), format!("{{\n\"x\":\n{json}\n}}\n"))]
        };
        let hcl = |hcl: &str| vec![("variables.tfvars".to_owned(), format!("x = (\n{hcl}\n)\n"))];
        let map = r#""{ a = 1 }""#;
        assert_eq!(written(TypeKind::Primitive, map).unwrap(), json(map));
        assert_eq!(written(TypeKind::Undeclared, map).unwrap(), json(map));
        assert_eq!(written(TypeKind::Any, map).unwrap(), hcl("{ a = 1 }"));
        assert_eq!(written(TypeKind::Complex, map).unwrap(), hcl("{ a = 1 }"));
        assert_eq!(written(TypeKind::Complex, "[1.10]").unwrap(), json("[1.10]"));
        for text in [
            "a-b",
            "555-1234",
            "no hcl at all",
            "file(\"x\")",
            "012345678901",
            "1.10",
            "true",
            "null",
            "[1]",
        ] {
            let text = serde_json::to_string(text).unwrap();
            assert_eq!(written(TypeKind::Any, &text).unwrap(), json(&text));
        }
        for text in ["hunter2", "a, b", "[1]\nb = 2", "[1])\nb = (2", "", "file(\"x\")", "[var.a]"]
        {
            let text = serde_json::to_string(text).unwrap();
            let error = written(TypeKind::Complex, &text).unwrap_err();
            assert!(matches!(error, VariableError::Hcl { .. }), "{text}");
            assert!(!butler_base::error::chain(&error).contains("hunter2"));
        }
    }

    #[test]
    fn apply_gets_ephemeral_variables_if_it_accepts_them() {
        let base = tempfile::tempdir().unwrap();
        let mut module = Module::default();
        let ephemeral = VariableDeclaration { ephemeral: true, ..VariableDeclaration::default() };
        module.variables.insert("token".to_owned(), ephemeral);
        let inputs = Inputs {
            variables: vec![
                ("token".to_owned(), "1".into(), true),
                ("other".to_owned(), "2".into(), false),
            ],
            ..Inputs::default()
        };
        for (version, expected) in [("1.9.8", 0), ("1.10.0-rc1", 1), ("1.10.0", 1), ("2.0.0", 1)] {
            let private = PrivateDirectory::create(base.path(), "run-").unwrap();
            let version = version.parse().unwrap();
            let files = write_variable_files(&inputs, &module, &version, &private).unwrap();
            assert_eq!(files.apply.len(), expected, "{version}");
            for path in files.apply {
                let text = std::fs::read_to_string(path).unwrap();
                assert_eq!(text, "{\n\"token\":\n1\n}\n");
            }
        }
    }
}
