//! What the server keeps of the output of an attempt.

use super::*;

#[tokio::test]
async fn output_of_an_attempt_has_only_messages_of_the_runner() {
    let installation = Installation::new();
    let many = "resource \"terraform_data\" \"one\" {\n  count = 500\n}\n";
    let output =
        |number| format!("output \"o{number}\" {{\n  value = file(\"missing-{number}\")\n}}");
    let broken = (0..50).map(output).collect::<Vec<_>>().join("\n");
    let repository = Repository::create(&[("envs/a/main.tf", many), ("envs/b/main.tf", &broken)]);
    let pass = installation.once(&Installation::quick_start(&repository)).await;
    assert_eq!(pass.status.code(), Some(1), "{}", text(&pass));
    let all: Vec<_> = attempts(&installation.data())
        .iter()
        .map(|attempt| {
            let read = |name: &str| std::fs::read_to_string(attempt.join(name)).unwrap();
            (read("log.jsonl"), read("output.log"))
        })
        .collect();
    // Terraform prints the plan on its standard output, and errors on its standard error.
    for printed in ["one[499]", "missing-49"] {
        let (log, output) = all.iter().find(|(log, _)| log.contains(printed)).unwrap();
        assert!(log.len() > 10_000, "{log}");
        assert!(output.len() < 4_000 && !output.contains(printed), "{output}");
    }
}
