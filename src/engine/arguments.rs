//! The arguments of each command, as data.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret;
use semver::Version;

use butler_protocol::spec::{
    Assignment, Operation, PlanningOptions, Product, Refresh, ToolRequest, core,
};

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlanMode {
    /// Changes the infrastructure to match the configuration.
    Normal,
    /// Destroys everything.
    Destroy,
    /// Changes the state to match the infrastructure.
    RefreshOnly,
}

/// The oldest version that supports `operation`; none if all versions do.
///
/// Terraform has `test` since 1.6 and `plan -refresh-only` since 0.15.4; `OpenTofu` has both in all versions.
#[must_use]
pub const fn required_version(operation: Operation) -> Option<Version> {
    match operation {
        Operation::Test => Some(Version::new(1, 6, 0)),
        Operation::Refresh | Operation::DriftCheck => Some(Version::new(0, 15, 4)),
        Operation::Plan | Operation::Apply | Operation::Destroy | Operation::Validate => None,
    }
}

/// The first option of `options` that `tool` does not have, with the product and version that have it.
#[must_use]
pub fn missing_option(
    options: &PlanningOptions,
    tool: &ToolRequest,
) -> Option<(&'static str, ToolRequest)> {
    let tofu = |minor| (Product::OpenTofu, Version::new(1, minor, 0));
    let given = [
        (!options.exclusions.is_empty(), "--exclude", tofu(9)),
        (!options.target_files.is_empty(), "--target-file", tofu(10)),
        (!options.exclusion_files.is_empty(), "--exclude-file", tofu(10)),
        (options.invocation.is_some(), "--invoke", (Product::Terraform, Version::new(1, 14, 0))),
    ];
    let missing = |(is_given, option, (product, version)): (bool, _, (Product, Version))| {
        let has_it = tool.product == product && core(&tool.version) >= version;
        (is_given && !has_it).then_some((option, ToolRequest { product, version }))
    };
    given.into_iter().find_map(missing)
}

/// Whether `test` can write a `JUnit` file: Terraform from 1.11 on.
pub(super) fn writes_junit(tool: &ToolRequest) -> bool {
    tool.product == Product::Terraform && (tool.version.major, tool.version.minor) >= (1, 11)
}

/// `init`, with the backend's settings from a file, or without any backend.
pub(super) fn init(
    backend: Option<&Path>,
    without_backend: bool,
    lock_timeout: Duration,
) -> Vec<OsString> {
    let mut arguments = words(&["init", "-input=false", "-no-color"]);
    if without_backend {
        arguments.push("-backend=false".into());
        return arguments;
    }
    arguments.extend(lock_timeout_option(lock_timeout));
    if let Some(file) = backend {
        // A working directory that was initialised for another backend must not ask questions.
        arguments.push("-reconfigure".into());
        arguments.push(option("-backend-config=", file));
    }
    arguments
}

/// The input of `plan`.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'run> {
    /// Its purpose.
    pub mode: PlanMode,
    /// All variables. A later assignment overrides an earlier one.
    pub variables: &'run [Assignment],
    /// Further options; their assignments are ignored.
    pub options: &'run PlanningOptions,
}

/// `plan` into a file.
pub(super) fn plan(request: &PlanRequest<'_>, out: &Path, lock_timeout: Duration) -> Vec<OsString> {
    let PlanRequest { mode, variables, options } = *request;
    let mut arguments = words(&["plan", "-input=false", "-no-color"]);
    arguments.extend(lock_timeout_option(lock_timeout));
    match mode {
        PlanMode::Normal => {}
        PlanMode::Destroy => arguments.push("-destroy".into()),
        PlanMode::RefreshOnly => arguments.push("-refresh-only".into()),
    }
    if options.refresh == Refresh::Skip {
        arguments.push("-refresh=false".into());
    }
    let named = |flag: &'static str| move |address: &String| format!("{flag}={address}").into();
    let file = |flag: &'static str| move |path: &PathBuf| option(flag, path);
    arguments.extend(options.targets.iter().map(named("-target")));
    arguments.extend(options.target_files.iter().map(file("-target-file=")));
    arguments.extend(options.exclusions.iter().map(named("-exclude")));
    arguments.extend(options.exclusion_files.iter().map(file("-exclude-file=")));
    arguments.extend(options.invocation.iter().map(named("-invoke")));
    arguments.extend(options.replacements.iter().map(named("-replace")));
    arguments.extend(parallelism(options));
    arguments.extend(variable_options(variables));
    arguments.push(option("-out=", out));
    arguments
}

