//! Secrets that Terraform quotes in its errors, and values of variables in all forms of a declaration.

use serde_json::json;

use butler_testing::world::World;

#[tokio::test]
async fn secret_that_terraform_wraps_in_an_error_is_masked() {
    let phrase = "correct horse battery staple in many more words than fit upon one single  line of an error";
    for function in ["tonumber(var.s)", "file(var.s)", "templatefile(var.s, {})"] {
        let module = format!("variable \"s\" {{}}\noutput \"o\" {{\n  value = {function}\n}}\n");
        let world = World::new(&[("main.tf", &module)]).await;
        let mut config = world.config("plan");
        config["sensitiveValues"] = json!("literal");
        config["variables"] = json!({"s": {"value": phrase, "sensitive": true}});
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let shown = world.reports_and_output(&end);
        for word in ["battery", "staple", "many more", "single"] {
            assert!(!shown.contains(word), "{function}: {word}: {shown}");
        }
        assert!(shown.contains("Invalid value for") && shown.contains("***"), "{shown}");
    }
}

#[tokio::test]
async fn ordinary_lines_of_a_secret_text_are_shown_elsewhere() {
    let module = "variable \"kubeconfig\" {}\nresource \"terraform_data\" \"users\" {\n  \
        provisioner \"local-exec\" {\n    command     = \"echo kind: Config; echo; echo \\\"$TEXT\\\"\"\n    \
        environment = {\n      TEXT = var.kubeconfig\n    }\n  }\n}\n";
    let kubeconfig =
        "apiVersion: v1\nkind: Config\nusers:\n- name: prod\n  user:\n    token: hunter2-token\n";
    let world = World::new(&[("main.tf", module)]).await;
    let mut config = world.config("apply");
    config["sensitiveValues"] = json!("literal");
    config["variables"] = json!({"kubeconfig": {"value": kubeconfig, "sensitive": true}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let log = world.received().log_text();
    assert!(log.contains("terraform_data.users: Creating..."), "{log}");
    assert!(log.contains("(local-exec): kind: Config"), "{log}");
    assert_eq!(log.matches("(local-exec): kind: Config").count(), 1, "{log}");
    for text in ["apiVersion", "name: prod", "hunter2"] {
        let shown = log.lines().any(|line| line.contains(text) && line.contains("(local-exec): "));
        assert!(!shown, "{text}: {log}");
    }
}
