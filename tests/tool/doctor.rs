//! `doctor` on machines that can and cannot execute runs.

use std::time::{Duration, SystemTime};

use expect_test::expect;
use serde_json::{Value, json};

use butler_runner::ci::System;

use butler_testing::authority::Authority;
use butler_testing::canned::{canned, json_response};
use butler_testing::documented::assert_documented;
use butler_testing::machine::{CommandOutput, Machine};
use butler_testing::release_site::{ReleaseSite, executable, stand_in};
use butler_testing::world::{MODULE, RUN_ID, TOKEN, World};

/// A machine with git, a directory for secret files, and a release site.
fn machine(site: &ReleaseSite) -> Machine {
    let mut machine = Machine::with_site(site);
    machine.set("BUTLER_LOG", "error");
    machine.set("BUTLER_TMPFS_DIR", machine.path("tmp"));
    executable(&machine.path("bin/git"), "#!/bin/sh\n");
    machine
}

/// The same with a run of the world's registry.
fn machine_for(world: &World, site: &ReleaseSite) -> Machine {
    world.add_run(world.config("plan"));
    let mut machine = machine(site);
    machine.set("BUTLER_ENDPOINT", world.endpoint());
    machine.set("BUTLER_RUN_ID", RUN_ID);
    machine.set("BUTLER_TOKEN", TOKEN);
    machine.replace_in_output(world.endpoint(), "<registry>");
    machine
}

/// Runs the command while the world's registry responds.
async fn doctor(machine: &Machine, words: &[&str]) -> CommandOutput {
    let command = machine.command(&[&["doctor"], words].concat());
    machine.output_of(&tokio::process::Command::from(command).output().await.unwrap())
}

/// The page without text that differs between machines.
fn page(said: &CommandOutput) -> String {
    let line = |line: &str| match (line.split_once("is writable; "), line.split_once("limits")) {
        (Some((before, _)), _) => format!("{before}is writable; <room>\n"),
        (_, Some((before, _))) => format!("{before}limits <number>\n"),
        _ if line.contains(" isolation ") => "<isolation>\n".to_owned(),
        _ => format!("{line}\n"),
    };
    said.normalized().lines().map(line).collect()
}

