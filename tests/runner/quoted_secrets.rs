//! Secrets that Terraform quotes in its errors, and values of variables in all forms of a declaration.

use std::path::Path;

use serde_json::json;

use butler_testing::world::{RunEnd, World};

/// A world with a directory of the user, which has no registry.
async fn world(files: &[(&str, &str)]) -> World {
    let world = World::new(&[]).await;
    std::fs::create_dir(world.path("module")).unwrap();
    for (name, text) in files {
        std::fs::write(world.path("module").join(name), text).unwrap();
    }
    world
}

/// Runs `arguments` in the module's directory. Also returns everything that was printed and reported.
async fn run(world: &World, arguments: &[&str]) -> (RunEnd, String) {
    let report = world.path("report");
    let report = report.to_str().unwrap();
    let mut command = world.command(&[arguments, &["--report-dir", report]].concat());
    let output = command.current_dir(world.path("module")).output().await.unwrap();
    let end = world.end(&output);
    let mut shown = format!("{}{}", end.stdout, end.stderr);
    for entry in std::fs::read_dir(Path::new(report)).into_iter().flatten() {
        let entry = entry.unwrap();
        if entry.file_name() != "outputs.json" {
            shown += &std::fs::read_to_string(entry.path()).unwrap_or_default();
        }
    }
    (end, shown)
}

#[tokio::test]
async fn mistake_in_a_variable_file_does_not_print_the_secret() {
    let main = (
        "main.tf",
        "variable \"s\" {\n  sensitive = true\n}\nvariable \"a\" {\n  default = 1\n}\n",
    );
    for (name, text) in [
        ("terraform.tfvars", "s = 'hunter2pw'\n"),
        ("terraform.tfvars", "s = \"hunter2pw\n"),
        ("a.auto.tfvars", "s: hunter2pw\n"),
        ("terraform.tfvars", "export s=hunter2pw\n"),
        ("terraform.tfvars", "a = 1 s = \"hunter2pw\"\n"),
        ("terraform.tfvars", "s = hunter2pw\n"),
        ("terraform.tfvars", "s = [\n  'hunter2pw',\n]\n"),
        ("terraform.tfvars", "s {\n  value = \"hunter2pw\"\n}\n"),
        ("terraform.tfvars.json", "{\"s\": \"hunter2pw\",}\n"),
        ("terraform.tfvars.json", "{\"s\": hunter2pw}\n"),
        ("other.tf", "variable \"t\" {\n  sensitive = true\n  default   = 'hunter2pw'\n}\n"),
        ("other.tf", "variable \"t\" {\n  sensitive = true\n  default   = hunter2pw\n}\n"),
        (
            "other.tf.json",
            "{\"variable\": {\"t\": {\"sensitive\": true, \"default\": \"hunter2pw\",}}}",
        ),
    ] {
        let world = world(&[main, (name, text)]).await;
        let (end, shown) = run(&world, &["plan", "--var", "a=2"]).await;
        assert_eq!(end.code, Some(1), "{text}: {shown}");
        assert!(!shown.contains("hunter2pw"), "{text}: {shown}");
        assert!(shown.contains("Error: "), "{text}: {shown}");
    }
}

/// A module that shows the value of a sensitive variable.
const SHOWS: &str = "variable \"s\" {\n  sensitive = true\n}\nresource \"terraform_data\" \"a\" {\n  provisioner \
    \"local-exec\" {\n    command = \"echo it is hunter2pw\"\n  }\n}\n";

#[tokio::test]
async fn values_in_piped_variable_files_are_masked() {
    for (written, json, code) in [
        ("s = \"hunter2pw\"\n", false, 0),
        ("s = 'hunter2pw'\n", false, 1),
        ("s: hunter2pw\n", false, 1),
        ("{\"s\": \"hunter2pw\"}\n", true, 0),
        ("{\"s\": \"hunter2pw\",}\n", true, 1),
    ] {
        let world = world(&[("main.tf", SHOWS), ("written", written)]).await;
        let pipe = if json { "pipe.tfvars.json" } else { "pipe" };
        // A substituted process, a named pipe, and standard input.
        for (given, before) in [
            ("<(cat written)", String::new()),
            (pipe, format!("rm -f {pipe}; mkfifo {pipe}; cat written >{pipe} & ")),
            ("/dev/stdin", "cat written | ".to_owned()),
        ] {
            if json && given != pipe {
                continue;
            }
            let _ = std::fs::remove_file(world.path("module/terraform.tfstate"));
            let script = format!("{before}\"$0\" \"$@\" --var-file {given}");
            let runner = world.command(&["apply", "--yes"]);
            let mut command = butler_testing::world::wrapped(&runner, &["bash", "-c", &script]);
            let output = command.current_dir(world.path("module")).output().await.unwrap();
            let end = world.end(&output);
            let shown = format!("{}{}", end.stdout, end.stderr);
            assert_eq!(end.code, Some(code), "{given} {written}: {shown}");
            assert!(!shown.contains("hunter2pw"), "{given} {written}: {shown}");
            assert_eq!(shown.contains("it is ***"), code == 0, "{given} {written}: {shown}");
        }
    }
}

