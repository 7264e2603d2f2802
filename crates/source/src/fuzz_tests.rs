//! Anyone can write a module's files: they are read or skipped.

use butler_fuzz::Target;

use crate::hcl::{self, collection_texts};
use crate::module::Module;

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
fn fuzz_module_scan_ends_for_any_files() {
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
            let file = format!("a = {}\n", hcl::parenthesized(&text));
            let body = hcl_edit::parser::parse_body(&file).unwrap();
            assert_eq!(body.len(), 1, "{file}");
        }
    });
}
