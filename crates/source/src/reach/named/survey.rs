//! Goes through the files of a module, and collects what they read.

use hcl_edit::expr::Expression;
use hcl_edit::repr::Span as _;
use hcl_edit::structure::{Block, Body, Structure};

use super::evaluate::{Scope, Values};
use super::json;
use super::path_text::{NotUnderstood, Part, PathText};
use super::reference::{Cause, Findings, Reference, Role, Start};

/// Arguments of resources, data sources and provisioners that are always paths.
const PATHS: [&str; 5] = ["source", "source_dir", "source_directory", "source_file", "source_path"];

/// Resources that write their `filename`. As data sources they read it.
const FILES: [&str; 2] = ["local_file", "local_sensitive_file"];

/// Resources and data sources that run a program for a plan.
const PROGRAMS: [&str; 4] =
    ["external", "shell_script", "shell_sensitive_script", "shell_script_resource"];

/// The ending of files in JSON.
const JSON: &str = ".json";

/// What a block is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Module,
    /// A resource or a data source.
    Resource {
        writes_file: bool,
        reads_file: bool,
    },
    /// Runs while changes are applied.
    Program,
    Locals,
    Other,
}

/// What the files of a directory read, by their names and texts. All of them are one module.
pub(in crate::reach) fn survey_files(files: &[(String, String)], is_terragrunt: bool) -> Findings {
    let mut findings = Findings::default();
    let mut bodies = Vec::new();
    let is_relevant = is_terragrunt || files.iter().any(|(_, text)| can_name_path(text));
    for (name, text) in files {
        // Parsing is slow. The others can have locals that these use.
        if !is_relevant || !(is_terragrunt || can_name_path(text) || text.contains("locals")) {
            continue;
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let body = if name.ends_with(JSON) {
            json::body(text)
        } else {
            hcl_edit::parser::parse_body(text).ok()
        };
        if let Some(body) = body {
            bodies.push((name, text, body));
        } else {
            let what = "the file cannot be parsed".to_owned();
            let cause = Cause { file: name.clone(), line: None, what };
            findings.unknown.get_or_insert(cause);
        }
    }
    let mut values = Values::new(is_terragrunt);
    for body in bodies.iter().map(|(_, _, body)| body) {
        for local in body.get_blocks("locals").flat_map(|block| block.body.attributes()) {
            let known = values.locals.entry(local.key.as_str());
            known.and_modify(|known| *known = None).or_insert(Some(&local.value));
        }
    }
    for (name, text, body) in &bodies {
        let mut survey = Survey::new(name, (!name.ends_with(JSON)).then_some(text), &values);
        survey.body(body, Place::Other);
        findings.extend(survey.findings);
    }
    findings.sort();
    findings
}

/// What a template that a module renders reads itself.
pub(in crate::reach) fn survey_file(name: &str, text: &str) -> Findings {
    let values = Values::default();
    let mut survey = Survey::new(name, Some(text), &values);
    if text.contains("file") || text.contains("template") {
        match hcl_edit::parser::parse_template(text) {
            Ok(template) => survey.template(&template),
            Err(_) => survey.flag(None, "the template cannot be parsed".to_owned()),
        }
    }
    survey.findings
}

/// What values for variables name: texts, and variable files by their names and texts.
pub(in crate::reach) fn survey_values<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    files: &[(String, String)],
) -> Findings {
    let values = Values::default();
    let mut survey = Survey::new("", None, &values);
    for text in texts {
        survey.value(&Expression::from(text));
    }
    let mut findings = survey.findings;
    for (name, text) in files.iter().filter(|(_, text)| can_name_path(text)) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut survey = Survey::new(name, None, &values);
        if name.ends_with(JSON) {
            match json::values(text) {
                Some(values) => values.iter().for_each(|value| survey.value(value)),
                None => survey.flag(None, "the file cannot be parsed".to_owned()),
            }
        } else {
            match hcl_edit::parser::parse_body(text) {
                Ok(body) => survey.body(&body, Place::Other),
                Err(_) => survey.flag(None, "the file cannot be parsed".to_owned()),
            }
        }
        findings.extend(survey.findings);
    }
    findings.sort();
    findings
}

/// Whether a file can have anything that matters here.
fn can_name_path(text: &str) -> bool {
    // With an escape, a text can be anything.
    [
        "..",
        "./",
        "path.",
        "file",
        "template",
        "source",
        "external",
        "provisioner",
        "provider::",
        "shell_",
        "\\",
    ]
    .iter()
    .any(|part| text.contains(part))
}

/// Whether a value is an attribute of a resource or a data source. What it was made from is in their arguments.
fn is_of_provider(value: &Expression) -> bool {
    let Expression::Traversal(traversal) = value else { return false };
    let Expression::Variable(root) = &traversal.expr else { return false };
    !matches!(root.as_str(), "var" | "local" | "each" | "module" | "self")
}

pub(super) struct Survey<'a> {
    file: &'a str,
    /// The text, if positions in it are known.
    text: Option<&'a str>,
    pub(super) values: &'a Values<'a>,
    pub(super) scope: Scope,
    /// Whether a path that is not known does not matter here.
    is_lenient: bool,
    findings: Findings,
}

impl<'a> Survey<'a> {
    pub(super) fn new(file: &'a str, text: Option<&'a str>, values: &'a Values<'a>) -> Self {
        let (scope, findings) = Default::default();
        Self { file, text, values, scope, is_lenient: false, findings }
    }

    pub(super) fn flag(&mut self, at: Option<usize>, what: String) {
        if !self.is_lenient {
            let cause = self.cause(at, what);
            self.findings.unknown.get_or_insert(cause);
        }
    }