/// The input of `apply`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApplyRequest<'run> {
    /// The variables that are not in the plan.
    pub(super) variables: &'run [Assignment],
    /// Further options.
    pub(super) options: &'run PlanningOptions,
    /// Whether the plan removes resources from the state that it does not destroy.
    pub(super) forgets: bool,
}

/// Whether `apply` ends with an error after a destroy that has only removed a resource from the state, unless an option
/// prevents this: `OpenTofu` from 1.12 on.
fn fails_if_it_forgets(tool: &ToolRequest) -> bool {
    tool.product == Product::OpenTofu && (tool.version.major, tool.version.minor) >= (1, 12)
}

/// `apply` of exactly one saved plan.
pub(super) fn apply(
    request: &ApplyRequest<'_>,
    tool: &ToolRequest,
    plan: &Path,
    lock_timeout: Duration,
) -> Vec<OsString> {
    let ApplyRequest { variables, options, forgets } = *request;
    let mut arguments = words(&["apply", "-input=false", "-no-color"]);
    arguments.extend(lock_timeout_option(lock_timeout));
    if forgets && fails_if_it_forgets(tool) {
        arguments.push("-suppress-forget-errors".into());
    }
    arguments.extend(parallelism(options));
    arguments.extend(variable_options(variables));
    arguments.push(plan.into());
    arguments
}

/// `show -json` of a saved plan, or of the state.
pub(super) fn show(plan: Option<&Path>) -> Vec<OsString> {
    let mut arguments = words(&["show", "-json", "-no-color"]);
    arguments.extend(plan.map(OsString::from));
    arguments
}

/// `show` of a saved plan as text.
pub(super) fn show_text(plan: &Path) -> Vec<OsString> {
    let mut arguments = words(&["show", "-no-color"]);
    arguments.push(plan.into());
    arguments
}

/// `output -json`.
pub(super) fn output() -> Vec<OsString> {
    words(&["output", "-json", "-no-color"])
}

/// `validate -json`.
pub(super) fn validate() -> Vec<OsString> {
    words(&["validate", "-json", "-no-color"])
}

/// `test`: as text with a `JUnit` file, or as JSON lines without one.
pub(super) fn test(variables: &[Assignment], junit: Option<&Path>) -> Vec<OsString> {
    let mut arguments = words(&["test", "-no-color"]);
    match junit {
        Some(file) => arguments.push(option("-junit-xml=", file)),
        None => arguments.push("-json".into()),
    }
    arguments.extend(variable_options(variables));
    arguments
}

/// `workspace list`.
pub(super) fn workspaces() -> Vec<OsString> {
    words(&["workspace", "list"])
}

/// `state pull`.
pub(super) fn pull_state() -> Vec<OsString> {
    words(&["state", "pull"])
}

/// `state push` of a file. Does not lock the state if it is `locked` already.
pub(super) fn push_state(file: &Path, locked: bool, lock_timeout: Duration) -> Vec<OsString> {
    let mut arguments = words(&["state", "push", "-no-color"]);
    if locked {
        arguments.push("-lock=false".into());
    } else {
        arguments.extend(lock_timeout_option(lock_timeout));
    }
    arguments.push(file.into());
    arguments
}

/// A command that takes the lock, changes nothing and releases the lock.
pub(super) fn query_lock() -> Vec<OsString> {
    words(&["state", "rm", "-dry-run", "-no-color", "-lock-timeout=0s", "terraform_data.nothing"])
}

/// `force-unlock`, without a question.
pub(super) fn force_unlock(id: &str) -> Vec<OsString> {
    words(&["force-unlock", "-force", "-no-color", id])
}

/// The number of words of a command other than `plan`, `apply`, `refresh` and `test` that takes variables in this version
/// of the tool. It evaluates them in backends, sources of modules and encryption: that of `OpenTofu` since 1.8, and of
/// Terraform since 1.15 (`const`), where not all commands take them. `None` if it takes none.
fn takes_variables(tool: &ToolRequest, arguments: &[OsString]) -> Option<usize> {
    let (major, minor) = (tool.version.major, tool.version.minor);
    let is_new = (major, minor)
        >= match tool.product {
            Product::OpenTofu => (1, 8),
            Product::Terraform => (1, 15),
            Product::Terragrunt => return None,
        };
    let word = |index: usize| arguments.get(index).and_then(|it| it.to_str());
    let count = match (word(0)?, word(1)) {
        ("init" | "show" | "validate", _) => 1,
        ("state", Some("pull" | "push" | "rm")) => 2,
        ("output" | "force-unlock", _) if tool.product == Product::OpenTofu => 1,
        ("workspace", Some(_)) if tool.product == Product::OpenTofu => 2,
        _ => return None,
    };
    is_new.then_some(count)
}

