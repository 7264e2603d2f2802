//! Credentials for the private modules of a layer.

use super::*;
use butler_testing::authority::Authority;
use butler_testing::git_server::Behaviour;

const TOKEN: &str = "glpat-hunter22-very-secret";

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap();
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn private_modules_are_fetched_from_the_host_that_the_layer_names_only() {
    let installation = Installation::new();
    let authority = Authority::create();
    let server = || {
        let login = Some(("x-access-token".to_owned(), TOKEN.to_owned()));
        GitServer::with_tls(Behaviour { login, ..Behaviour::default() }, &authority)
    };
    let (named, other) = (server(), server());
    let private = Repository::create(&[("main.tf", LAYER)]);
    let uses = |server: &GitServer| {
        let url = server.url(&private);
        format!("module \"private\" {{\n  source = \"git::{url}\"\n}}\n")
    };
    let repository =
        Repository::create(&[("named/main.tf", &uses(&named)), ("other/main.tf", &uses(&other))]);
    std::fs::write(installation.path("token"), format!("{TOKEN}\n")).unwrap();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults:
  repository: infra
  ref: main
  retries: {{max: 1}}
  module-credentials: {{host: '{}', token-file: {}}}
layers: {{named: {{path: named}}, other: {{path: other}}}}
",
        repository.url(),
        named.origin().strip_prefix("https://").unwrap(),
        installation.path("token").display(),
    ));
    let bundle = authority.bundle().display().to_string();
    let pass = installation.once(&["--ca-bundle".to_owned(), bundle]).await;
    assert_eq!(pass.status.code(), Some(1), "{}", text(&pass));
    let table = text(&pass);
    let row = |layer: &str| table.lines().find(|line| line.starts_with(layer)).unwrap();
    assert!(row("named").contains("1 to add"), "{table}");
    assert!(row("other").contains("Failed"), "{table}");

    assert!(named.requests().iter().any(|request| request.authorization.is_some()));
    let requests = other.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| request.authorization.is_none()), "{requests:?}");
    for path in files(&installation.data()) {
        let content = std::fs::read(&path).unwrap();
        let has_token = content.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
        assert!(!has_token, "{}", path.display());
    }
    assert!(!table.contains(TOKEN), "{table}");
}