    fn cause(&self, at: Option<usize>, what: String) -> Cause {
        let line = at.and_then(|at| Some(self.text?.get(..at)?.matches('\n').count() + 1));
        Cause { file: self.file.to_owned(), line, what }
    }

    pub(super) fn name(&mut self, start: Start, path: &str, role: Role) {
        self.findings.references.push(Reference { start, path: path.to_owned(), role });
    }

    fn body(&mut self, body: &Body, place: Place) {
        for structure in body {
            match structure {
                Structure::Attribute(attribute) => {
                    self.attribute(place, attribute.key.as_str(), &attribute.value);
                }
                Structure::Block(block) => self.block(block, place),
            }
        }
    }

    fn block(&mut self, block: &Block, outer: Place) {
        let label = block.labels.first().map(hcl_edit::structure::BlockLabel::as_str);
        let at = block.span().map(|span| span.start);
        let mut each = None;
        let place = match (block.ident.as_str(), label) {
            ("module", _) => Place::Module,
            ("terraform", _) if self.values.is_terragrunt => Place::Module,
            ("locals", _) => Place::Locals,
            (ident @ ("resource" | "data" | "ephemeral"), Some(kind)) => {
                if PROGRAMS.contains(&kind) {
                    self.flag(at, format!("the program of `{kind}` can read any file"));
                }
                let is_file = FILES.contains(&kind);
                let is_resource = ident == "resource";
                Place::Resource {
                    writes_file: is_file && is_resource,
                    reads_file: is_file && !is_resource,
                }
            }
            ("provisioner", Some("local-exec")) => {
                let cause =
                    self.cause(at, "the program of `local-exec` can read any file".to_owned());
                self.findings.program.get_or_insert(cause);
                Place::Program
            }
            ("provisioner", Some("file")) => {
                Place::Resource { writes_file: false, reads_file: false }
            }
            ("key_provider" | "method", Some(kind @ "external")) => {
                self.flag(at, format!("the program of `{kind}` can read any file"));
                Place::Other
            }
            ("before_hook" | "after_hook" | "error_hook", _) if self.values.is_terragrunt => {
                self.flag(at, "the program of a hook can read any file".to_owned());
                Place::Other
            }
            // Blocks in a resource are its arguments.
            _ => outer,
        };
        if let Some(collection) = block.body.get_attribute("for_each")
            && matches!(block.ident.as_str(), "resource" | "data" | "ephemeral" | "module")
        {
            each = Some(self.values.elements(&collection.value, &Scope::default()));
        }
        let scope =
            each.map(|each| std::mem::replace(&mut self.scope, Scope::of_block(Some(each))));
        let was_lenient = self.is_lenient;
        self.is_lenient |= place == Place::Program;
        self.body(&block.body, place);
        self.is_lenient = was_lenient;
        if let Some(scope) = scope {
            self.scope = scope;
        }
    }

    fn attribute(&mut self, place: Place, name: &str, value: &Expression) {
        let at = value.span().map(|span| span.start);
        match place {
            Place::Module if name == "source" => self.module_source(value),
            Place::Resource { reads_file, .. }
                if PATHS.contains(&name) || (reads_file && name == "filename") =>
            {
                let texts = self.values.texts(value, &self.scope);
                let is_known = |text: &PathText| text.resolve(&Start::Root, false).is_ok();
                if !texts.iter().all(is_known) && !is_of_provider(value) {
                    self.flag(at, format!("`{name}` is a path that is computed"));
                }
                // The paths of archives and objects need not begin with a dot.
                self.name_texts(&texts, false, Role::Read);
                self.inner(value);
            }
            Place::Resource { writes_file, .. }
                if name == "output_path" || (writes_file && name == "filename") =>
            {
                let was_lenient = std::mem::replace(&mut self.is_lenient, true);
                self.value(value);
                self.is_lenient = was_lenient;
            }
            // What is made from it is looked at where it is used.
            Place::Locals if self.is_only_directory(value) => {}
            _ => self.value(value),
        }
    }

    fn is_only_directory(&self, value: &Expression) -> bool {
        let is_directory = |text: &PathText| {
            let found = text.resolve(&Start::Root, false);
            let is_up = |path: &str| path.split('/').all(|part| matches!(part, "" | "." | ".."));
            matches!(found, Ok(Some((_, path))) if is_up(&path))
        };
        self.values.texts(value, &self.scope).iter().all(is_directory)
    }

    /// A local module begins with `./` or `../`. Everything else that is literal is elsewhere.
    fn module_source(&mut self, value: &Expression) {
        let at = value.span().map(|span| span.start);
        for text in self.values.texts(value, &self.scope) {
            let is_elsewhere = match text.0.first() {
                Some(Part::Text(text)) => !text.starts_with("./") && !text.starts_with("../"),
                None => true,
                Some(_) => false,
            };
            // Terragrunt also takes a path without a dot, in the directory of the unit.
            let is_elsewhere =
                is_elsewhere && !(self.values.is_terragrunt && text.looks_like_path());
            if is_elsewhere {
                continue;
            }
            match text.resolve(&Start::Module, false) {
                Ok(Some((start, path))) if !text.0.contains(&Part::Name) => {
                    if self.values.is_terragrunt && start == Start::Module {
                        self.name(Start::Root, &path, Role::Module);
                    }
                    self.name(start, &path, Role::Module);
                }
                Ok(None) => {}
                Ok(Some(_)) | Err(NotUnderstood) => {
                    self.flag(at, "`source` of a module is a path that is computed".to_owned());
                }
            }
        }
        self.inner(value);
    }
}