/// The arguments of a command with the variables of the run, if the command takes them.
pub(super) fn early_variables(
    mut arguments: Vec<OsString>,
    tool: &ToolRequest,
    variables: &[Assignment],
) -> Vec<OsString> {
    if let Some(count) = takes_variables(tool, &arguments) {
        arguments.splice(count..count, variable_options(variables));
    }
    arguments
}

/// Variables and variable files in their order: a later one overrides an earlier one.
fn variable_options(variables: &[Assignment]) -> impl Iterator<Item = OsString> {
    variables.iter().map(|assignment| match assignment {
        Assignment::File(file) => option("-var-file=", file),
        // The user has already written the value on a command line.
        Assignment::Value { name, value } => {
            format!("-var={name}={}", value.expose_secret()).into()
        }
    })
}

/// The limit of concurrent operations; none for the tool's own default.
fn parallelism(options: &PlanningOptions) -> Option<OsString> {
    options.parallelism.map(|number| format!("-parallelism={number}").into())
}

/// How long to wait for a state lock; none for the tool's own default.
fn lock_timeout_option(lock_timeout: Duration) -> Option<OsString> {
    (!lock_timeout.is_zero())
        .then(|| format!("-lock-timeout={}ms", lock_timeout.as_millis()).into())
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Duration = Duration::ZERO;

    #[test]
    fn variables_are_given_to_the_commands_that_take_them() {
        let variables = [
            Assignment::Value { name: "e".to_owned(), value: "prod".into() },
            Assignment::File("/p/a".into()),
        ];
        for (tool, command, expected) in [
            (
                "opentofu-1.8.0",
                init(None, false, NO),
                "init -var=e=prod -var-file=/p/a -input=false -no-color",
            ),
            ("opentofu-1.8.0", output(), "output -var=e=prod -var-file=/p/a -json -no-color"),
            ("opentofu-1.12.6", pull_state(), "state pull -var=e=prod -var-file=/p/a"),
            ("opentofu-1.12.6", workspaces(), "workspace list -var=e=prod -var-file=/p/a"),
            (
                "opentofu-1.12.6",
                force_unlock("7"),
                "force-unlock -var=e=prod -var-file=/p/a -force -no-color 7",
            ),
            ("1.15.0", show(None), "show -var=e=prod -var-file=/p/a -json -no-color"),
            ("1.15.0", output(), "output -json -no-color"),
            ("1.15.0", workspaces(), "workspace list"),
            ("1.14.9", show(None), "show -json -no-color"),
            ("opentofu-1.7.9", show(None), "show -json -no-color"),
            ("opentofu-1.8.0", test(&[], None), "test -no-color -json"),
        ] {
            let given = early_variables(command, &tool.parse().unwrap(), &variables);
            let given: Vec<_> = given.iter().map(|it| it.to_str().unwrap()).collect();
            assert_eq!(given.join(" "), expected, "{tool}");
        }
    }
    const WAIT: Duration = Duration::from_millis(90_500);

    #[test]
    fn option_that_a_tool_does_not_have_is_found() {
        let none = PlanningOptions::default();
        let excluding = PlanningOptions { exclusions: vec!["a.b".to_owned()], ..none.clone() };
        let by_file = PlanningOptions { target_files: vec!["/t".into()], ..none.clone() };
        let by_other_file = PlanningOptions { exclusion_files: vec!["/t".into()], ..none.clone() };
        let invoking =
            PlanningOptions { invocation: Some("action.a.b".to_owned()), ..none.clone() };
        for (options, tool, expected) in [
            (&none, "0.13.7", None),
            (&excluding, "1.15.0", Some("--exclude needs opentofu 1.9.0")),
            (&excluding, "opentofu-1.8.11", Some("--exclude needs opentofu 1.9.0")),
            (&excluding, "opentofu-1.9.0-beta1", None),
            (&by_file, "opentofu-1.9.4", Some("--target-file needs opentofu 1.10.0")),
            (&by_other_file, "opentofu-1.9.4", Some("--exclude-file needs opentofu 1.10.0")),
            (&by_other_file, "opentofu-1.10.0", None),
            (&invoking, "1.13.5", Some("--invoke needs terraform 1.14.0")),
            (&invoking, "opentofu-1.12.6", Some("--invoke needs terraform 1.14.0")),
            (&invoking, "1.14.0", None),
        ] {
            let found = missing_option(options, &tool.parse().unwrap());
            let found = found.map(|(option, tool)| format!("{option} needs {tool}"));
            assert_eq!(found.as_deref(), expected, "{tool}");
        }
    }

    #[test]
    fn every_command_has_exactly_these_arguments() {
        let files = [Assignment::File(PathBuf::from("/p/a b.tfvars.json"))];
        let mixed = [Assignment::parse("x=a b=c").unwrap(), files[0].clone()];
        let plan_file = Path::new("/p/plan");
        let none = PlanningOptions::default();
        let all = PlanningOptions {
            assignments: Vec::new(),
            targets: vec!["module.a".to_owned(), "b[\"c d\"]".to_owned()],
            target_files: vec!["/t".into()],
            exclusions: vec!["g.h".to_owned()],
            exclusion_files: vec!["/x".into()],
            invocation: Some("action.a.b".to_owned()),
            replacements: vec!["e.f".to_owned()],
            refresh: Refresh::Skip,
            parallelism: std::num::NonZeroU16::new(3),
        };
        let plan = |mode, variables, options, wait| {
            super::plan(&PlanRequest { mode, variables, options }, plan_file, wait)
        };
        let apply = |variables, options, wait| {
            let request = ApplyRequest { variables, options, forgets: false };
            super::apply(&request, &"1.11.4".parse().unwrap(), plan_file, wait)
        };
        let forgetting = |tool: &str| {
            let request = ApplyRequest { variables: &[], options: &none, forgets: true };
            super::apply(&request, &tool.parse().unwrap(), plan_file, NO)
        };
        let line = |arguments: Vec<OsString>| {
            arguments
                .into_iter()
                .map(|argument| argument.into_string().unwrap())
                .collect::<Vec<_>>()
                .join("|")
        };
        let cases = [
            (init(None, false, NO), "init|-input=false|-no-color"),
            (init(None, true, WAIT), "init|-input=false|-no-color|-backend=false"),
            (
                init(Some(Path::new("/p/b")), false, WAIT),
                "init|-input=false|-no-color|-lock-timeout=90500ms|-reconfigure|-backend-config=/p/b",
            ),
            (
                plan(PlanMode::Normal, &files, &none, NO),
                "plan|-input=false|-no-color|-var-file=/p/a b.tfvars.json|-out=/p/plan",
            ),
            (
                plan(PlanMode::Destroy, &[], &none, NO),
                "plan|-input=false|-no-color|-destroy|-out=/p/plan",
            ),
            (
                plan(PlanMode::RefreshOnly, &[], &none, WAIT),
                "plan|-input=false|-no-color|-lock-timeout=90500ms|-refresh-only|-out=/p/plan",
            ),
            (
                plan(PlanMode::Normal, &mixed, &all, NO),
                "plan|-input=false|-no-color|-refresh=false|-target=module.a|-target=b[\"c d\"]|-target-file=/t|-exclude=g.h|-exclude-file=/x|-invoke=action.a.b|-replace=e.f|-parallelism=3|-var=x=a b=c|-var-file=/p/a b.tfvars.json|-out=/p/plan",
            ),
            (apply(&[], &all, NO), "apply|-input=false|-no-color|-parallelism=3|/p/plan"),
            (apply(&[], &none, NO), "apply|-input=false|-no-color|/p/plan"),
            (apply(&[], &none, WAIT), "apply|-input=false|-no-color|-lock-timeout=90500ms|/p/plan"),
            (forgetting("1.15.0"), "apply|-input=false|-no-color|/p/plan"),
            (forgetting("opentofu-1.11.14"), "apply|-input=false|-no-color|/p/plan"),
            (
                forgetting("opentofu-1.12.0"),
                "apply|-input=false|-no-color|-suppress-forget-errors|/p/plan",
            ),
            (push_state(plan_file, false, NO), "state|push|-no-color|/p/plan"),
            (
                push_state(plan_file, false, WAIT),
                "state|push|-no-color|-lock-timeout=90500ms|/p/plan",
            ),
            (push_state(plan_file, true, WAIT), "state|push|-no-color|-lock=false|/p/plan"),
            (query_lock(), "state|rm|-dry-run|-no-color|-lock-timeout=0s|terraform_data.nothing"),
            (force_unlock("1-2"), "force-unlock|-force|-no-color|1-2"),
            (show(Some(plan_file)), "show|-json|-no-color|/p/plan"),
            (show(None), "show|-json|-no-color"),
            (show_text(plan_file), "show|-no-color|/p/plan"),
            (output(), "output|-json|-no-color"),
            (workspaces(), "workspace|list"),
            (validate(), "validate|-json|-no-color"),
            (test(&[], Some(Path::new("/p/j"))), "test|-no-color|-junit-xml=/p/j"),
            (test(&[], None), "test|-no-color|-json"),
        ];
        for (arguments, expected) in cases {
            assert_eq!(line(arguments), expected);
        }
    }
}
