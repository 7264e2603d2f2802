use std::os::unix::fs::{MetadataExt, symlink};
use std::time::UNIX_EPOCH;

use super::*;

/// A state, so far as the runner reads it.
const STATE: &str = r#"{"version": 4}"#;

/// A run's directory in `base`, with its secrets in `base` too.
fn create(base: &Path) -> RunDirectory {
    let options = RunDirectoryOptions {
        work_dir: base,
        path: None,
        tmpfs_dir: Some(base),
        owner: "run 7".to_owned(),
    };
    RunDirectory::create(&options, &mut None).unwrap()
}

#[test]
fn state_survives_the_wipe_if_the_recovery_directory_is_not_usable() {
    let base = tempfile::tempdir().unwrap();
    let run = create(base.path());
    std::fs::create_dir(run.source()).unwrap();
    run.prepare_module(&run.source()).unwrap();
    std::fs::write(run.source().join("errored.tfstate"), STATE).unwrap();
    let cache = base.path().join("cache");
    std::fs::write(&cache, "a file where a directory should be").unwrap();
    let kept = run.rescue_state(&cache).unwrap().unwrap();
    run.wipe().unwrap();
    assert_eq!(std::fs::read_to_string(kept.path()).unwrap(), STATE);
}

#[test]
fn state_that_cannot_be_moved_stays_while_secrets_are_wiped() {
    let base = tempfile::tempdir().unwrap();
    let run = create(base.path());
    std::fs::create_dir(run.source()).unwrap();
    run.prepare_module(&run.source()).unwrap();
    let state = run.source().join("errored.tfstate");
    std::fs::write(&state, STATE).unwrap();
    let private = run.private().path().to_owned();
    let secrets = run.secrets().path().to_owned();
    std::fs::write(private.join("plan.tfplan"), "hunter22").unwrap();
    std::fs::write(private.join("data/terraform.tfstate"), "hunter22").unwrap();
    run.wipe_but_clone().unwrap();
    assert_eq!(std::fs::read_to_string(&state).unwrap(), STATE);
    assert!(!secrets.exists());
    let mut left: Vec<_> =
        std::fs::read_dir(&private).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["module", "owner.lock", "source", "tool.lock"]);
    assert_eq!(module_of(&private), Some(std::fs::canonicalize(private.join(SOURCE)).unwrap()));
}

#[test]
fn state_that_was_not_stored_survives_the_wipe() {
    let base = tempfile::tempdir().unwrap();
    let run = create(base.path());
    let module = run.source();
    std::fs::create_dir(&module).unwrap();
    run.prepare_module(&module).unwrap();
    let cache = base.path().join("cache");
    assert_eq!(run.rescue_state(&cache).unwrap(), None);
    std::fs::write(module.join("errored.tfstate"), STATE).unwrap();
    let kept = run.rescue_state(&cache).unwrap().unwrap();
    run.wipe().unwrap();
    assert_eq!(std::fs::read_to_string(kept.path()).unwrap(), STATE);
    assert_eq!(std::fs::metadata(kept.path()).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn state_in_the_repository_is_not_kept() {
    let base = tempfile::tempdir().unwrap();
    let secret = base.path().join("secret");
    std::fs::write(&secret, "of another").unwrap();
    for linked in [false, true] {
        let run = create(base.path());
        let module = run.source();
        std::fs::create_dir(&module).unwrap();
        let cloned = module.join("errored.tfstate");
        if linked {
            symlink(&secret, &cloned).unwrap();
        } else {
            std::fs::write(&cloned, "old").unwrap();
        }
        run.prepare_module(&module).unwrap();
        assert_eq!(run.rescue_state(&base.path().join("recovery")).unwrap(), None);
        run.wipe().unwrap();
    }
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "of another");
}

#[test]
fn files_written_to_the_clone_are_overwritten_and_the_data_directory_is_private() {
    let base = tempfile::tempdir().unwrap();
    let run = create(base.path());
    let module = run.source().join("module");
    std::fs::create_dir_all(module.join(".terraform")).unwrap();
    run.prepare_module(&module).unwrap();
    std::fs::write(module.join(".terraform/terraform.tfstate"), "hunter22").unwrap();
    assert!(run.private().path().join("data/terraform.tfstate").exists());
    let state = module.join("terraform.tfstate.d/stage/terraform.tfstate.backup");
    std::fs::create_dir_all(state.parent().unwrap()).unwrap();
    let artefact = run.source().join("artefact");
    let open = [state, artefact].map(|path| {
        std::fs::write(&path, "hunter22").unwrap();
        // Programs that extract archives set old times.
        File::options().write(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        File::open(&path).unwrap()
    });
    run.wipe().unwrap();
    for open in open {
        assert_eq!(std::io::read_to_string(open).unwrap(), "\0".repeat(8));
    }
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}

#[test]
fn data_directory_in_the_module_is_private_and_overwritten_but_not_what_init_has_downloaded() {
    let base = tempfile::tempdir().unwrap();
    let run = create(base.path());
    let module = run.source().join("module");
    std::fs::create_dir_all(&module).unwrap();
    run.prepare_module(&module).unwrap();
    keep_data_in_module(&module).unwrap();
    let data = module.join(".terraform");
    let found = std::fs::symlink_metadata(&data).unwrap();
    assert!(found.is_dir() && found.mode() & 0o777 == 0o700, "{found:?}");
    // A second time changes nothing.
    keep_data_in_module(&module).unwrap();
    let files = ["terraform.tfstate", "environment", "providers/x/provider", "modules/m/main.tf"];
    let open = files.map(|name| {
        let path = data.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "hunter22").unwrap();
        File::open(&path).unwrap()
    });
    // A directory of this name elsewhere is not the tool's.
    let other = module.join("providers/secret");
    std::fs::create_dir_all(other.parent().unwrap()).unwrap();
    std::fs::write(&other, "hunter22").unwrap();
    let other = File::open(&other).unwrap();
    run.wipe().unwrap();
    let left = open.map(|file| std::io::read_to_string(file).unwrap());
    let zeros = "\0".repeat(8);
    assert_eq!(left, [&*zeros, &*zeros, "hunter22", "hunter22"]);
    assert_eq!(std::io::read_to_string(other).unwrap(), zeros);
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}

#[test]
fn files_of_the_checkout_are_not_overwritten() {
    let base = tempfile::tempdir().unwrap();
    let run = create(base.path());
    std::fs::create_dir(run.source()).unwrap();
    let file = run.source().join("large.bin");
    std::fs::write(&file, "hunter22").unwrap();
    // File times come from a coarse clock.
    let ticked = || {
        let probe = base.path().join("probe");
        std::fs::write(&probe, "").unwrap();
        let [one, other] = [&probe, &file].map(|path| {
            let found = std::fs::metadata(path).unwrap();
            (found.ctime(), found.ctime_nsec())
        });
        one > other
    };
    while !ticked() {}
    run.prepare_module(&run.source()).unwrap();
    let open = File::open(&file).unwrap();
    run.wipe().unwrap();
    assert_eq!(std::io::read_to_string(open).unwrap(), "hunter22");
}

#[test]
fn executable_files_are_not_in_memory() {
    let base = tempfile::tempdir().unwrap();
    let run = create(base.path());
    let secret = run.secrets().write("secret", b"hunter22").unwrap();
    assert!(!secret.starts_with(run.private().path()));
    let script = run.secrets().write_executable("script", b"#!/bin/sh\n").unwrap();
    assert!(script.starts_with(run.private().path()));
    assert_eq!(std::fs::metadata(&script).unwrap().mode() & 0o777, 0o700);
}
