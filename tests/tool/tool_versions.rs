//! The version that `tool` commands and runs choose, and the default version of a machine.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect;
use serde_json::json;

use butler_testing::documented::assert_documented;
use butler_testing::machine::{CommandOutput, Machine};
use butler_testing::release_site::{Fault, ReleaseSite, executable, stand_in};
use butler_testing::world::World;

const RELEASED: &[(&str, &[u8])] = &[
    ("1.8.5", b"binary"),
    ("1.9.8", b"binary"),
    ("1.10.5", b"binary"),
    ("1.11.0-rc1", b"binary"),
    ("opentofu-1.8.3", b"binary"),
    ("opentofu-1.9.0", b"binary"),
];

/// A machine whose commands log only warnings and errors.
fn machine(site: &ReleaseSite) -> Machine {
    let mut machine = Machine::with_site(site);
    machine.set("BUTLER_LOG", "warn");
    machine
}

/// Writes files below `name` on the machine. A name that ends in `/` is a directory.
fn tree(machine: &Machine, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = machine.path(name);
    fs::create_dir_all(&root).unwrap();
    for (name, text) in files {
        let path = root.join(name);
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    root
}

fn required(constraint: &str) -> String {
    format!("terraform {{\n  required_version = \"{constraint}\"\n}}\n")
}

/// Product and version in the output of a command.
fn named(said: &CommandOutput) -> String {
    let json = said.json();
    format!("{} {}", json["product"].as_str().unwrap(), json["version"].as_str().unwrap())
}

fn from(machine: &Machine, directory: &Path, words: &[&str]) -> String {
    let mut all = words.to_vec();
    all.extend(["--json", "--from", directory.to_str().unwrap()]);
    named(&machine.run(&all).expect_success())
}

/// The cases of the table in the documentation.
const TEXTS: [&str; 15] = [
    "1.9.8",
    "v1.10.5",
    "1.9",
    "1.10",
    "opentofu-1.8.3",
    "tofu-1.8.3",
    "tofu@1.8",
    "~> 1.8",
    ">= 1.6, < 1.9",
    "!= 1.9.8",
    "> 1.9.8",
    "latest",
    "latest:1.8",
    r"latest:^1\.8\.",
    "opentofu-latest",
];

#[test]
fn documentation_lists_the_version_that_each_expression_selects() {
    let site = ReleaseSite::start(RELEASED);
    let rows = TEXTS.map(|text| {
        let machine = machine(&site);
        machine.run(&["tool", "install", "1.8.5"]).expect_success();
        machine.run(&["tool", "install", "1.9.8"]).expect_success();
        let taken = machine.run(&["tool", "install", text, "--json"]).expect_success();
        format!("| `{text}` | {} |", named(&taken))
    });
    assert_documented("docs/versions.md", "texts", &rows);
}

#[test]
fn constraint_prefers_installed_versions_unless_latest_is_requested() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    machine.run(&["tool", "install", "1.8.5"]).expect_success();
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let requests = site.requests();
    let install = |words: &[&str]| {
        let words = [&["tool", "install", "--json"], words].concat();
        named(&machine.run(&words).expect_success())
    };
    assert_eq!(install(&["~> 1.8"]), "terraform 1.9.8");
    assert_eq!(install(&[">= 1.6, < 2, != 1.9.8"]), "terraform 1.8.5");
    assert_eq!(site.requests(), requests, "both are answered without a request");
    assert_eq!(install(&["~> 1.8", "--latest"]), "terraform 1.10.5");
    assert_eq!(install(&["latest:^1.8"]), "terraform 1.8.5");
    assert_eq!(install(&["latest"]), "terraform 1.10.5");
    assert_eq!(install(&["opentofu-~> 1.8.0"]), "opentofu 1.8.3");
    assert_eq!(install(&["1.8.5", "--latest"]), "terraform 1.8.5");
    let tofu =
        machine.run(&["tool", "--product", "tofu", "install", "latest", "--json"]).expect_success();
    assert_eq!(named(&tofu), "opentofu 1.9.0");
}

