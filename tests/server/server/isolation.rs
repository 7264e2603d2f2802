//! A module that tries to read the server and other layers, and settings that would let it.

use super::*;

/// What a plan reads: `denied` if it cannot.
const HOSTILE: &str = r#"
variable "data" { type = string }
output "seen" {
  value = {
    administrator = try(file("${var.data}/admin.token"), "denied")
    store         = try(filebase64("${var.data}/store.sqlite") != "", "denied")
    mirror        = try(file("${var.data}/mirrors/infra/HEAD"), "denied")
    others        = length(try(fileset(var.data, "attempts/*/*"), []))
    secret        = try(file("${var.data}/../secret"), "denied")
  }
}
"#;

async fn seen(isolation: &str) -> Value {
    let installation = Installation::new();
    let repository = Repository::create(&[("module/main.tf", HOSTILE), ("other/main.tf", LAYER)]);
    std::fs::write(installation.path("secret"), "hunter22").unwrap();
    std::fs::create_dir(installation.data()).unwrap();
    std::fs::write(installation.data().join("admin.token"), "breg_hunter22").unwrap();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{strategy: plan-only}}
layers:
  hostile: {{repository: infra, ref: main, path: module, variables: {{data: '{}'}}}}
  other: {{repository: infra, ref: main, path: other}}
",
        repository.url(),
        installation.data().display(),
    ));
    let pass = installation.once(&["--isolation".to_owned(), isolation.to_owned()]).await;
    assert!(pass.status.success(), "{}", text(&pass));
    let plans = attempts(&installation.data()).into_iter().map(|it| it.join("plan.json"));
    let plans = plans
        .map(|path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() });
    let mut outputs = plans.map(|plan| plan["planned_values"]["outputs"]["seen"]["value"].clone());
    outputs.find(|seen| !seen.is_null()).unwrap()
}

#[tokio::test]
async fn hostile_module_reads_nothing_of_the_server_or_of_other_layers() {
    let denied = serde_json::json!({
        "administrator": "denied",
        "store": "denied",
        "mirror": "denied",
        "others": 0,
        "secret": "denied",
    });
    assert_eq!(seen("landlock").await, denied);
    // The same module reads all of that without isolation.
    let open = seen("none").await;
    assert_eq!(open["administrator"], "breg_hunter22");
    assert_eq!((&open["secret"], &open["store"]), (&"hunter22".into(), &true.into()));
    assert_ne!(open["mirror"], "denied");
    assert!(open["others"].as_u64().unwrap() > 0, "{open}");
}

/// A pass with these arguments that must not start.
async fn refused(installation: &Installation, arguments: &[&str]) -> String {
    let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let pass = installation.once(&arguments).await;
    assert_eq!(pass.status.code(), Some(2), "{arguments:?}: {}", text(&pass));
    text(&pass)
}

#[tokio::test]
async fn server_refuses_settings_that_lead_modules_to_its_data_directory() {
    let installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let start = Installation::quick_start(&repository);
    let start: Vec<_> = start.iter().map(String::as_str).collect();
    // A directory that each module can read. It is not created.
    let readable = Path::new("/usr/local/butler-runner-test/data");
    let mut command = runner();
    let told = command.args(["serve", "--once"]).args(&start).arg("--data").arg(readable).output();
    let told = told.unwrap();
    let expected = "`/usr/local/butler-runner-test/data` is in `/usr`, which all modules can read";
    assert_eq!(told.status.code(), Some(2), "{}", text(&told));
    assert!(text(&told).contains("--data") && text(&told).contains(expected), "{}", text(&told));
    assert!(!readable.exists());

    std::fs::create_dir_all(installation.data().join("mirrors")).unwrap();
    std::os::unix::fs::symlink(installation.data(), installation.path("link")).unwrap();
    let (mirrors, link) = (installation.data().join("mirrors"), installation.path("link"));
    for path in [Path::new("/"), &mirrors, &link] {
        for flag in ["--isolation-read", "--isolation-write"] {
            let told =
                refused(&installation, &[&start[..], &[flag, path.to_str().unwrap()]].concat())
                    .await;
            let expected = format!("`{}` is in the data directory `", path.display());
            assert!(told.contains(flag) && told.contains(&expected), "{told}");
        }
    }
    // Without isolation, modules can read it anyway.
    let open = ["--isolation", "none", "--isolation-read", "/"].map(str::to_owned);
    let arguments = [Installation::quick_start(&repository), open.to_vec()].concat();
    assert!(installation.once(&arguments).await.status.success());
}

#[tokio::test]
async fn local_backend_in_the_data_directory_is_refused() {
    let installation = Installation::new();
    let repository = Repository::create(&[("module/main.tf", LAYER)]);
    let configure = |state: &str| {
        let state = installation.data().join(state);
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
defaults: {{strategy: plan-only}}
layers:
  one:
    repository: infra
    ref: main
    path: module
    backend: {{type: local, config: {{path: '{}'}}}}
",
            repository.url(),
            state.display(),
        ));
    };
    configure("x.tfstate");
    let told = refused(&installation, &[]).await;
    assert!(told.contains("butler.yaml:8:21: `backend.config.path` leads to the data"), "{told}");
    configure("states/one/x.tfstate");
    let pass = installation.once(&[]).await;
    assert!(pass.status.success(), "{}", text(&pass));
}
