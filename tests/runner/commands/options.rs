//! Options of the plan, and the exit codes of `drift` and `plan --detailed-exitcode`.

use super::{MODULE, applied, run, run_successfully, world, wrap_terraform, write};

#[tokio::test]
async fn last_of_values_and_variable_files_wins() {
    let world = world(&[("main.tf", MODULE), ("big.tfvars", "size = \"big\"\n")]).await;
    for (words, expected) in [
        (&["--var", "size=tiny", "--var-file", "big.tfvars"][..], "big"),
        (&["-var-file=big.tfvars", "-var", "size=tiny"], "tiny"),
        (&["-var=size=a=b"], "a=b"),
    ] {
        run_successfully(&world, &[&["apply", "--yes"], words].concat()).await;
        assert_eq!(applied(&world).as_deref(), Some(expected), "{words:?}");
    }
    let end = run(&world, &["plan", "--var", "siez=x"]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("undeclared variable"), "{}", end.stderr);
}

#[tokio::test]
async fn command_line_value_of_a_sensitive_variable_is_masked() {
    let module = r#"
variable "password" { sensitive = true }
variable "name" {}
output "all" { value = "${nonsensitive(var.password)} ${var.name}" }
"#;
    let world = world(&[("main.tf", module)]).await;
    let words = ["plan", "--var", "password=hunter22-secret", "--var", "name=open-name"];
    let end = run_successfully(&world, &words).await;
    let printed = format!("{}{}", end.stdout, end.stderr);
    assert!(printed.contains("*** open-name") && !printed.contains("hunter22"), "{printed}");
}

#[tokio::test]
async fn target_replace_and_refresh_options_affect_the_plan() {
    let module = "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {}\n";
    let world = world(&[("main.tf", module)]).await;
    let end = run_successfully(&world, &["plan", "--target", "terraform_data.a"]).await;
    assert!(end.stdout.contains("Plan: 1 to add"), "{}", end.stdout);
    run_successfully(&world, &["apply", "--yes", "--parallelism", "1"]).await;
    let end = run_successfully(&world, &["plan", "-replace=terraform_data.b"]).await;
    assert!(end.stdout.contains("terraform_data.b will be replaced"), "{}", end.stdout);
    let end = run_successfully(&world, &["plan", "-refresh=false"]).await;
    assert!(!end.stdout.contains("Refreshing state"), "{}", end.stdout);
    let end = run_successfully(&world, &["plan"]).await;
    assert!(end.stdout.contains("Refreshing state"), "{}", end.stdout);
}

#[tokio::test]
async fn option_that_the_tool_does_not_have_is_refused_before_the_plan() {
    let world = world(&[("main.tf", MODULE)]).await;
    for (words, expected) in [
        (&["plan", "-exclude=a.b"][..], "does not have `--exclude`, which opentofu 1.9.0"),
        (&["plan", "--target-file", "x"], "does not have `--target-file`, which opentofu 1.10.0"),
        (&["drift", "--exclude-file=x"], "does not have `--exclude-file`, which opentofu 1.10.0"),
        (
            &["apply", "--yes", "-invoke=action.a.b"],
            "does not have `--invoke`, which terraform 1.14.0",
        ),
    ] {
        let end = run(&world, words).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        assert!(end.stderr.contains(expected), "{}", end.stderr);
        assert!(!end.stdout.contains("Initializing"), "{}", end.stdout);
    }
    let words = ["plan", "--invoke", "action.a.b", "--target", "a.b"];
    assert_eq!(run(&world, &words).await.code, Some(2));
}

#[tokio::test]
async fn workspace_must_exist_and_is_selected_for_this_run_only() {
    let module = "output \"server\" { value = terraform.workspace }\n";
    let world = world(&[("main.tf", module)]).await;
    let end = run(&world, &["apply", "--yes", "--workspace", "stage"]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("there is no workspace `stage`, only `default`"), "{}", end.stderr);
    assert!(end.stderr.contains("terraform workspace new stage"), "{}", end.stderr);
    assert!(!world.path("module/terraform.tfstate.d").exists(), "a typo makes no workspace");

    std::fs::create_dir_all(world.path("module/terraform.tfstate.d/stage")).unwrap();
    run_successfully(&world, &["apply", "--yes", "--workspace=stage"]).await;
    let state = world.path("module/terraform.tfstate.d/stage/terraform.tfstate");
    assert!(std::fs::read_to_string(state).unwrap().contains("\"stage\""));
    run_successfully(&world, &["apply", "--yes"]).await;
    assert_eq!(applied(&world).as_deref(), Some("default"));
}

