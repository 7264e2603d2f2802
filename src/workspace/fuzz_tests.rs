//! A module's files are written by anybody: they are read, or passed over.

use super::{Module, TerraformSettingsError, collection_texts, hcl, read_settings_file};
use crate::fuzz::Target;

const NATIVE: &[u8] = br#"terraform {
  required_version = ">= 1.5, < 2.0"
  required_providers { azurerm = { source = "hashicorp/azurerm" } }
  backend "s3" {}
}
variable "a" {
  type      = object({ a = optional(list(string), ["x"]), b = number })
  sensitive = true
}
variable "b" { type = "list" }
resource "azurerm_x" "y" { count = var.a ? 1 : 0, for_each = { for k, v in x : k => v... } }
locals { t = <<-EOT
  ${upper("x")} %{ if true }y%{ endif }
EOT
}
"#;

const JSON: &[u8] = br#"{"//":"c","variable":{"a":{"type":"${list(string)}","sensitive":true}},
"terraform":[{"required_version":">= 1.0","backend":{"pg":{}}}],"provider":{"azurerm":[{}]}}"#;

const TOKENS: [&[u8]; 26] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"\"",
    b"${",
    b"%{",
    b"<<EOT\n",
    b"\nEOT\n",
    b"!",
    b"-",
    b"?",
    b" : ",
    b" && ",
    b".",
    b"[*]",
    b"...",
    b"/*",
    b"#",
    b"\\u",
    b"\n",
    b"list(",
    b"variable \"a\" {",
    b"\xef\xbb\xbf",
];

#[test]
fn fuzz_module_whatever_is_in_its_files_the_scan_ends() {
    let directory = tempfile::tempdir().unwrap();
    let mut found = 0;
    Target { name: "module", samples: &[NATIVE, JSON], tokens: &TOKENS, rounds: 400 }.run(
        |input, _| {
            for name in ["main.tf", "other.tf.json", "x_override.tofu", ".terraform-version"] {
                std::fs::write(directory.path().join(name), input).unwrap();
            }
            found += Module::read(directory.path()).unwrap().variables.len();
        },
    );
    assert!(found > 0, "no input was right");
}

#[test]
fn fuzz_hcl_text_of_a_variable_is_one_expression_or_none() {
    let samples: [&[u8]; 3] =
        [b"[1, \"a\", { b = true }]", b"{ a = [\"x${1 + 2}\"] }", b"\"text\""];
    Target { name: "text", samples: &samples, tokens: &TOKENS, rounds: 1500 }.run(|input, _| {
        let text = String::from_utf8_lossy(input);
        let _ = collection_texts(&text);
        if hcl::shape(&text).is_ok() {
            // In its parentheses it must not be able to bring a second setting along.
            let file = format!("a = {}\n", *hcl::parenthesized(&text));
            let body = hcl_edit::parser::parse_body(&file).unwrap();
            assert_eq!(body.len(), 1, "{file}");
        }
    });
}

const SETTINGS: &[u8] = b"terraformrc:
  providerInstallation:
    networkMirror: [{url: https://a.example/x, include: ['*', 'a/b']}]
    filesystemMirror: {path: '/a ${b} %{c} \"', exclude: [a/b/c]}
    direct: {}
  credentials: {app.terraform.io: {token: {secretId: /x/y/tfc, key: token}}}
backend:
  type: s3
  config: {useLockFile: true, n: 1.50, nested: [{roleArn: [x, ~, false]}], k: {secretId: a/b}}
env:
  A: 1
  B: yes
  C: |
    text
logging: {level: trace, path: x.log}
";

const SETTINGS_JSON: &[u8] = br#"{"terraformrc":{"credentials":{"a.b:8443":{"token":{"secretId":"x"}}}},
"backend":{"type":"pg","config":{"connStr":"\ud83d\ude00","a":[{}]}},"env":{"A":true,"B":-1e4},"logging":null}"#;

const SETTINGS_TOKENS: [&[u8]; 20] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b"- ",
    b"\n",
    b"\n  ",
    b"'",
    b"\"",
    b"&a ",
    b"*a",
    b"!!str ",
    b"---\n",
    b"? ",
    b"|\n",
    b">-\n",
    b"#",
    b"<<: ",
    b"\xef\xbb\xbf",
];

#[test]
fn fuzz_settings_whatever_is_in_the_file_is_settings_or_problems_with_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("settings");
    let mut understood = 0;
    let samples = [SETTINGS, SETTINGS_JSON];
    for sample in samples {
        std::fs::write(&path, sample).unwrap();
        read_settings_file(&path).unwrap();
    }
    Target { name: "settings", samples: &samples, tokens: &SETTINGS_TOKENS, rounds: 2000 }.run(
        |input, _| {
            std::fs::write(&path, input).unwrap();
            match read_settings_file(&path) {
                Ok(_) => understood += 1,
                Err(TerraformSettingsError::File { problems, .. }) => {
                    // YAML has more ends of lines than one.
                    let lines = memchr::memchr2_iter(b'\n', b'\r', input).count() + 2;
                    for problem in &problems {
                        assert!((1..=lines).contains(&problem.line), "{problem}");
                    }
                    assert!(!problems.is_empty());
                }
                Err(TerraformSettingsError::Encoding(_)) => {}
                Err(error) => panic!("{error}"),
            }
        },
    );
    assert!(understood > 0, "no input was right");
}
