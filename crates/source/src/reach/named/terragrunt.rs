//! The functions of Terragrunt that give paths.

use hcl_edit::expr::{Expression, FuncCall};

use super::path_text::{Part, PathText};
use super::reference::Start;

/// Functions whose first argument is the path of a file that they read.
pub(super) const READERS: [&str; 3] =
    ["read_terragrunt_config", "read_tfvars_file", "sops_decrypt_file"];

/// The function that runs a program.
pub(super) const PROGRAM: &str = "run_cmd";

/// The texts that a call can be, if it is a function of Terragrunt. With an argument, some of them give other paths.
pub(super) fn texts(name: &str, call: &FuncCall, has_argument: bool) -> Option<Vec<PathText>> {
    let start = |start| Some(vec![PathText::directory(start)]);
    match name {
        "get_repo_root" | "get_path_to_repo_root" => start(Start::Repository),
        "get_terragrunt_dir" | "get_original_terragrunt_dir" | "get_working_dir" => {
            start(Start::Root)
        }
        "get_parent_terragrunt_dir" => start(Start::Parent(None)),
        "find_in_parent_folders" => Some(parent(call, true)),
        "dirname" => match call.args.get(0) {
            Some(Expression::FuncCall(inner))
                if inner.name.name.as_str() == "find_in_parent_folders" =>
            {
                Some(parent(inner, false))
            }
            _ => None,
        },
        "path_relative_to_include" | "get_path_from_repo_root" if !has_argument => {
            Some(vec![PathText::name()])
        }
        _ => None,
    }
}

/// The file that `find_in_parent_folders` finds, or the directory that it is in.
fn parent(call: &FuncCall, with_file: bool) -> Vec<PathText> {
    let file = match call.args.get(0) {
        None => None,
        Some(Expression::String(name)) => Some(name.to_string()),
        Some(_) => return vec![PathText::unknown()],
    };
    let mut found = PathText::directory(Start::Parent(file.clone()));
    if let (Some(file), true) = (file, with_file) {
        found.push(PathText(vec![Part::Text(format!("/{file}"))]));
    }
    vec![found]
}
