//! Malicious repositories that try to get out of the clone.

use std::os::unix::fs::symlink;

use serde_json::json;

use butler_testing::git_server::{GitServer, Repository};
use butler_testing::world::{MODULE, World};

#[tokio::test]
async fn runner_never_writes_through_a_symbolic_link_of_the_repository() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let outside = world.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("override"), "{}").unwrap();
    std::fs::write(outside.join("state"), "of another").unwrap();
    let repository = world.path("repository");
    symlink(&outside, repository.join(".terraform")).unwrap();
    let own_name = "butler_runner_override.tf.json";
    symlink(outside.join("override"), repository.join(own_name)).unwrap();
    symlink(outside.join("state"), repository.join("errored.tfstate")).unwrap();
    world.commit(&[]);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 2, "nothing was made there");
    assert_eq!(std::fs::read_to_string(outside.join("override")).unwrap(), "{}");
    assert_eq!(std::fs::read_to_string(outside.join("state")).unwrap(), "of another");
    assert!(world.path("terraform.tfstate").is_file(), "the run's own backend was used");
    assert!(!world.path("cache/recovery").exists(), "no foreign state was taken for this run's");
}

#[tokio::test]
async fn reports_do_not_go_through_links_that_a_module_puts_into_the_report_directory() {
    let mut world = World::new(&[]).await;
    let (reports, outside) = (world.path("reports"), world.path("outside"));
    std::fs::write(&outside, "of another").unwrap();
    let names =
        ["plan.json", "plan.txt", "outputs.json", "status.json", "result.json", "timings.txt"];
    let link = format!("ln -s {} {}/$name", outside.display(), reports.display());
    let module = format!(
        r#"
resource "terraform_data" "links" {{
  provisioner "local-exec" {{
    command = "for name in {}; do {link}; done"
  }}
}}
output "password" {{
  value = "hunter22"
}}
"#,
        names.join(" ")
    );
    world.commit(&[("main.tf", &module)]);
    world.set("BUTLER_REPORT_DIR", &reports);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "of another");
    for name in names {
        let metadata = reports.join(name).symlink_metadata().unwrap();
        assert!(metadata.is_file(), "`{name}` is still a link");
    }
}

#[tokio::test]
async fn version_file_that_links_to_a_secret_is_not_quoted() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    std::fs::write(world.path("secret"), "hunter22-secret\n").unwrap();
    symlink(world.path("secret"), world.path("repository/.terraform-version")).unwrap();
    world.commit(&[]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );
}

/// The user of this machine has filters, hooks and templates, as Git LFS installs them. They must
/// not apply to the clone.
#[tokio::test]
async fn git_filters_hooks_and_templates_are_not_executed() {
    let world = World::new(&[
        ("main.tf", MODULE),
        ("data.bin", "data"),
        (".gitattributes", "* filter=evil\n*.bin filter=lfs diff=lfs merge=lfs -text\n"),
        (".githooks/post-checkout", "#!/bin/sh\ntouch CANARY\n"),
    ])
    .await;
    let canary = world.path("canary");
    let touch = format!("touch {}", canary.display());
    let hooks = world.path("hooks");
    std::fs::create_dir(&hooks).unwrap();
    for name in ["post-checkout", "post-merge", "reference-transaction"] {
        let file = hooks.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{touch}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, executable).unwrap();
    }
    let filter = |name: &str| {
        format!("[filter \"{name}\"]\n\tsmudge = {touch}; cat\n\tprocess = {touch}\n\trequired\n")
    };
    let settings = format!(
        "[core]\n\thooksPath = {}\n\tfsmonitor = {touch}\n\tsshCommand = {touch}\n{}{}",
        hooks.display(),
        filter("evil"),
        filter("lfs")
    );
    std::fs::write(world.path("home/.gitconfig"), settings).unwrap();
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
    assert!(!canary.exists());
}

