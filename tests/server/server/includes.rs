//! Configuration that the server reads from a repository.

use super::*;
use butler_testing::git_server::Behaviour;

/// The file of the included configuration.
const FILE: &str = "ops/butler/layers.yaml";

/// A layer of the included configuration.
fn layer(name: &str, keys: &str) -> String {
    format!("  {name}: {{repository: infra, ref: main, {keys}}}\n")
}

/// An included file with the layers `dns` and `more`.
fn included(more: &str) -> String {
    format!("layers:\n{}{more}", layer("dns", "path: envs/dns"))
}

/// A repository with layers, and with the configuration of one of them.
fn repository_with_configuration() -> Repository {
    let repository = repository();
    repository.commit("Add the configuration", &[(FILE, &included(""))]);
    repository
}

/// The server's own configuration, with an include if its keys are given.
fn own(repository: &Repository, include: Option<&str>) -> String {
    let include =
        include.map(|keys| format!("include: [{{repository: infra, ref: main, {keys}}}]\n"));
    format!(
        "repositories: {{infra: {{url: '{}', poll: 1h}}}}\ndefaults: {{strategy: plan-only}}\n{}layers: {{own: {{repository: infra, ref: main, \
         path: envs/db}}}}\n",
        repository.url(),
        include.unwrap_or_default()
    )
}

/// How often the log of the server contains `text`.
fn logged(installation: &Installation, text: &str) -> usize {
    let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
    log.matches(text).count()
}

impl Installation {
    /// Polls the repository of a layer now.
    fn sync(&self, layer: &str) {
        assert!(self.ask(&["layer", "sync", layer]).status.success());
    }

