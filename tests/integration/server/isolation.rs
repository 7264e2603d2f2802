//! A module that tries to read the server and other layers.

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
