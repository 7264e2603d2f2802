//! A settings file with mistakes leads to problems with line numbers, never to a panic. An archive writes
//! nothing outside of its directory.

use std::path::Path;

use butler_fuzz::Target;
use tokio_util::sync::CancellationToken;

use super::{TerraformSettingsError, read_settings_file, unpack};

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

/// A tar with a file, a directory and two links.
fn archive() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut append = |name: &str, kind, target: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        if !target.is_empty() {
            header.set_link_name(target).unwrap();
        }
        tar.append_data(&mut header, name, content).unwrap();
    };
    append("a/b", tar::EntryType::Directory, "", b"");
    append("a/b/main.tf", tar::EntryType::Regular, "", b"locals {}");
    append("a/c", tar::EntryType::Symlink, "b", b"");
    append("d", tar::EntryType::Symlink, "a/c/main.tf", b"");
    tar.into_inner().unwrap()
}

/// Asserts that each link below `directory` leads to a place in `root`, or to none.
fn assert_links_stay_inside(directory: &Path, root: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            assert!(path.canonicalize().is_ok_and(|it| it.starts_with(root)) || !path.exists());
        } else if path.is_dir() {
            assert_links_stay_inside(&path, root);
        }
    }
}

#[test]
fn fuzz_archive_writes_only_below_its_directory() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().canonicalize().unwrap().join("source");
    let sample = archive();
    let mut accepted = 0;
    let tokens: [&[u8]; 8] = [b"../", b"..", b"/", b"a/c", b"0", b"1", b"2", b"\0"];
    Target { name: "module archive", samples: &[&sample], tokens: &tokens, rounds: 2000 }.run(
        |input, _| {
            let mut bytes = input.to_vec();
            // A wrong checksum would end almost every round at its first header.
            for header in bytes.chunks_exact_mut(512) {
                let mut fixed = tar::Header::new_old();
                fixed.as_mut_bytes().copy_from_slice(header);
                if fixed.mode().is_ok() {
                    fixed.set_cksum();
                    header.copy_from_slice(fixed.as_bytes());
                }
            }
            let unpacked = unpack(bytes.as_slice(), &root, &CancellationToken::new());
            accepted += usize::from(unpacked.is_ok());
            assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);
            assert_links_stay_inside(&root, &root);
            std::fs::remove_dir_all(&root).unwrap();
        },
    );
    assert!(accepted > 0, "no input was right");
}
