//! Checks what the environment and the CLI configuration of Terraform and OpenTofu name: plugin caches, mirrors of
//! providers, and certificates. The tools themselves report these only in the middle of a run, or ignore them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use butler_base::error::chain;
use butler_base::http::LazyClient;
use butler_base::platform::fs::{AccessFlags, access};
use butler_base::process::Environment;
use butler_protocol::spec::{CLI_CONFIG_VARIABLES, Product};
use url::Url;

use super::finding::Finding;
use super::time_limit::{CHECK_TIMEOUT, with_timeout};
use crate::providers;
use crate::settings::{RunSource, Settings};
use crate::tool::redacted;

const CHECK: &str = "CLI configuration";

/// Variables that name certificates of the tools and of git, and whether each is a directory.
const CERTIFICATES: [(&str, bool); 3] =
    [("SSL_CERT_FILE", false), ("SSL_CERT_DIR", true), ("GIT_SSL_CAINFO", false)];

/// The most mirrors that are asked.
const MOST_MIRRORS: usize = 10;

/// The mirrors of providers that CLI configurations name.
#[derive(Debug, Default, Eq, PartialEq)]
struct Mirrors {
    directories: BTreeSet<String>,
    urls: BTreeSet<String>,
}

/// Checks the configuration that a run would use in its directory, or in the current one.
pub(super) async fn check_cli_configuration(run: &Settings, http: &LazyClient) -> Vec<Finding> {
    let directory = match &run.source {
        RunSource::Local { module_dir, .. } => module_dir.as_path(),
        RunSource::Registry { .. } | RunSource::File { .. } => Path::new("."),
    };
    let environment: Environment = run.environment.clone().into_iter().collect();
    let mut findings = named_files(&environment, directory);
    let (mut caches, mut mirrors) = (BTreeSet::new(), Mirrors::default());
    for product in Product::ENGINES {
        caches.extend(providers::plugin_cache(&environment, directory, product));
        for text in providers::configuration_texts(&environment, directory, product) {
            mirrors.add(&text);
        }
    }
    findings.extend(caches.iter().map(|path| plugin_cache(path)));
    for path in &mirrors.directories {
        let path = directory.join(path);
        findings.push(if path.is_dir() {
            Finding::ok(CHECK, format!("the mirror of providers `{}` exists", path.display()))
        } else {
            let message =
                format!("the mirror of providers `{}` is not a directory", path.display());
            Finding::warning(CHECK, message).hint("create it, or change `filesystem_mirror`")
        });
    }
    let asked = mirrors.urls.iter().take(MOST_MIRRORS).map(|url| network_mirror(url, http));
    findings.extend(futures_util::future::join_all(asked).await);
    findings
}

/// Warns of files and directories that variables name and that do not exist.
fn named_files(environment: &Environment, directory: &Path) -> Vec<Finding> {
    let configurations = CLI_CONFIG_VARIABLES.iter().map(|name| (*name, false));
    let mut findings = Vec::new();
    for (name, is_directory) in configurations.chain(CERTIFICATES) {
        let Some(value) = environment.value(name).filter(|value| !value.is_empty()) else {
            continue;
        };
        // Like OpenSSL, which reads a list of directories.
        let paths: Vec<PathBuf> = if is_directory {
            std::env::split_paths(value).collect()
        } else {
            vec![PathBuf::from(value)]
        };
        for path in paths.iter().map(|path| directory.join(path)) {
            let exists = if is_directory { path.is_dir() } else { path.is_file() };
            if !exists {
                let message = format!("{name} names `{}`, which does not exist", path.display());
                findings.push(
                    Finding::warning(CHECK, message).hint(format!("correct or unset {name}")),
                );
            }
        }
    }
    findings
}

fn plugin_cache(path: &Path) -> Finding {
    let shown = path.display();
    if !path.is_dir() {
        let message = format!("the plugin cache `{shown}` is not a directory");
        return Finding::warning(CHECK, message).hint("create it: the tools do not");
    }
    match access(path, AccessFlags::W_OK) {
        Ok(()) => Finding::ok(CHECK, format!("the plugin cache `{shown}` is writable")),
        Err(error) => {
            let message = format!("the plugin cache `{shown}` is not writable: {error}");
            Finding::warning(CHECK, message)
                .hint("packages that it does not have cannot be downloaded")
        }
    }
}

