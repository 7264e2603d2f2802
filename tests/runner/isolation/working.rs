//! What works as before in an isolation: modules and providers from servers, the provider cache, local runs.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::{Value, json};

use super::{config, run, world};
use butler_testing::authority::Authority;
use butler_testing::git_server::{Behaviour, GitServer, Repository};
use butler_testing::provider_mirror::{ADDRESS, ProviderMirror, package};
use butler_testing::release_site::platform;
use butler_testing::world::{MODULE, World};

const GIT_TOKEN: &str = "glpat-hunter22-very-secret";

#[tokio::test]
async fn isolated_terraform_fetches_private_modules_with_the_credentials_of_the_run() {
    let log = fetch_private_module("auto").await;
    assert!(log.contains("Isolation: Landlock; "), "{log}");
}

/// A world whose module needs another one from a repository with a login.
pub(super) struct PrivateModule {
    pub world: World,
    /// A run of the module.
    pub config: Value,
    _servers: (Authority, GitServer, [Repository; 2]),
}

impl PrivateModule {
    pub(super) async fn new() -> Self {
        let authority = Authority::create();
        let login = Some(("x-access-token".to_owned(), GIT_TOKEN.to_owned()));
        let server = GitServer::with_tls(Behaviour { login, ..Behaviour::default() }, &authority);
        let private = Repository::create(&[("main.tf", MODULE)]);
        let module =
            format!("module \"private\" {{\n  source = \"git::{}\"\n}}\n", server.url(&private));
        let mut world = world(&[("main.tf", &module)]).await;
        let repository = Repository::create(&[("main.tf", &module)]);
        // git reads it before its other settings, and must not fail because it cannot.
        std::fs::write(world.path("home/.gitconfig"), "[core]\n\tautocrlf = false\n").unwrap();
        world.set("BUTLER_CA_BUNDLE", authority.bundle());
        // The user of the run executes it for the login of git.
        world.copy_runner();
        let mut config = config(&world, "plan");
        config["source"]["gitRepo"] = json!(server.url(&repository));
        config["source"]["credentials"] = json!({"type": "token", "token": GIT_TOKEN});
        Self { world, config, _servers: (authority, server, [private, repository]) }
    }
}

/// The log of a plan that needs a module from a repository with a login.
pub(super) async fn fetch_private_module(isolation: &str) -> String {
    let PrivateModule { world, config, _servers } = PrivateModule::new().await;
    run(&world, config, isolation).await;
    let log = world.received().log_text();
    assert!(log.contains("module.private.terraform_data.hello will be created"), "{log}");
    log
}

#[tokio::test]
async fn isolated_module_cannot_change_the_packages_of_the_provider_cache() {
    change_packages("landlock").await;
}

