//! Saving and restoring plans, and crafted files that look like saved plans.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::digest::digest;
use super::*;
use butler_base::error::{Advice, chain};
use butler_fuzz::Target;
use butler_protocol::spec::Operation;

/// A module's directory, and a plan beside it.
struct Scene {
    base: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("module")).unwrap();
        std::fs::write(base.path().join("plan"), "PK plan").unwrap();
        Self { base }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn head(&self) -> Head {
        Head {
            operation: Operation::Apply,
            tool: "opentofu-1.8.3".parse().unwrap(),
            directory: self.path("module"),
            workspace: "stage".to_owned(),
            commit: Some("c0ffee".to_owned()),
        }
    }

    fn save(&self, created: &[PathBuf]) -> PathBuf {
        let (path, plan) = (self.path("saved"), self.path("plan"));
        save(&path, &self.head(), parts(&plan, created, &Snapshot::default())).unwrap();
        path
    }

    /// A crafted file in which each entry has the right digest.
    fn crafted(&self, entries: &[(&str, &str)], change: impl Fn(&mut Value)) -> PathBuf {
        let listed = entries.iter().map(|(name, content)| {
            json!({"name": name, "size": content.len(), "sha256": digest(content.as_bytes())})
        });
        let mut manifest = json!({
            "formatVersion": FORMAT_VERSION, "createdBy": "x", "created": "x",
            "operation": "apply", "tool": "terraform-1.11.4", "workspace": "default",
            "directory": self.path("module"), "entries": listed.collect::<Vec<_>>(),
        });
        change(&mut manifest);
        let manifest = manifest.to_string();
        let sum = format!("{}\n", digest(manifest.as_bytes()));
        let own = [("manifest.json", manifest.as_str()), ("manifest.json.sha256", &sum)];
        let mut tar = tar::Builder::new(Vec::new());
        for (name, content) in own.iter().chain(entries) {
            let mut header = tar::Header::new_gnu();
            // `set_path` refuses what is tried here.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(content.len() as u64);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            tar.append(&header, content.as_bytes()).unwrap();
        }
        let path = self.path("crafted");
        std::fs::write(&path, tar.into_inner().unwrap()).unwrap();
        path
    }

    /// Why the file cannot be used; nothing was written.
    fn refused(&self, path: &Path) -> String {
        let before = Snapshot::of(self.base.path(), &[]);
        let target = self.path("restored");
        let error = Artifact::open(path).and_then(|found| found.restore(&target)).unwrap_err();
        let created = Snapshot::of(self.base.path(), &[]).created_since(&before);
        assert!(created.is_empty(), "{created:?}: {error}");
        chain(&error)
    }
}

fn parts<'a>(plan: &'a Path, created: &'a [PathBuf], before: &'a Snapshot) -> Parts<'a> {
    Parts { plan, created, before, owner: None }
}

#[test]
fn saved_plan_is_restored_with_all_its_files() {
    let scene = Scene::new();
    let others = [scene.path("module/report")];
    let before = Snapshot::of(&scene.path("module"), &others);
    let long = format!("module/build/{}.zip", "long-name-".repeat(20));
    for name in
        [".terraform.lock.hcl", "terraform.tfstate", ".terraform/x", "report/log.txt", &long[7..]]
    {
        scene.write(&format!("module/{name}"), name);
    }
    scene.write("module/run.sh", "#!/bin/sh");
    std::fs::set_permissions(scene.path("module/run.sh"), PermissionsExt::from_mode(0o755))
        .unwrap();
    let created = Snapshot::of(&scene.path("module"), &others).created_since(&before);
    assert_eq!(created, [PathBuf::from(&long[7..]), "run.sh".into()], "what the plan created");
    let path = scene.save(&created);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for name in [".terraform.lock.hcl", "run.sh"] {
        std::fs::remove_file(scene.path("module").join(name)).unwrap();
    }
    std::fs::remove_dir_all(scene.path("module/build")).unwrap();

    let artifact = Artifact::open(&path).unwrap();
    assert_eq!(*artifact.head(), scene.head());
    let plan = scene.path("restored");
    artifact.restore(&plan).unwrap();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(&plan), "PK plan");
    assert_eq!(text(&scene.path("module/.terraform.lock.hcl")), ".terraform.lock.hcl");
    assert_eq!(text(&scene.path(&long)), long[7..]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&plan), mode(&scene.path("module/run.sh"))), (0o600, 0o755));
    // What is there already may stay.
    std::fs::remove_file(&plan).unwrap();
    artifact.restore(&plan).unwrap();
}

