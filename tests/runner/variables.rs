//! Variable files of the runner with the real Terraform.

use std::path::PathBuf;

use butler_base::secret::PrivateDirectory;
use butler_protocol::backend::StateReport;
use butler_protocol::references::SecretSources;
use butler_protocol::spec::{
    Operation, PlanFile, PlanPurpose, RunSpec, SensitiveValues, Source, TerraformSetup, Variable,
};
use butler_runner::workspace::{VariableFiles, resolve, write_variable_files};
use butler_source::module::Module;
use semver::Version;

use butler_testing::terraform::{TestModule, flag};

fn write(module: &TestModule, values: &[(&str, &str)]) -> (PrivateDirectory, VariableFiles) {
    let variable =
        |json: &str| Variable { value: Some(json.into()), sensitive: false, reference: None };
    let spec = RunSpec {
        operation: Operation::Plan,
        tool: None,
        source: Source::Directory(module.directory()),
        variables: values.iter().map(|(name, json)| ((*name).to_owned(), variable(json))).collect(),
        sensitive_values: SensitiveValues::default(),
        upstream_outputs: Vec::new(),
        environment: Vec::new(),
        backend: None,
        setup: TerraformSetup::default(),
        work_directory: None,
        plan_file: PlanFile::default(),
        plan_purpose: PlanPurpose::default(),
        force_unlock: None,
        state_report: StateReport::Omit,
    };
    let inputs = resolve(&spec, &SecretSources::default()).unwrap();
    let private = PrivateDirectory::create(module.base(), "private-").unwrap();
    let read = Module::read(&module.directory()).unwrap();
    let files = write_variable_files(&inputs, &read, &Version::new(1, 11, 4), &private).unwrap();
    (private, files)
}

fn with_files(command: &[&str], files: &[PathBuf]) -> Vec<String> {
    let command = command.iter().map(|argument| (*argument).to_owned());
    command.chain(files.iter().map(|path| flag("var-file", path))).collect()
}

#[test]
fn values_reach_terraform_unchanged() {
    let cases = [
        ("text", "string", r#""${a} $${b} %{ if c } \" \\ \n \u0000 é 1.10""#, None),
        ("words", "string", r#""[\"no\", \"list\"]""#, None),
        ("number", "number", "12345678901234567890123456789.123456789", None),
        ("untyped", "", r#""{ a = 1 }""#, None),
        ("list", "list(string)", r#""[\n  \"a\", # first\n  \"b\",\n]""#, Some(r#"["a","b"]"#)),
        (
            "json",
            "list(number)",
            "[1.10,123456789012345678901234567890]",
            Some("[1.1,123456789012345678901234567890]"),
        ),
        (
            "object",
            "object({ a = optional(number, 7), b = string })",
            r#""{ b = \"${\"x\"}\" }""#,
            Some(r#"{"a":7,"b":"x"}"#),
        ),
        ("heredoc", "set(string)", r#""[<<EOT\nline\nEOT\n]""#, Some(r#"["line\n"]"#)),
        ("any_map", "any", r#""{ a = [1, true] }""#, Some(r#"{"a":[1,true]}"#)),
        ("any_word", "any", r#""not-hcl""#, None),
        ("templates", "any", r#"{"${k}":"%{ v }"}"#, None),
        ("nothing", "string", "null", None),
    ];
    let declarations = cases.iter().map(|(name, kind, ..)| {
        let kind = if kind.is_empty() { String::new() } else { format!("type = {kind}\n") };
        format!(
            "variable \"{name}\" {{\n{kind}}}\n\
             output \"{name}\" {{\n  value = jsonencode(var.{name})\n}}\n"
        )
    });
    let main: String = declarations.collect();
    let module = TestModule::new(&[("main.tf", &main)]);
    let values: Vec<_> = cases.iter().map(|(name, _, json, _)| (*name, *json)).collect();
    let (_private, files) = write(&module, &values);
    assert_eq!(files.plan.len(), 2);
    module.succeed(&with_files(&["apply", "-auto-approve"], &files.plan));
    for (name, _, given, expected) in cases {
        let seen = module.succeed(&["output", "-raw", name]);
        let text = |json: &str| serde_json::from_str::<String>(json).ok();
        match text(given).filter(|_| expected.is_none()) {
            Some(given) => assert_eq!(text(&seen).as_ref(), Some(&given), "{name}"),
            None => assert_eq!(seen, expected.unwrap_or(given), "{name}"),
        }
    }
}

#[test]
fn variable_files_of_the_module_are_kept_and_overridden_by_the_run() {
    let module = TestModule::new(&[
        (
            "main.tf",
            "variable \"a\" {}\nvariable \"b\" {}\nvariable \"c\" {\n  default = \"default\"\n}\n\
             output \"all\" {\n  value = \"${var.a} ${var.b} ${var.c}\"\n}\n",
        ),
        ("terraform.tfvars", "a = \"own\"\nb = \"own\"\n"),
        ("z.auto.tfvars.json", "{\"a\": \"auto\"}\n"),
    ]);
    let (_private, files) = write(&module, &[("a", "\"ours\""), ("undeclared", "\"x\"")]);
    module.succeed(&with_files(&["apply", "-auto-approve"], &files.plan));
    assert_eq!(module.succeed(&["output", "-raw", "all"]), "ours own default");
    let own = std::fs::read_to_string(module.directory().join("terraform.tfvars")).unwrap();
    assert_eq!(own, "a = \"own\"\nb = \"own\"\n");
}

#[test]
fn apply_of_a_saved_plan_passes_ephemeral_variables_again() {
    let module = TestModule::new(&[(
        "main.tf",
        "variable \"token\" {\n  type = map(string)\n  ephemeral = true\n}\nvariable \"other\" {}\n\
         resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n\
         command = \"test \\\"$TOKEN\\\" = hunter2\"\n\
         environment = { TOKEN = var.token.value }\n  }\n}\n",
    )]);
    let values = [("token", r#""{ value = \"hunter2\" }""#), ("other", "1")];
    let (_private, files) = write(&module, &values);
    module.succeed(&["init"]);
    module.succeed(&with_files(&["plan", "-out=plan"], &files.plan));
    let error = module.fail(&["apply", "plan"]);
    assert!(error.contains("No value for required variable"), "{error}");
    let apply = with_files(&["apply"], &files.apply);
    module.succeed(&[apply, vec!["plan".to_owned()]].concat());
}
