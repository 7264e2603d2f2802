//! Writes the CLI configuration file of one run: the sites of providers, and credentials.
//!
//! It contains tokens, so it is written to the run's private directory, never to a home directory. Terraform
//! reads it with the first version of HCL, which has no `$${`. The beginning of a template is written as a code point,
//! which means the same in every version.

use std::fmt::Write;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use butler_base::secret::{PrivateDirectory, WipeError};
use butler_protocol::spec::{CliConfig, InstallationMethod, ProviderSource};

/// The file's name in the private directory.
const CONFIG_FILE: &str = "cli-configuration.tfrc";

/// Writes the file and returns its path, for `TF_CLI_CONFIG_FILE`.
///
/// # Errors
/// If it cannot be written.
pub fn write_cli_config(
    config: &CliConfig<SecretString>,
    private: &PrivateDirectory,
) -> Result<PathBuf, WipeError> {
    private.write(CONFIG_FILE, render(config).as_bytes())
}

fn render(config: &CliConfig<SecretString>) -> String {
    let CliConfig { installation, credentials } = config;
    let mut methods = String::new();
    for method in installation {
        append_method(method, &mut methods);
    }
    let mut text = String::new();
    for (host, token) in credentials {
        text.push_str("credentials ");
        append_string(host.as_str(), &mut text);
        text.push_str(" {\n  token = ");
        append_string(token.expose_secret(), &mut text);
        text.push_str("\n}\n");
    }
    if !methods.is_empty() {
        text.push_str("provider_installation {\n");
        text.push_str(&methods);
        text.push_str("}\n");
    }
    text
}

fn append_method(method: &InstallationMethod, text: &mut String) {
    let (block, place) = match &method.source {
        ProviderSource::NetworkMirror(url) => ("network_mirror", Some(("url", url))),
        ProviderSource::FilesystemMirror(path) => ("filesystem_mirror", Some(("path", path))),
        ProviderSource::Direct => ("direct", None),
    };
    let _ = writeln!(text, "  {block} {{");
    if let Some((name, value)) = place {
        let _ = write!(text, "    {name} = ");
        append_string(value, text);
        text.push('\n');
    }
    for (name, patterns) in [("include", &method.include), ("exclude", &method.exclude)] {
        let Some(patterns) = patterns else { continue };
        let _ = write!(text, "    {name} = [");
        for (index, pattern) in patterns.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { ", " });
            append_string(pattern, text);
        }
        text.push_str("]\n");
    }
    text.push_str("  }\n");
}

/// A token as it is written in the file, which a module can read and print.
#[must_use]
pub fn written_token(token: &SecretString) -> SecretString {
    let mut text = String::new();
    append_string(token.expose_secret(), &mut text);
    SecretString::from(&text[1..text.len() - 1])
}

/// Appends `value` as a quoted string that means exactly itself in both versions of HCL.
fn append_string(value: &str, text: &mut String) {
    text.push('"');
    let mut characters = value.chars().peekable();
    while let Some(character) = characters.next() {
        let begins_template = matches!(character, '$' | '%') && characters.peek() == Some(&'{');
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            _ if begins_template || character.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use butler_protocol::spec::RegistryHost;

    #[test]
    fn every_part_is_written_and_escaped() {
        let method = |source, include: Option<&[&str]>| InstallationMethod {
            source,
            include: include.map(|it| it.iter().map(|text| (*text).to_owned()).collect()),
            exclude: None,
        };
        let config = CliConfig {
            installation: vec![
                method(
                    ProviderSource::NetworkMirror("https://mirror.example.com/".to_owned()),
                    Some(&["*/*/*", "hashicorp/azurerm"]),
                ),
                method(
                    ProviderSource::FilesystemMirror("/a ${b} %{c} \"d\" \\ \n".to_owned()),
                    None,
                ),
                method(ProviderSource::Direct, Some(&[])),
            ],
            credentials: vec![(
                RegistryHost::parse("app.terraform.io").unwrap(),
                "hunter22".into(),
            )],
        };
        expect![[r#"
            credentials "app.terraform.io" {
              token = "hunter22"
            }
            provider_installation {
              network_mirror {
                url = "https://mirror.example.com/"
                include = ["*/*/*", "hashicorp/azurerm"]
              }
              filesystem_mirror {
                path = "/a \u0024{b} \u0025{c} \"d\" \\ \u000a"
              }
              direct {
                include = []
              }
            }
        "#]]
        .assert_eq(&render(&config));
    }
}
