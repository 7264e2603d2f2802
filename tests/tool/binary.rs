//! The executable from outside: output, exit codes, and no dependencies on its environment.

use std::net::TcpListener;
use std::process::Output;

use butler_testing::runner;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Standard error of a usage error: one line, and at most one hint.
fn usage_error(output: &Output) -> &str {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let mut lines = error.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("error: ")), "{error}");
    assert!(lines.next().is_none_or(|line| line.starts_with("hint: ")), "{error}");
    assert_eq!(lines.next(), None, "{error}");
    error
}

#[test]
fn version_and_help_are_printed_on_standard_output() {
    for (argument, expected) in [
        ("--version", concat!("butler-runner ", env!("CARGO_PKG_VERSION"), "\n")),
        ("--help", "Exit codes: 0 success, 1 the run failed"),
    ] {
        let output = runner().arg(argument).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(text(&output.stdout).contains(expected), "{output:?}");
    }
}

#[test]
fn exec_is_an_alias_of_execute() {
    let (long, short) = (runner().arg("execute").output(), runner().arg("exec").output());
    assert_eq!(usage_error(&long.unwrap()), usage_error(&short.unwrap()));
}

#[test]
fn malformed_setting_is_one_line_with_flag_and_variable_before_any_request() {
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    registry.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}/api", registry.local_addr().unwrap());
    for (name, value, named) in [
        ("BUTLER_RUN_ID", "", "--run-id, BUTLER_RUN_ID"),
        ("BUTLER_TOKEN", "", "--token, BUTLER_TOKEN"),
        ("BUTLER_TOKEN", "breg_hunter2", "--token, BUTLER_TOKEN"),
        ("BUTLER_TOKEN", "brce_hunter2\nbrce_hunter2", "--token, BUTLER_TOKEN"),
        ("BUTLER_GRACE_PERIOD", "soon", "--grace-period, BUTLER_GRACE_PERIOD"),
        ("BUTLER_CA_BUNDLE", "/proc/nonexistent", "--ca-bundle, BUTLER_CA_BUNDLE"),
        (
            "BUTLER_DEFAULT_TOOL_VERSION",
            "new",
            "--default-tool-version, BUTLER_DEFAULT_TOOL_VERSION",
        ),
    ] {
        let output = runner()
            .arg("execute")
            .env("BUTLER_ENDPOINT", &endpoint)
            .env("BUTLER_RUN_ID", "7")
            .env("BUTLER_TOKEN", "brce_hunter2")
            .env(name, value)
            .output()
            .unwrap();
        let error = usage_error(&output);
        assert!(error.contains(named), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let connected = registry.accept().map_err(|error| error.kind());
    assert!(matches!(connected, Err(std::io::ErrorKind::WouldBlock)), "{connected:?}");
}

#[test]
fn misplaced_token_is_not_printed() {
    for arguments in [
        &["execute", "hunter2"][..],
        &["execute", "--tokn", "hunter2"],
        &["execute", "--tokn=hunter2"],
        &["execute", "--token", "brce_hunter2", "--token", "brce_hunter2"],
        &["execute", "--local=brce_hunter2"],
        &["execute", "-tbrce_hunter2"],
        &["execute", "--brce_hunter2"],
        &["brce_hunter2"],
        &["execute", "--endpoint", "https://user:hunter2@portal.example.com/api"],
        &["execute", "--endpoint", "https://portal.example.com/?token=hunter2"],
    ] {
        let output = runner().args(arguments).output().unwrap();
        assert!(!usage_error(&output).contains("hunter2"), "{output:?}");
    }
}

#[test]
fn misspelled_flag_error_suggests_the_right_one() {
    let output = runner().args(["execute", "--run-di", "7"]).output().unwrap();
    assert!(usage_error(&output).contains("hint: did you mean `--run-id`?"), "{output:?}");
}

#[test]
fn flag_without_a_value_error_names_the_variable() {
    let output = runner().args(["execute", "--run-id"]).output().unwrap();
    assert!(usage_error(&output).contains("(--run-id, BUTLER_RUN_ID)"), "{output:?}");
}