#[tokio::test]
async fn submodules_execute_no_command_and_stay_in_the_clone() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let server = GitServer::start();
    let inner = Repository::create(&[("inner.tf", "")]);
    let good = server.url(&inner);
    let canary = world.path("canary");
    let touch = format!("touch {}", canary.display());
    let escape = world.path("escape");
    let modules = [
        // Ways to make git execute commands.
        format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c '{touch}'\n"),
        format!("[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack={touch}\n"),
        format!("[submodule \"x\"]\n\tpath = x\n\turl = {good}\n\tupdate = !{touch}\n"),
        format!("[submodule \"x\"]\n\tpath = x\n\turl = ssh://-oProxyCommand={touch}/x\n"),
        // A name is a path in git's directory, and part of a setting's name.
        format!("[submodule \"../../../../../../escape\"]\n\tpath = x\n\turl = {good}\n"),
        format!("[submodule \"{}\"]\n\tpath = x\n\turl = {good}\n", escape.display()),
        format!("[submodule \"x\\ny\"]\n\tpath = x\n\turl = {good}\n"),
        // A local repository by a path that is not a URL.
        format!("[submodule \"x\"]\n\tpath = x\n\turl = {}\n", inner.path().display()),
        "[submodule \"x\"]\n\tpath = x\n\turl = ../../../../../../../../etc\n".to_owned(),
    ];
    for text in modules {
        let outer = Repository::create(&[("main.tf", MODULE)]);
        std::fs::write(outer.path().join("modules"), &text).unwrap();
        // Without git's own check of .gitmodules.
        let modules = outer.git(&["hash-object", "-w", "modules"]);
        for entry in [format!("100644,{modules},.gitmodules"), format!("160000,{},x", inner.head())]
        {
            outer.git(&["update-index", "--add", "--cacheinfo", &entry]);
        }
        let tree = outer.git(&["write-tree"]);
        let commit = outer.git(&["commit-tree", "-m", "Submodule", &tree]);
        outer.git(&["update-ref", "refs/heads/main", &commit]);
        for submodules in ["needed", "all"] {
            world.set("BUTLER_SUBMODULES", submodules);
            let mut config = world.config("validate");
            config["source"]["gitRepo"] = json!(server.url(&outer));
            let end = world.run(config).await;
            let finals = world.statuses().iter().filter(|status| *status != "running").count();
            assert_eq!(finals, 1, "{text}: {}", end.stderr);
            if world.statuses().last().is_some_and(|status| status == "failed") {
                let phase = &world.last_status()["error"]["phase"];
                assert_eq!(phase, "source", "{text}: {}", end.stderr);
            }
            // A submodule that the module does not name is left out.
            let commands = text.contains("touch") && !text.contains("update = ");
            let fails = commands && submodules == "all";
            assert!(end.code == Some(1) || !fails, "{text}: {}", end.stderr);
            assert!(!canary.exists() && !escape.exists(), "{text}");
        }
    }
}

#[tokio::test]
async fn control_characters_in_file_names_are_escaped_in_errors() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
    let name = "a\u{1b}[31m\n::error::b.tf";
    let world = World::new(&[("main.tf", MODULE), (name, pointer)]).await;
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let message = world.last_status()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Git LFS"), "{message}");
    assert!(!message.contains(char::is_control), "{message:?}");
    let log = world.received().log_text();
    assert!(!log.contains('\u{1b}') && !log.contains("\n::error"), "{log}");
}

#[tokio::test]
async fn repository_larger_than_the_disk_fails_with_a_reason() {
    let mut random = fastrand::Rng::with_seed(3);
    let large: String = (0..6_000_000).map(|_| random.alphanumeric()).collect();
    let world = World::new(&[("main.tf", MODULE), ("large.bin", &large)]).await;
    world.add_run(world.config("plan"));
    // Limits all files of the runner and its children to 2 MiB.
    let mut limited = world.execute_in_shell("trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"");
    let end = world.end(&limited.output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "failed"]);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], "source", "{error}");
    assert!(error["message"].as_str().unwrap().contains("File too large"), "{error}");
}
