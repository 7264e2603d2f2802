//! The plugin cache that the user configured for Terraform itself.
//!
//! If one is configured, the runner's provider cache is not used. Terraform works in a plugin cache
//! directly, and two concurrent `init`s would damage each other's packages: a lock keeps them apart. An `init` that replaces
//! a package would also fail because another run executes it, or would change that run's package. So a module without
//! checksums, whose `init` does that, gets the runner's provider cache, or keeps the lock until its run ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;

use super::{lock, locked};
use butler_base::process::Environment;
use butler_protocol::spec::{CLI_CONFIG_VARIABLES, Product, ToolRequest, cli_config_files};

/// The variable that names a plugin cache; it takes precedence over a configuration file.
pub const VARIABLE: &str = "TF_PLUGIN_CACHE_DIR";

/// The setting in a CLI configuration file.
const SETTING: &str = "plugin_cache_dir";

/// The setting that lets the tool take packages from its plugin cache without a checksum, and its variable.
const ALLOWING_SETTING: &str = "plugin_cache_may_break_dependency_lock_file";
const ALLOWING_VARIABLE: &str = "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE";

/// The first Terraform that takes no package from its plugin cache without a checksum.
const CHECKING_TERRAFORM: Version = Version::new(1, 4, 0);

/// The largest CLI configuration file that is read, in bytes.
const MOST_TEXT: u64 = 1 << 20;

/// The lock file, in the plugin cache.
const LOCK: &str = ".butler-runner.lock";

/// The first `OpenTofu` that locks the packages in its plugin cache itself.
const LOCKING_OPENTOFU: Version = Version::new(1, 10, 0);

/// The plugin cache that `environment` sets up for a tool that runs in `directory`.
#[must_use]
pub fn plugin_cache(
    environment: &Environment,
    directory: &Path,
    product: Product,
) -> Option<PathBuf> {
    if let Some(path) = environment.value(VARIABLE).filter(|path| !path.is_empty()) {
        return Some(directory.join(path));
    }
    let mut texts = configuration_texts(environment, directory, product);
    let named = texts.find_map(|text| plugin_cache_setting(&text))?;
    Some(directory.join(expand_variables(&named, environment)))
}

/// Whether `init` of the module at `directory` replaces packages in a plugin cache, although they are there already:
/// the tool takes only those whose checksum the lock file has.
#[must_use]
pub fn replaces_packages(environment: &Environment, directory: &Path, tool: &ToolRequest) -> bool {
    if tool.product == Product::Terraform && tool.version < CHECKING_TERRAFORM {
        return false;
    }
    let allowed = environment.value(ALLOWING_VARIABLE);
    if allowed.is_some_and(|value| !value.is_empty() && value != "0") {
        return false;
    }
    let mut texts = configuration_texts(environment, directory, tool.product);
    !texts.any(|text| allows_all_packages(&text)) && locked::lacks_checksums(directory)
}

/// Whether a CLI configuration file, in HCL or JSON, lets the tool take packages without a checksum.
fn allows_all_packages(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start_matches([' ', '\t', '{', '"']);
        let value =
            line.strip_prefix(ALLOWING_SETTING).and_then(|rest| rest.split(['=', ':']).nth(1));
        value.is_some_and(|value| value.trim_start().starts_with("true"))
    })
}