#[test]
fn changed_file_is_not_overwritten() {
    let scene = Scene::new();
    for name in [".terraform.lock.hcl", "a.zip"] {
        scene.write(&format!("module/{name}"), "old");
    }
    let path = scene.save(&["a.zip".into()]);
    for (name, advice) in [("a.zip", "restore it"), (".terraform.lock.hcl", "other providers")] {
        let file = scene.path("module").join(name);
        std::fs::write(&file, "new").unwrap();
        let error = Artifact::open(&path).unwrap().restore(&scene.path("restored")).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.advice().unwrap().contains(advice), "{error}");
        assert!(!scene.path("restored").exists());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        std::fs::write(&file, "old").unwrap();
    }
}

#[test]
fn file_that_the_plan_has_changed_is_replaced_as_it_was_before() {
    let scene = Scene::new();
    let names = [".terraform.lock.hcl", "index.js", "same"];
    let write = |texts: [&str; 3]| {
        for (name, text) in names.iter().zip(texts) {
            scene.write(&format!("module/{name}"), text);
        }
    };
    let module = scene.path("module");
    write(["of a Mac", "committed", "same"]);
    let before = Snapshot::of(&module, &[]).with_contents(&module);
    write(["of all platforms", "written", "same"]);
    let (path, plan) = (scene.path("saved"), scene.path("plan"));
    let created = ["index.js".into(), "same".into()];
    save(&path, &scene.head(), parts(&plan, &created, &before)).unwrap();
    let restore = || {
        let target = scene.path("restored");
        let restored = Artifact::open(&path).unwrap().restore(&target);
        assert_eq!(target.exists(), restored.is_ok());
        let _ = std::fs::remove_file(target);
        restored
    };
    let read = || names.map(|name| std::fs::read_to_string(module.join(name)).unwrap());
    let saved = ["of all platforms", "written", "same"];

    // A fresh checkout, and the directory of the plan itself.
    write(["of a Mac", "committed", "same"]);
    assert_eq!(restore().unwrap(), [PathBuf::from(names[0]), names[1].into()]);
    assert_eq!(read(), saved);
    assert!(restore().unwrap().is_empty());
    assert_eq!(read(), saved);
    // One of them only, and a missing one.
    write(["of a Mac", "written", "same"]);
    std::fs::remove_file(module.join("index.js")).unwrap();
    assert_eq!(restore().unwrap(), [PathBuf::from(names[0]), names[1].into()]);
    assert_eq!(read(), saved);
    // A third content is neither that of before the plan nor that of the plan: nothing is replaced.
    for changed in [
        ["third", "committed", "same"],
        ["of a Mac", "third", "same"],
        ["of a Mac", "committed", "third"],
    ] {
        write(changed);
        assert!(matches!(restore(), Err(ArtifactError::Changed { .. })), "{changed:?}");
        assert_eq!(read(), changed);
    }
}

#[test]
fn plan_of_the_first_format_is_read() {
    let scene = Scene::new();
    let path = scene.crafted(&[("plan.tfplan", "PK"), ("files/a", "x")], |manifest| {
        manifest["formatVersion"] = json!(1);
    });
    assert_eq!(
        Artifact::open(&path).unwrap().restore(&scene.path("restored")).unwrap(),
        [PathBuf::from("a")]
    );
}

