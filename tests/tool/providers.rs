//! The provider cache: whole runs with real Terraform, a mirror of providers, and caches that are
//! shared, modified, damaged and pruned.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use butler_runner::providers::prune;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use butler_testing::environment::find_program;
use butler_testing::provider_mirror::{ADDRESS, Files, ProviderMirror, package};
use butler_testing::release_site::platform;
use butler_testing::root::as_root_async;
use butler_testing::world::{MODULE, RunEnd, World, eventually};

const VERSION: &str = "1.2.3";

/// A provider that is never started.
const IDLE: &str = "exit 1";

fn mirror() -> ProviderMirror {
    ProviderMirror::start(&[(VERSION, package(VERSION, IDLE)), ("2.0.0", package("2.0.0", IDLE))])
}

/// A world whose module requires the provider in `version` and has a lock file for it.
async fn world(mirror: &ProviderMirror, version: &str, cache: &Path) -> World {
    let (module, lock) = (ProviderMirror::module(version), mirror.lock_file(version));
    with_cache(mirror, &[("main.tf", &module), (".terraform.lock.hcl", &lock)], cache).await
}

async fn with_cache(mirror: &ProviderMirror, files: &[(&str, &str)], cache: &Path) -> World {
    let mut world = World::new(files).await;
    mirror.serve(&mut world);
    world.set("BUTLER_PROVIDER_CACHE", cache);
    world
}

/// Runs `test` on a module without tests, so that only `init` uses providers.
async fn run(world: &World) -> RunEnd {
    let end = world.run(world.config("test")).await;
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, world.received().log_text());
    end
}

fn start(world: &World) -> (Child, Pid) {
    world.add_run(world.config("test"));
    let child = world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    (child, pid)
}

/// The directory of the package of a version in the cache.
fn package_path(cache: &Path, version: &str) -> PathBuf {
    cache.join(ADDRESS).join(version).join(platform())
}

/// Asserts that the cache has the complete package, private to this user, and no other files beside
/// it.
fn assert_complete_package(cache: &Path, files: &Files, version: &str) {
    let package = package_path(cache, version);
    let mut names: Vec<_> = std::fs::read_dir(&package)
        .unwrap_or_else(|error| panic!("{}: {error}", package.display()))
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    for (name, content) in files {
        let path = package.join(name);
        assert_eq!(std::fs::read(&path).unwrap(), *content, "{name}");
        let found = path.metadata().unwrap();
        assert_eq!((found.nlink(), found.mode() & 0o222), (1, 0), "{name}");
    }
    assert_eq!(cache.metadata().unwrap().mode() & 0o777, 0o700);
    let books = std::fs::read_dir(cache.join(".butler-runner")).unwrap();
    let passing: Vec<_> = books
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            let extension = Path::new(name).extension().and_then(|it| it.to_str());
            !matches!(extension, Some("lock" | "sum"))
        })
        .collect();
    assert_eq!(passing, [""; 0]);
}

#[tokio::test]
async fn ten_runs_with_an_empty_shared_cache_download_a_package_once() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let worlds = (0..10).map(|_| world(&mirror, VERSION, &cache));
    let worlds = futures_util::future::join_all(worlds).await;
    futures_util::future::join_all(worlds.iter().map(run)).await;
    assert_eq!(mirror.archives(), 1);
    assert_complete_package(&cache, mirror.files(VERSION), VERSION);
    for world in &worlds {
        let log = world.received().log_text();
        assert!(!log.contains("Warning: "), "{log}");
    }
    // Much later, without a server to download from.
    mirror.hold(true);
    run(&worlds[0]).await;
    assert_eq!(mirror.archives(), 1);
}

#[tokio::test]
async fn ten_runs_with_the_users_plugin_cache_run_init_one_at_a_time() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let (cache, theirs) = (shared.path().join("providers"), shared.path().join("theirs"));
    std::fs::create_dir(&theirs).unwrap();
    let worlds = (0..10).map(async |_| {
        let mut world = world(&mirror, VERSION, &cache).await;
        world.set("TF_PLUGIN_CACHE_DIR", &theirs);
        world
    });
    let worlds = futures_util::future::join_all(worlds).await;
    futures_util::future::join_all(worlds.iter().map(run)).await;
    assert_eq!(mirror.archives(), 1);
    assert!(package_path(&theirs, VERSION).is_dir());
    assert!(!cache.exists(), "the runner's own is not used beside it");
}

