//! Diagnostics of the tool are part of the result, for each command.

use serde_json::{Value, json};

use super::{run, run_with};
use butler_testing::world::{MODULE, World};

/// `severity|summary|file:line|subject` of each.
fn shown(result: &Value) -> Vec<String> {
    let diagnostics = result["diagnostics"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let line = |it: &Value| {
        let place = match &it["place"] {
            Value::Null => "-".to_owned(),
            place => format!("{}:{}", text(&place["file"]), place["line"]),
        };
        [text(&it["severity"]), text(&it["summary"]), place, text(&it["subject"])].join("|")
    };
    diagnostics.map(line).collect()
}

#[tokio::test]
async fn errors_of_each_command_have_file_line_and_resource() {
    let failing = "resource \"terraform_data\" \"r\" {\n  provisioner \"local-exec\" {\n    command = \"echo said; exit 3\"\n  }\n}\n";
    let destroying = "resource \"terraform_data\" \"r\" {\n  provisioner \"local-exec\" {\n    when    = destroy\n    command = \"exit 3\"\n  }\n}\n";
    for (operation, module, expected, detail) in [
        (
            "plan",
            "module \"a\" {\n  source = \"./missing\"\n}\n",
            "error|Unreadable module directory|-|-",
            "",
        ),
        (
            "plan",
            "output \"z\" {\n  value = file(\"missing\")\n}\n",
            "error|Invalid function argument|main.tf:2|output \"z\"",
            "Invalid value for \"path\" parameter: no file exists",
        ),
        (
            "apply",
            failing,
            "error|local-exec provisioner error|main.tf:2|terraform_data.r",
            "exit status 3. Output: said",
        ),
        (
            "refresh",
            "output \"z\" {\n  value = file(\"missing\")\n}\n",
            "error|Invalid function argument|main.tf:2|output \"z\"",
            "",
        ),
        (
            "validate",
            "output \"z\" {\n  value = var.missing\n}\n",
            "error|Reference to undeclared input variable|main.tf:2|output \"z\"",
            "has not been declared",
        ),
    ] {
        let world = World::new(&[("main.tf", module)]).await;
        let (end, result) = run(&world, operation).await;
        assert_eq!(end.code, Some(1), "{operation}: {}", end.stderr);
        assert_eq!(shown(&result)[0], expected, "{operation}");
        let said = result["diagnostics"][0]["detail"].as_str().unwrap();
        assert!(said.contains(detail), "{operation}: {said}");
        assert!(!said.contains("the configuration is not valid"), "{said}");
    }
    let world = World::new(&[("main.tf", destroying)]).await;
    run(&world, "apply").await;
    let (_, result) = run(&world, "destroy").await;
    assert_eq!(shown(&result), ["error|local-exec provisioner error|main.tf:2|terraform_data.r"]);
}

#[tokio::test]
async fn warnings_of_plan_and_apply_are_listed_once() {
    let check = "check \"c\" {\n  assert {\n    condition     = var.name == \"x\"\n    error_message = \"It is $${not} x.\"\n  }\n}\n";
    let world = World::new(&[("main.tf", MODULE), ("check.tf", check)]).await;
    let (end, result) = run(&world, "apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(shown(&result), ["warning|Check block assertion failed|check.tf:3|check \"c\""]);
    assert_eq!(result["diagnostics"][0]["detail"], "It is ${not} x.");

    let test = "run \"bad\" {\n  command = plan\n  assert {\n    condition     = var.name == \"y\"\n    error_message = \"not y\"\n  }\n}\n";
    let world = World::new(&[("main.tf", MODULE), ("a.tftest.hcl", test)]).await;
    let (_, result) = run(&world, "test").await;
    assert_eq!(shown(&result), ["error|Test assertion failed|a.tftest.hcl:4|run \"bad\""]);
    assert_eq!(result["diagnostics"][0]["detail"], "not y");
}

#[tokio::test]
async fn secrets_in_diagnostics_are_masked_and_runner_warnings_included() {
    let module = "variable \"b\" {}\nvariable \"a\" {\n  validation {\n    condition     = var.a == \"x\"\n    error_message = \"it is ${var.a}\"\n  }\n}\n";
    let world = World::new(&[("main.tf", module)]).await;
    let mut config = world.config("plan");
    config["variables"] = json!({
        "a": {"value": "hunter22-hidden", "sensitive": true},
        "b": {"value": "xy", "sensitive": true},
    });
    let (_, result) = run_with(&world, config).await;
    let errors = shown(&result).into_iter().filter(|it| it.starts_with("error|"));
    assert!(errors.collect::<String>().starts_with("error|Invalid value for variable|/"));
    assert!(result["diagnostics"].to_string().contains("it is ***"), "{result:#}");
    assert!(!result.to_string().contains("hunter22"), "{result:#}");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("Too short to be masked in the log"), "{warnings}");
    assert_eq!(result["source_directory"], "");
    assert!(result["source_repository"].as_str().unwrap().starts_with("file:///"), "{result:#}");
}
