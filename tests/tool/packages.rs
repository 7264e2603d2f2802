//! Installing the runner: the install script from the download to `-V`, the lists and the formula
//! of a release, and its build.

mod entrypoint;
mod systemd;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use butler_testing::authority::Authority;
use butler_testing::linters::yaml;
use butler_testing::machine::Machine;
use butler_testing::release_site::{ReleaseSite, executable, platform, stand_in};

fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A site with a release of the runner, and a machine that trusts its certificate.
struct Published {
    site: ReleaseSite,
    machine: Machine,
    authority: Authority,
    archive: Vec<u8>,
}

impl Published {
    fn new() -> Self {
        let authority = Authority::create();
        let site = ReleaseSite::start_with_tls(&authority, "1.0.0");
        let machine = Machine::new();
        let archive = archive(&machine, "butler-runner", &format!("butler-runner {VERSION}"));
        let published = Self { site, machine, authority, archive };
        published.publish(&published.archive, &sums(&published.archive));
        published
    }

    /// Serves an archive and a list of checksums as the newest release and as this version.
    fn publish(&self, archive: &[u8], sums: &str) {
        for place in ["latest/download", &format!("download/v{VERSION}")] {
            self.site.put(&format!("/releases/{place}/{}", name()), archive.to_vec());
            self.site.put(&format!("/releases/{place}/SHA256SUMS"), sums.to_owned());
        }
    }

    /// Runs the script.
    fn install(&self, arguments: &[&str]) -> Output {
        let releases = self.site.url().join("releases").unwrap();
        let mut command = Command::new("sh");
        command.arg(project("packaging/install.sh")).args(["--releases", releases.as_str()]);
        self.environment(&mut command);
        command.args(arguments).output().unwrap()
    }

    fn environment(&self, command: &mut Command) {
        #[expect(clippy::disallowed_methods, reason = "where the tools of the script are")]
        let path = std::env::var_os("PATH").unwrap();
        let bundle = self.authority.bundle();
        command.env_clear().env("PATH", path).env("HOME", self.machine.path("home"));
        command.env("TMPDIR", self.machine.path("tmp"));
        command.env("CURL_CA_BUNDLE", &bundle).env("SSL_CERT_FILE", &bundle);
    }

    fn installed(&self) -> std::path::PathBuf {
        self.machine.path("home/.local/bin/butler-runner")
    }

