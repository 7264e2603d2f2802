//! `tool list`, `tool status` and `tool verify`: the installed versions, their state, and whether
//! they are unchanged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use butler_base::http::LazyClient;
use butler_runner::tool::{Sites, ToolOptions, WhenBusy, ready};
use expect_test::expect;
use serde_json::Value;

use butler_testing::machine::{CommandOutput, Machine};
use butler_testing::release_site::{Fault, ReleaseSite};
use butler_testing::world::eventually;

/// A machine with these versions installed from the site. The first version of each product is its
/// default.
fn machine_with(site: &ReleaseSite, versions: &[&str]) -> Machine {
    let mut machine = Machine::with_site(site);
    machine.set("BUTLER_LOG", "error");
    for version in versions {
        machine.run(&["tool", "install", version]).expect_success();
    }
    machine
}

/// The output without times, fingerprints and checksums.
fn without_variable_text(output: &CommandOutput) -> String {
    let words = output.normalized().split_inclusive([' ', '\n', '(', ')']);
    let names = words.flat_map(|word| {
        let (text, rest) = word.split_at(word.trim_end_matches([' ', '\n', '(', ')', ',']).len());
        [name(text), rest]
    });
    names.collect()
}

fn name(text: &str) -> &str {
    let sum = text.strip_prefix("sha256:").unwrap_or(text);
    let is_hex = sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (text.len(), sum.len()) {
        (20, _) if text.contains('T') && text.ends_with('Z') => "<moment>",
        (10, _) if text.starts_with("20") && text.matches('-').count() == 2 => "<day>",
        (_, 64) if is_hex => "<sum>",
        (40.., _) if is_hex => "<fingerprint>",
        _ => text,
    }
}

