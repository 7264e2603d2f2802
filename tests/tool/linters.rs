//! The linters of generated files find errors, and the project's own workflows pass them.

use butler_testing::linters::{
    Findings, Schema, actionlint, check_jsonschema, groovy_lint, kubernetes_validate, shellcheck,
    tekton_lint, yaml, yamllint, zizmor,
};

fn assert_finds(checked: Result<(), Findings>, expected: &str) {
    let findings = checked.expect_err("a bad file is found");
    assert!(findings.found().contains(expected), "{findings:?}");
}

#[test]
fn each_schema_rejects_a_malformed_file() {
    for (schema, good, bad, finding) in [
        (
            Schema::GitHubWorkflows,
            "on: push\njobs: {a: {runs-on: x, steps: [{run: 'true'}]}}\n",
            "on: push\njobs: {a: {steps: [{run: 'true'}]}}\n",
            "'runs-on' is a required property",
        ),
        (
            Schema::GitLabCi,
            "a: {script: [!reference [b, script]]}\nb: {script: ['true']}\n",
            "a: {script: ['true'], when: someday}\n",
            "someday",
        ),
        (
            Schema::CircleCi,
            "version: 2.1\njobs: {a: {docker: [{image: x}], steps: [checkout]}}\n",
            "version: 2.1\njobs: {a: {docker: [{image: x}], steps: 1}}\n",
            "$.jobs.a",
        ),
        (
            Schema::BitbucketPipelines,
            "pipelines: {custom: {a: [{step: {script: ['true']}}]}}\n",
            "pipelines: {custom: {a: [{step: {script: ['true'], size: 3x}}]}}\n",
            "$.pipelines.custom.a",
        ),
        (
            Schema::AzurePipelines,
            "steps:\n  - ${{ if true }}:\n      - script: 'true'\n",
            "steps:\n  - ${{ if true }}:\n      - scrpt: 'true'\n",
            "scrpt",
        ),
    ] {
        check_jsonschema(schema, &[good]).unwrap();
        assert_finds(check_jsonschema(schema, &[bad]), finding);
    }
}

#[test]
fn linter_finds_an_unknown_field_of_a_manifest() {
    let manifest = |field: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  {field}: 1\n  \
             containers: [{{name: a, image: b}}]\n"
        )
    };
    kubernetes_validate(&[&manifest("terminationGracePeriodSeconds")]).unwrap();
    assert_finds(kubernetes_validate(&[&manifest("gracePeriod")]), "'gracePeriod' was unexpected");
}

#[test]
fn linter_finds_a_duplicate_key() {
    yamllint(&["on: push\nrun: a\n"]).unwrap();
    assert_finds(yamllint(&["run: a\nrun: b\n"]), "duplication of key");
}

#[test]
fn linter_finds_a_misspelled_context_of_a_workflow() {
    let workflow = |context: &str| {
        format!(
            "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      \
             - run: echo \"$A\"\n        env: {{A: '${{{{ {context} }}}}'}}\n"
        )
    };
    actionlint(&[&workflow("vars.A")]).unwrap();
    assert_finds(actionlint(&[&workflow("github.run_identity")]), "run_identity");
}

#[test]
fn linter_finds_an_input_that_is_expanded_in_a_shell() {
    let workflow = |run: &str| {
        format!(
            "name: a\non: push\npermissions: {{}}\nconcurrency: {{group: a, \
             cancel-in-progress: false}}\njobs:\n  a:\n    name: a\n    runs-on: ubuntu-24.04\n    \
             steps:\n      - name: a\n        run: {run}\n"
        )
    };
    zizmor("pedantic", &[&workflow("echo a")]).unwrap();
    assert_finds(
        zizmor("pedantic", &[&workflow("echo ${{ github.event.issue.title }}")]),
        "template-injection",
    );
}

#[test]
fn linter_finds_a_jenkinsfile_with_a_syntax_error() {
    let pipeline = |end: &str| {
        format!(
            "pipeline {{\n  agent any\n  stages {{\n    stage('a') {{\n      steps {{\n        \
             sh 'true'\n      }}\n    }}\n  }}\n{end}"
        )
    };
    let found = groovy_lint(&[pipeline("}\n"), pipeline("")]).unwrap_err();
    let has = |text: &str| found.found().contains(text);
    assert!(has("Unexpected input") && has("1/Jenkinsfile"), "{found:?}");
    assert!(!has("0/Jenkinsfile"), "{found:?}");
}

#[test]
fn linter_finds_an_undeclared_parameter() {
    let task = |name: &str| {
        format!(
            "apiVersion: tekton.dev/v1\nkind: Task\nmetadata:\n  name: a\nspec:\n  params:\n    \
             - name: b\n      type: string\n  steps:\n    - name: c\n      image: d:1\n      \
             args: [$(params.b), $(params.{name})]\n"
        )
    };
    tekton_lint(&[&task("b")]).unwrap();
    assert_finds(tekton_lint(&[&task("e")]), "Undefined param 'e'");
}

#[test]
fn linter_finds_an_unquoted_variable() {
    shellcheck("sh", &["rm -f -- \"$1\"\n"]).unwrap();
    assert_finds(shellcheck("sh", &["rm -f -- $1\n"]), "SC2086");
}

#[test]
fn yaml_parser_reads_on_as_a_string() {
    assert_eq!(yaml("on: yes\n"), [serde_json::json!({"on": "yes"})]);
}

#[test]
fn workflows_of_this_project_pass_the_linters() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/.github/workflows");
    let files = std::fs::read_dir(directory).unwrap();
    let texts: Vec<_> =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert!(!texts.is_empty(), "there are workflows");
    yamllint(&texts).unwrap();
    check_jsonschema(Schema::GitHubWorkflows, &texts).unwrap();
    actionlint(&texts).unwrap();
    zizmor("regular", &texts).unwrap();
}