    /// Asserts that the script failed with a reason and left no files.
    fn refused(&self, output: &Output, why: &str) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
        let target = self.machine.path("to");
        let left = std::fs::read_dir(&target).map_or(0, Iterator::count);
        assert_eq!(left, 0, "in {}", target.display());
        assert_eq!(std::fs::read_dir(self.machine.path("tmp")).unwrap().count(), 0);
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn name() -> String {
    format!("butler-runner_{}.tar.gz", platform())
}

fn sums(archive: &[u8]) -> String {
    let other = "0".repeat(64);
    let sum = hex::encode(Sha256::digest(archive));
    format!("{other}  butler-runner_plan9_amd64.tar.gz\n{sum}  {}\n", name())
}

/// An archive with an executable that prints `answer`.
fn archive(machine: &Machine, executable_name: &str, answer: &str) -> Vec<u8> {
    let directory = machine.path("packed");
    executable(&directory.join(executable_name), format!("#!/bin/sh\necho '{answer}'\n"));
    let mut tar = Command::new("tar");
    let output = tar.args(["-czf", "-", "-C"]).arg(&directory).arg(executable_name).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn script_installs_the_newest_or_the_named_release() {
    let published = Published::new();
    let to = published.machine.path("to");
    for arguments in [&[][..], &["--version", VERSION], &["--version", &format!("v{VERSION}")]] {
        let mut all = vec!["--to", to.to_str().unwrap()];
        all.extend(arguments);
        let said = String::from_utf8(published.install(&all).stderr).unwrap();
        assert!(said.contains(&format!("installed butler-runner {VERSION} as ")), "{said}");
        let answer = Command::new(to.join("butler-runner")).arg("-V").output().unwrap();
        assert_eq!(succeeded(&answer), format!("butler-runner {VERSION}\n"));
        std::fs::remove_dir_all(&to).unwrap();
    }
    let requests = published.site.requests().join("\n");
    assert!(requests.contains("/releases/latest/download/butler-runner_"), "{requests}");
    assert!(requests.contains(&format!("/releases/download/v{VERSION}/SHA256SUMS")), "{requests}");
    assert_eq!(std::fs::read_dir(published.machine.path("tmp")).unwrap().count(), 0);
}

#[test]
fn script_falls_back_to_wget_without_curl() {
    let published = Published::new();
    let bin = published.machine.path("only");
    std::fs::create_dir(&bin).unwrap();
    for tool in
        ["sh", "wget", "uname", "id", "mktemp", "rm", "awk", "cut", "tr", "shasum", "perl", "tar"]
            .into_iter()
            .chain(["gzip", "chmod", "mkdir", "cp", "mv"])
    {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        std::os::unix::fs::symlink(succeeded(&found.unwrap()).trim(), bin.join(tool)).unwrap();
    }
    let releases = published.site.url().join("releases").unwrap();
    let mut command = Command::new("sh");
    command.arg(project("packaging/install.sh")).args(["--releases", releases.as_str()]);
    published.environment(&mut command);
    // wget reads the certificate authority from its own configuration.
    let bundle = published.authority.bundle();
    let line = format!("ca_certificate = {}\n", bundle.display());
    std::fs::write(published.machine.path("home/.wgetrc"), line).unwrap();
    let to = published.machine.path("to");
    let output = command.env("PATH", &bin).arg("--to").arg(&to).output().unwrap();
    succeeded(&output);
    assert!(to.join("butler-runner").is_file());
}

#[test]
fn script_does_not_install_a_modified_release() {
    let published = Published::new();
    let to = published.machine.path("to");
    let to = ["--to", to.to_str().unwrap()];
    let other = archive(&published.machine, "butler-runner", "mine now");
    let good = published.archive.clone();

    published.publish(&other, &sums(&good));
    published.refused(&published.install(&to), "is not what was published: it has SHA-256");
    published.publish(&good[..good.len() / 2], &sums(&good));
    published.refused(&published.install(&to), "is not what was published: it has SHA-256");
    for list in ["", "<html>not found</html>", "0  0\n", &format!("{0}{0}", sums(&good))] {
        published.publish(&good, list);
        published.refused(&published.install(&to), "does not name `butler-runner_");
    }
    // A pinned checksum detects the change even if archive and list were both modified.
    published.publish(&other, &sums(&other));
    let pinned = hex::encode(Sha256::digest(&good));
    let arguments = [&to[..], &["--checksum", &pinned]].concat();
    published.refused(&published.install(&arguments), &format!("should have `{pinned}`"));
    published.publish(&good, "");
    succeeded(&published.install(&arguments));
}

#[test]
fn script_keeps_the_installed_version_if_the_new_one_does_not_run() {
    let published = Published::new();
    let to = published.machine.path("to");
    executable(&to.join("butler-runner"), "#!/bin/sh\necho old\n");
    let directory = published.machine.path("packed");
    executable(&directory.join("butler-runner"), "#!/nonexistent\n");
    let mut tar = Command::new("tar");
    let broken = tar.args(["-czf", "-", "-C"]).arg(&directory).arg("butler-runner").output();
    let broken = broken.unwrap().stdout;
    published.publish(&broken, &sums(&broken));
    let output = published.install(&["--to", to.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("does not run on this machine"), "{said}");
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1);
    let answer = Command::new(to.join("butler-runner")).output().unwrap();
    assert_eq!(succeeded(&answer), "old\n");
}

#[test]
fn script_requires_tls_and_a_trusted_certificate() {
    let published = Published::new();
    let to = published.machine.path("to");
    let to = ["--to", to.to_str().unwrap()];
    let stranger = Authority::create();
    let releases = published.site.url().join("releases").unwrap();
    let mut command = Command::new("sh");
    command.arg(project("packaging/install.sh")).args(["--releases", releases.as_str()]).args(to);
    published.environment(&mut command);
    let output = command.env("CURL_CA_BUNDLE", stranger.bundle()).output().unwrap();
    published.refused(&output, "cannot download");
    let plain = [&to[..], &["--releases", "http://127.0.0.1/releases"]].concat();
    published.refused(&published.install(&plain), "is not https");
    // A redirect to HTTP is refused as well.
    let elsewhere = ReleaseSite::start(&[("1.0.0", b"binary")]);
    published.site.redirect_all_to(&elsewhere.url());
    published.refused(&published.install(&to), "cannot download");
    assert_eq!(elsewhere.requests(), Vec::<String>::new());
}

#[test]
fn script_verifies_the_attestation_with_gh() {
    let published = Published::new();
    let to = published.machine.path("to");
    let bin = published.machine.path("bin");
    #[expect(clippy::disallowed_methods, reason = "what else the script needs")]
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", bin.display());
    let install = |verdict: &str| {
        let record = published.machine.path("asked");
        let gh = format!("#!/bin/sh\necho \"$@\" > '{}'\nexit {verdict}\n", record.display());
        executable(&bin.join("gh"), gh);
        let releases = published.site.url().join("releases").unwrap();
        let mut command = Command::new("sh");
        command.arg(project("packaging/install.sh")).args(["--releases", releases.as_str()]);
        published.environment(&mut command);
        command.env("PATH", &path).arg("--attestation").arg("--to").arg(&to).output().unwrap()
    };
    published.refused(&install("1"), "cannot verify that the project built");
    succeeded(&install("0"));
    let asked = std::fs::read_to_string(published.machine.path("asked")).unwrap();
    assert!(asked.starts_with("attestation verify "), "{asked}");
    assert!(asked.ends_with("--repo butlerdotdev/butler-runner\n"), "{asked}");
}

#[test]
fn script_prints_its_usage_and_refuses_unknown_options() {
    let published = Published::new();
    let help = succeeded(&published.install(&["--help"]));
    for option in ["--version", "--to", "--checksum", "--attestation", "--releases"] {
        assert!(help.contains(option), "{option}: {help}");
    }
    published.refused(&published.install(&["--sudo"]), "there is no option `--sudo`");
    published.refused(&published.install(&["--to"]), "`--to` needs a value");
    published.refused(&published.install(&["--version", "9.9.9"]), "cannot download");
    assert!(!published.installed().exists());
}

#[test]
fn checksums_of_a_release_are_in_one_list_and_in_a_file_each() {
    let machine = Machine::new();
    let directory = machine.path("released");
    std::fs::create_dir(&directory).unwrap();
    let script = || {
        let mut command = Command::new("sh");
        command.arg(project("packaging/checksums.sh")).arg(&directory).output().unwrap()
    };
    assert!(!script().status.success(), "a release without archives is a mistake");
    for platform in ["linux_arm64", "darwin_amd64"] {
        std::fs::write(directory.join(format!("butler-runner_{platform}.tar.gz")), platform)
            .unwrap();
    }
    std::fs::write(directory.join("install.sh"), "").unwrap();
    succeeded(&script());
    succeeded(&script());
    let list = std::fs::read_to_string(directory.join("SHA256SUMS")).unwrap();
    let line = |platform: &str| {
        let sum = hex::encode(Sha256::digest(platform.as_bytes()));
        format!("{sum}  butler-runner_{platform}.tar.gz\n")
    };
    assert_eq!(list, [line("darwin_amd64"), line("linux_arm64")].concat());
    let one = directory.join("butler-runner_linux_arm64.tar.gz.sha256");
    assert_eq!(std::fs::read_to_string(one).unwrap(), line("linux_arm64"));
}

#[test]
fn formula_names_the_archives_of_its_version_with_their_checksums() {
    let machine = Machine::new();
    let list = machine.path("SHA256SUMS");
    let names = ["darwin_arm64", "darwin_amd64", "linux_arm64", "linux_amd64"];
    let lines: String = names
        .iter()
        .enumerate()
        .map(|(number, name)| format!("{number:064}  butler-runner_{name}.tar.gz\n"))
        .collect::<Vec<_>>()
        .concat();
    let formula = |lines: &str| {
        std::fs::write(&list, lines).unwrap();
        let script = project("packaging/formula.sh");
        Command::new("sh").arg(script).arg("1.2.3").arg(&list).output().unwrap()
    };
    expect_test::expect_file!["packages/butler-runner.rb"].assert_eq(&succeeded(&formula(&lines)));
    for broken in [lines.replace("linux_arm64", "linux_arm"), lines.replace("00  b", "0  b")] {
        let output = formula(&broken);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    }
}

/// The values of `key: value` lines of a file, without their comments.
fn values<'text>(text: &'text str, key: &str) -> Vec<&'text str> {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).collect()
}

