//! The settings that flags and variables lead to.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use secrecy::ExposeSecret;

use super::*;
use crate::ci::System;
use crate::settings::setting::{
    CA_BUNDLE, CACHE_DIR, ENDPOINT, LOCAL, MODULE_DIR, OPERATION, PROVIDER_CACHE, RECOVERY_DIR,
    RUN_ID, TF_VERSION, TOKEN, TOKEN_FILE, VAR_FILE,
};
use crate::settings::{LogFormat, PlanStatus};
use butler_source::git::GitEnvironment;

const REGISTRY: [(&str, &str); 3] = [
    ("BUTLER_ENDPOINT", "https://portal.example.com/api/registry/"),
    ("BUTLER_RUN_ID", "run 7"),
    ("BUTLER_TOKEN", "brce_hunter2"),
];

fn environment(variables: &[(&str, &str)]) -> Environment {
    // A directory that does not exist, unless a test sets another one.
    let cache = ("BUTLER_CACHE_DIR", "/proc/nonexistent");
    let all = [&[cache], variables].concat();
    let all = all.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Environment::new(all, PathBuf::from("/butler-runner"))
}

fn resolve(arguments: &Arguments, variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    Settings::resolve(arguments, &environment(variables))
}

fn message(arguments: &Arguments, variables: &[(&str, &str)]) -> String {
    butler_base::error::chain(&resolve(arguments, variables).unwrap_err())
}