#[tokio::test]
async fn module_without_checksums_does_not_replace_packages_of_the_users_plugin_cache() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let (cache, theirs) = (shared.path().join("providers"), shared.path().join("theirs"));
    std::fs::create_dir(&theirs).unwrap();
    let mut first = world(&mirror, VERSION, &cache).await;
    first.set("TF_PLUGIN_CACHE_DIR", &theirs);
    run(&first).await;
    let program =
        package_path(&theirs, VERSION).join(format!("terraform-provider-test_v{VERSION}"));
    let file = || program.metadata().map(|found| (found.ino(), found.mtime_nsec())).unwrap();
    let before = file();
    let module = ProviderMirror::module(VERSION);
    let lock = mirror.lock_file(VERSION);
    let (above, rest) = lock.split_once("  hashes").unwrap();
    let without_hashes = format!("{above}{}", rest.split_once("]\n").unwrap().1);
    for files in [
        vec![("main.tf", &*module)],
        vec![("main.tf", &*module), (".terraform.lock.hcl", &*without_hashes)],
    ] {
        let mut world = with_cache(&mirror, &files, &cache).await;
        world.set("TF_PLUGIN_CACHE_DIR", &theirs);
        run(&world).await;
        assert_eq!(file(), before, "the package was replaced");
    }
    // Without a cache of its own, the runner keeps the lock until the run ends.
    let mut alone = with_cache(&mirror, &[("main.tf", &module)], Path::new("off")).await;
    alone.set("TF_PLUGIN_CACHE_DIR", &theirs);
    let held = std::fs::File::open(theirs.join(".butler-runner.lock")).unwrap();
    held.lock().unwrap();
    alone.set("BUTLER_TOOL_TIMEOUT", "1s");
    let end = alone.run(alone.config("test")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    drop(held);
    run(&alone).await;
}

#[tokio::test]
async fn cached_package_that_does_not_match_the_lock_file_is_replaced() {
    as_root_async(async {
        let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
        let cache = shared.path().join("providers");
        let world = world(&mirror, VERSION, &cache).await;
        run(&world).await;
        let package = package_path(&cache, VERSION);
        let provider = package.join(format!("terraform-provider-test_v{VERSION}"));
        let changes: [(&str, &dyn Fn()); 9] = [
            ("changed", &|| std::fs::write(&provider, "#!/bin/sh\nexit 7\n").unwrap()),
            ("cut short", &|| std::fs::write(&provider, "").unwrap()),
            ("half unpacked", &|| std::fs::remove_file(&provider).unwrap()),
            ("more than it was", &|| std::fs::write(package.join("more"), "").unwrap()),
            ("a link in it", &|| {
                std::fs::remove_file(&provider).unwrap();
                symlink("/bin/sh", &provider).unwrap();
            }),
            ("itself a link", &|| {
                std::fs::remove_dir_all(&package).unwrap();
                symlink("/", &package).unwrap();
            }),
            ("open to all", &|| {
                std::fs::set_permissions(&provider, PermissionsExt::from_mode(0o777)).unwrap();
            }),
            ("another user's", &|| {
                chown(&provider, Some(12345), None).unwrap();
            }),
            ("a file", &|| {
                std::fs::remove_dir_all(&package).unwrap();
                std::fs::write(&package, "").unwrap();
            }),
        ];
        for (number, (change, make)) in changes.into_iter().enumerate() {
            make();
            run(&world).await;
            assert_eq!(mirror.archives(), number + 2, "{change}");
            let log = world.received().log_text();
            let named =
                format!("Warning: {ADDRESS} {VERSION} in the provider cache cannot be used: ");
            assert!(log.contains(&named), "{change}: {log}");
            assert_complete_package(&cache, mirror.files(VERSION), VERSION);
        }
        run(&world).await;
        assert_eq!(mirror.archives(), 10, "what took its place is used");
        assert!(!world.received().log_text().contains("Warning: "));
    })
    .await;
}

#[tokio::test]
async fn runner_killed_during_init_leaves_no_partial_package_and_blocks_no_other_run() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let (killed, next) =
        (world(&mirror, VERSION, &cache).await, world(&mirror, VERSION, &cache).await);
    mirror.hold(true);
    let (mut child, pid) = start(&killed);
    mirror.wait_for_request(1).await;
    kill(pid, Signal::SIGKILL).unwrap();
    child.wait().await.unwrap();
    mirror.hold(false);
    run(&next).await;
    assert_eq!(mirror.archives(), 2);
    assert_complete_package(&cache, mirror.files(VERSION), VERSION);
    // The next run in the same directory succeeds despite the leftovers.
    eventually("an end of the Terraform that was left alone", || killed.processes().is_empty())
        .await;
    run(&killed).await;
    assert_eq!(mirror.archives(), 2);
}