#[tokio::test]
async fn values_in_arguments_of_terraform_are_masked() {
    let files = [
        ("main.tf", SHOWS),
        ("good.tfvars", "s = \"hunter2pw\"\n"),
        ("bad.tfvars", "s = 'hunter2pw'\n"),
    ];
    for (variable, arguments, code) in [
        ("TF_CLI_ARGS", "-var s=hunter2pw", 0),
        ("TF_CLI_ARGS_plan", "-var=s=hunter2pw", 0),
        ("TF_CLI_ARGS_plan", "-no-color --var 's=hunter2pw'", 0),
        ("TF_CLI_ARGS_plan", "-var-file=good.tfvars", 0),
        ("TF_CLI_ARGS", "-var-file good.tfvars", 0),
        ("TF_CLI_ARGS_plan", "-var-file=bad.tfvars", 1),
        ("TF_CLI_ARGS_plan", "-var s=hunter2pw (", 1),
        ("TF_CLI_ARGS_plan", "-var 's=hunter2pw", 1),
    ] {
        let mut world = world(&files).await;
        world.set(variable, arguments);
        let (end, shown) = run(&world, &["apply", "--yes"]).await;
        assert_eq!(end.code, Some(code), "{variable}={arguments}: {shown}");
        assert!(!shown.contains("hunter2pw"), "{variable}={arguments}: {shown}");
        assert_eq!(shown.contains("it is ***"), code == 0, "{variable}={arguments}: {shown}");
    }
}

#[tokio::test]
async fn value_is_masked_in_each_form_of_the_declaration() {
    let uses = "output \"o\" {\n  value = nonsensitive(var.s)\n}\nresource \"terraform_data\" \"a\" {\n  \
        provisioner \"local-exec\" {\n    command = \"echo it is hunter2pw\"\n  }\n}\n";
    let large =
        format!("variable \"s\" {{\n  sensitive = true\n}}\n#{}\n", " ".repeat(2 * 1024 * 1024));
    let native = |form: &str| format!("variable \"s\" {{\n  sensitive = {form}\n}}\n");
    let declarations = [
        ("s.tf", native("\"true\"")),
        ("s.tf", native("(true)")),
        ("s.tf", native("!false")),
        ("s.tf", native("1 == 1")),
        ("s.tf.json", r#"{"variable": {"s": {"sensitive": "true"}}}"#.to_owned()),
        (
            "s.tf.json",
            r#"{"variable": {"s": {"sensitive": true}}, "variable": {"t": {"default": 1}}}"#
                .to_owned(),
        ),
        ("s.tf", large),
    ];
    for (name, text) in declarations {
        let world = world(&[("main.tf", uses), (name, &text)]).await;
        let (end, shown) = run(&world, &["apply", "--yes", "--var", "s=hunter2pw"]).await;
        let form = &text[..text.len().min(80)];
        assert_eq!(end.code, Some(0), "{form}: {shown}");
        assert!(!shown.contains("hunter2pw") && shown.contains("it is ***"), "{form}: {shown}");
    }
}

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

#[tokio::test]
async fn saved_plan_is_not_applied_with_other_variables() {
    let module = "variable \"v\" {\n  default = \"one\"\n}\nvariable \"l\" {\n  type    = list(string)\n  default = [\"a\"]\n}\n\
        variable \"s\" {\n  sensitive = true\n  default   = \"hunter2pw\"\n}\nresource \"terraform_data\" \"a\" {\n  input = var.v\n}\n";
    let world = world(&[("main.tf", module), ("b.tfvars", "v = \"two\"\n")]).await;
    let (end, shown) = run(&world, &["plan", "--out", "../saved.plan"]).await;
    assert_eq!(end.code, Some(0), "{shown}");
    for (option, expected) in [
        ("--var=v=two", "to \"two\", and the saved plan contains \"one\""),
        ("--var=l=[\"b\"]", "to [\"b\"], and the saved plan contains [\"a\"]"),
        ("--var=s=hunter3pw", "the values are sensitive"),
        ("--var=unknown=1", "the saved plan has no variable `unknown`"),
        ("--var-file=b.tfvars", "to \"two\", and the saved plan contains \"one\""),
    ] {
        let (end, shown) = run(&world, &["apply", "../saved.plan", option]).await;
        assert_eq!(end.code, Some(1), "{option}: {shown}");
        assert!(shown.contains(expected), "{option}: {shown}");
        assert!(!shown.contains("hunter2pw") && !shown.contains("hunter3pw"), "{shown}");
        assert!(!world.path("module/terraform.tfstate").exists(), "{option}");
    }
    let same = ["apply", "../saved.plan", "--var=v=one", "--var=l=[\"a\",]", "--var=s=hunter2pw"];
    let (end, shown) = run(&world, &same).await;
    assert_eq!(end.code, Some(0), "{shown}");
    assert!(world.path("module/terraform.tfstate").exists());
}