#[test]
fn workflows_pin_actions_by_commit_and_persist_no_credentials() {
    let mut pins = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(project(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\npermissions:"), "{}", path.display());
        let mut checkouts = 0;
        for used in values(&text, "uses") {
            if used.starts_with("./") {
                continue;
            }
            let (action, rest) = used.split_once('@').unwrap();
            let (commit, release) = rest.split_once(" # v").expect("the release stands behind");
            assert!(commit.len() == 40 && hex::decode(commit).is_ok(), "{used}");
            let known =
                pins.entry(action.to_owned()).or_insert((commit.to_owned(), release.to_owned()));
            assert_eq!(*known, (commit.to_owned(), release.to_owned()), "{action} in two versions");
            checkouts += usize::from(action == "actions/checkout");
        }
        assert_eq!(
            text.matches("persist-credentials: false").count(),
            checkouts,
            "{}",
            path.display()
        );
    }
    assert!(pins.len() >= 8, "{pins:?}");
}

#[test]
fn released_files_are_the_same_in_every_place() {
    let read = |path: &str| std::fs::read_to_string(project(path)).unwrap();
    let targets = |text: &str| -> Vec<String> {
        let (_, list) = text.split_once("targets = [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        list.split(',').map(|item| item.trim().trim_matches('"').to_owned()).collect()
    };
    let (dist, deny) = (targets(&read("dist-workspace.toml")), targets(&read("deny.toml")));
    assert_eq!(dist, deny);
    let release = read(".github/workflows/release.yml");
    let built: Vec<_> = release
        .lines()
        .filter_map(|line| line.split_once(", target: ")?.1.split_once(','))
        .map(|(target, _)| target.to_owned())
        .collect();
    assert_eq!(built, dist[..built.len()], "{dist:?}");
    let text = release.as_str();
    for name in ["linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64"] {
        assert!(text.contains(&format!("name: {name} }}")), "{name}");
        assert!(
            text.contains(&format!("sbom-path: released/butler-runner_{name}.cdx.json")),
            "{name}"
        );
        let is_for_homebrew = read("packaging/formula.sh").contains(&format!("$(sum {name})"));
        assert_eq!(is_for_homebrew, !name.starts_with("windows"), "{name}");
    }
    assert_eq!(built.len(), 5, "{built:?}");
}

/// The lines of a section of a TOML file.
fn section<'text>(text: &'text str, name: &str) -> Vec<&'text str> {
    let lines = text.lines().skip_while(|line| *line != name).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.is_empty()).collect()
}