#[tokio::test]
async fn run_that_waits_for_another_init_logs_it_and_can_be_stopped() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let (first, second) =
        (world(&mirror, VERSION, &cache).await, world(&mirror, VERSION, &cache).await);
    mirror.hold(true);
    let (first_child, _) = start(&first);
    mirror.wait_for_request(1).await;
    let (mut child, pid) = start(&second);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = "Waiting for another run's init on the provider cache";
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains(waits) {
            break;
        }
    }
    kill(pid, Signal::SIGTERM).unwrap();
    while lines.next_line().await.unwrap().is_some() {}
    let end = second.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143));
    assert_eq!(second.statuses(), ["running", "failed"]);
    assert_eq!(second.last_status()["error"]["phase"], "init");
    assert!(second.received().log_text().contains(waits));
    mirror.hold(false);
    let end = first.end(&first_child.wait_with_output().await.unwrap());
    assert_eq!((end.code, mirror.archives()), (Some(0), 1));
}

#[tokio::test]
async fn runs_with_complete_caches_do_not_wait_for_downloads() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let ready = world(&mirror, "2.0.0", &cache).await;
    run(&ready).await;
    let slow = world(&mirror, VERSION, &cache).await;
    mirror.hold(true);
    let (child, _) = start(&slow);
    mirror.wait_for_request(2).await;
    // During the download: a run with a cached package, and a run without providers.
    run(&ready).await;
    run(&with_cache(&mirror, &[("main.tf", MODULE)], &cache).await).await;
    mirror.hold(false);
    let end = slow.end(&child.wait_with_output().await.unwrap());
    assert_eq!((end.code, mirror.archives()), (Some(0), 2));
}

#[tokio::test]
async fn run_without_a_lock_file_downloads_and_fills_the_cache_for_others() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let module = ProviderMirror::module(VERSION);
    let without = with_cache(&mirror, &[("main.tf", &module)], &cache).await;
    for archives in [1, 2] {
        run(&without).await;
        assert_eq!(mirror.archives(), archives);
        assert_complete_package(&cache, mirror.files(VERSION), VERSION);
    }
    run(&world(&mirror, VERSION, &cache).await).await;
    assert_eq!(mirror.archives(), 2);
}

#[tokio::test]
async fn pruning_does_not_remove_packages_of_a_run() {
    let shared = tempfile::tempdir().unwrap();
    let (ready, go) = (shared.path().join("ready"), shared.path().join("go"));
    let waits = format!(
        "touch '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; exit 1",
        ready.display(),
        go.display()
    );
    let mirror = ProviderMirror::start(&[(VERSION, package(VERSION, &waits))]);
    let cache = shared.path().join("providers");
    let world = world(&mirror, VERSION, &cache).await;
    run(&world).await;
    // Plan starts the provider, which is a stand-in and fails; init was complete.
    world.add_run(world.config("plan"));
    let child = world.execute().spawn().unwrap();
    eventually("a provider that runs", || ready.exists()).await;
    let pruned = prune(&cache, Some(Duration::ZERO), None, false).unwrap();
    assert_eq!(pruned.removed[0].path, package_path(&cache, VERSION));
    assert!(!package_path(&cache, VERSION).exists());
    let run = &world.left_in("tmp")[0];
    for (name, content) in mirror.files(VERSION) {
        let path = package_path(&run.join("data/providers"), VERSION).join(name);
        assert_eq!(std::fs::read(path).unwrap(), *content);
    }
    std::fs::write(go, "").unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(1));
    assert_eq!(world.last_status()["error"]["phase"], "plan");
    assert_eq!(mirror.archives(), 1);
}

