//! Pruning: what is removed, in which order, and what is never removed.

use std::time::SystemTime;

use butler_runner::tool::ready;
use expect_test::expect;

use super::*;

const DAY: Duration = Duration::from_hours(24);

/// A machine with three versions of Terraform and one of OpenTofu, last used some days ago.
fn machine_with_used_versions() -> (ReleaseSite, Machine, ToolOptions) {
    let binary = b"x".repeat(3 << 20);
    let site = ReleaseSite::start(&[
        ("1.7.5", &binary),
        ("1.8.5", &binary),
        ("1.9.8", &binary),
        ("opentofu-1.8.3", &binary),
    ]);
    let machine = Machine::with_site(&site);
    let uses = [
        ("terraform", "1.7.5", 40),
        ("terraform", "1.8.5", 20),
        ("terraform", "1.9.8", 50),
        ("tofu", "1.8.3", 31),
    ];
    for (product, version, _) in uses {
        machine.run(&["tool", "--product", product, "install", version]).expect_success();
    }
    machine.run(&["tool", "--product", "terraform", "use", "1.8.5"]).expect_success();
    for (product, version, days) in uses {
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

/// The output without times.
fn without_times(said: &CommandOutput) -> String {
    shown(said, u32::MAX)
}

#[test]
fn prune_removes_versions_unused_for_the_given_time() {
    let (_site, machine, options) = machine_with_used_versions();
    let prune = ["tool", "prune", "--unused-for", "30d"];
    let told = machine.run(&[prune.as_slice(), &["--dry-run"]].concat());
    expect![[r"
        exit 0
        would remove terraform 1.9.8, 3.0 MiB, last used <time>
        would remove terraform 1.7.5, 3.0 MiB, last used <time>
        kept opentofu 1.8.3, the default
        would free 6.0 MiB
    "]]
    .assert_eq(&without_times(&told));
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5", "1.9.8"]);
    // A request for the path counts as a use.
    machine.run(&["tool", "which", "1.7.5"]).expect_success();
    let said = machine.run(&prune);
    expect![[r"
        exit 0
        removed terraform 1.9.8, 3.0 MiB, last used <time>
        kept opentofu 1.8.3, the default
        freed 3.0 MiB
    "]]
    .assert_eq(&without_times(&said));
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5"]);
    assert_eq!(history_of(&options).last().unwrap(), "Uninstall 1.9.8 Succeeded");
    expect![[r"
        exit 0
        nothing to remove
    "]]
    .assert_eq(
        machine
            .run(&["tool", "--product", "terraform", "prune", "--unused-for", "30d"])
            .normalized(),
    );
    // The metadata of a version is removed with it.
    assert!(!machine.path("cache/terraform/.1.9.8.users").exists());
    assert!(!machine.path("cache/terraform/.1.9.8.lock").exists());
}

#[test]
fn prune_removes_least_recently_used_versions_but_never_the_default() {
    let (_site, machine, _) = machine_with_used_versions();
    let fates = |words: &[&str]| {
        let said = machine.run(&[words, &["--json"]].concat()).expect_success().json();
        let fate = |it: &serde_json::Value| {
            let name = |key: &str| it[key].as_str().unwrap().to_owned();
            [name("product"), name("version"), name("fate")].join(" ")
        };
        let fates: Vec<_> = said["versions"].as_array().unwrap().iter().map(fate).collect();
        let removed = fates.iter().filter(|fate| fate.ends_with("removed")).count();
        assert_eq!(said["freed"].as_u64().unwrap() >> 20, 3 * removed as u64);
        fates
    };
    assert_eq!(
        fates(&["tool", "--product", "terraform", "prune", "--larger-than", "7MiB"]),
        ["terraform 1.9.8 removed"]
    );
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5"]);
    assert_eq!(
        fates(&["tool", "prune", "--larger-than", "4MiB"]),
        ["terraform 1.7.5 removed", "opentofu 1.8.3 kept", "terraform 1.8.5 kept"]
    );
}

#[test]
fn prune_removes_providers_unless_a_product_is_named() {
    let (_site, mut machine, _) = machine_with_used_versions();
    let package = |place: &str| {
        let providers = machine.path(place).join("registry.terraform.io/example");
        let path = providers.join("old/1.0.0/linux_amd64");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("provider"), [0; 2048]).unwrap();
        let directory = std::fs::File::open(&path).unwrap();
        directory.set_modified(SystemTime::now() - DAY * 40).unwrap();
        path
    };
    let (path, elsewhere) = (package("cache/providers"), package("elsewhere"));
    machine
        .run(&["tool", "--product", "terraform", "prune", "--unused-for", "60d"])
        .expect_success();
    machine
        .run(&["tool", "--product", "terraform", "prune", "--unused-for", "30d"])
        .expect_success();
    assert!(path.exists());
    let said = machine.run(&["tool", "prune", "--unused-for", "35d"]);
    expect![[r"
        exit 0
        removed registry.terraform.io/example/old 1.0.0 for linux_amd64, 2.0 KiB, last used <time>
        freed 2.0 KiB
    "]]
    .assert_eq(&without_times(&said));
    assert!(!path.exists());
    machine.set("BUTLER_PROVIDER_CACHE", elsewhere.ancestors().nth(5).unwrap());
    let said =
        machine.run(&["tool", "prune", "--unused-for", "35d", "--json"]).expect_success().json();
    assert_eq!(said["providers"][0]["provider"], "registry.terraform.io/example/old");
    assert_eq!((&said["providers"][0]["bytes"], &said["freed"]), (&2048.into(), &2048.into()));
    assert!(!elsewhere.exists());
}

#[test]
fn prune_skips_a_version_in_use() {
    let (_site, machine, options) = machine_with_used_versions();
    let runtime = runtime();
    let tool = runtime.block_on(ready(&request("1.9.8"), &options, &|_| {})).unwrap();
    last_used(&machine, "terraform", "1.9.8", 50);
    let said = machine.run(&["tool", "--product", "terraform", "prune", "--unused-for", "30d"]);
    expect![[r"
        exit 0
        kept terraform 1.9.8, in use by 1 run: pid <pid>, run 7, since <time>
        removed terraform 1.7.5, 3.0 MiB, last used <time>
        freed 3.0 MiB
    "]]
    .assert_eq(&shown(&said, std::process::id()));
    assert!(is_executable(&tool.path));
    assert_eq!(kept(&machine), ["1.8.5", "1.9.8"]);
}

#[test]
fn prune_without_a_limit_removes_only_leftovers() {
    let (_site, machine, _) = machine_with_used_versions();
    let product = machine.path("cache/terraform");
    let half = product.join(".partial-1.9.8~abc");
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("terraform"), [0; 1500]).unwrap();
    let unknown = product.join(".partial-1.2.3~abc");
    std::fs::create_dir(&unknown).unwrap();
    // One is being written at this moment; the other was abandoned.
    let (fresh, stale) = (product.join(".record-fresh"), product.join("1.9.8/.record-stale"));
    for path in [&fresh, &stale] {
        std::fs::write(path, "{").unwrap();
    }
    let file = std::fs::File::options().write(true).open(&stale).unwrap();
    file.set_modified(SystemTime::now() - DAY).unwrap();
    let told = machine.run(&["tool", "prune", "--dry-run"]);
    expect![[r"
        exit 0
        would remove 3 leftovers of killed processes
        would free 1.4 KiB
    "]]
    .assert_eq(told.normalized());
    let said = machine.run(&["tool", "prune"]);
    expect![[r"
        exit 0
        removed 3 leftovers of killed processes
        freed 1.4 KiB
    "]]
    .assert_eq(said.normalized());
    for (path, stays) in [(half, false), (unknown, false), (stale, false), (fresh.clone(), true)] {
        assert_eq!(path.exists(), stays, "{}", path.display());
    }
    std::fs::remove_file(fresh).unwrap();
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5", "1.9.8"]);
}

#[test]
fn prune_keeps_files_of_a_running_installation() {
    use butler_testing::release_site::Fault;

    let (site, machine, options) = machine_with_used_versions();
    site.inject_fault("1.8.3_SHA256SUMS", Fault::Held);
    machine
        .run(&["tool", "--product", "tofu", "uninstall", "1.8.3", "--drain-period", "0"])
        .expect_success();
    let install = spawn(&machine, &["tool", "--product", "tofu", "install", "1.8.3"]);
    let queue = || status_of(Product::OpenTofu, &options).queue;
    eventually("an install", || queue().in_progress.is_some());
    let half = machine.path("cache/opentofu/.partial-1.8.3~abc");
    std::fs::create_dir(&half).unwrap();
    machine.run(&["tool", "prune"]).expect_success();
    assert!(half.exists(), "somebody works on this version");
    site.remove_faults();
    ended(&machine, install).expect_success();
    assert!(!half.exists(), "the install knows that it is not its own");
}

#[test]
fn prune_keeps_a_version_that_was_just_requested() {
    let (_site, machine, _) = machine_with_used_versions();
    machine.run(&["tool", "which", "1.9.8"]).expect_success();
    let kept =
        "terraform 1.9.8, its path was requested at <time>; a process may be about to start it";
    let prune = ["tool", "--product", "terraform", "prune", "--unused-for", "0s"];
    let said = without_times(&machine.run(&[prune.as_slice(), &["--dry-run"]].concat()));
    assert!(said.contains(&format!("kept {kept}")), "{said}");
    let said = without_times(&machine.run(&prune));
    assert!(said.contains(&format!("kept {kept}")), "{said}");
    let said = without_times(&machine.run(&[prune.as_slice(), &["--drain-period", "0"]].concat()));
    assert!(said.contains("removed terraform 1.9.8"), "{said}");
}

#[test]
fn dry_run_of_prune_changes_nothing() {
    let (_site, machine, _) = machine_with_used_versions();
    for version in ["1.7.5", "1.9.8"] {
        std::fs::remove_dir_all(machine.path("cache/terraform").join(format!(".{version}.users")))
            .unwrap();
        let installed = std::fs::File::open(machine.installation("terraform", version)).unwrap();
        installed.set_modified(SystemTime::now() - DAY * 40).unwrap();
    }
    let prune = ["tool", "--product", "terraform", "prune", "--unused-for", "30d", "--dry-run"];
    let first = machine.run(&prune).expect_success();
    assert_eq!(first.stdout.matches("would remove").count(), 2, "{first:?}");
    assert_eq!(machine.run(&prune).expect_success().stdout, first.stdout);
    assert!(!machine.path("cache/terraform/.1.9.8.users").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn leftover_that_cannot_be_removed_fails_the_prune() {
    let (_site, machine, _) = machine_with_used_versions();
    let half = machine.path("cache/terraform/.partial-1.9.8~abc");
    std::fs::create_dir(&half).unwrap();
    // A mount point cannot be removed.
    let mount = format!("mount --bind '{0}' '{0}'", half.display());
    let prune = with_mounts(&machine, &mount, &["tool", "prune"]).output().unwrap();
    let said = machine.output_of(&prune);
    expect![[r"
        exit 1
        could not remove `<machine>/cache/terraform/.partial-1.9.8~abc`: Device or resource busy (os error 16)
        error: some items could not be removed
        hint: see the output for the items and the reasons
    "]]
    .assert_eq(said.normalized());
}

#[cfg(target_os = "linux")]
#[test]
fn metadata_of_a_version_is_removed_with_one_rename() {
    use butler_testing::traced::Stopped;

    let (_site, machine, options) = machine_with_used_versions();
    machine
        .run(&["tool", "--product", "terraform", "uninstall", "1.9.8", "--drain-period", "0"])
        .expect_success();
    let users = machine.path("cache/terraform/.1.9.8.users");
    assert!(users.join("used").exists());
    let used = users.join("used");
    let stopped =
        Stopped::at(&machine.command(&["tool", "--product", "terraform", "prune"]), move || {
            !used.exists()
        });
    // A run that starts at this moment must lock a file that is not about to be removed.
    assert!(!users.exists(), "a run could lock a file in it");
    let starting = std::thread::spawn(move || {
        let tool = runtime().block_on(ready(&request("1.9.8"), &options, &|_| {})).unwrap();
        (tool, options)
    });
    assert_eq!(stopped.resume().status.code(), Some(0));
    let (tool, options) = starting.join().unwrap();
    assert_eq!(users_of(&options).len(), 1);
    let at_once = ["tool", "--product", "terraform", "uninstall", "1.9.8", "--drain-period", "0"];
    assert_eq!(machine.run(&at_once).code, Some(1));
    drop(tool);
    machine.run(&at_once).expect_success();
}