/// Versions 0.1.0 to 0.1.6 belong to the predecessor, with the same archive names and image tags.
#[test]
fn version_is_newer_than_the_predecessors_releases() {
    let version: semver::Version = VERSION.parse().unwrap();
    assert!(version >= semver::Version::new(0, 2, 0), "{version}");
}

#[test]
fn release_workflow_builds_like_make() {
    let read = |path: &str| std::fs::read_to_string(project(path)).unwrap();
    let (cargo, dist) = (read("Cargo.toml"), read("dist-workspace.toml"));
    let release = read(".github/workflows/release.yml");
    // dist always builds with a profile of this name.
    assert_eq!(section(&cargo, "[profile.dist]"), [r#"inherits = "release""#]);
    let [version] = values(&release, "DIST_VERSION")[..] else { panic!("one version of dist") };
    let written = format!("cargo-dist-version = {version:?}");
    assert!(section(&dist, "[dist]").contains(&&*written), "{written}");
    // Every build of a release uses the flags of `make build`.
    let environment = ".ci/release-environment";
    let built = |line: &&str| line.contains("dist build ") || line.contains("cargo build ");
    let builds: Vec<_> = release.lines().filter(built).collect();
    assert_eq!(builds.len(), 2, "{builds:?}");
    for build in builds {
        assert!(build.contains(&format!("{environment} \"$TARGET\" ")), "{build}");
    }
    let makefile = read("Makefile");
    assert!(makefile.contains(&format!("release = {environment} '$(TARGET)' \\\n\tcargo ")));
    for text in [&release, &makefile] {
        assert!(!text.contains("RUSTFLAGS"), "{text}");
    }
}

/// The build environment of a release for `target`.
fn release_environment(target: &str, variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut command = Command::new(project(".ci/release-environment"));
    command.args([target, "env", "--null"]).envs(variables.iter().copied());
    let said = succeeded(&command.output().unwrap());
    let entries = said.split('\0').filter_map(|entry| entry.split_once('='));
    entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn release_binary_contains_no_path_of_the_build_machine() {
    let target = "x86_64-unknown-linux-gnu";
    let given = [("CARGO_HOME", "/home/a user/.cargo"), ("RUSTFLAGS", "-C debuginfo=2")];
    let environment = release_environment(target, &given);
    // Flags of the user would change the binary.
    assert_eq!(environment.get("RUSTFLAGS"), None);
    let flags: Vec<_> = environment["CARGO_ENCODED_RUSTFLAGS"].split('\x1f').collect();
    let source = project("");
    let source = source.to_str().unwrap().trim_end_matches('/');
    for (from, to) in [
        ("/home/a user/.cargo".to_owned(), "/cargo"),
        (source.to_owned(), "/source"),
        (format!("{source}/target/{target}/release"), "/target"),
        (format!("{source}/target/{target}/dist"), "/target"),
    ] {
        let flag = format!("--remap-path-prefix={from}={to}");
        assert!(flags.contains(&&*flag), "{flag}: {flags:?}");
    }
    assert!(flags.contains(&"target-feature=+crt-static"), "{flags:?}");
    let flags = &release_environment("aarch64-apple-darwin", &[])["CARGO_ENCODED_RUSTFLAGS"];
    assert!(!flags.contains("crt-static"), "{flags}");
}

/// OpenSSL loads its configuration, engines and modules from directories that are named in the binary.
#[test]
fn release_lets_openssl_load_files_only_from_directories_that_do_not_exist() {
    let given = [("OPENSSL_CONFIG_DIR", "/etc/ssl"), ("GNUMAKEFLAGS", "ENGINESDIR=/usr/lib")];
    let environment = release_environment("x86_64-unknown-linux-gnu", &given);
    let directory = &environment["OPENSSL_CONFIG_DIR"];
    assert!(directory.starts_with("/nonexistent/"), "{directory}");
    let flags: Vec<_> = environment["GNUMAKEFLAGS"].split(' ').collect();
    for name in ["ENGINESDIR", "MODULESDIR"] {
        let flag = format!("{name}={directory}/");
        assert!(flags.iter().any(|it| it.starts_with(&flag)), "{flag}: {flags:?}");
    }
    // Without it, each build of OpenSSL contains its own date.
    assert!(flags.contains(&"SOURCE_DATE_EPOCH=0"), "{flags:?}");
}

#[test]
fn image_is_built_after_the_archives_of_its_version_are_published() {
    let release = std::fs::read_to_string(project(".github/workflows/release.yml")).unwrap();
    let jobs = &yaml(&release)[0]["jobs"];
    assert_eq!(jobs["image"]["needs"], serde_json::json!(["build", "publish"]));
}

#[test]
fn image_has_the_newest_stable_terraform_on_all_platforms() {
    let image = std::fs::read_to_string(project(".github/workflows/image.yml")).unwrap();
    let jobs = &yaml(&image)[0]["jobs"];
    let steps = jobs["terraform"]["steps"].as_array().unwrap();
    let script = steps.iter().find(|step| step["id"] == "newest").unwrap()["run"].as_str().unwrap();

    let versions = ["1.0.0", "1.10.0", "1.9.8", "1.11.0-rc1"];
    let archives: Vec<_> = versions.map(|version| (version, stand_in(version))).into();
    let archives: Vec<_> =
        archives.iter().map(|(version, binary)| (*version, binary.as_bytes())).collect();
    let site = ReleaseSite::start(&archives);
    let machine = Machine::with_site(&site);
    let runner = Path::new(env!("CARGO_BIN_EXE_butler-runner"));
    let arguments = ["-eo", "pipefail", "-c", script];
    let mut command = Command::new("bash");
    command.args(arguments).current_dir(machine.path("")).env_clear();
    for (name, value) in machine.command(&[]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    std::os::unix::fs::symlink(runner, machine.path("butler-runner")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "where the tools of the script are")]
    command.env("PATH", std::env::var_os("PATH").unwrap());
    let output = command.env("GITHUB_OUTPUT", machine.path("output")).output().unwrap();
    succeeded(&output);
    let told = std::fs::read_to_string(machine.path("output")).unwrap();
    assert_eq!(told, "version=1.10.0\n");

    assert_eq!(jobs["build"]["needs"], "terraform");
    let given = "TERRAFORM_VERSION=${{ needs.terraform.outputs.version }}";
    assert!(image.contains(given), "{given}");
    assert_eq!(jobs["terraform"]["outputs"]["version"], "${{ steps.newest.outputs.version }}");
}