#[test]
fn changed_or_missing_byte_is_detected() {
    let scene = Scene::new();
    scene.write("module/a.zip", "zip");
    let path = scene.save(&["a.zip".into()]);
    let good = std::fs::read(&path).unwrap();
    // What follows the content of an entry up to its next block means nothing.
    let means_nothing = |index: usize| good[index] == 0;
    for index in (0..good.len()).filter(|index| !means_nothing(*index)) {
        let mut bytes = good.clone();
        bytes[index] ^= 0x01;
        std::fs::write(&path, &bytes).unwrap();
        assert!(Artifact::open(&path).is_err(), "byte {index} of {}", good.len());
    }
    let end = good.iter().rposition(|byte| *byte != 0).unwrap();
    for length in 0..=end {
        std::fs::write(&path, &good[..length]).unwrap();
        assert!(Artifact::open(&path).is_err(), "{length} bytes");
    }
}

#[test]
fn crafted_plan_writes_nothing_outside_the_module_directory() {
    let scene = Scene::new();
    let same = |_: &mut Value| {};
    let plan = ("plan.tfplan", "PK");
    for name in [
        "files/../escaped",
        "files/a/../../escaped",
        "files//tmp/escaped",
        "../escaped",
        "/tmp/escaped",
        "files/.terraform/escaped",
        "files/.git/hooks/escaped",
        "escaped",
    ] {
        let said = scene.refused(&scene.crafted(&[plan, (name, "x")], same));
        assert!(
            said.contains(&format!("it contains the forbidden or duplicate entry `{name}`")),
            "{said}"
        );
    }
    let twice = scene.crafted(&[plan, ("files/a", "x"), ("files/a", "y")], same);
    assert!(
        scene.refused(&twice).contains("it contains the forbidden or duplicate entry `files/a`")
    );
    assert!(scene.refused(&scene.crafted(&[], same)).contains("it does not contain a plan"));

    // Links that are there lead nowhere.
    std::os::unix::fs::symlink(scene.base.path(), scene.path("module/link")).unwrap();
    let said = scene.refused(&scene.crafted(&[plan, ("files/link/escaped", "x")], same));
    assert!(said.contains("link` is not a directory"), "{said}");
    std::os::unix::fs::symlink(scene.path("escaped"), scene.path("module/file")).unwrap();
    let said = scene.refused(&scene.crafted(&[plan, ("files/file", "x")], same));
    assert!(said.contains("file` has changed"), "{said}");
}

#[test]
fn only_plain_files_are_entries() {
    let scene = Scene::new();
    let path = scene.crafted(&[("plan.tfplan", "PK"), ("files/a", "")], |_| {});
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(8).rposition(|it| it == b"files/a\0").unwrap();
    let mut header = tar::Header::new_old();
    header.as_mut_bytes().copy_from_slice(&bytes[at..at + 512]);
    header.set_entry_type(tar::EntryType::Symlink);
    header.as_mut_bytes()[157..168].copy_from_slice(b"/etc/passwd");
    header.set_cksum();
    bytes[at..at + 512].copy_from_slice(header.as_bytes());
    std::fs::write(&path, &bytes).unwrap();
    assert!(scene.refused(&path).contains("instead of the file `files/a`"));
}

#[test]
fn manifest_with_invalid_values_is_refused() {
    let scene = Scene::new();
    let plan = [("plan.tfplan", "PK")];
    for (name, value, said) in [
        (
            "formatVersion",
            json!(3),
            "has format 3, and this version of butler-runner reads format 2",
        ),
        ("operation", json!("plan"), "the operation `plan`"),
        ("tool", json!("latest"), "the tool `latest`"),
        ("directory", json!("module"), "the directory `module`"),
        ("surprise", json!(1), "unknown field"),
    ] {
        let path = scene.crafted(&plan, |manifest| manifest[name] = value.clone());
        let refused = scene.refused(&path);
        assert!(refused.contains(said), "{refused}");
    }
    let elsewhere = Artifact::open(&scene.crafted(&plan, |_| {})).unwrap();
    let error = elsewhere.check_directory(&scene.path("")).unwrap_err();
    assert!(error.advice().unwrap().contains("butler-runner apply /"), "{error}");
    elsewhere.check_directory(&scene.path("module/../module")).unwrap();
}

