//! Fuzzes the path of a configuration: parsed, masked, resolved, written to files.

use std::collections::BTreeMap;

use crate::workspace::{resolve, write_backend, write_variable_files};
use butler_base::secret::{PrivateDirectory, Redactor};
use butler_fuzz::Target;
use butler_protocol::configuration::parse_config;
use butler_protocol::references::SecretSources;
use butler_protocol::spec::ToolRequest;
use butler_source::module::{Module, VariableDeclaration};

const FULL: &[u8] = br#"{"runId":"550e8400","operation":"apply","terraformVersion":"1.9.0",
"source":{"type":"git","gitRepo":"https://me:hunter22@git.example.com/org/infra.git","gitRef":"v1.2.0",
 "workingDirectory":"modules/a","credentials":{"type":"token","token":"hunter22"}},
"variables":{"region":{"value":"us-east-1"},"count":{"value":12345678901234567890.10},
 "list":{"value":"[\"a\", { b = 1 }]","sensitive":true},
 "pw":{"sensitive":true,"source":"secret","ref":"ns/db","key":"password"}},
"envVars":{"A":{"value":"x\ny"},"TF_CLI_ARGS":{"value":"-parallelism=3"},"B":{"value":true},"D":null},
"upstreamOutputs":{"ids":["subnet-1",{"a":[1.5]}]},
"stateBackend":{"type":"s3","config":{"bucket":"b","endpoint":"http://x","assume_role":{"role_arn":"r"}}},
"callbacks":{"statusUrl":"/v1/ci/module-runs/550e8400/status","logsUrl":null}}"#;

const SMALL: &[u8] =
    br#"{"operation":"plan","source":{"gitRepo":"git@h:a/b","gitRef":"main"},"variables":null}"#;

const TOKENS: [&[u8]; 22] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"-1e999",
    b"\\u0000",
    b"\\ud800",
    b"\"value\"",
    b"\"sensitive\":true",
    b"\"variables\"",
    b"\"remote\"",
    b"\"workspaces\"",
    b"${x}",
    b"%{if",
    b"<<EOT\\n",
    b"\"LD_PRELOAD\"",
    b"../",
];

#[test]
fn fuzz_config_is_a_run_or_an_error() {
    let base = tempfile::tempdir().unwrap();
    let tool: ToolRequest = "1.11.4".parse().unwrap();
    let kinds = [
        butler_source::module::TypeKind::Complex,
        butler_source::module::TypeKind::Any,
        butler_source::module::TypeKind::Undeclared,
    ];
    let mut valid_inputs = 0;
    Target { name: "config", samples: &[FULL, SMALL], tokens: &TOKENS, rounds: 3000 }.run(
        |input, random| {
            let Ok(parsed) = parse_config(input) else { return };
            valid_inputs += 1;
            let redactor = Redactor::new();
            super::masking::secrets::register_spec(&redactor, &parsed.spec);
            let Ok(inputs) = resolve(&parsed.spec, &SecretSources::default()) else { return };
            let mut module = Module::default();
            for (name, ..) in &inputs.variables {
                let kind = kinds[random.usize(..kinds.len())];
                let declared =
                    VariableDeclaration { kind, sensitive: true, ..VariableDeclaration::default() };
                module.variables.insert(name.clone(), declared);
            }
            super::masking::secrets::register_inputs(&redactor, &inputs);
            super::masking::secrets::register_declared(
                &redactor,
                &inputs,
                &module,
                &BTreeMap::new(),
            );
            let private = PrivateDirectory::create(base.path(), "run-").unwrap();
            let files = write_variable_files(&inputs, &module, &tool.version, &private);
            for file in files.iter().flat_map(|files| &files.plan) {
                assert_eq!(file.parent(), Some(private.path()));
                if file.extension().is_some_and(|it| it == "json") {
                    let json = std::fs::read(file).unwrap();
                    serde_json::from_slice::<serde::de::IgnoredAny>(&json).unwrap();
                }
            }
            if let Some(backend) = &parsed.spec.backend {
                let clone = private.subdirectory("clone").unwrap();
                if let Ok(files) = write_backend(backend, &tool, &clone, &private) {
                    let text = std::fs::read_to_string(files.config_file).unwrap();
                    hcl_edit::parser::parse_body(&text).unwrap();
                }
            }
        },
    );
    assert!(valid_inputs > 0, "no input was valid");
}
