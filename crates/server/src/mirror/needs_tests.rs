//! What layers need of real repositories.

use std::os::unix::fs::symlink;

use super::tests::needs_at;
use super::*;
use crate::test_repository::TestRepository;

/// What the layer `envs/prod` depends on.
fn paths(files: &TestRepository) -> Vec<String> {
    let needs = needs_at(files, &files.commit(), "envs/prod", &[]).unwrap().unwrap();
    assert_eq!(needs.note, None);
    assert!(!needs.is_full);
    needs.entries.into_keys().collect()
}

fn link(files: &TestRepository, path: &str, target: &str) {
    let path = files.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

#[test]
fn layer_needs_everything_if_a_path_is_computed() {
    let reads = |value: &str| format!("output \"o\" {{\n  value = {value}\n}}\n");
    for (value, known) in [
        ("fileset(path.module, \"../../conf/*.yaml\")", true),
        ("fileset(join(\"/\", [path.module, \"../../conf\"]), \"*.yaml\")", false),
    ] {
        let files = TestRepository::new();
        files.write("envs/prod/main.tf", &reads(value));
        files.write("conf/a.yaml", "");
        files.write("other/x", "");
        let commit = files.commit();
        let needs = needs_at(&files, &commit, "envs/prod", &[]).unwrap().unwrap();
        let with_triggers = needs_at(&files, &commit, "envs/prod", &["other/*"]).unwrap().unwrap();
        let keys = |needs: &Needs| needs.entries.keys().cloned().collect::<Vec<_>>();
        assert_eq!((needs.is_full, with_triggers.is_full), (!known, !known));
        if known {
            assert_eq!(keys(&needs), ["conf", "envs/prod"]);
            assert_eq!(needs.note, None);
        } else {
            assert_eq!(keys(&needs), [""]);
            assert_eq!(keys(&with_triggers), ["conf", "envs/prod", "other/x"]);
            let begin = "it is not known what the module reads (`envs/prod/main.tf`, line 2: `fileset` reads a \
                         path that is computed), so attempts get all files of the commit, and ";
            let rest = [
                (
                    needs,
                    "each commit that changes a file plans the layer; name what it depends on in `triggers`",
                ),
                (
                    with_triggers,
                    "commits plan the layer if they change what is known, or what matches `triggers`",
                ),
            ];
            for (needs, end) in rest {
                assert_eq!(needs.note.unwrap(), format!("{begin}{end}"));
            }
        }
    }
}

#[test]
fn modules_that_are_used_are_looked_at_too() {
    let files = TestRepository::new();
    files.write("envs/prod/main.tf", "module \"a\" {\n  source = \"../../modules/a\"\n}\n");
    files.write("modules/a/main.tf", "output \"o\" {\n  value = file(\"../x.json\")\n}\n");
    files.write("envs/x.json", "");
    files.write("modules/x.json", "");
    // A path without `path.module` begins in the directory of the layer.
    assert_eq!(paths(&files), ["envs/prod", "envs/x.json", "modules/a"]);
    files.write("modules/a/main.tf", "output \"o\" {\n  value = file(var.path)\n}\n");
    let needs = needs_at(&files, &files.commit(), "envs/prod", &[]).unwrap().unwrap();
    assert!(needs.note.unwrap().contains("`modules/a/main.tf`, line 2"));
    files.write(
        "modules/a/main.tf",
        "output \"o\" {\n  value = templatefile(\"${path.module}/a.tpl\", {})\n}\n",
    );
    files.write("modules/a/a.tpl", "${file(\"../x.json\")}");
    assert_eq!(paths(&files), ["envs/prod", "envs/x.json", "modules/a", "modules/a/a.tpl"]);
    files.write("modules/a/a.tpl", "${file(path)}");
    let needs = needs_at(&files, &files.commit(), "envs/prod", &[]).unwrap().unwrap();
    assert!(needs.note.unwrap().contains("`modules/a/a.tpl`, line 1"));
}

#[test]
fn program_of_a_provisioner_gets_all_files_but_does_not_change_the_digest() {
    let files = TestRepository::new();
    files.write(
        "envs/prod/main.tf",
        "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"../../run\"\n  }\n}\n",
    );
    files.write("run", "");
    let needs = needs_at(&files, &files.commit(), "envs/prod", &[]).unwrap().unwrap();
    assert!(needs.is_full);
    assert_eq!(needs.entries.into_keys().collect::<Vec<_>>(), ["envs/prod", "run"]);
    assert!(needs.note.unwrap().contains("line 2: the program of `local-exec` can read any file"));
}

#[test]
fn targets_of_links_are_needed() {
    let files = TestRepository::new();
    files.write("envs/prod/main.tf", "");
    files.write("shared/one.tf", "module \"a\" {\n  source = \"./sub\"\n}\n");
    files.write("shared/values/x", "");
    files.write("data/x", "");
    files.write("unused/x", "");
    files.write("prod.tfvars", "a = \"../../data/x\"\n");
    // A chain, in which one link is in a directory that is itself one.
    link(&files, "envs/prod/one.tf", "../../links/two.tf");
    link(&files, "links", "real");
    link(&files, "real/two.tf", "../shared/one.tf");
    link(&files, "envs/prod/sub/deep/values", "../../../../shared/values");
    link(&files, "envs/prod/x.auto.tfvars", "../../prod.tfvars");
    link(&files, "envs/prod/nothing", "../../nothing");
    link(&files, "envs/prod/loop", "loop");
    let expected = [
        "data/x",
        "envs/prod",
        "envs/prod/loop",
        "envs/prod/nothing",
        "envs/prod/one.tf",
        "envs/prod/sub",
        "envs/prod/sub/deep/values",
        "envs/prod/x.auto.tfvars",
        "links",
        "prod.tfvars",
        "real/two.tf",
        "shared/one.tf",
        "shared/values",
    ];
    assert_eq!(paths(&files), expected);
}

#[test]
fn layer_and_module_can_be_links() {
    let files = TestRepository::new();
    files.write("real/a/main.tf", "module \"m\" {\n  source = \"../../module\"\n}\n");
    files.write("modules/m/main.tf", "module \"m\" {\n  source = \"../n\"\n}\n");
    files.write("modules/n/main.tf", "");
    link(&files, "envs", "real");
    link(&files, "module", "modules/m");
    link(&files, "envs-of/prod", "../envs/a");
    let needs = needs_at(&files, &files.commit(), "envs-of/prod", &[]).unwrap().unwrap();
    let keys: Vec<_> = needs.entries.into_keys().collect();
    assert_eq!(keys, ["envs", "envs-of/prod", "module", "modules/m", "modules/n", "real/a"]);
}

#[test]
fn link_out_of_the_repository_is_named() {
    for (path, target) in [
        ("envs/prod/x.auto.tfvars", "/etc/x.tfvars"),
        ("envs/prod/sub/x", "../../../../x"),
        ("envs/prod/main.tf", "../../../main.tf"),
        ("modules/a/x", "/x"),
        (".terraform-version", "../x"),
        ("modules/b", "../../b"),
        ("shared/x", "/x"),
    ] {
        let files = TestRepository::new();
        if path != "envs/prod/main.tf" {
            let source = |name: &str| {
                format!("module \"{name}\" {{\n  source = \"../../modules/{name}\"\n}}\n")
            };
            files.write("envs/prod/main.tf", &(source("a") + &source("b")));
        }
        files.write("modules/a/main.tf", "");
        files.write("unused/x", "");
        link(&files, "envs/prod/shared", "../../shared");
        link(&files, "unused/y", "/etc/passwd");
        link(&files, path, target);
        let error = needs_at(&files, &files.commit(), "envs/prod", &[]).unwrap_err();
        assert!(matches!(error, TreeError::Content { .. }), "{error:?}");
        let expected = format!(
            "cannot use `{path}` of the commit: the link leads out of the repository; replace it by what it \
             leads to"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn link_that_attempts_do_not_get_does_not_matter() {
    let files = TestRepository::new();
    files.write("envs/prod/main.tf", "");
    link(&files, "other/link", "/etc/passwd");
    link(&files, "other/inside", "../envs/prod");
    assert!(!needs_at(&files, &files.commit(), "envs/prod", &[]).unwrap().unwrap().is_full);
    files.write("envs/prod/main.tf", "output \"o\" {\n  value = file(var.a)\n}\n");
    let error = needs_at(&files, &files.commit(), "envs/prod", &[]).unwrap_err().to_string();
    assert!(error.contains("`other/link` of the commit: the link leads out"), "{error}");
    std::fs::remove_file(files.path().join("other/link")).unwrap();
    assert!(needs_at(&files, &files.commit(), "envs/prod", &[]).unwrap().unwrap().is_full);
}

#[test]
fn directories_that_are_too_deep_are_named() {
    let files = TestRepository::new();
    files.write("good/main.tf", "");
    files.write("full/main.tf", "output \"o\" {\n  value = file(var.a)\n}\n");
    files.write("deep/main.tf", "");
    files.commit();
    let commit = files.commit_deep("deep", 2_000);
    assert!(needs_at(&files, &commit, "good", &[]).unwrap().is_some());
    for path in ["deep", "full"] {
        let error = needs_at(&files, &commit, path, &[]).unwrap_err().to_string();
        assert!(error.starts_with("cannot use `deep/a/a/"), "{error}");
        assert!(error.ends_with("it has more than 100 directories below each other"), "{error}");
    }
}

#[test]
fn parent_directories_count_for_files_that_tools_read() {
    for (path, counts) in [
        (".terraform-version", true),
        (".opentofu-version", true),
        (".tool-versions", true),
        ("root.hcl", true),
        ("common.tfvars", true),
        ("envs/common.tfvars.json", true),
        ("envs/versions.tf", true),
        ("terragrunt.hcl.json", true),
        ("README.md", false),
        ("LICENSE", false),
        ("CODEOWNERS", false),
        ("Makefile", false),
        ("envs/README.md", false),
        ("envs/dev/x.hcl", false),
    ] {
        let files = TestRepository::new();
        files.write("envs/prod/main.tf", "");
        files.write(path, "");
        assert_eq!(paths(&files).contains(&path.to_owned()), counts, "{path}");
    }
}

#[test]
fn units_of_terragrunt_count_files_of_parents_that_are_no_prose() {
    let files = TestRepository::new();
    files.write(
        "live/prod/terragrunt.hcl",
        "include {\n  path = find_in_parent_folders(\"root.hcl\")\n}\n",
    );
    files.write("live/root.hcl", "terraform {\n  source = \"${get_repo_root()}//modules/a\"\n}\n");
    files.write("live/common.yaml", "");
    files.write("live/README.md", "");
    files.write("modules/a/main.tf", "module \"b\" {\n  source = \"../b\"\n}\n");
    files.write("modules/b/main.tf", "");
    files.write("other/x", "");
    let needs = needs_at(&files, &files.commit(), "live/prod", &[]).unwrap().unwrap();
    assert!(needs.is_full && needs.note.is_none());
    let keys: Vec<_> = needs.entries.into_keys().collect();
    assert_eq!(keys, ["live/common.yaml", "live/prod", "live/root.hcl", "modules/a", "modules/b"]);
    files.write("live/root.hcl", "locals {\n  a = run_cmd(\"x\")\n}\n");
    let needs = needs_at(&files, &files.commit(), "live/prod", &[]).unwrap().unwrap();
    assert_eq!(needs.entries.into_keys().collect::<Vec<_>>(), [""]);
    assert!(needs.note.unwrap().contains("`live/root.hcl`, line 2: the program of `run_cmd`"));
}