    /// The names of the layers with their phases.
    fn phases(&self) -> Vec<String> {
        let listed = self.json(&["layer", "list"]);
        let layers = listed["items"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        layers.map(|it| format!("{} {}", text(&it["name"]), text(&it["phase"]))).collect()
    }
}

#[tokio::test]
async fn push_changes_included_layers_and_an_invalid_one_leaves_the_last_valid_ones_in_force() {
    let (mut installation, repository) = (Installation::new(), repository_with_configuration());
    installation.configure(&own(&repository, Some("path: ops/butler")));
    installation.serve(&[]).await;
    installation.until("dns", "Succeeded", 1).await;
    installation.until("own", "Succeeded", 1).await;

    let app = layer("app", "path: envs/app");
    repository.commit("Add a layer", &[(FILE, &included(&app))]);
    installation.sync("dns");
    installation.until("app", "Succeeded", 1).await;

    let wrong = layer("wrong", "pth: envs/app, variables: {password: hunter22}");
    repository.commit("Add a layer that is wrong", &[(FILE, &included(&wrong))]);
    installation.sync("dns");
    let place = format!("infra@main:{FILE}:3:41: unknown key `pth`; did you mean `path`?");
    installation.until_problem(&[&place]).await;
    repository.commit("Change nothing for the server", &[("docs/README.md", "none")]);
    installation.sync("own");
    let expected = ["app Succeeded", "dns Succeeded", "own Succeeded"];
    assert_eq!(installation.phases(), expected);
    assert!(text(&installation.ask(&["layer", "list"])).contains(&place));
    assert_eq!(logged(&installation, &place), 1);

    // The last valid commit is remembered, and the git host is away.
    installation.kill().await;
    let moved = installation.path("moved");
    std::fs::rename(repository.path(), &moved).unwrap();
    installation.serve(&[]).await;
    assert_eq!(installation.phases(), expected);
    installation.until_problem(&["cannot read the repository `infra`"]).await;
    std::fs::rename(&moved, repository.path()).unwrap();
    installation.sync("own");
    installation.until_problem(&[&place]).await;
    assert_eq!(installation.phases(), expected);

    repository.commit("Correct it", &[(FILE, &included(&app))]);
    installation.sync("own");
    eventually("no problem", || installation.problems().is_empty()).await;
    for layer in ["app", "dns", "own"] {
        assert_eq!(installation.runs(layer).len(), 1, "{layer}");
    }
    assert_eq!(logged(&installation, "hunter22"), 0);

    // A path that is gone leaves it in force, too.
    repository.git(&["rm", "-r", "--quiet", "ops"]);
    repository.commit("Remove the configuration", &[]);
    installation.sync("own");
    installation
        .until_problem(&["infra@main:ops/butler: the commit `", "does not have this path"])
        .await;
    assert_eq!(installation.phases(), expected);
    assert_eq!(installation.terminate().await, Some(0));
}

#[tokio::test]
async fn layers_of_an_include_that_is_removed_are_skipped() {
    let (mut installation, repository) = (Installation::new(), repository_with_configuration());
    installation.configure(&own(&repository, Some("path: ops/butler/layers.yaml")));
    installation.serve(&[]).await;
    installation.until("dns", "Succeeded", 1).await;
    installation.configure(&own(&repository, None));
    eventually("a layer without its include", || installation.layer("dns")["phase"] == "Skipped")
        .await;
    let reason = installation.layer("dns")["reasons"][0]["text"].as_str().unwrap().to_owned();
    assert!(reason.contains("no longer in the configuration"), "{reason}");
    installation.until("own", "Succeeded", 1).await;
    // Its history continues when it comes back.
    installation.configure(&own(&repository, Some("path: ops/butler")));
    eventually("a layer that came back", || installation.layer("dns")["phase"] == "Succeeded")
        .await;
    assert_eq!(installation.runs("dns").len(), 1);
}

#[tokio::test]
async fn pass_on_an_empty_directory_plans_what_an_include_defines() {
    let (installation, repository) = (Installation::new(), repository_with_configuration());
    repository.git(&["branch", "next"]);
    let modules = Repository::create(&[("vpc/main.tf", LAYER)]);
    let served = GitServer::start();
    let configuration = format!(
        "repositories: {{modules: {{url: '{}'}}}}\nlayers:\n  vpc: {{repository: modules, path: vpc}}\n  next: \
         {{repository: infra, ref: next, path: envs/app}}\n  sets: {{repository: infra, paths: ['envs/d*']}}\n",
        served.url(&modules)
    );
    repository.commit("Add layers", &[(FILE, &configuration)]);
    installation.configure(&own(&repository, Some("path: ops/butler")));
    let arguments = ["--allowed-git-host", "127.0.*"].map(str::to_owned);
    let layers = ["next", "own", "sets.envs.db", "sets.envs.dns", "vpc"];

    let mut command = installation.command(&["serve", "--once", "--dry-run"]);
    let dry_run = command.args(&arguments).output().await.unwrap();
    let printed = text(&dry_run);
    assert!(dry_run.status.success(), "{printed}");
    let found: Vec<_> = printed
        .lines()
        .filter(|line| line.contains("would plan"))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(found, layers, "{printed}");
    assert!(!installation.data().exists());

    let pass = installation.once(&arguments).await;
    let printed = text(&pass);
    assert!(pass.status.success(), "{printed}");
    for layer in layers {
        let row = printed.lines().find(|line| line.starts_with(layer)).unwrap();
        assert!(row.contains("1 to add, 0 to change, 0 to destroy"), "{printed}");
    }
    assert_eq!(attempts(&installation.data()).len(), layers.len());
}

#[tokio::test]
async fn included_configuration_beyond_its_rules_is_refused_with_the_rule_and_its_place() {
    let (installation, repository) = (Installation::new(), repository_with_configuration());
    std::fs::create_dir(installation.path("secrets")).unwrap();
    std::fs::write(installation.path("secrets/db"), "hunter22\n").unwrap();
    std::fs::write(installation.path("key"), "hunter22\n").unwrap();
    let own = own(&repository, Some("path: ops/butler"));
    installation.configure(&own.replacen(
        "infra:",
        "other: {url: 'file:///other', poll: 1h}, infra:",
        1,
    ));
    let arguments =
        ["--allowed-git-host", "*.example.com", "--secrets-dir", "secrets", "--dry-run"]
            .map(str::to_owned);
    let path = |name: &str| installation.path(name).display().to_string();
    // The first pass makes the content that stays in force.
    let first = installation.once(&arguments[..4]).await;
    assert!(text(&first).contains("dns"), "{}", text(&first));
    for (line, expected) in [
        (
            format!(
                "  x: {{repository: infra, path: envs/app, secrets: {{s: {{file: {}}}}}}}",
                path("secrets/db")
            ),
            "",
        ),
        (
            format!(
                "  x: {{repository: infra, path: envs/app, secrets: {{s: {{file: {}}}}}}}",
                path("key")
            ),
            ":3:55: `secrets.s` must be an existing file below `",
        ),
        (
            "  x: {repository: infra, path: envs/app, env: {A: {env: HOME}}}".to_owned(),
            ":3:6: `env.A` cannot be a variable of the server; only the server's own configuration can name one",
        ),
        (
            "  x: {repository: other, path: envs/app}".to_owned(),
            ":3:19: the layer cannot use the repository `other`: included layers can use only `infra`",
        ),
        (
            "  own: {repository: infra, path: envs/app}".to_owned(),
            ":3:8: the layer `own` is also given in butler.yaml:4",
        ),
        (
            "repositories: {r: {url: 'https://user:hunter22@git.example.org/r.git'}}".to_owned(),
            ":3:25: the host `git.example.org` is not allowed by `--allowed-git-host`",
        ),
        (
            "repositories: {r: {url: 'http://169.254.169.254/r.git'}}".to_owned(),
            ":3:25: the host `169.254.169.254` is a link-local address",
        ),
        (
            "include: [{repository: infra, path: ops}]".to_owned(),
            ":3:11: only the server's own configuration can have `include`",
        ),
    ] {
        repository.commit("Change the configuration", &[(FILE, &included(&format!("{line}\n")))]);
        let pass = installation.once(&arguments).await;
        let printed = text(&pass);
        // The other repository cannot be read.
        assert_eq!(pass.status.code(), Some(1), "{printed}");
        let error = format!("included configuration is not used: infra@main:{FILE}{expected}");
        assert!(printed.contains("\ndns "), "{line}: {printed}");
        assert_eq!(printed.contains("\nx "), expected.is_empty(), "{line}: {printed}");
        assert_eq!(printed.matches(&error).count(), usize::from(!expected.is_empty()), "{printed}");
        assert!(!printed.contains("hunter22"), "{printed}");
    }
}

#[tokio::test]
async fn repository_that_an_include_defines_gets_no_credentials_of_the_server_and_no_redirect() {
    let (installation, repository) = (Installation::new(), repository_with_configuration());
    let private = Repository::create(&[("vpc/main.tf", LAYER)]);
    let (login, other) = (GitServer::with_login("ana", "s3cret"), GitServer::start());
    let redirect = Some(other.origin().replace("127.0.0.1", "localhost"));
    let moved = GitServer::with(Behaviour { redirect, ..Behaviour::default() });
    let configuration = format!(
        "repositories: {{private: {{url: '{}'}}, moved: {{url: '{}'}}}}\n",
        login.url(&private),
        moved.url(&private)
    );
    repository.commit("Add repositories", &[(FILE, &configuration)]);
    installation.configure(&own(&repository, Some("path: ops/butler")));
    let mut command = installation.command(&["serve", "--once"]);
    command.args(["--allowed-git-host", "127.0.0.1"]).env("BUTLER_GIT_TOKEN", "s3cret");
    let pass = command.output().await.unwrap();
    let printed = text(&pass);
    assert_eq!(pass.status.code(), Some(1), "{printed}");
    for name in ["private", "moved"] {
        assert!(printed.contains(&format!("cannot read the repository `{name}`")), "{printed}");
    }
    assert!(printed.contains("redirect"), "{printed}");
    assert!(!moved.requests().is_empty() && other.requests().is_empty());
    let requests = login.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| request.authorization.is_none()), "{requests:?}");
}