#[tokio::test]
async fn local_run_leaves_ordinary_copies_of_packages_in_the_module() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let world = world(&mirror, VERSION, &cache).await;
    let module = world.path("repository");
    for _ in 0..2 {
        let mut command = world.command(&["execute", "--local", "--operation", "test"]);
        let output = command.arg("--module-dir").arg(&module).output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let package = package_path(&module.join(".terraform/providers"), VERSION);
        assert!(package.symlink_metadata().unwrap().is_dir());
        // Terraform overwrites files in place when it installs a package again.
        for entry in std::fs::read_dir(&package).unwrap() {
            let found = entry.unwrap().metadata().unwrap();
            assert_eq!((found.nlink(), found.mode() & 0o200), (1, 0o200));
        }
        assert_complete_package(&cache, mirror.files(VERSION), VERSION);
        assert!(!module.join(".terraform/provider-cache").exists());
    }
    prune(&cache, None, Some(0), false).unwrap();
    let terraform = std::process::Command::new(find_program("terraform").unwrap())
        .args(["providers", "schema", "-json"])
        .current_dir(&module)
        .env_clear()
        .env("HOME", world.path("home"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&terraform.stderr);
    // The run fails only at the provider, which is a stand-in.
    assert!(said.contains("plugin"), "{said}");
    assert!(!said.contains("terraform init"), "it has the package still: {said}");
    assert_eq!(mirror.archives(), 1);
}

#[tokio::test]
async fn unusable_cache_causes_a_warning_and_disabled_cache_does_not() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let file = shared.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (cache, warns) in [(file.join("providers"), true), ("off".into(), false)] {
        let world = world(&mirror, VERSION, &cache).await;
        let end = run(&world).await;
        let log = world.received().log_text();
        assert_eq!(log.contains("Warning: no provider cache: cannot write "), warns, "{log}");
        assert_eq!(end.stderr.contains("no provider cache"), warns, "{}", end.stderr);
        assert!(!world.path("cache/providers").exists());
    }
    assert_eq!(mirror.archives(), 2);
    // The default is a directory in the cache directory.
    let world = world(&mirror, VERSION, Path::new("")).await;
    run(&world).await;
    assert_complete_package(&world.path("cache/providers"), mirror.files(VERSION), VERSION);
}

#[tokio::test]
async fn run_downloads_itself_after_the_wait_for_another_init_times_out() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let (first, mut second) =
        (world(&mirror, VERSION, &cache).await, world(&mirror, VERSION, &cache).await);
    mirror.hold(true);
    let (first_child, _) = start(&first);
    mirror.wait_for_request(1).await;
    second.set("BUTLER_TOOL_TIMEOUT", "1s");
    let (second_child, _) = start(&second);
    // The second run downloads the package while the first download continues.
    mirror.wait_for_request(2).await;
    mirror.hold(false);
    for (world, child) in [(&first, first_child), (&second, second_child)] {
        let end = world.end(&child.wait_with_output().await.unwrap());
        assert_eq!(end.code, Some(0), "{}", end.stderr);
    }
    let log = second.received().log_text();
    assert!(
        log.contains("timed out while waiting for another run's init on the provider cache"),
        "{log}"
    );
    assert_complete_package(&cache, mirror.files(VERSION), VERSION);
}

#[tokio::test]
async fn plugin_cache_that_is_locked_for_too_long_fails_the_run() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let lock = std::fs::File::create(shared.path().join(".butler-runner.lock")).unwrap();
    lock.lock().unwrap();
    let mut world = world(&mirror, VERSION, Path::new("off")).await;
    let configuration = world.path("home/.terraformrc");
    let text = std::fs::read_to_string(mirror.configuration()).unwrap();
    let theirs = shared.path().display();
    std::fs::write(&configuration, format!("plugin_cache_dir = \"{theirs}\"\n{text}")).unwrap();
    world.variables.retain(|(name, _)| name != "TF_CLI_CONFIG_FILE");
    world.set("BUTLER_TOOL_TIMEOUT", "1s");
    let end = world.run(world.config("test")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], "init");
    let expected =
        format!("another run's init has been using the plugin cache `{theirs}` for too long");
    assert_eq!(error["message"], expected);
    drop(lock);
    run(&world).await;
    assert!(package_path(shared.path(), VERSION).is_dir(), "Terraform works in it");
}

#[tokio::test]
async fn lock_files_with_different_hashes_of_a_version_do_not_evict_each_other() {
    let other = ProviderMirror::start(&[(VERSION, package(VERSION, "exit 2"))]);
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let first = world(&mirror, VERSION, &cache).await;
    let second = world(&other, VERSION, &cache).await;
    for _ in 0..2 {
        run(&first).await;
        run(&second).await;
        let log = second.received().log_text();
        assert_eq!(log.matches("Warning: ").count(), 1, "{log}");
        assert!(log.contains("in the provider cache cannot be used"), "{log}");
        assert_complete_package(&cache, mirror.files(VERSION), VERSION);
    }
    assert_eq!(mirror.archives(), 1);
}