#[test]
fn nearest_version_file_counts_before_required_version() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    let root = tree(
        &machine,
        "repository",
        &[
            (".git/", ""),
            (".tool-versions", "# ours\nnodejs 20.1.0\nterraform 1.8.5\nopentofu 1.8.3\n"),
            ("pinned/.terraform-version", "1.9.8\n"),
            ("pinned/.opentofu-version", "latest\n"),
            ("pinned/main.tf", &required("< 1.9")),
            ("limited/.terraform-version", "~> 1.9.0\n"),
            ("below/it/main.tf", ""),
            ("allowed/.terraform-version", "latest-allowed\n"),
            ("allowed/main.tf", &required(">= 1.8, < 1.10")),
            ("least/.terraform-version", "min-required\n"),
            ("least/main.tf", &required("> 1.8.5")),
            ("other/.terraform-version", "opentofu-1.9.0"),
        ],
    );
    for (directory, product, chosen) in [
        ("pinned", "", "terraform 1.9.8"),
        ("pinned", "tofu", "opentofu 1.9.0"),
        ("limited", "", "terraform 1.9.8"),
        ("below/it", "", "terraform 1.8.5"),
        ("below/it", "tofu", "opentofu 1.8.3"),
        ("allowed", "", "terraform 1.9.8"),
        ("least", "", "terraform 1.9.8"),
        ("other", "", "opentofu 1.9.0"),
        ("other", "terraform", "terraform 1.8.5"),
    ] {
        let directory = root.join(directory);
        let of_product: &[&str] = if product.is_empty() { &[] } else { &["--product", product] };
        let installed = from(&machine, &directory, &[&["tool", "install"], of_product].concat());
        assert_eq!(installed, chosen, "{} {product}", directory.display());
        let found = from(&machine, &directory, &[&["tool", "which"], of_product].concat());
        assert_eq!(found, chosen);
    }
    let module = tree(&machine, "module", &[("main.tf", &required(">= 1.8, < 1.10"))]);
    assert_eq!(from(&machine, &module, &["tool", "install"]), "terraform 1.9.8");
    let mut there = machine.command(&["tool", "install", "--json"]);
    let said = machine.output_of(&there.current_dir(&module).output().unwrap()).expect_success();
    assert_eq!(named(&said), "terraform 1.9.8");
}

#[test]
fn version_file_outside_the_repository_is_ignored() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    let root = tree(
        &machine,
        "outside",
        &[(".terraform-version", "1.8.5"), ("repository/.git/", ""), ("plain/", "")],
    );
    for name in ["repository", "plain"] {
        let directory = root.join(name);
        let said = machine.run(&[
            "tool",
            "--product",
            "terraform",
            "install",
            "--from",
            directory.to_str().unwrap(),
        ]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("no version of terraform is requested"), "{said:?}");
        std::os::unix::fs::symlink("../.terraform-version", directory.join(".terraform-version"))
            .unwrap();
    }
    let link = root.join("repository");
    let said = machine.run(&["tool", "install", "--from", link.to_str().unwrap()]);
    assert_eq!(said.code, Some(1), "a link does not lead there either: {said:?}");
    assert!(site.requests().is_empty());
}

#[test]
fn first_installed_version_of_a_line_in_tool_versions_is_used() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    let text = "terraform 1.10.5 1.8.5 system\n";
    let directory = tree(&machine, "module", &[(".tool-versions", text)]);
    machine.run(&["tool", "install", "1.8.5"]).expect_success();
    assert_eq!(from(&machine, &directory, &["tool", "install"]), "terraform 1.8.5");
    machine.run(&["tool", "install", "1.10.5"]).expect_success();
    assert_eq!(from(&machine, &directory, &["tool", "install"]), "terraform 1.10.5");
}

#[test]
fn version_file_that_contradicts_required_version_wins_with_a_warning() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    let files = [(".terraform-version", "1.9.8\n"), ("main.tf", &*required("< 1.9"))];
    tree(&machine, "module", &files);
    let said = machine.run(&["tool", "install", "--from", "module"]);
    expect![[r#"
        exit 0
        <machine>/cache/terraform/1.9.8/terraform
        WARN using the version from the version file, although the module's `required_version` does not allow it file=".terraform-version" request=terraform 1.9.8 required_version=< 1.9
    "#]]
    .assert_eq(said.normalized());
}

#[test]
fn first_installed_version_is_the_default_until_tool_use() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    let json = |words: &[&str]| machine.run(&[words, &["--json"]].concat()).expect_success().json();
    assert_eq!(json(&["tool", "install", "1.9.8"])["default"], true);
    assert_eq!(json(&["tool", "install", "1.10.5"])["default"], false);
    assert_eq!(
        json(&["tool", "--product", "tofu", "install", "1.8.3"])["default"],
        true,
        "one for each product"
    );
    assert_eq!(json(&["tool", "which"])["version"], "1.9.8");
    assert_eq!(json(&["tool", "--product", "tofu", "which"])["version"], "1.8.3");
    let used = json(&["tool", "--product", "terraform", "use", "latest"]);
    assert_eq!((&used["version"], &used["previous"]), (&"1.10.5".into(), &"1.9.8".into()));
    let found = json(&["tool", "which"]);
    assert_eq!((&found["version"], &found["default"]), (&"1.10.5".into(), &true.into()));
    assert_eq!(found["path"], used["path"]);
    assert_eq!(json(&["tool", "which", "~> 1.9.0"])["default"], false);
    assert_eq!(json(&["tool", "install", "1.9.8"])["default"], false);
    assert_eq!(
        machine.run(&["tool", "use", "1.9.8"]).expect_success().stdout,
        "terraform 1.9.8 is the default\n"
    );
    fs::remove_dir_all(machine.installation("terraform", "1.9.8")).unwrap();
    assert_eq!(json(&["tool", "install", "1.10.5"])["default"], true, "the old one is gone");
}

