//! Function calls: which ones read files, and which ones make a path that is not known before the plan.

use hcl_edit::expr::{Expression, FuncCall};
use hcl_edit::repr::Span as _;

use super::path_text::{NotUnderstood, PathText};
use super::reference::{Role, Start};
use super::survey::Survey;
use super::terragrunt;

/// Functions whose first argument is the path of a file that they read.
const READERS: [&str; 9] = [
    "file",
    "filebase64",
    "filebase64sha256",
    "filebase64sha512",
    "fileexists",
    "filemd5",
    "filesha1",
    "filesha256",
    "filesha512",
];

/// Functions that return their arguments, or a collection of them.
const PASSING: [&str; 19] = [
    "abspath",
    "coalesce",
    "concat",
    "distinct",
    "flatten",
    "lookup",
    "merge",
    "nonsensitive",
    "one",
    "pathexpand",
    "sensitive",
    "setunion",
    "sort",
    "tolist",
    "tomap",
    "toset",
    "tostring",
    "try",
    "zipmap",
];

/// Functions that return something else than a path.
const MEASURING: [&str; 13] = [
    "base64encode",
    "basename",
    "can",
    "contains",
    "endswith",
    "jsonencode",
    "length",
    "md5",
    "sha1",
    "sha256",
    "sha512",
    "startswith",
    "yamlencode",
];

impl Survey<'_> {
    pub(super) fn call(&mut self, call: &FuncCall) {
        let name = call.name.name.as_str();
        let at = call.span().map(|span| span.start);
        let of_provider = call.name.namespace.first().is_some_and(|it| it.as_str() == "provider");
        let reads = READERS.contains(&name)
            || matches!(name, "templatefile" | "fileset")
            || (self.values.is_terragrunt && terragrunt::READERS.contains(&name));
        if !of_provider && reads {
            self.read(name, call, at);
        } else if name == "templatestring" && !of_provider {
            self.flag(at, "`templatestring` renders a template that is computed".to_owned());
            call.args.iter().for_each(|argument| self.value(argument));
        } else if name == terragrunt::PROGRAM && self.values.is_terragrunt {
            self.flag(at, format!("the program of `{name}` can read any file"));
        } else if of_provider {
            let is_about_files = ["file", "dir", "path"].iter().any(|part| name.contains(part));
            for argument in &call.args {
                let texts = self.values.texts(argument, &self.scope);
                let is_known = texts.iter().all(|it| it.resolve(&Start::Root, true).is_ok());
                if is_about_files && !is_known {
                    self.flag(at, format!("the function `{name}` reads a path that is computed"));
                }
                self.name_texts(&texts, false, Role::Read);
                self.inner(argument);
            }
        } else if PASSING.contains(&name)
            || MEASURING.contains(&name)
            || self.is_path_of_terragrunt(call)
        {
            call.args.iter().for_each(|argument| self.value(argument));
        } else {
            if call.args.iter().any(|argument| self.has_path(argument)) {
                self.flag(at, format!("`{name}` makes a text from a path"));
            }
            call.args.iter().for_each(|argument| self.inner(argument));
        }
    }

    fn is_path_of_terragrunt(&self, call: &FuncCall) -> bool {
        self.values.is_terragrunt
            && terragrunt::texts(call.name.name.as_str(), call, false).is_some()
    }

    /// Whether a path, or a part of one, is in an argument.
    fn has_path(&self, argument: &Expression) -> bool {
        match argument {
            Expression::Array(values) => values.iter().any(|value| self.has_path(value)),
            Expression::Object(members) => {
                members.iter().any(|(_, member)| self.has_path(member.expr()))
            }
            Expression::Parenthesis(inner) => self.has_path(inner.inner()),
            Expression::FuncCall(call) if PASSING.contains(&call.name.name.as_str()) => {
                call.args.iter().any(|argument| self.has_path(argument))
            }
            argument => {
                let elements = self.values.elements(argument, &self.scope);
                let mut texts = self.values.texts(argument, &self.scope);
                texts.extend(elements.into_texts());
                texts.iter().any(PathText::looks_like_path)
            }
        }
    }

    /// A function that reads files.
    fn read(&mut self, name: &str, call: &FuncCall, at: Option<usize>) {
        let argument = |index| call.args.get(index).map(|it| self.values.texts(it, &self.scope));
        let is_glob = name == "fileset";
        let mut paths = argument(0).unwrap_or_else(|| vec![PathText::unknown()]);
        if is_glob {
            let patterns = argument(1).unwrap_or_else(|| vec![PathText::unknown()]);
            let mut both = Vec::new();
            for directory in &paths {
                for pattern in &patterns {
                    let mut path = directory.clone();
                    if path.literal().as_deref() != Some("") {
                        path.push(PathText::text("/"));
                    }
                    path.push(pattern.clone());
                    both.push(path);
                }
            }
            paths = both;
        }
        let role = if name == "templatefile" { Role::Template } else { Role::Read };
        for path in paths {
            match path.resolve(&Start::Root, is_glob) {
                Ok(Some((start, path))) => self.name(start, &path, role),
                Ok(None) => {}
                Err(NotUnderstood) => {
                    self.flag(at, format!("`{name}` reads a path that is computed"));
                }
            }
        }
        if call.args.expand_final() {
            self.flag(at, format!("`{name}` reads a path that is computed"));
        }
        let read = if is_glob { 2 } else { 1 };
        for (index, argument) in call.args.iter().enumerate() {
            if index < read { self.inner(argument) } else { self.value(argument) }
        }
    }
}