#[test]
fn failed_save_keeps_the_older_plan() {
    let scene = Scene::new();
    let path = scene.save(&[]);
    let before = std::fs::read(&path).unwrap();
    let (plan, created) = (scene.path("plan"), ["missing".into()]);
    let before_plan = Snapshot::default();
    let parts = parts(&plan, &created, &before_plan);
    assert!(save(&path, &scene.head(), parts).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(scene.base.path()).unwrap().count(), 3, "nothing is left beside");
}

#[test]
fn file_of_another_user_is_not_saved_with_the_plan() {
    let scene = Scene::new();
    scene.write("module/made", "made");
    let (path, plan, created) = (scene.path("saved"), scene.path("plan"), ["made".into()]);
    let own = butler_base::platform::fs::user();
    let save = |owner| {
        let before = Snapshot::default();
        let parts = Parts { owner: Some(owner), ..parts(&plan, &created, &before) };
        save(&path, &scene.head(), parts)
    };
    let error = butler_base::error::chain(&save(own + 1).unwrap_err());
    assert!(error.contains("it belongs to another user"), "{error}");
    assert!(!path.exists());
    save(own).unwrap();
}

#[test]
fn fuzz_artifact_broken_file_is_refused_and_writes_nothing_outside() {
    let scene = Scene::new();
    scene.write("module/build/a.zip", "zip");
    let good = std::fs::read(scene.save(&["build/a.zip".into()])).unwrap();
    let (path, plan) = (scene.path("broken"), scene.path("restored"));
    let target = Target {
        name: "artifact",
        samples: &[&good],
        tokens: &[b"files/../x", b"manifest.json", b"\0\0\0\0", b"ustar", b"formatVersion"],
        rounds: 200,
    };
    target.run(|bytes, _| {
        std::fs::write(&path, bytes).unwrap();
        let Ok(artifact) = Artifact::open(&path) else { return };
        // Only what means nothing was changed.
        assert_eq!(*artifact.head(), scene.head());
        std::fs::remove_file(scene.path("module/build/a.zip")).unwrap();
        artifact.restore(&plan).unwrap();
        assert_eq!(std::fs::read_to_string(&plan).unwrap(), "PK plan");
        assert_eq!(std::fs::read_to_string(scene.path("module/build/a.zip")).unwrap(), "zip");
        std::fs::remove_file(&plan).unwrap();
    });
}

#[test]
fn plan_replaces_nothing_but_a_plan() {
    let scene = Scene::new();
    let (path, plan) = (scene.path("saved"), scene.path("plan"));
    let before = Snapshot::default();
    let save = || save(&path, &scene.head(), parts(&plan, &[], &before));
    for content in
        ["{\"version\": 4, \"resources\": []}", "PK\u{3}\u{4}tfplan", "x", "manifest.json.sha256"]
    {
        std::fs::write(&path, content).unwrap();
        let error = save().unwrap_err();
        assert!(matches!(error, ArtifactError::Occupied { .. }), "{error}");
        assert!(error.advice().unwrap().contains("--out"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        std::fs::remove_file(&path).unwrap();
    }
    for target in ["/dev/null", "/nonexistent", "module"] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        assert!(matches!(save(), Err(ArtifactError::Occupied { .. })), "{target}");
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::write(&path, "").unwrap();
    save().unwrap();
    // A plan that was cut off is still one.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(700).unwrap();
    save().unwrap();
    Artifact::open(&path).unwrap();
}