/// Executes runs whose provider changes the files of its package, and asserts that the cached ones are unchanged.
pub(super) async fn change_packages(isolation: &str) {
    const VERSION: &str = "1.2.3";
    // The provider overwrites all files of its own package as their owner, and is not a provider.
    const OVERWRITE: &str = r#"for file in "$(dirname "$0")"/*; do
  chmod u+w "$file" && echo replaced > "$file" && echo x >> "$outside/overwritten"
done
exit 1"#;
    let mirror = ProviderMirror::start(&[(VERSION, package(VERSION, OVERWRITE))]);
    let module = ProviderMirror::module(VERSION);
    let files = [("main.tf", module.as_str()), (".terraform.lock.hcl", &mirror.lock_file(VERSION))];
    let mut world = world(&files).await;
    mirror.serve(&mut world);
    // Shared with other runs, so an isolated run does not use it.
    let plugins = world.path("plugins");
    std::fs::create_dir(&plugins).unwrap();
    let rc = std::fs::read_to_string(mirror.configuration()).unwrap();
    let rc = format!("{rc}plugin_cache_dir = \"{}\"\n", plugins.display());
    std::fs::write(world.path("terraformrc"), rc).unwrap();
    world.set("TF_CLI_CONFIG_FILE", world.path("terraformrc"));
    world.set("TF_PLUGIN_CACHE_DIR", plugins);
    let cached = world.path("cache/providers").join(ADDRESS).join(VERSION).join(platform());
    world.set("BUTLER_ISOLATION_WRITE", world.path("overwritten"));
    world.set("BUTLER_ISOLATION", isolation);
    // The first run downloads the package, and the others use it.
    for _ in 0..3 {
        std::fs::write(world.path("overwritten"), "").unwrap();
        let for_all = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(world.path("overwritten"), for_all).unwrap();
        let end = world.run(config(&world, "plan")).await;
        let (code, log) = (end.code, world.received().log_text());
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains("Failed to load plugin schemas"), "{log}");
        let overwritten = std::fs::read_to_string(world.path("overwritten")).unwrap();
        assert!(overwritten.lines().count() >= 2, "{overwritten}");
        for (name, content) in mirror.files(VERSION) {
            let file = cached.join(name);
            assert_eq!(&std::fs::read(&file).unwrap(), content, "{name}");
            let found = file.metadata().unwrap();
            assert_eq!((found.nlink(), found.permissions().mode() & 0o222), (1, 0), "{name}");
        }
    }
    assert_eq!(mirror.archives(), 1);
    assert_eq!(world.left_in("plugins").len(), 0);
}

#[tokio::test]
async fn isolated_run_in_a_long_directory_has_a_short_one_for_sockets() {
    const SHORT: &str = r#"
resource "terraform_data" "it" {
  provisioner "local-exec" {
    command = "touch $TMPDIR/written && echo \"TMPDIR $TMPDIR has $${#TMPDIR}\""
  }
}
"#;
    let mut world = world(&[("main.tf", SHORT)]).await;
    let work = world.path("runs").join("a-long-directory".repeat(4));
    std::fs::create_dir(&work).unwrap();
    world.set("BUTLER_WORK_DIR", &work);
    run(&world, config(&world, "apply"), "landlock").await;
    let log = world.received().log_text();
    let short = log.split("): TMPDIR ").nth(1).unwrap().lines().next().unwrap();
    assert!(short.starts_with(world.path("tmp").to_str().unwrap()), "{log}");
    let length: usize = short.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(length <= 69, "{short}");
    assert_eq!(world.left_in("tmp").len(), 0);
    assert_eq!(std::fs::read_dir(work).unwrap().count(), 0);
}

#[tokio::test]
async fn isolated_local_run_works_in_place() {
    let world = world(&[]).await;
    let directory = world.path("module");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("main.tf"), MODULE).unwrap();
    std::fs::write(world.path("shared.tfvars"), "name = \"file\"\n").unwrap();
    let words =
        ["apply", "--yes", "--isolation", "landlock", "--var-file"].map(std::ffi::OsStr::new);
    let mut command = world.command(&[]);
    command.args(words).arg(world.path("shared.tfvars")).arg(&directory);
    let output = command.output().await.unwrap();
    let end = world.end(&output);
    assert_eq!(end.code, Some(0), "{}{}", end.stdout, end.stderr);
    let state = std::fs::read_to_string(directory.join("terraform.tfstate")).unwrap();
    assert!(state.contains("hello file"), "{state}");
}

#[tokio::test]
async fn paths_of_the_user_can_be_read_or_written() {
    const READING: &str = r#"
resource "terraform_data" "it" {
  provisioner "local-exec" {
    command = "grep -q hunter22 $outside/secret && echo x > $outside/written/file && ! echo x > $outside/secret"
  }
}
"#;
    let mut world = world(&[("main.tf", READING)]).await;
    std::fs::create_dir(world.path("written")).unwrap();
    world.set("BUTLER_ISOLATION_READ", world.path("secret"));
    world.set("BUTLER_ISOLATION_WRITE", world.path("written"));
    run(&world, config(&world, "apply"), "landlock").await;
    assert_eq!(std::fs::read_to_string(world.path("written/file")).unwrap(), "x\n");
}