/// Locks the plugin cache at `directory` for `init`; `None` if the tool locks it itself. Reports to
/// `progress` if it has to wait.
///
/// # Errors
/// When there can be no lock; with [`io::ErrorKind::TimedOut`] when it takes longer than `timeout`.
pub async fn lock_plugin_cache(
    directory: &Path,
    tool: &ToolRequest,
    timeout: Duration,
    progress: &(dyn Fn(&str) + Sync),
) -> io::Result<Option<File>> {
    if tool.product == Product::OpenTofu && tool.version >= LOCKING_OPENTOFU {
        return Ok(None);
    }
    let path = directory.join(LOCK);
    let shown = directory.display();
    let waits =
        || progress(&format!("Waiting for another run's init on the plugin cache `{shown}`"));
    match tokio::time::timeout(timeout, lock::acquire(&path, waits)).await {
        Ok(lock) => lock.map(Some),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The texts of the CLI configuration files of a tool that runs in `directory`, in order of precedence. A file that cannot
/// be read is left out, and so is a pipe, a device, or a file that is too large.
pub fn configuration_texts(
    environment: &Environment,
    directory: &Path,
    product: Product,
) -> impl Iterator<Item = String> {
    let files = configuration_files(environment, directory, product).into_iter();
    files.filter_map(|path| configuration_text(&path))
}

/// The text of one file; see [`configuration_texts`].
#[must_use]
pub fn configuration_text(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let is_usual = found.is_file() && found.len() <= MOST_TEXT;
    if is_usual { std::fs::read_to_string(path).ok() } else { None }
}

/// The CLI configuration files of a tool that runs in `directory`, in order of precedence.
fn configuration_files(
    environment: &Environment,
    directory: &Path,
    product: Product,
) -> Vec<PathBuf> {
    for name in CLI_CONFIG_VARIABLES {
        if let Some(path) = environment.value(name).filter(|path| !path.is_empty()) {
            return vec![directory.join(path)];
        }
    }
    cli_config_files(product, |name| environment.value(name).map(Into::into))
}

/// The plugin cache in a CLI configuration file, in HCL or JSON.
fn plugin_cache_setting(text: &str) -> Option<String> {
    let mut values = text.lines().filter_map(|line| {
        let line = line.trim_start_matches([' ', '\t', '{', '"']).strip_prefix(SETTING)?;
        let line = line.trim_start_matches(['"', ' ', '\t']).strip_prefix(['=', ':'])?;
        line.split('"').nth(1)
    });
    values.next_back().map(str::to_owned)
}

/// `text` with the variables that it names as `$NAME` or `${NAME}`, as Terraform reads it.
fn expand_variables(text: &str, environment: &Environment) -> String {
    let mut parts = text.split('$');
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let braced = part.strip_prefix('{').and_then(|part| part.split_once('}'));
        let (name, rest) = braced.unwrap_or_else(|| {
            let end = part.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            part.split_at(end.unwrap_or(part.len()))
        });
        let value = environment.value(name).unwrap_or_default();
        expanded.push_str(&value.to_string_lossy());
        expanded.push_str(rest);
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_takes_precedence_over_the_configuration_file() {
        let home = tempfile::tempdir().unwrap();
        let set = |variables: &[(&str, &str)]| {
            let mut environment = Environment::default();
            environment.set("HOME", home.path());
            for (name, value) in variables {
                environment.set(name, value);
            }
            plugin_cache(&environment, Path::new("/module"), Product::Terraform)
        };
        assert_eq!(set(&[]), None);
        assert_eq!(set(&[(VARIABLE, "/cache")]), Some("/cache".into()));
        assert_eq!(set(&[(VARIABLE, "cache")]), Some("/module/cache".into()));
        for (text, expected) in [
            ("plugin_cache_dir = \"/cache\"", Some("/cache".into())),
            ("plugin_cache_dir=\"$HOME/cache\"\n", Some(home.path().join("cache"))),
            ("\n  plugin_cache_dir   = \"${HOME}/cache\" # mine", Some(home.path().join("cache"))),
            ("{\"plugin_cache_dir\": \"/cache\"}", Some("/cache".into())),
            ("# plugin_cache_dir = \"/cache\"", None),
            ("plugin_cache_dir", None),
            ("plugin_cache_may_break_dependency_lock_file = true", None),
            ("disable_checkpoint = true", None),
        ] {
            std::fs::write(home.path().join(".terraformrc"), text).unwrap();
            assert_eq!(set(&[]), expected, "{text}");
            let other = home.path().join("other");
            let other = other.to_str().unwrap();
            assert_eq!(set(&[("TF_CLI_CONFIG_FILE", other)]), None, "{text}");
            std::fs::write(other, text).unwrap();
            assert_eq!(set(&[("TF_CLI_CONFIG_FILE", other)]), expected, "{text}");
            assert_eq!(set(&[("TF_CLI_CONFIG_FILE", other), (VARIABLE, "/x")]), Some("/x".into()));
            std::fs::remove_file(other).unwrap();
        }
    }

    #[test]
    fn init_without_checksums_replaces_packages_unless_the_user_allows_them() {
        let home = tempfile::tempdir().unwrap();
        let module = home.path().join("module");
        std::fs::create_dir(&module).unwrap();
        let replaces = |version: &str, variables: &[(&str, &str)]| {
            let mut environment = Environment::default();
            environment.set("HOME", home.path());
            for (name, value) in variables {
                environment.set(name, value);
            }
            replaces_packages(&environment, &module, &version.parse().unwrap())
        };
        for (version, expected) in [
            ("1.11.4", true),
            ("1.3.9", false),
            ("opentofu-1.6.0", true),
            ("opentofu-1.10.0", true),
        ] {
            assert_eq!(replaces(version, &[]), expected, "{version}");
        }
        assert!(!replaces("1.11.4", &[(ALLOWING_VARIABLE, "1")]));
        assert!(replaces("1.11.4", &[(ALLOWING_VARIABLE, "0")]));
        for (text, expected) in [
            ("plugin_cache_may_break_dependency_lock_file = true", false),
            ("{\"plugin_cache_may_break_dependency_lock_file\": true}", false),
            ("plugin_cache_may_break_dependency_lock_file = false", true),
            ("# plugin_cache_may_break_dependency_lock_file = true", true),
        ] {
            std::fs::write(home.path().join(".terraformrc"), text).unwrap();
            assert_eq!(replaces("1.11.4", &[]), expected, "{text}");
        }
        let lock = "provider \"registry.terraform.io/a/b\" {\n  version = \"1.0.0\"\n  hashes = [\n    \"h1:x\",\n  ]\n}\n";
        std::fs::write(module.join(".terraform.lock.hcl"), lock).unwrap();
        assert!(!replaces("1.11.4", &[]));
    }

    #[test]
    fn first_configuration_file_that_the_tool_reads_takes_precedence() {
        let home = tempfile::tempdir().unwrap();
        let module = home.path().join("module");
        for (file, text) in [
            (".tofurc", "plugin_cache_dir = \"/tofu\""),
            (".terraform.d/a.tfrc", "plugin_cache_dir = \"/a\""),
            (".terraform.d/b.tfrc.json", "{\"plugin_cache_dir\": \"/b\"}"),
            ("module/relative.tfrc", "plugin_cache_dir = \"relative\""),
        ] {
            let path = home.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut environment = Environment::default();
        environment.set("HOME", home.path());
        let found =
            |environment: &Environment, product| plugin_cache(environment, &module, product);
        assert_eq!(found(&environment, Product::Terraform), Some("/a".into()));
        assert_eq!(found(&environment, Product::OpenTofu), Some("/tofu".into()));
        environment.set("TF_CLI_CONFIG_FILE", "relative.tfrc");
        assert_eq!(found(&environment, Product::Terraform), Some(module.join("relative")));
    }

    #[test]
    fn only_a_file_of_a_usual_size_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let [pipe, large, small, link] =
            ["pipe", "large", "small", "link"].map(|name| directory.path().join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        std::fs::write(&large, vec![b' '; 1 + (1 << 20)]).unwrap();
        std::fs::write(&small, "x = 1").unwrap();
        std::os::unix::fs::symlink(&small, &link).unwrap();
        let [pipe, large, small, link] =
            [pipe, large, small, link].map(|it| configuration_text(&it));
        assert_eq!((pipe, large), (None, None));
        assert_eq!((small.as_deref(), link.as_deref()), (Some("x = 1"), Some("x = 1")));
        assert_eq!(configuration_text(directory.path()), None);
    }

    #[tokio::test]
    async fn plugin_cache_is_locked_except_for_opentofu_with_its_own_lock() {
        let directory = tempfile::tempdir().unwrap();
        let lock = async |version: &str| {
            let timeout = Duration::from_millis(1);
            lock_plugin_cache(directory.path(), &version.parse().unwrap(), timeout, &|_| {}).await
        };
        let held = lock("1.11.4").await.unwrap();
        assert!(held.is_some());
        for (version, waits) in [
            ("1.11.4", true),
            ("1.5.7", true),
            ("opentofu-1.9.1", true),
            ("opentofu-1.10.0", false),
            ("opentofu-1.11.0", false),
        ] {
            let locked = lock(version).await;
            assert_eq!(
                locked.is_err_and(|it| it.kind() == io::ErrorKind::TimedOut),
                waits,
                "{version}"
            );
        }
        drop(held);
        assert!(lock("1.11.4").await.unwrap().is_some());
    }
}