fn assert_valid(status: &Value) {
    let schema = Machine::new().run(&["schema", "status"]).expect_success().json();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(status).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{status:#}");
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn status_of_a_new_machine_is_empty() {
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    expect![[r"
        exit 0
        terraform: not-installed
    "]]
    .assert_eq(machine.run(&["tool", "status"]).expect_success().normalized());
    expect![[r#"
        exit 0
        {
          "binaryPath": null,
          "currentVersion": null,
          "history": [],
          "installed": [],
          "installedAt": null,
          "product": "opentofu",
          "queue": {
            "inProgress": null,
            "pending": 0
          },
          "signedBy": null,
          "source": null,
          "state": "not-installed",
          "trust": null,
          "users": []
        }
    "#]]
    .assert_eq(
        machine
            .run(&["tool", "--product", "tofu", "status", "--json"])
            .expect_success()
            .normalized(),
    );
    expect![[r"
        exit 0
        nothing is installed
    "]]
    .assert_eq(machine.run(&["tool", "list"]).expect_success().normalized());
    expect![[r"
        exit 0
        nothing is installed
    "]]
    .assert_eq(machine.run(&["tool", "verify"]).expect_success().normalized());
    assert_eq!(
        machine.run(&["tool", "list", "--json"]).expect_success().json(),
        serde_json::json!([])
    );
    assert!(!machine.path("cache").exists(), "who only looks makes nothing");
}

#[test]
fn status_has_the_documented_keys_and_matches_its_schema() {
    let site = ReleaseSite::start(&[("1.9.8", b"newer"), ("1.8.5", b"older")]);
    let machine = machine_with(&site, &["1.8.5", "1.9.8"]);
    let output = machine.run(&["tool", "status", "--json"]).expect_success();
    let status = output.json();
    assert_valid(&status);
    let promised = [
        "currentVersion",
        "state",
        "binaryPath",
        "installedAt",
        "source",
        "queue",
        "history",
        "product",
        "signedBy",
        "trust",
        "users",
        "installed",
    ];
    assert_eq!(keys(&status), BTreeSet::from(promised));
    assert_eq!(keys(&status["source"]), BTreeSet::from(["url", "checksum"]));
    assert_eq!(keys(&status["queue"]), BTreeSet::from(["pending", "inProgress"]));
    assert_eq!(
        keys(&status["history"][0]),
        BTreeSet::from(["version", "operation", "state", "startedAt", "completedAt"])
    );
    assert_eq!(
        status["binaryPath"],
        machine.installation("terraform", "1.8.5").join("terraform").to_str().unwrap()
    );
    assert_eq!(status["state"], "ready");
    assert_eq!([&status["trust"], &status["installed"][0]["trust"]], ["signature"; 2]);
    let installed: Vec<_> = status["installed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["version"].as_str().unwrap(), it["default"].as_bool().unwrap()))
        .collect();
    assert_eq!(installed, [("1.9.8", false), ("1.8.5", true)]);
    assert_eq!(status["history"][0]["version"], "1.9.8", "the latest comes first");
}

#[test]
fn status_without_json_is_one_short_page() {
    let site = ReleaseSite::start(&[("1.9.8", b"newer"), ("1.8.5", b"older")]);
    site.inject_fault("terraform_1.9.8_SHA256SUMS.72D7468F.sig", Fault::Changed);
    let machine = machine_with(&site, &["1.8.5"]);
    machine.run(&["tool", "install", "1.9.8"]);
    let output = machine.run(&["tool", "--product", "terraform", "status"]).expect_success();
    expect![[r"
        exit 0
        terraform 1.8.5: ready
          path       <machine>/cache/terraform/1.8.5/terraform
          installed  <moment>
          from       <site>/terraform/1.8.5/terraform_1.8.5_linux_amd64.zip
          checksum   <sum>
          signed by  a key of your own (<fingerprint>)
        versions:
          1.8.5  ready  default
        history:
          <moment>  install  1.9.8  failed: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature is not valid: Message has been manipulated
          <moment>  install  1.8.5  succeeded
    "]].assert_eq(&without_variable_text(&output));
    let output = machine.run(&["tool", "list"]).expect_success();
    expect![[r"
        exit 0
        terraform  1.8.5  default  5 B  installed <day>  signed by a key of your own  last used <day>
    "]].assert_eq(&without_variable_text(&output));
}

#[test]
fn state_is_failed_after_a_failed_first_installation() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.inject_fault("linux_amd64.zip", Fault::Changed);
    let machine = machine_with(&site, &[]);
    machine.run(&["tool", "install", "1.9.8"]);
    let status = machine.run(&["tool", "status", "--json"]).expect_success().json();
    assert_valid(&status);
    assert_eq!((&status["state"], &status["currentVersion"]), (&"failed".into(), &Value::Null));
    let error = status["history"][0]["error"].as_str().unwrap();
    assert!(error.contains("is not the archive that was signed"), "{error}");
}

/// A child process that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn status_shows_a_running_installation_and_its_process() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.inject_fault("linux_amd64.zip", Fault::Hanging);
    let machine = machine_with(&site, &[]);
    let running = Running(machine.command(&["tool", "install", "1.9.8"]).spawn().unwrap());
    site.wait_for_request("linux_amd64.zip").await;
    let status = machine.run(&["tool", "status", "--json"]).expect_success().json();
    assert_valid(&status);
    assert_eq!(status["state"], "installing");
    let act = &status["queue"]["inProgress"];
    assert_eq!((&act["version"], &act["operation"]), (&"1.9.8".into(), &"install".into()));
    assert_eq!(act["pid"], running.0.id());
    let text = machine.run(&["tool", "status"]).expect_success().stdout;
    assert!(text.contains(&format!("(pid {}, since ", running.0.id())), "{text}");
    drop(running);
    let status = machine.run(&["tool", "status", "--json"]).expect_success().json();
    assert_eq!(status["state"], "failed", "who was killed installs nothing any more");
}

#[tokio::test]
async fn status_shows_a_version_that_is_pending_deletion() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let mut machine = machine_with(&site, &["1.9.8"]);
    machine.set("BUTLER_DRAIN_PERIOD", "1h");
    let running = Running(machine.command(&["tool", "uninstall", "1.9.8"]).spawn().unwrap());
    let state = || {
        let status = machine.run(&["tool", "status", "--json"]).expect_success().json();
        assert_valid(&status);
        status["state"].clone()
    };
    eventually("the state of it", || state() == "pending-deletion").await;
    let status = machine.run(&["tool", "status", "--json"]).expect_success().json();
    assert_eq!(status["queue"]["inProgress"]["operation"], "uninstall");
    assert_eq!(status["installed"][0]["state"], "pending-deletion");
    drop(running);
    assert_eq!(state(), "ready", "who was killed removes nothing any more");
}

#[tokio::test]
async fn status_counts_and_names_the_users_of_a_version() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.8.5", b"other")]);
    let machine = machine_with(&site, &["1.9.8", "1.8.5"]);
    let options = ToolOptions {
        cache: machine.path("cache"),
        sites: Sites::mirrored(Some(site.url())),
        signing_keys: vec![site.key_file()],
        search_path: None,
        http: LazyClient::new(None),
        meter: None,
        timeout: Duration::from_mins(1),
        when_busy: WhenBusy::Wait,
        owner: "run 7".to_owned(),
    };
    let tool = ready(&"1.9.8".parse().unwrap(), &options, &|_| ()).await.unwrap();
    let status = machine.run(&["tool", "status", "--json"]).expect_success().json();
    assert_valid(&status);
    assert_eq!(status["users"][0]["owner"], "run 7");
    assert_eq!(status["users"][0]["pid"], std::process::id());
    assert_eq!(status["installed"][1]["users"], serde_json::json!([]));
    let list = machine.run(&["tool", "list"]).expect_success().stdout;
    assert!(list.lines().next().unwrap().ends_with("in use by 1"), "{list}");
    drop(tool);
    let list = machine.run(&["tool", "list"]).expect_success().stdout;
    assert!(!list.contains("in use") && list.contains("last used "), "{list}");
}

#[test]
fn list_shows_all_products_unless_one_is_named() {
    let site = ReleaseSite::start(&[("1.9.8", b"terraform"), ("opentofu-1.8.3", b"tofu")]);
    let machine = machine_with(&site, &["1.9.8", "opentofu-1.8.3"]);
    let products = |words: &[&str]| -> Vec<String> {
        let list = machine.run(&[words, &["--json"]].concat()).expect_success().json();
        list.as_array()
            .unwrap()
            .iter()
            .map(|it| it["product"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(products(&["tool", "list"]), ["terraform", "opentofu"]);
    assert_eq!(products(&["tool", "--product", "tofu", "list"]), ["opentofu"]);
    assert_eq!(products(&["tool", "verify", "--product", "terraform"]), ["terraform"]);
    assert_eq!(products(&["tool", "verify"]), ["terraform", "opentofu"]);
}

#[test]
fn available_versions_are_sorted_newest_first_and_hide_prereleases() {
    let releases: [(&str, &[u8]); 4] =
        [("1.9.8", b"a"), ("1.10.0", b"b"), ("1.10.0-rc1", b"c"), ("opentofu-1.8.3", b"d")];
    let site = ReleaseSite::start(&releases);
    let machine = machine_with(&site, &["1.9.8"]);
    expect![[r"
        exit 0
        1.10.0
        1.9.8   installed
    "]]
    .assert_eq(machine.run(&["tool", "list", "--available"]).expect_success().normalized());
    expect![[r"
        exit 0
        1.10.0
        1.10.0-rc1
        1.9.8       installed
    "]]
    .assert_eq(
        machine
            .run(&["tool", "list", "--available", "--prereleases"])
            .expect_success()
            .normalized(),
    );
    expect![[r#"
        exit 0
        [
          {
            "installed": false,
            "prerelease": false,
            "version": "1.8.3"
          }
        ]
    "#]]
    .assert_eq(
        machine
            .run(&["tool", "--product", "tofu", "list", "--available", "--json"])
            .expect_success()
            .normalized(),
    );
    assert_eq!(machine.run(&["tool", "list", "--prereleases"]).code, Some(2));
}

/// Damages each of the versions in another way.
fn damage(machine: &Machine) -> Vec<PathBuf> {
    let binary = |version: &str| machine.installation("terraform", version).join("terraform");
    std::fs::write(binary("1.9.1"), "changed").unwrap();
    std::fs::remove_file(machine.installation("terraform", "1.9.2").join("install.json")).unwrap();
    let record = machine.installation("terraform", "1.9.3").join("install.json");
    edit(&record, |record| record["platform"] = "plan9_mips".into());
    std::fs::remove_file(binary("1.9.4")).unwrap();
    std::os::unix::fs::symlink(binary("1.9.0"), binary("1.9.4")).unwrap();
    ["1.9.0", "1.9.1", "1.9.2", "1.9.3", "1.9.4"].map(binary).to_vec()
}

fn edit(record: &Path, change: impl FnOnce(&mut Value)) {
    let mut json: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(record, json.to_string()).unwrap();
}

#[test]
fn verify_reports_every_kind_of_damage_and_removes_nothing() {
    let versions = ["1.9.0", "1.9.1", "1.9.2", "1.9.3", "1.9.4"];
    let releases = versions.map(|version| (version, b"binary".as_slice()));
    let site = ReleaseSite::start(&releases);
    let machine = machine_with(&site, &versions);
    let output = machine.run(&["tool", "verify", "--json"]).expect_success();
    assert!(output.json().as_array().unwrap().iter().all(|it| it["state"] == "ok"), "{output:?}");

    let binaries = damage(&machine);
    let output = machine.run(&["tool", "verify"]);
    expect![[r"
        exit 1
        terraform  1.9.4  unreadable      not using `<machine>/cache/terraform/1.9.4/terraform`: it is a symbolic link
        terraform  1.9.3  other-platform  it is for plan9_mips
        terraform  1.9.2  no-record       its install record is missing
        terraform  1.9.1  changed         its SHA-256 is <sum>, not <sum>
        terraform  1.9.0  ok              signed by a key of your own (<fingerprint>)
        error: 3 of 5 versions cannot be trusted
        hint: nothing was removed; `butler-runner tool install terraform-1.9.2` replaces it
    "]].assert_eq(&without_variable_text(&output));
    let json = machine.run(&["tool", "verify", "--json"]);
    assert_eq!(json.code, Some(1));
    let states: Vec<_> = json
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["state"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(states, ["unreadable", "other-platform", "no-record", "changed", "ok"]);
    assert!(binaries.iter().all(|path| std::fs::symlink_metadata(path).is_ok()));
    assert_eq!(machine.run(&["tool", "verify", "1.9.0"]).code, Some(0));
    assert_eq!(machine.run(&["tool", "verify", "1.9.1"]).code, Some(1));
}

#[test]
fn install_replaces_a_version_that_verify_rejects() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = machine_with(&site, &["1.9.8"]);
    // The file has its recorded size and time, so only its content shows the difference.
    let record = machine.installation("terraform", "1.9.8").join("install.json");
    edit(&record, |record| record["executableSha256"] = "0".repeat(64).into());
    machine.run(&["tool", "status"]).expect_success();
    let output = machine.run(&["tool", "verify"]);
    assert!(output.code == Some(1) && output.stdout.contains("changed"), "{output:?}");
    let status = machine.run(&["tool", "status", "--json"]).expect_success().json();
    assert_eq!(status["installed"][0]["state"], "failed", "what verify found is remembered");
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    machine.run(&["tool", "verify"]).expect_success();
}

#[test]
fn verify_of_a_missing_version_names_the_install_command() {
    let machine = Machine::new();
    let output = machine.run(&["tool", "verify", "opentofu-1.8.3"]);
    expect![[r"
        exit 1
        error: opentofu 1.8.3 is not installed
        hint: `butler-runner tool install opentofu-1.8.3` installs it
    "]]
    .assert_eq(output.normalized());
}