#[test]
fn exactly_one_of_ten_concurrent_first_installs_becomes_the_default() {
    let versions: Vec<_> = (0..10).map(|patch| format!("1.9.{patch}")).collect();
    let releases: Vec<(&str, &[u8])> =
        versions.iter().map(|version| (&**version, b"binary".as_slice())).collect();
    let site = ReleaseSite::start(&releases);
    let machine = machine(&site);
    let children: Vec<_> = versions
        .iter()
        .map(|version| machine.command(&["tool", "install", version, "--json"]).spawn().unwrap())
        .collect();
    let said: Vec<_> = children
        .into_iter()
        .map(|child| machine.output_of(&child.wait_with_output().unwrap()).expect_success())
        .collect();
    let winners: Vec<_> = said.iter().filter(|said| said.json()["default"] == true).collect();
    assert_eq!(winners.len(), 1, "{said:?}");
    let found = machine.run(&["tool", "which", "--json"]).expect_success();
    assert_eq!(named(&found), named(winners[0]));
}

#[test]
fn which_and_use_send_no_requests() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let requests = site.requests();
    let expected = machine.installation("terraform", "1.9.8").join("terraform");
    for words in [
        &["tool", "which"][..],
        &["tool", "--product", "terraform", "which", "1.9.8"],
        &["tool", "which", "latest"],
        &["tool", "which", ">= 1.6, < 2"],
        &["tool", "install", "1.9.8"],
    ] {
        assert_eq!(machine.run(words).expect_success().printed_path(), expected, "{words:?}");
    }
    machine.run(&["tool", "use", "~> 1.9"]).expect_success();
    assert_eq!(site.requests(), requests);
}

