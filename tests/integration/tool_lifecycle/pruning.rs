//! Making room: what goes, in which order, and what never does.

use std::time::SystemTime;

use butler_runner::tool::ready;
use expect_test::expect;
use serde_json::json;

use super::*;

const DAY: Duration = Duration::from_hours(24);

/// A machine with three versions of Terraform and one of OpenTofu, last used some days ago.
fn well_used() -> (ReleaseSite, Machine, ToolOptions) {
    let binary = b"x".repeat(3 << 20);
    let site = ReleaseSite::start(&[
        ("1.7.5", &binary),
        ("1.8.5", &binary),
        ("1.9.8", &binary),
        ("opentofu-1.8.3", &binary),
    ]);
    let machine = Machine::with_site(&site);
    for (product, version, days) in [
        ("terraform", "1.7.5", 40),
        ("terraform", "1.8.5", 20),
        ("terraform", "1.9.8", 50),
        ("tofu", "1.8.3", 31),
    ] {
        machine.run(&[product, "install", version]).well();
        last_used(&machine, product, version, days);
    }
    let options = options(&machine, &site);
    (site, machine, options)
}

fn last_used(machine: &Machine, product: &str, version: &str, days: u32) {
    let product = if product == "tofu" { "opentofu" } else { product };
    let used = machine.path("cache").join(product).join(format!(".{version}.users/used"));
    let file = std::fs::File::options().write(true).open(used).unwrap();
    file.set_modified(SystemTime::now() - DAY * days).unwrap();
}

/// What was said, without times.
fn timeless(said: &Said) -> String {
    shown(said, u32::MAX)
}

#[test]
fn versions_that_nobody_has_used_for_long_are_removed() {
    let (_site, machine, options) = well_used();
    let prune = ["tool", "prune", "--unused-for", "30d"];
    let told = machine.run(&[prune.as_slice(), &["--dry-run"]].concat());
    expect![[r#"
        exit 0
        would remove terraform 1.9.8, 3.0 MiB, last used <time>
        would remove terraform 1.7.5, 3.0 MiB, last used <time>
        would remove opentofu 1.8.3, 3.0 MiB, last used <time>
        would free 9.0 MiB
    "#]]
    .assert_eq(&timeless(&told));
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5", "1.9.8"]);
    // To use one is to keep it.
    machine.run(&["tool", "install", "1.7.5"]).well();
    let said = machine.run(&prune);
    expect![[r#"
        exit 0
        removed terraform 1.9.8, 3.0 MiB, last used <time>
        removed opentofu 1.8.3, 3.0 MiB, last used <time>
        freed 6.0 MiB
    "#]]
    .assert_eq(&timeless(&said));
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5"]);
    assert_eq!(history_of(&options).last().unwrap(), "Uninstall 1.9.8 Succeeded");
    expect![[r#"
        exit 0
        nothing to remove
    "#]]
    .assert_eq(machine.run(&prune).shown());
    // What is known about a version goes with it.
    assert!(!machine.path("cache/terraform/.1.9.8.users").exists());
    assert!(!machine.path("cache/terraform/.1.9.8.lock").exists());
}

#[test]
fn the_least_recently_used_versions_go_until_there_is_room() {
    let (_site, machine, _) = well_used();
    let words = ["terraform", "prune", "--larger-than", "7MiB", "--json"];
    let said = machine.run(&words).well().json();
    assert_eq!(said["versions"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!(said["versions"][0]["version"], "1.9.8");
    assert_eq!(said["versions"][0]["product"], "terraform");
    assert_eq!(said["versions"][0]["fate"], "removed");
    assert_eq!(said["bytes"], said["versions"][0]["bytes"]);
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5"]);
    let said = machine.run(&["tool", "prune", "--larger-than", "4MiB", "--json"]).well().json();
    let versions: Vec<_> =
        said["versions"].as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(versions, [&json!("1.7.5"), &json!("1.8.3")], "the other product's too");
}

#[test]
fn a_version_in_use_is_passed_over() {
    let (_site, machine, options) = well_used();
    let runtime = runtime();
    let tool = runtime.block_on(ready(&request("1.9.8"), &options, &|_| {})).unwrap();
    last_used(&machine, "terraform", "1.9.8", 50);
    let said = machine.run(&["terraform", "prune", "--unused-for", "30d"]);
    expect![[r#"
        exit 0
        kept terraform 1.9.8, in use by 1 run: pid <pid>, run 7, since <time>
        removed terraform 1.7.5, 3.0 MiB, last used <time>
        freed 3.0 MiB
    "#]]
    .assert_eq(&shown(&said, std::process::id()));
    assert!(is_executable(&tool.path));
    assert_eq!(kept(&machine), ["1.8.5", "1.9.8"]);
}

#[test]
fn without_a_limit_only_leftovers_go() {
    let (_site, machine, _) = well_used();
    let product = machine.path("cache/terraform");
    let half = product.join(".partial-1.9.8~abc");
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("terraform"), [0; 1500]).unwrap();
    let unknown = product.join(".partial-1.2.3~abc");
    std::fs::create_dir(&unknown).unwrap();
    // One is being written just now, the other never will be.
    let (fresh, stale) = (product.join(".record-fresh"), product.join("1.9.8/.record-stale"));
    for path in [&fresh, &stale] {
        std::fs::write(path, "{").unwrap();
    }
    let file = std::fs::File::options().write(true).open(&stale).unwrap();
    file.set_modified(SystemTime::now() - DAY).unwrap();
    let told = machine.run(&["tool", "prune", "--dry-run"]);
    expect![[r#"
        exit 0
        would remove 3 leftovers of killed processes
        would free 1.4 KiB
    "#]]
    .assert_eq(told.shown());
    let said = machine.run(&["tool", "prune"]);
    expect![[r#"
        exit 0
        removed 3 leftovers of killed processes
        freed 1.4 KiB
    "#]]
    .assert_eq(said.shown());
    for (path, stays) in [(half, false), (unknown, false), (stale, false), (fresh.clone(), true)] {
        assert_eq!(path.exists(), stays, "{}", path.display());
    }
    std::fs::remove_file(fresh).unwrap();
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5", "1.9.8"]);
}

#[test]
fn what_an_install_is_making_is_no_leftover() {
    use crate::support::release_site::Fault;

    let (site, machine, options) = well_used();
    site.misbehave("1.8.3_SHA256SUMS", Fault::Held);
    machine.run(&["tofu", "uninstall", "1.8.3", "--drain-period", "0"]).well();
    let install = spawn(&machine, &["tofu", "install", "1.8.3"]);
    let tofu = ToolRequest { product: Product::OpenTofu, version: "1.8.3".parse().unwrap() };
    eventually("an install", || in_progress(&tofu, &options).unwrap().is_some());
    let half = machine.path("cache/opentofu/.partial-1.8.3~abc");
    std::fs::create_dir(&half).unwrap();
    machine.run(&["tool", "prune"]).well();
    assert!(half.exists(), "somebody works on this version");
    site.behave();
    ended(&machine, install).well();
    assert!(!half.exists(), "the install knows that it is not its own");
}
