//! A settings file with mistakes leads to problems with line numbers, never to a panic.

use butler_fuzz::Target;

use super::{TerraformSettingsError, read_settings_file};

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
fn fuzz_settings_file_leads_to_settings_or_to_problems_with_lines() {
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
    assert!(understood > 0, "no input was valid");
}
