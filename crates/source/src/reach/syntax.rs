//! Which files Terraform reads.

/// How a file of a module is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Syntax {
    /// Terraform's own language.
    Hcl,
    /// JSON.
    Json,
}

/// The names of files that Terraform and `OpenTofu` read end like this.
const ENDINGS: [(&str, Syntax); 4] = [
    (".tf", Syntax::Hcl),
    (".tofu", Syntax::Hcl),
    (".tf.json", Syntax::Json),
    (".tofu.json", Syntax::Json),
];

/// The file that makes a directory a unit of Terragrunt.
pub const TERRAGRUNT: &str = "terragrunt.hcl";

/// The syntax of the file with this name, if Terraform or `OpenTofu` reads it.
#[must_use]
pub fn syntax(name: &str) -> Option<Syntax> {
    ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, syntax)| *syntax)
}

/// Whether the file replaces parts of other files of its module.
#[must_use]
pub fn is_override(name: &str) -> bool {
    let stem = ENDINGS.iter().find_map(|(ending, _)| name.strip_suffix(ending));
    stem.is_some_and(|stem| stem == "override" || stem.ends_with("_override"))
}