/// The results of one check, each as `state: message`.
fn about(said: &CommandOutput, check: &str) -> Vec<String> {
    let findings: Vec<Value> = serde_json::from_str(&said.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = findings.iter().filter(|finding| finding["check"] == check);
    findings.map(|it| format!("{}: {}", text(&it["state"]), text(&it["message"]))).collect()
}

/// An address without a server.
fn unused_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

#[tokio::test]
async fn healthy_machine_gets_a_page_and_exit_code_0() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let world = World::new(&[("main.tf", MODULE)]).await;
    let machine = machine_for(&world, &site);
    executable(&machine.path("bin/terraform"), stand_in("1.9.7"));
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let said = doctor(&machine, &[]).await.expect_success();
    expect![[r"
        exit 0
        ok    settings        all settings are valid
        ok    registry        `<registry>` accepts the token of run 550e8400-e29b-41d4-a716-446655440000 (queued)
        ok    tls             trusts the system's certificates
        note  proxy           no proxy is set
        ok    clock           agrees with 4 of 4 servers
        ok    releases        terraform: `<site>/terraform/index.json` answers
        ok    releases        opentofu: `<site>/tofu/api.json` answers
        ok    releases        terragrunt: `<site>/repos/gruntwork-io/terragrunt/releases` answers
        ok    tools           terraform 1.9.7 on PATH: `<machine>/bin/terraform`
        ok    tools           terraform 1.9.8 in the cache, unchanged
        ok    tools           terraform 1.9.8 is the default
        ok    cache           `<machine>/cache` is writable; <room>
        ok    work directory  `<machine>/tmp` is writable; <room>
        ok    secret files    `<machine>/tmp` is writable; <room>
        ok    git             `<machine>/bin/git`, for modules from git
        ok    limits <number>
        <isolation>
        note  system          no CI system; the grace period of the tool is 1m
    "]].assert_eq(&page(&said));
    assert!(world.received().statuses.is_empty(), "it reports nothing");
}

#[test]
fn doctor_without_settings_describes_the_machine() {
    let site = ReleaseSite::start(&[]);
    let machine = machine(&site);
    let said = machine.run(&["doctor"]).expect_success();
    expect![[r"
        exit 0
        ok    settings        all settings are valid
        note  registry        no registry is configured: only runs with --local or --config are possible
        ok    tls             trusts the system's certificates
        note  proxy           no proxy is set
        ok    clock           agrees with 3 of 3 servers
        ok    releases        terraform: `<site>/terraform/index.json` answers
        ok    releases        opentofu: `<site>/tofu/api.json` answers
        ok    releases        terragrunt: `<site>/repos/gruntwork-io/terragrunt/releases` answers
        note  tools           no tool on PATH or in the cache: each run downloads its version
        ok    cache           `<machine>/cache` is writable; <room>
        ok    work directory  `<machine>/tmp` is writable; <room>
        ok    secret files    `<machine>/tmp` is writable; <room>
        ok    git             `<machine>/bin/git`, for modules from git
        ok    limits <number>
        <isolation>
        note  system          no CI system; the grace period of the tool is 1m
    "]]
    .assert_eq(&page(&said));
    assert!(!machine.path("cache").exists(), "nothing is made");
    let left = std::fs::read_dir(machine.path("tmp")).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn refused_token_fails() {
    let site = ReleaseSite::start(&[]);
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut machine = machine_for(&world, &site);
    machine.set("BUTLER_TOKEN", "brce_another");
    let said = doctor(&machine, &["--json"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    let registry = about(&said, "registry").join("\n").replace(&world.endpoint(), "<registry>");
    expect!["failed: `<registry>`: the registry refused to read the run's status: 401 Unauthorized: UNAUTHORIZED: the token is not the run's"].assert_eq(&registry);
}

#[tokio::test]
async fn finished_run_is_a_warning() {
    let site = ReleaseSite::start(&[]);
    let world = World::new(&[("main.tf", MODULE)]).await;
    let machine = machine_for(&world, &site);
    world.registry.set_status(RUN_ID, "cancelled");
    let said = doctor(&machine, &["--json"]).await.expect_success();
    let registry = about(&said, "registry").join("\n");
    assert!(registry.starts_with("warning: ") && registry.ends_with("is cancelled"), "{registry}");
}

#[test]
fn unreachable_registry_fails() {
    let site = ReleaseSite::start(&[]);
    let mut machine = machine(&site);
    let endpoint = unused_address();
    machine.set("BUTLER_ENDPOINT", &endpoint);
    let said = machine.run(&["doctor", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let registry = about(&said, "registry").join("\n");
    let expected = format!("failed: cannot reach `{endpoint}`: ");
    assert!(registry.starts_with(&expected) && registry.contains("refused"), "{registry}");
}

#[test]
fn private_certificate_authority_needs_a_ca_bundle() {
    let site = ReleaseSite::start(&[]);
    let authority = Authority::create();
    let queued = json_response("200 OK", SystemTime::now(), r#"{"status":"queued"}"#);
    let registry = canned(queued, Some(&authority));
    let mut machine = machine(&site);
    machine.set("BUTLER_ENDPOINT", format!("https://{registry}"));
    machine.set("BUTLER_RUN_ID", "7");
    machine.set("BUTLER_TOKEN", TOKEN);
    machine.replace_in_output(&registry, "<registry>");
    let said = machine.run(&["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("issued by an untrusted authority"), "{}", said.stdout);
    assert!(said.stdout.contains("with --ca-bundle (BUTLER_CA_BUNDLE)"), "{}", said.stdout);
    machine.set("BUTLER_CA_BUNDLE", authority.bundle());
    let said = machine.run(&["doctor", "--json"]).expect_success();
    let found = about(&said, "registry").join("\n").replace(&registry, "<registry>");
    assert_eq!(found, "ok: `https://<registry>/` accepts the token of run 7 (queued)");
    let tls = about(&said, "tls").join("\n");
    assert!(tls.contains(authority.bundle().to_str().unwrap()), "{tls}");
}

#[test]
fn malformed_setting_fails_and_names_its_flag() {
    let site = ReleaseSite::start(&[]);
    let mut machine = machine(&site);
    machine.set("BUTLER_CA_BUNDLE", site.key_file());
    machine.replace_in_output(site.key_file().to_str().unwrap(), "<file>");
    let said = machine.run(&["doctor"]);
    expect![[r"
        exit 1
        FAILED  settings  the CA bundle `<file>` does not contain a PEM certificate (--ca-bundle, BUTLER_CA_BUNDLE)
                          hint: for example --ca-bundle /etc/ssl/company.pem
        note    system    no CI system
    "]].assert_eq(&page(&said));
}

#[test]
fn release_site_is_required_only_if_no_tool_is_installed() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let mut machine = machine(&site);
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    machine.set("BUTLER_MIRROR", unused_address());
    let said = machine.run(&["doctor", "--json"]).expect_success();
    assert!(about(&said, "releases").iter().all(|it| it.starts_with("warning: ")), "{said:?}");
    machine.set("BUTLER_CACHE_DIR", machine.path("empty"));
    let said = machine.run(&["doctor", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let states = about(&said, "releases");
    let states: Vec<_> = states.iter().map(|it| it.split(':').next().unwrap()).collect();
    assert_eq!(states, ["failed", "failed", "warning"], "terragrunt is needed by few");
}

#[test]
fn wrong_mirror_credentials_are_reported() {
    let site = ReleaseSite::start(&[]);
    let mut machine = machine(&site);
    let mirror = canned(json_response("401 Unauthorized", SystemTime::now(), ""), None);
    machine.set("BUTLER_MIRROR", format!("http://user:hunter22@{mirror}"));
    machine.replace_in_output(&mirror, "<mirror>");
    let said = machine.run(&["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let releases =
        "FAILED   releases        terraform: `http://<mirror>/terraform/index.json` answers 401";
    assert!(said.normalized().contains(releases), "{}", said.normalized());
    assert!(said.stdout.contains("hint: check the credentials for the mirror"), "{}", said.stdout);
}

#[test]
fn wrong_clock_fails() {
    let site = ReleaseSite::start(&[]);
    let mut machine = machine(&site);
    let yesterday = SystemTime::now() - Duration::from_hours(24);
    let mirror = canned(json_response("200 OK", yesterday, "{}"), None);
    machine.set("BUTLER_MIRROR", format!("http://{mirror}"));
    let said = machine.run(&["doctor", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let clock = about(&said, "clock").join("\n");
    assert!(clock.starts_with("failed: 1day") && clock.contains(" ahead of `http://"), "{clock}");
}

#[test]
fn modified_version_is_a_warning_with_a_hint() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.9.7", b"other")]);
    let machine = machine(&site);
    for version in ["1.9.8", "1.9.7"] {
        machine.run(&["tool", "install", version]).expect_success();
    }
    std::fs::write(machine.installation("terraform", "1.9.8").join("terraform"), "changed")
        .unwrap();
    let said = machine.run(&["doctor", "--json"]).expect_success();
    let tools = about(&said, "tools");
    assert!(tools.contains(&"ok: terraform 1.9.7 in the cache, unchanged".to_owned()), "{tools:?}");
    let changed = "warning: terraform 1.9.8 in the cache: its SHA-256 is ";
    assert!(tools.iter().any(|it| it.starts_with(changed)), "{tools:?}");
    let hint = "runs do not use it; reinstall it with `butler-runner tool install terraform-1.9.8`";
    assert!(said.json().as_array().unwrap().iter().any(|it| it["hint"] == hint), "{said:?}");
}

#[test]
fn proxy_in_use_is_named() {
    let site = ReleaseSite::start(&[]);
    let mut machine = machine(&site);
    let proxy = canned(json_response("200 OK", SystemTime::now(), "{}"), None);
    machine.set("BUTLER_MIRROR", "http://releases.example");
    machine.set("BUTLER_ENDPOINT", "http://registry.example");
    machine.set("HTTP_PROXY", format!("http://user:hunter22@{proxy}"));
    machine.set("NO_PROXY", "releases.example");
    machine.replace_in_output(proxy, "<proxy>");
    let said = machine.run(&["doctor", "--json"]);
    let line = about(&said, "proxy").join("\n");
    let shown = "registry.example through `http://<proxy>/`, releases.example directly";
    assert!(said.normalized().contains(shown), "{line}");
}

#[test]
fn doctor_prints_no_secret() {
    let site = ReleaseSite::start(&[]);
    let token = "brce_correct_horse_battery";
    let said_by_registry = json!({"error": {"message": format!("not yours: {token}")}});
    let refused =
        json_response("401 Unauthorized", SystemTime::now(), &said_by_registry.to_string());
    let registry = canned(refused.clone(), None);
    let mirror = canned(refused, None);
    let mut machine = machine(&site);
    machine.set("BUTLER_ENDPOINT", format!("http://{registry}"));
    machine.set("BUTLER_RUN_ID", "7");
    machine.set("BUTLER_TOKEN", token);
    machine.set("BUTLER_MIRROR", format!("http://user:mirror-hunter22@{mirror}"));
    machine.set("HTTPS_PROXY", "http://user:proxy-hunter22@127.0.0.1:1");
    machine.set("BUTLER_GIT_TOKEN", "ghp_hunter22hunter22");
    for words in [["doctor", "--log", "trace"], ["doctor", "--json", "-vv"]] {
        let said = machine.run(&words);
        assert_eq!(said.code, Some(1), "{said:?}");
        let all = [said.stdout.as_str(), &said.stderr].concat();
        assert!(all.contains("not yours: ***"), "{all}");
        for secret in [token, "correct_horse", "hunter22"] {
            assert!(!all.contains(secret), "{secret} in {all}");
        }
    }
}

#[test]
fn json_of_each_check_has_the_same_four_keys() {
    let site = ReleaseSite::start(&[]);
    let said = machine(&site).run(&["doctor", "--json"]).expect_success();
    for finding in said.json().as_array().unwrap() {
        let keys: Vec<_> = finding.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["check", "hint", "message", "state"]);
    }
}

#[test]
fn documentation_lists_the_recognized_ci_systems() {
    let rows = System::ALL.into_iter();
    let rows = rows.filter_map(|system| Some((system.title(), system.variable()?)));
    let rows = rows.map(|(system, variable)| format!("| {system} | `{variable}` |"));
    assert_documented("docs/doctor.md", "systems", &rows.collect::<Vec<_>>());
}

/// All files below `path`, with content and times.
fn everything(path: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if metadata.is_dir() {
            found.extend(everything(&path));
        }
        let content = std::fs::read(&path).unwrap_or_default();
        let modified = metadata.modified().unwrap();
        found.push(format!("{} {modified:?} {content:?}", path.display()));
    }
    found.sort();
    found
}

#[test]
fn doctor_does_not_modify_the_cache() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = machine(&site);
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    // The file has another time but the same content, and a process died while it used it.
    let product = machine.path("cache/terraform");
    let copy = product.join("1.9.8/copy");
    std::fs::copy(product.join("1.9.8/terraform"), &copy).unwrap();
    std::fs::rename(&copy, product.join("1.9.8/terraform")).unwrap();
    let note = r#"{"doing":"install","pid":1,"owner":"run 7","since":"2026-01-01T00:00:00Z"}"#;
    std::fs::write(product.join(".1.9.8.users/1-0123456789abcdef"), note).unwrap();
    let before = everything(&machine.path("cache"));
    let said = machine.run(&["doctor", "--json"]).expect_success();
    assert_eq!(
        about(&said, "tools"),
        ["ok: terraform 1.9.8 in the cache, unchanged", "ok: terraform 1.9.8 is the default"]
    );
    assert_eq!(everything(&machine.path("cache")), before);
}

#[test]
fn modified_default_version_is_a_warning() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = machine(&site);
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    std::fs::write(machine.installation("terraform", "1.9.8").join("terraform"), "changed")
        .unwrap();
    let said = machine.run(&["doctor", "--json"]);
    let tools = about(&said, "tools");
    let expected = "warning: terraform 1.9.8 is the default, but changed";
    assert!(tools.contains(&expected.to_owned()), "{tools:?}");
}
