//! Digests of real repositories.

use butler_base::platform::fs::PermissionsExt;

use super::*;
use crate::model::{Commit, Digest};
use crate::test_repository::TestRepository;

/// A repository with a layer that uses a module, which uses another one.
fn files() -> TestRepository {
    let files = TestRepository::new();
    files.write("envs/prod/main.tf", "module \"a\" {\n  source = \"../../modules/a\"\n}\n");
    files.write("envs/prod/README.md", "prod");
    files.write("modules/a/main.tf", "module \"b\" {\n  source = \"../b\"\n}\n");
    files.write("modules/b/main.tf", "locals { x = file(\"${path.module}/../../data/x.json\") }");
    files.write("modules/unused/main.tf", "");
    files.write("data/x.json", "1");
    files.write("data/y.json", "1");
    files.write(".terraform-version", "1.11.4");
    files.write("envs/common.hcl", "");
    files.write("shared/deep/policy.rego", "");
    files
}

fn digest_of(files: &TestRepository, path: &str, triggers: &[&str]) -> Option<Digest> {
    digest_at(files, &files.commit(), path, triggers)
}

fn digest_at(
    files: &TestRepository,
    commit: &Commit,
    path: &str,
    triggers: &[&str],
) -> Option<Digest> {
    needs_at(files, commit, path, triggers).unwrap().map(|needs| digest(&needs.entries))
}

pub(super) fn needs_at(
    files: &TestRepository,
    commit: &Commit,
    path: &str,
    triggers: &[&str],
) -> Result<Option<Needs>, TreeError> {
    let tree = GitTree::of(&files.repository, commit.as_str()).unwrap();
    let matched = matching(&tree, &globs(triggers.iter().copied()).unwrap()).unwrap();
    let layer = LayerFiles {
        path,
        values: Vec::new(),
        triggers: (!triggers.is_empty()).then_some(&matched),
        is_terragrunt: false,
        is_full: false,
    };
    needs(&tree, &layer, &mut ParentFiles::default(), &mut ReferenceCache::default())
}

#[test]
fn digest_changes_with_what_the_layer_depends_on_only() {
    let triggers = ["shared/**/*.rego", "data/*.txt"];
    for (path, changes) in [
        ("envs/prod/main.tf", true),
        ("envs/prod/sub/new.txt", true),
        ("modules/a/new.tf", true),
        ("modules/b/main.tf", true),
        ("data/x.json", true),
        ("envs/common.hcl", true),
        (".terraform-version", true),
        ("shared/deep/policy.rego", true),
        ("data/new.txt", true),
        ("data/sub/new.txt", false),
        ("modules/unused/main.tf", false),
        ("data/y.json", false),
        ("envs/dev/main.tf", false),
        ("shared/deep/policy.txt", false),
    ] {
        let files = files();
        let before = digest_of(&files, "envs/prod", &triggers).unwrap();
        files.write(path, "# changed\n");
        let after = digest_of(&files, "envs/prod", &triggers).unwrap();
        assert_eq!(before != after, changes, "{path}");
        // A revert is the same revision again.
        if path == "data/x.json" {
            files.write(path, "1");
            assert_eq!(digest_of(&files, "envs/prod", &triggers).unwrap(), before);
        }
    }
}

#[test]
fn digest_contains_what_the_layer_uses_of_a_submodule() {
    let files = TestRepository::new();
    files.write("envs/prod/main.tf", "module \"a\" {\n  source = \"../../vendor/lib/a\"\n}\n");
    files.write("envs/dev/main.tf", "");
    files.commit();
    let elsewhere = |a: &str, b: &str| {
        let module = "module \"inner\" { source = \"../inner\" }";
        files.commit_elsewhere(&[
            ("a/main.tf", module),
            ("inner/main.tf", a),
            ("b/main.tf", b),
            ("README.md", ""),
        ])
    };
    let digests = |submodule: &str| {
        let commit = files.add_submodule("vendor/lib", submodule);
        let digest = |path, triggers: &[&str]| digest_at(&files, &commit, path, triggers).unwrap();
        [
            digest("envs/prod", &[]),
            digest("vendor/lib/a", &[]),
            digest("envs/dev", &["vendor/**/b/*.tf"]),
            digest("envs/dev", &["vendor/**/*.md"]),
        ]
    };
    let before = digests(&elsewhere("1", "1"));
    for (a, b, expected) in [
        ("2", "1", [true, true, false, false]),
        ("1", "2", [false, false, true, false]),
        ("1", "1", [false; 4]),
    ] {
        let after = digests(&elsewhere(a, b));
        let changed = std::array::from_fn(|index| before[index] != after[index]);
        assert_eq!(changed, expected, "{a} {b}");
    }
    // The mirror leaves out submodules on purpose, for example those with `update = none`.
    let missing = files.add_submodule("vendor/lib", "1111111111111111111111111111111111111111");
    assert!(digest_at(&files, &missing, "envs/prod", &["vendor/**"]).is_some());
    assert_eq!(digest_at(&files, &missing, "vendor/lib/a", &[]), None);
}

#[test]
fn digest_contains_what_a_unit_of_terragrunt_names() {
    let files = TestRepository::new();
    let unit = "terraform { source = \"${get_repo_root()}//modules/vpc\" }
include \"env\" { path = \"${dirname(find_in_parent_folders(\"env.hcl\"))}/_common/vpc.hcl\" }
locals { x = file(\"${dirname(find_in_parent_folders())}/data/x.json\") }
";
    files.write("live/prod/vpc/terragrunt.hcl", unit);
    files.write("live/prod/env.hcl", "");
    files.write("live/root.hcl", "");
    let mut before = digest_of(&files, "live/prod/vpc", &[]).unwrap();
    for (path, changes) in [
        ("modules/vpc/main.tf", true),
        ("live/prod/_common/vpc.hcl", true),
        ("live/data/x.json", true),
        ("data/x.json", false),
        ("_common/vpc.hcl", false),
        ("live/prod/dns/terragrunt.hcl", false),
    ] {
        files.write(path, "");
        let after = digest_of(&files, "live/prod/vpc", &[]).unwrap();
        assert_eq!(before != after, changes, "{path}");
        before = after;
    }
}

#[test]
fn executable_file_is_another_file() {
    let files = files();
    let before = digest_of(&files, "envs/prod", &[]).unwrap();
    let script = files.path().join("data/x.json");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_ne!(digest_of(&files, "envs/prod", &[]).unwrap(), before);
}

#[test]
fn missing_directory_has_no_digest() {
    let files = files();
    assert_eq!(digest_of(&files, "envs/staging", &[]), None);
    assert_eq!(digest_of(&files, "envs/common.hcl", &[]), None);
}

#[test]
fn modules_that_use_each_other_end() {
    let files = files();
    files.write("modules/b/back.tf", "module \"a\" { source = \"../a\" }");
    assert!(digest_of(&files, "envs/prod", &[]).is_some());
}