fn endpoint_of(settings: &Settings) -> &str {
    match &settings.source {
        RunSource::Registry { endpoint, .. } => endpoint.as_str(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn registry_run_needs_three_variables_and_has_documented_defaults() {
    let settings = resolve(&Arguments::default(), &REGISTRY).unwrap();
    let RunSource::Registry { endpoint, run_id, token } = &settings.source else {
        panic!("{settings:?}")
    };
    assert_eq!(endpoint.as_str(), "https://portal.example.com/api/registry");
    assert_eq!((run_id.as_str(), token.expose_secret()), ("run 7", "brce_hunter2"));
    assert_eq!(settings.log_interval, Duration::from_secs(2));
    assert_eq!(settings.cancel_interval, Duration::from_secs(30));
    assert_eq!(settings.grace_period, Duration::from_mins(1));
    assert_eq!(settings.plan_status, PlanStatus::Succeeded);
    assert_eq!(settings.work_dir, std::env::temp_dir());
    let text = Logging { format: LogFormat::Text, filter: "info".to_owned(), reader: System::None };
    assert_eq!(settings.logging, text);
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
}

#[test]
fn flag_wins_over_variable_and_earlier_variable_over_later() {
    let later = [REGISTRY[1], REGISTRY[2], ("BUTLER_URL", "https://later.example.com/a")];
    let settings = resolve(&Arguments::default(), &later).unwrap();
    assert_eq!(endpoint_of(&settings), "https://later.example.com/a");
    let both = [&REGISTRY[..], &later[2..]].concat();
    let settings = resolve(&Arguments::default(), &both).unwrap();
    assert_eq!(endpoint_of(&settings), "https://portal.example.com/api/registry");
    let flag = Arguments::default().with(&ENDPOINT, "https://flag.example.com/a");
    assert_eq!(endpoint_of(&resolve(&flag, &both).unwrap()), "https://flag.example.com/a");
}

#[test]
fn empty_variable_is_ignored_and_empty_flag_is_an_error() {
    let empty = [&REGISTRY[1..], &[("BUTLER_ENDPOINT", ""), ("BUTLER_URL", "http://a/b")]];
    let settings = resolve(&Arguments::default(), &empty.concat()).unwrap();
    assert_eq!(endpoint_of(&settings), "http://a/b");
    let flag = Arguments::default().with(&RUN_ID, "");
    assert_eq!(message(&flag, &REGISTRY), "the run id is empty (--run-id, BUTLER_RUN_ID)");
}

#[test]
fn missing_setting_is_named_by_flag_and_variable() {
    for (left_out, expected) in [
        (0, "no endpoint is given (--endpoint, BUTLER_ENDPOINT, BUTLER_URL)"),
        (1, "no run id is given (--run-id, BUTLER_RUN_ID)"),
        (2, "no token is given (--token, BUTLER_TOKEN)"),
    ] {
        let mut variables = REGISTRY.to_vec();
        variables.remove(left_out);
        assert_eq!(message(&Arguments::default(), &variables), expected);
    }
}

#[test]
fn unusable_setting_is_named_by_flag_and_variable() {
    let free = [&LOG, &CACHE_DIR, &REPORT_DIR, &SUMMARY, &REPORT, &RECOVERY_DIR, &PROVIDER_CACHE];
    let refusable = crate::settings::SETTINGS.iter().copied().filter(|it| !free.contains(it));
    for setting in refusable {
        // Not a URL, number, operation, version, file or token.
        let bad = "/proc/nonexistent/a b\n";
        let mut variables: Vec<_> = match setting.section {
            crate::settings::Section::Alone => vec![],
            _ => REGISTRY.into_iter().filter(|it| it.0 != "BUTLER_TOKEN").collect(),
        };
        if *setting != TOKEN_FILE {
            variables.push(REGISTRY[2]);
        }
        let mut arguments = Arguments::default();
        if [&MODULE_DIR, &OPERATION, &TF_VERSION, &VAR_FILE].contains(&setting) {
            variables.extend([("BUTLER_LOCAL", "true"), ("BUTLER_MODULE_DIR", "/")]);
            arguments.add(&OPERATION, "plan");
        }
        let variables: Vec<_> =
            variables.into_iter().filter(|it| !setting.variables.contains(&it.0)).collect();
        let with_variable = [&variables[..], &[(setting.variables[0], bad)]].concat();
        let by_variable = if *setting == OPERATION {
            message(&Arguments::default(), &with_variable)
        } else {
            message(&arguments, &with_variable)
        };
        assert!(by_variable.contains(&format!("({setting})")), "{setting}: {by_variable}");
        assert!(!by_variable.contains('\n'), "{by_variable:?}");
    }
}

#[test]
fn grace_period_depends_on_the_platform() {
    let kubernetes = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    for (extra, seconds) in [
        (vec![], [60, 10]),
        (vec![kubernetes], [20, 9]),
        (vec![("GITHUB_ACTIONS", "true")], [5, 4]),
        (vec![("GITHUB_ACTIONS", "false")], [60, 10]),
        (vec![kubernetes, ("GITHUB_ACTIONS", "true")], [5, 4]),
        (vec![("GITLAB_CI", "true")], [5, 4]),
        (vec![kubernetes, ("GITLAB_CI", "true")], [5, 4]),
        (vec![("JENKINS_URL", "https://jenkins.example.com/")], [5, 4]),
        (vec![kubernetes, ("BUTLER_GRACE_PERIOD", "90")], [90, 9]),
    ] {
        let variables = [&REGISTRY[..], &extra].concat();
        let settings = resolve(&Arguments::default(), &variables).unwrap();
        let times = [settings.grace_period, settings.report_period];
        assert_eq!(times, seconds.map(Duration::from_secs), "{extra:?}");
    }
}

#[test]
fn terraform_inherits_neither_the_token_nor_variables_of_the_runner() {
    let variables = [
        &REGISTRY[..],
        &[
            ("INPUT_CALLBACK_TOKEN", "brce_hunter2\n"),
            ("BUTLER_GIT_TOKEN", "a"),
            ("GITHUB_TOKEN", "b"),
            ("CI_JOB_TOKEN", "c"),
            ("AWS_REGION", "eu-central-1"),
            ("EMPTY", ""),
            ("JENKINS_SERVER_COOKIE", "durable-1"),
            ("JENKINS_NODE_COOKIE", "2"),
        ],
    ];
    let settings = resolve(&Arguments::default(), &variables.concat()).unwrap();
    let names = |used: &[&str]| -> Vec<String> {
        let child = settings.child_environment(used);
        child.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names(&["GITHUB_TOKEN"]), ["AWS_REGION", "CI_JOB_TOKEN", "EMPTY"]);
    assert_eq!(names(&[]), ["AWS_REGION", "CI_JOB_TOKEN", "EMPTY", "GITHUB_TOKEN"]);
    let holds_token =
        |(_, value): (&OsString, &OsString)| value.to_string_lossy().contains("hunter2");
    assert!(!settings.environment.iter().any(holds_token));
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn terraform_inherits_no_login_of_a_mirror() {
    let extra = [
        ("TFENV_REMOTE", "https://user:hunter2@one.example/x"),
        ("TFENV_REMOTE_USER", "hunter2"),
        ("TFENV_REMOTE_PASSWORD", "hunter2"),
        ("TOFUENV_REMOTE_USER", "hunter2"),
        ("TOFUENV_REMOTE_PASSWORD", "hunter2"),
        ("TOFUENV_URL_TEMPLATE", "https://u:hunter2@a.example/{{ .Version }}/{{ .Artifact }}"),
        ("TOFUENV_REMOTE", "https://two.example/x"),
        ("TG_REMOTE_PASSWORD", "hunter2"),
        ("ATLANTIS_TF_DOWNLOAD_URL", "https://hunter2@three.example"),
    ];
    let variables = [&REGISTRY[..], &extra].concat();
    let settings = resolve(&Arguments::default(), &variables).unwrap();
    let child: Vec<_> =
        settings.child_environment(&[]).iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(child, ["TOFUENV_REMOTE"]);
}

#[test]
fn unused_token_is_removed_from_the_environment() {
    let flag = Arguments::default().with(&TOKEN, "brce_other");
    let local =
        Arguments::default().with(&LOCAL, "true").with(&MODULE_DIR, "/").with(&OPERATION, "plan");
    for arguments in [flag, local] {
        let settings = resolve(&arguments, &REGISTRY).unwrap();
        assert!(!settings.environment.contains_key(OsStr::new("BUTLER_TOKEN")));
    }
}

/// Variable, value and host of each token.
fn tokens(git: &GitEnvironment) -> Vec<(&str, &str, Option<&str>)> {
    let tokens = git.tokens.iter();
    tokens.map(|it| (it.variable, it.token.expose_secret(), it.host.as_deref())).collect()
}

#[test]
fn token_of_a_ci_system_is_for_its_own_host() {
    let github = [("GITHUB_TOKEN", "g"), ("GITHUB_SERVER_URL", "https://github.com")];
    let gitlab = [("CI_JOB_TOKEN", "c"), ("CI_SERVER_HOST", "gitlab.com")];
    let of = |extra: &[(&str, &str)]| {
        resolve(&Arguments::default(), &[&REGISTRY[..], extra].concat()).unwrap().git
    };
    assert_eq!(tokens(&of(&github)), [("GITHUB_TOKEN", "g", Some("https://github.com"))]);
    // A token of a person in a job of GitLab.
    let both = [("CI_JOB_TOKEN", "c", Some("gitlab.com")), ("GITHUB_TOKEN", "g", None)];
    assert_eq!(tokens(&of(&[&gitlab[..], &github[..1]].concat())), both);
    assert_eq!(tokens(&of(&github[..1])), [("GITHUB_TOKEN", "g", None)]);
}

#[test]
fn git_tokens_are_in_order_and_empty_ones_are_ignored() {
    let extra = [("CI_JOB_TOKEN", "c"), ("GITHUB_TOKEN", ""), ("BUTLER_GIT_TOKEN", "a\n")];
    let extra = [&REGISTRY[..], &extra, &[("BUTLER_GIT_HOST", "git.example.com")]].concat();
    let git = resolve(&Arguments::default(), &extra).unwrap().git;
    let host = Some("git.example.com");
    assert_eq!(tokens(&git), [("BUTLER_GIT_TOKEN", "a", host), ("CI_JOB_TOKEN", "c", host)]);
    assert_eq!(git.executable, Path::new("/butler-runner"));
}

#[test]
fn bundle_without_a_certificate_is_an_error() {
    let bundle = tempfile::NamedTempFile::new().unwrap();
    let arguments = Arguments::default().with(&CA_BUNDLE, bundle.path());
    let message = message(&arguments, &REGISTRY);
    assert!(message.contains("does not contain a PEM certificate"), "{message}");
    assert!(message.ends_with("(--ca-bundle, BUTLER_CA_BUNDLE)"), "{message}");
}

#[test]
fn verbosity_flags_win_over_the_filter_variable() {
    for (verbosity, filter) in
        [(0, "butler_runner::tool=trace"), (1, "debug"), (2, "trace"), (-1, "warn"), (-3, "error")]
    {
        let mut arguments = Arguments::default();
        arguments.set_verbosity(verbosity);
        let environment = environment(&[("BUTLER_LOG", "butler_runner::tool=trace")]);
        assert_eq!(Logging::resolve(&arguments, &environment).unwrap().filter, filter);
    }
}