#[tokio::test]
async fn named_pipe_as_lock_file_does_not_block() {
    let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
    let cache = shared.path().join("providers");
    let mut world = world(&mirror, VERSION, &cache).await;
    let books = cache.join(".butler-runner");
    DirBuilder::new().recursive(true).mode(0o700).create(&books).unwrap();
    let key = format!("{ADDRESS}/{VERSION}/{}", platform()).replace('/', "~");
    for lock in [books.join(format!("{key}.lock")), shared.path().join(".butler-runner.lock")] {
        mkfifo(&lock, Mode::S_IRWXU).unwrap();
    }
    run(&world).await;
    world.set("TF_PLUGIN_CACHE_DIR", shared.path());
    run(&world).await;
    let log = world.received().log_text();
    assert!(log.contains("cannot be locked (the lock file is not a regular file)"), "{log}");
}

#[tokio::test]
async fn plugin_cache_of_several_users_is_locked_or_causes_a_warning() {
    as_root_async(async {
        let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
        std::fs::set_permissions(shared.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        let of_user = async |theirs: &Path| {
            let mut world = world(&mirror, VERSION, Path::new("off")).await;
            world.set("TF_PLUGIN_CACHE_DIR", theirs);
            world.set("BUTLER_TOOL_TIMEOUT", "1s");
            for (variable, file) in [
                ("TF_CLI_CONFIG_FILE", mirror.configuration()),
                ("SSL_CERT_FILE", mirror.certificates()),
            ] {
                let copy = world.path(variable);
                std::fs::copy(file, &copy).unwrap();
                world.set(variable, copy);
            }
            world.add_run(world.config("test"));
            let end = world.end(&world.execute_as_user().output().await.unwrap());
            (end.code, world.received().log_text())
        };
        // The runner of root has created the lock file.
        let mut root = world(&mirror, VERSION, Path::new("off")).await;
        root.set("TF_PLUGIN_CACHE_DIR", shared.path());
        run(&root).await;
        let lock = shared.path().join(".butler-runner.lock");
        let held = std::fs::File::open(&lock).unwrap();
        held.lock().unwrap();
        let (code, log) = of_user(shared.path()).await;
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains("has been using the plugin cache"), "{log}");
        drop(held);
        std::fs::set_permissions(&lock, PermissionsExt::from_mode(0o600)).unwrap();
        let (_, log) = of_user(shared.path()).await;
        assert!(log.contains("cannot be locked (Permission denied"), "{log}");
        // A read-only cache needs no lock.
        std::fs::set_permissions(shared.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (_, log) = of_user(shared.path()).await;
        assert!(!log.contains("cannot be locked"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn cache_on_another_file_system_is_read_and_filled_by_copying() {
    let (mirror, shared) = (mirror(), tempfile::tempdir_in("/dev/shm").unwrap());
    let cache = shared.path().join("providers");
    let world = world(&mirror, VERSION, &cache).await;
    for _ in 0..2 {
        run(&world).await;
        assert_complete_package(&cache, mirror.files(VERSION), VERSION);
    }
    assert_eq!(mirror.archives(), 1);
}

#[tokio::test]
async fn cache_filled_by_root_is_used_and_not_modified() {
    as_root_async(async {
        let (mirror, shared) = (mirror(), tempfile::tempdir().unwrap());
        let cache = shared.path().join("providers");
        run(&world(&mirror, VERSION, &cache).await).await;
        make_readable_for_all(shared.path());
        for (version, archives) in [(VERSION, 1), ("2.0.0", 2)] {
            let mut world = world(&mirror, version, &cache).await;
            for (variable, file) in [
                ("TF_CLI_CONFIG_FILE", mirror.configuration()),
                ("SSL_CERT_FILE", mirror.certificates()),
            ] {
                let copy = world.path(variable);
                std::fs::copy(file, &copy).unwrap();
                world.set(variable, copy);
            }
            world.add_run(world.config("test"));
            let end = world.end(&world.execute_as_user().output().await.unwrap());
            assert_eq!(end.code, Some(0), "{}", end.stderr);
            let log = world.received().log_text();
            assert!(log.contains("Warning: cannot add packages to the provider cache"), "{log}");
            assert_eq!(mirror.archives(), archives, "{version}");
        }
        assert!(!package_path(&cache, "2.0.0").exists());
    })
    .await;
}

/// Makes all files in `path` readable for every user.
fn make_readable_for_all(path: &Path) {
    let mode = path.metadata().unwrap().mode();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode | 0o055)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            make_readable_for_all(&entry.unwrap().path());
        }
    }
}