#[tokio::test]
async fn detailed_exit_code_of_plan_is_0_1_or_2() {
    let world = world(&[("main.tf", MODULE)]).await;
    assert_eq!(run(&world, &["plan", "--detailed-exitcode"]).await.code, Some(2));
    assert_eq!(run(&world, &["plan"]).await.code, Some(0));
    run_successfully(&world, &["apply", "--yes"]).await;
    assert_eq!(run(&world, &["plan", "-detailed-exitcode"]).await.code, Some(0));
    let reports = world.path("reports");
    let words =
        ["plan", "--destroy", "--detailed-exitcode", "--report-dir", reports.to_str().unwrap()];
    let end = run(&world, &words).await;
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(end.stdout.contains("1 to destroy"), "{}", end.stdout);
    let result = std::fs::read_to_string(reports.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!((&result["exit_code"], &result["status"]), (&2.into(), &"succeeded".into()));
    write(&world, "main.tf", "output \"x\" { value = file(\"missing\") }");
    assert_eq!(run(&world, &["plan", "--detailed-exitcode"]).await.code, Some(1));
    let end = run(&world, &["plan", "--detailed-exitcode", "--nonsense"]).await;
    assert_eq!(end.code, Some(64), "{}", end.stderr);
}

/// Resources of providers without a network cannot drift, so the drift in the output of `show` is
/// added to the plan of the real Terraform.
const DRIFTED: &str = r#"
[ "$1" = show ] || exec "$real" "$@"
drift='{"address":"terraform_data.server","mode":"managed","type":"terraform_data","name":"server","change":{"actions":["update"],"before":{"input":"small"},"after":{"input":"big"}}}'
"$real" "$@" | sed "s|\"output_changes\":|\"resource_drift\":[$drift],&|"
"#;

#[tokio::test]
async fn exit_code_of_drift_is_0_1_2_or_64() {
    let mut world = world(&[("main.tf", MODULE)]).await;
    assert_eq!(run(&world, &["drift"]).await.code, Some(0), "nothing is there that could drift");
    assert_eq!(run(&world, &["drift", "nowhere"]).await.code, Some(64));
    assert_eq!(run(&world, &["drift", "--nonsense"]).await.code, Some(64));
    assert_eq!(run(&world, &["drift", "-refresh-only"]).await.code, Some(64));
    assert_eq!(run(&world, &["drift", "--log-format", "nonsense"]).await.code, Some(64));
    run_successfully(&world, &["apply", "--yes"]).await;
    assert_eq!(run(&world, &["drift"]).await.code, Some(0));
    wrap_terraform(&mut world, DRIFTED);
    let end = run(&world, &["drift"]).await;
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    let said = "Drift: 1 changed outside of Terraform: terraform_data.server (changed)";
    assert!(end.stderr.contains(said), "{}", end.stderr);
    // A registry reads the drift from the report, and takes any other code for a failure.
    let words = ["execute", "--local", "--operation", "drift-check", "--module-dir", "."];
    let end = run(&world, &words).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    write(&world, "main.tf", "output \"x\" { value = ");
    assert_eq!(run(&world, &["drift"]).await.code, Some(1));
}

#[tokio::test]
async fn validate_and_test_work_in_a_directory() {
    let test = "run \"good\" {\n  command = plan\n  assert {\n    condition = var.size == \"big\"\n    error_message = \"it is not\"\n  }\n}\n";
    let world = world(&[("main.tf", MODULE), ("main.tftest.hcl", test)]).await;
    let end = run_successfully(&world, &["validate"]).await;
    assert!(end.stdout.contains("is valid") || end.stderr.contains("is valid"), "{end:?}");
    run_successfully(&world, &["test", "-var", "size=big"]).await;
    assert_eq!(run(&world, &["test"]).await.code, Some(1));
}