#[tokio::test]
async fn author_checks_included_configuration_before_the_push() {
    let installation = Installation::new();
    let write = |text: &str| std::fs::write(installation.path("layers.yaml"), text).unwrap();
    let check = |arguments: &[&str]| {
        let mut command = runner();
        command.args(["config", "check", "layers.yaml"]).args(arguments);
        command.current_dir(installation.directory.path()).output().unwrap()
    };
    let rules = [
        "--included-from",
        "infra",
        "--allowed-git-host",
        "*.Example.com",
        "--secrets-dir",
        "/no/secrets",
    ];
    // The files of the server are not on this machine.
    write(&included(&layer("app", "path: envs/app, secrets: {s: {file: /no/secrets/db}}")));
    let good = check(&rules);
    assert!(good.status.success(), "{}", text(&good));
    assert_eq!(text(&good), "layers.yaml: 0 repositories, 2 layers, 0 layer sets\n");
    write(
        "repositories: {r: {url: 'https://git.example.com/r'}}\nlayers: {a: {repository: other, path: a}}\n",
    );
    let bad = check(&rules);
    assert_eq!(bad.status.code(), Some(1));
    let expected = "layers.yaml:2:26: the layer cannot use the repository `other`";
    assert!(text(&bad).starts_with(expected) && text(&bad).lines().count() == 1, "{}", text(&bad));
    assert_eq!(check(&["--secrets-dir", "/no/secrets"]).status.code(), Some(2));
    let bad = check(&["--included-from", "infra", "--allowed-git-host", "https://git.example.com"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad).contains("give it without scheme, port and path"), "{}", text(&bad));
}