#[test]
fn which_never_prints_a_modified_executable() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    fs::write(machine.installation("terraform", "1.9.8").join("terraform"), "another").unwrap();
    for words in [&["tool", "which"][..], &["tool", "use", "1.9.8"]] {
        let said = machine.run(words);
        expect![[r"
            exit 1
            error: `<machine>/cache/terraform/1.9.8/terraform` is not the executable that was verified
            hint: do not start it; install it with `butler-runner tool install 1.9.8`, which replaces it
        "]]
        .assert_eq(said.normalized());
    }
}

#[test]
fn missing_version_error_names_the_install_command() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    let show = |words: &[&str]| machine.run(words).normalized().to_owned();
    expect![[r"
        exit 1
        error: terraform has no default version
        hint: choose one with `butler-runner tool use VERSION`; the first version installed with `tool install` becomes the default
    "]]
    .assert_eq(&show(&["tool", "which"]));
    expect![[r"
        exit 1
        error: opentofu 1.9.0 is not installed
        hint: install it with `butler-runner tool install opentofu-1.9.0`
    "]]
    .assert_eq(&show(&["tool", "--product", "tofu", "use", "1.9.0"]));
    machine.run(&["tool", "install", "1.8.5"]).expect_success();
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    expect![[r"
        exit 1
        error: no installed version of terraform satisfies `~> 1.10`
        hint: install it with `butler-runner tool install '~> 1.10'`; installed: 1.8.5, 1.9.8
    "]]
    .assert_eq(&show(&["tool", "which", "~> 1.10"]));
}

#[test]
fn malformed_version_is_a_usage_error() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    let show = |words: &[&str]| machine.run(words).normalized().to_owned();
    expect![[r"
        exit 2
        error: `^1.9 || 2` is neither a version nor a constraint
        hint: write `1.9.8`, `1.9`, `opentofu-1.8.3`, `>= 1.6, < 2` or `latest`, in quotes if there are spaces
    "]]
    .assert_eq(&show(&["tool", "install", "^1.9 || 2"]));
    expect![[r"
        exit 2
        error: `terraform-1.9.8` is a version of terraform, not of opentofu
        hint: leave out --product, or give --product terraform
    "]]
    .assert_eq(&show(&["tool", "--product", "tofu", "install", "terraform-1.9.8"]));
    assert!(site.requests().is_empty());
}

#[test]
fn missing_version_request_lists_the_searched_files() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    tree(&machine, "module", &[("main.tf", "")]);
    let show = |words: &[&str]| machine.run(words).normalized().to_owned();
    expect![[r"
        exit 1
        error: no version of terraform or opentofu is requested in `<machine>/module`
        hint: name a version; looked for `.terraform-version`, `.opentofu-version`, `.tool-versions`, `.tfswitchrc`, there and in its parent directories up to the repository root, and for `required_version`
    "]]
    .assert_eq(&show(&["tool", "install", "--from", "module"]));
    expect![[r"
        exit 1
        error: no version of terragrunt is requested in `<machine>/module`
        hint: name a version; looked for `.terragrunt-version`, `.tool-versions`, `.tgswitchrc`, there and in its parent directories up to the repository root
    "]]
    .assert_eq(&show(&["tool", "--product", "terragrunt", "which", "--from", "module"]));
    expect![[r"
        exit 1
        error: cannot read `missing`: No such file or directory (os error 2)
    "]]
    .assert_eq(&show(&["tool", "install", "--from", "missing"]));
    tree(&machine, "empty", &[(".terraform-version", "latest-allowed")]);
    expect![[r"
        exit 1
        error: `.terraform-version` says `latest-allowed`, but the module has no `required_version`
        hint: write a version such as `1.9.8` into the file
    "]]
    .assert_eq(&show(&["tool", "install", "--from", "empty"]));
    tree(&machine, "odd", &[(".tool-versions", "terraform newest")]);
    expect![[r"
        exit 1
        error: cannot read the version in `.tool-versions`: `newest` is not a version constraint
        hint: write an exact version such as `1.9.8`, or name the version in the run
    "]]
    .assert_eq(&show(&["tool", "install", "--from", "odd"]));
}

#[test]
fn unsatisfiable_constraint_error_names_the_newest_release() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    expect![[r"
        exit 1
        error: no released version of terraform satisfies `>= 2.0`
        hint: the newest released version is 1.10.5
    "]]
    .assert_eq(machine.run(&["tool", "install", ">= 2.0"]).normalized());
}

#[test]
fn latest_without_a_release_list_names_the_installed_versions() {
    let site = ReleaseSite::start(RELEASED);
    let machine = machine(&site);
    machine.run(&["tool", "install", "1.8.5"]).expect_success();
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    site.inject_fault("/terraform/index.json", Fault::Missing);
    expect![[r"
        exit 1
        error: cannot list the released versions of terraform: `<site>/terraform/index.json` does not exist
        hint: name an exact version; installed: 1.8.5, 1.9.8
    "]]
    .assert_eq(machine.run(&["tool", "install", "latest"]).normalized());
    machine.run(&["tool", "install", "~> 1.8"]).expect_success();
}

#[tokio::test]
async fn run_prefers_version_file_then_required_version_then_default() {
    let limit = required(">= 1.8");
    let strict = required(">= 1.10");
    let pinned = (".tool-versions", "terraform 1.9.8\n");
    let cases = [
        (&[pinned, ("network/main.tf", limit.as_str())][..], "1.8.5", None, "1.9.8"),
        (&[("network/main.tf", &limit)], "1.8.5", None, "1.8.5"),
        (&[("network/main.tf", &strict)], "1.8.5", None, "1.10.0"),
        (&[("network/main.tf", "")], "1.8.5", Some("1.9.8"), "1.9.8"),
        (&[("network/main.tf", "")], "1.8.5", None, "1.8.5"),
        (&[("network/main.tf", "")], "", None, "1.10.0"),
    ];
    for (files, used, default, expected) in cases {
        let mut world = World::new(files).await;
        let releases = ["1.8.5", "1.9.8"].map(|version| (version, stand_in(version)));
        let releases = releases.each_ref().map(|(version, script)| (*version, script.as_bytes()));
        let site = ReleaseSite::start(&releases);
        let bin = world.use_bare_path();
        executable(&bin.join("terraform"), stand_in("1.10.0"));
        world.use_site(&site);
        if !used.is_empty() {
            let installed = world.command(&["tool", "install", used]).output().await.unwrap();
            assert!(installed.status.success(), "{installed:?}");
        }
        if let Some(default) = default {
            world.set("BUTLER_DEFAULT_TOOL_VERSION", default);
        }
        let mut config = world.config("plan");
        config["source"]["workingDirectory"] = json!("network");
        // A stand-in only prints its version; the test is about the choice.
        world.run(config).await;
        let tool = world.last_status()["tool"].clone();
        assert_eq!(tool, format!("terraform {expected}"), "{files:?} {used} {default:?}");
    }
}