/// Checks whether a mirror answers, with a certificate that this machine trusts. Each status counts as an answer,
/// because a mirror has no page at its root.
async fn network_mirror(url: &str, http: &LazyClient) -> Finding {
    let shown = Url::parse(url).map_or_else(|_| "…".to_owned(), |url| redacted(&url));
    let shown = format!("the mirror of providers `{shown}`");
    if !url.starts_with("https://") || !url.ends_with('/') {
        let message = format!("{shown} is not a URL that begins with `https://` and ends with `/`");
        return Finding::warning(CHECK, message).hint("correct `network_mirror`");
    }
    let client = match http.get() {
        Ok(client) => client,
        Err(error) => return Finding::error(CHECK, &error),
    };
    match with_timeout(http.send(client.get(url))).await {
        Some(Ok(_)) => Finding::ok(CHECK, format!("{shown} answers")),
        Some(Err(error)) => {
            let message = format!("{shown}: {}", chain(&error.without_url()));
            Finding::warning(CHECK, message)
                .hint("check the network, HTTPS_PROXY and --ca-bundle (BUTLER_CA_BUNDLE)")
        }
        None => {
            let seconds = CHECK_TIMEOUT.as_secs();
            Finding::warning(CHECK, format!("{shown} did not respond within {seconds} s"))
                .hint("check the network and HTTPS_PROXY")
        }
    }
}

impl Mirrors {
    /// Adds the mirrors of a configuration in HCL. A text with another syntax adds none.
    fn add(&mut self, text: &str) {
        let Ok(body) = hcl_edit::parser::parse_body(text) else { return };
        let installations =
            body.blocks().filter(|block| block.ident.as_str() == "provider_installation");
        for method in installations.flat_map(|installation| installation.body.blocks()) {
            let (setting, found) = match method.ident.as_str() {
                "filesystem_mirror" => ("path", &mut self.directories),
                "network_mirror" => ("url", &mut self.urls),
                _ => continue,
            };
            let value = method.body.get_attribute(setting).and_then(|given| given.value.as_str());
            found.extend(value.map(str::to_owned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState;
    use super::*;

    #[test]
    fn mirrors_of_a_configuration_are_found() {
        let mut mirrors = Mirrors::default();
        mirrors.add(
            "plugin_cache_dir = \"/c\"\nprovider_installation {\n  filesystem_mirror {\n    path = \"/m\"\n    include = [\"*/*\"]\n  \
             }\n  network_mirror {\n    url = \"https://a/\"\n  }\n  direct {}\n}\n",
        );
        mirrors.add("{\"provider_installation\": {}}");
        let expected = Mirrors {
            directories: BTreeSet::from(["/m".to_owned()]),
            urls: BTreeSet::from(["https://a/".to_owned()]),
        };
        assert_eq!(mirrors, expected);
    }

    #[test]
    fn files_that_do_not_exist_are_named() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("there"), "").unwrap();
        let mut environment = Environment::default();
        for (name, value) in [
            ("TF_CLI_CONFIG_FILE", "there"),
            ("SSL_CERT_FILE", "missing.pem"),
            ("SSL_CERT_DIR", "there"),
            ("GIT_SSL_CAINFO", ""),
        ] {
            environment.set(name, value);
        }
        let findings = named_files(&environment, root.path());
        let messages: Vec<_> = findings.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].starts_with("SSL_CERT_FILE names `"), "{messages:?}");
        assert!(messages[1].starts_with("SSL_CERT_DIR names `"), "{messages:?}");
    }

    #[test]
    fn plugin_cache_must_be_a_directory() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(plugin_cache(root.path()).state, FindingState::Ok);
        assert_eq!(plugin_cache(&root.path().join("missing")).state, FindingState::Warning);
    }

    #[tokio::test]
    async fn mirror_that_does_not_answer_is_named_without_its_login() {
        let http = LazyClient::new(None);
        for (url, expected) in [
            ("http://user:hunter2@127.0.0.1/", "is not a URL that begins with `https://`"),
            (
                "https://user:hunter2@127.0.0.1:1/",
                "the mirror of providers `https://127.0.0.1:1/`: ",
            ),
        ] {
            let finding = network_mirror(url, &http).await;
            assert_eq!(finding.state, FindingState::Warning);
            assert!(finding.message.contains(expected), "{}", finding.message);
            assert!(!finding.message.contains("hunter2"), "{}", finding.message);
        }
    }
}
