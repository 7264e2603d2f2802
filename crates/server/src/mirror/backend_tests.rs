//! Backends of modules in both syntaxes.

use secrecy::ExposeSecret as _;

use super::*;

/// A block as `TYPE NAME=VALUE …`, in the order of the names; `?` is a value that is not literal.
fn shown(block: &BackendBlock) -> String {
    let settings = block.settings.iter().map(|(name, value)| {
        let value = value.as_ref().map_or("?", |value| value.expose_secret());
        format!(" {name}={value}")
    });
    block.kind.clone() + &settings.collect::<String>()
}

fn of_files(files: &[(&str, &str)]) -> String {
    let mut blocks = Blocks::default();
    for (name, text) in files {
        let is_json = syntax(name) == Some(Syntax::Json);
        blocks.add(name, if is_json { json_blocks(text) } else { hcl_blocks(text) });
    }
    match blocks.backend() {
        ModuleBackend::Absent => "absent".to_owned(),
        ModuleBackend::Unknown => "unknown".to_owned(),
        ModuleBackend::Block(block) => shown(&block),
    }
}

#[test]
fn blocks_are_found_in_hcl() {
    for (text, expected) in [
        ("terraform {\n  backend \"s3\" {}\n}", "s3"),
        (
            "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = local.key\n    endpoints = {\n      s3 = \"x\"\n    }\n  }\n}",
            r#"s3 bucket="b" endpoints={"s3":"x"} key=?"#,
        ),
        ("terraform {\n  backend \"pg\" {\n    conn_str = \"a${b}\"\n  }\n}", "pg conn_str=?"),
        (
            "terraform {\n  cloud {\n    organization = \"a\"\n    workspaces {\n      name = \"w\"\n    }\n  }\n}",
            r#"cloud organization="a" workspaces={"name":"w"}"#,
        ),
        ("terraform {\n  required_version = \"> 1\"\n}\n# backend", "absent"),
        ("resource \"a\" \"backend\" {\n  backend {\n  }\n}", "absent"),
        ("terraform { backend", "unknown"),
        ("terraform {\n  backend \"s3\" {}\n  backend \"pg\" {}\n}", "unknown"),
    ] {
        assert_eq!(of_files(&[("main.tf", text)]), expected, "{text}");
    }
}

#[test]
fn blocks_are_found_in_json() {
    for (text, expected) in [
        (
            r#"{"terraform": {"backend": {"s3": {"key": "k", "bucket": "${b}"}}}}"#,
            "s3 bucket=? key=\"k\"",
        ),
        (r#"{"terraform": [{"cloud": {}}]}"#, "cloud"),
        (r#"{"locals": {"backend": 1}}"#, "absent"),
        ("{", "unknown"),
    ] {
        assert_eq!(of_files(&[("main.tf.json", text)]), expected, "{text}");
    }
}

#[test]
fn last_override_file_replaces_the_block() {
    let block = |kind: &str| format!("terraform {{\n  backend \"{kind}\" {{}}\n}}");
    let (a, b, c) = (block("s3"), block("pg"), block("http"));
    assert_eq!(of_files(&[("a_override.tf", &b), ("main.tf", &a)]), "pg");
    assert_eq!(of_files(&[("a_override.tf", &b), ("b_override.tf", &c), ("main.tf", &a)]), "http");
    assert_eq!(of_files(&[("main.tofu", &a)]), "s3");
    assert_eq!(of_files(&[("main.tf", &a), ("main.tofu", &b)]), "unknown");
}
