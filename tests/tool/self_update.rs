//! `self update` from a site with the layout of the project's releases: what is replaced, by which
//! file, and which installations are refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect;
use sha2::{Digest, Sha256};

use butler_testing::authority::Authority;
use butler_testing::machine::Machine;
use butler_testing::release_site::{ReleaseSite, executable, platform};

const CURRENT: &str = env!("CARGO_PKG_VERSION");

/// Newer than this build.
const NEWEST: &str = "99.1.0";

/// A machine with the runner in `home/.local/bin`, and a site with releases.
struct World {
    site: ReleaseSite,
    authority: Authority,
    machine: Machine,
    installed: PathBuf,
}

impl World {
    fn new() -> Self {
        let authority = Authority::create();
        let tag = format!("/releases/tag/v{NEWEST}");
        let site = ReleaseSite::start_with_files(&authority, &[(&tag, b"<html>a release</html>")]);
        site.redirect("/releases/latest", &tag);
        let machine = Machine::new();
        let installed = machine.path("home/.local/bin/butler-runner");
        std::fs::create_dir_all(installed.parent().unwrap()).unwrap();
        copy(Path::new(env!("CARGO_BIN_EXE_butler-runner")), &installed);
        let world = Self { site, authority, machine, installed };
        world.publish(NEWEST, &world.archive("butler-runner", &answering(NEWEST)));
        world
    }

    /// An archive with the layout of a release, whose executable runs `script`.
    fn archive(&self, name: &str, script: &str) -> Vec<u8> {
        let directory = self.machine.path("packed");
        executable(&directory.join(name), script);
        std::fs::write(directory.join("LICENSE"), "Apache-2.0").unwrap();
        let mut tar = Command::new("tar");
        let output = tar.args(["-czf", "-", "-C"]).arg(&directory).args(["LICENSE", name]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        std::fs::remove_dir_all(directory).unwrap();
        output.stdout
    }

    fn publish(&self, version: &str, archive: &[u8]) {
        self.publish_with(version, archive, &sums(archive));
    }

    fn publish_with(&self, version: &str, archive: &[u8], sums: &str) {
        let place = format!("/releases/download/v{version}");
        self.site.put(&format!("{place}/{}", name()), archive.to_vec());
        self.site.put(&format!("{place}/SHA256SUMS"), sums.to_owned());
    }

    fn command(&self, words: &[&str]) -> Command {
        let releases = self.site.url().join("releases").unwrap();
        let mut command = Command::new(&self.installed);
        command.args(["self", "update", "--releases", releases.as_str()]).args(words).env_clear();
        command.env("BUTLER_CA_BUNDLE", self.authority.bundle());
        command.env("HOME", self.machine.path("home")).env("TMPDIR", self.machine.path("tmp"));
        command.env("PATH", self.machine.path("bin"));
        command.env("BUTLER_CACHE_DIR", self.machine.path("cache"));
        command
    }

    fn update(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// The output of `-V` of the installed executable.
    fn version(&self) -> String {
        let output = Command::new(&self.installed).arg("-V").output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Asserts that nothing was replaced and no file is left. Returns the output without
    /// machine-specific text.
    fn refused(&self, output: &Output) -> String {
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(self.version(), format!("butler-runner {CURRENT}"));
        let bin = self.installed.parent().unwrap();
        assert_eq!(
            std::fs::read_dir(bin).unwrap().count(),
            1,
            "something is left in {}",
            bin.display()
        );
        let place = self.machine.path("").display().to_string();
        let url = self.site.url().to_string();
        let said = said.replace(place.trim_end_matches('/'), "<machine>");
        let said = said.replace(&url, "<site>/").replace(&platform(), "<platform>");
        // Without progress lines.
        let is_progress = |line: &&str| !line.contains(" INFO ");
        said.lines().filter(is_progress).flat_map(|line| [line, "\n"]).collect()
    }
}

/// Another process copies the file. If this process had it open for writing, a child that another
/// test starts at the same time could inherit the descriptor, and the file could not be executed.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

fn name() -> String {
    format!("butler-runner_{}.tar.gz", platform())
}

fn sums(archive: &[u8]) -> String {
    let sum = hex::encode(Sha256::digest(archive));
    format!("{}  butler-runner_plan9_amd64.tar.gz\n{sum}  {}\n", "0".repeat(64), name())
}

fn answering(version: &str) -> String {
    format!("#!/bin/sh\necho 'butler-runner {version}'\n")
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn self_update_installs_the_newest_release() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let announced = succeeded(&world.update(&["--dry-run"]));
    assert!(announced.starts_with(&format!("would replace butler-runner {CURRENT} by {NEWEST}: ")));
    assert_eq!(world.version(), format!("butler-runner {CURRENT}"));
    let output = succeeded(&world.update(&[]));
    let place = world.installed.display();
    assert_eq!(output, format!("replaced butler-runner {CURRENT} by {NEWEST}: {place}\n"));
    assert_eq!(world.version(), format!("butler-runner {NEWEST}"));
    let mode = std::fs::metadata(&world.installed).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let left = std::fs::read_dir(world.installed.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1);
    assert_eq!(std::fs::read_dir(world.machine.path("tmp")).unwrap().count(), 0);
}

#[test]
fn self_update_replaces_the_target_of_a_symbolic_link() {
    let world = World::new();
    let link = world.machine.path("home/link");
    std::os::unix::fs::symlink(&world.installed, &link).unwrap();
    let mut command = Command::new(&link);
    let through = world.command(&[]);
    command.args(through.get_args()).env_clear();
    command.envs(through.get_envs().filter_map(|(name, value)| Some((name, value?))));
    succeeded(&command.output().unwrap());
    assert_eq!(world.version(), format!("butler-runner {NEWEST}"));
    assert!(link.is_symlink());
}

#[test]
fn self_update_installs_an_older_release_only_if_named() {
    let world = World::new();
    let old = "0.0.1";
    world.publish(old, &world.archive("butler-runner", &answering(old)));
    world.site.put(&format!("/releases/tag/v{old}"), "a release");
    world.site.redirect("/releases/latest", &format!("/releases/tag/v{old}"));
    let output = succeeded(&world.update(&[]));
    let newer = format!("butler-runner {CURRENT} is newer than the newest release, {old}\n");
    assert_eq!(output, newer);
    let output = succeeded(&world.update(&[CURRENT]));
    assert_eq!(output, format!("butler-runner {CURRENT} is already installed\n"));
    succeeded(&world.update(&[&format!("v{old}")]));
    assert_eq!(world.version(), format!("butler-runner {old}"));
}

#[test]
fn modified_release_is_neither_executed_nor_installed() {
    let world = World::new();
    let good = world.archive("butler-runner", &answering(NEWEST));
    let mark = world.machine.path("started");
    let bad = world.archive("butler-runner", &format!("#!/bin/sh\n: > '{}'\n", mark.display()));
    world.publish_with(NEWEST, &bad, &sums(&good));
    let output = world.refused(&world.update(&[]));
    assert!(output.contains("is not what was published: its SHA-256 is"), "{output}");
    assert!(output.contains("\nhint: nothing was replaced"), "{output}");
    assert!(!mark.exists(), "it was started");
    world.publish_with(NEWEST, &good, "<html>sign in</html>\n");
    expect![[r"
        error: `<site>/releases/download/v99.1.0/SHA256SUMS` returned a web page, not the file
        hint: a login page or a proxy answers instead of the site: check --mirror and HTTPS_PROXY, and give a login with BUTLER_MIRROR_USER and BUTLER_MIRROR_PASSWORD, BUTLER_MIRROR_TOKEN, or an entry for the host in ~/.netrc
    "]]
    .assert_eq(&world.refused(&world.update(&[])));
    world.publish_with(NEWEST, &good, &format!("{}  other.tar.gz\n", "0".repeat(64)));
    expect![[r"
        error: the checksum file of butler-runner 99.1.0 does not name `butler-runner_<platform>.tar.gz`
        hint: build it from source for this platform
    "]].assert_eq(&world.refused(&world.update(&[])));
    expect![[r"
        error: `<site>/releases/download/v9.9.9/SHA256SUMS` does not exist
        hint: check that this version was released, for this platform
    "]]
    .assert_eq(&world.refused(&world.update(&["9.9.9"])));
}

#[test]
fn executable_that_does_not_run_or_has_another_version_is_not_installed() {
    let world = World::new();
    world.publish(NEWEST, &world.archive("butler-runner", "#!/nonexistent\n"));
    let output = world.refused(&world.update(&[]));
    assert!(output.contains("does not run on this machine"), "{output}");
    let failing = "#!/bin/sh\necho 'butler-runner 99.1.0'\nexit 1\n";
    world.publish(NEWEST, &world.archive("butler-runner", failing));
    expect![[r"
        error: the executable of butler-runner 99.1.0 does not run on this machine
        hint: nothing was replaced
    "]]
    .assert_eq(&world.refused(&world.update(&[])));
    // An old release in place of a new one, with a correct checksum.
    world.publish(NEWEST, &world.archive("butler-runner", &answering("0.0.1")));
    expect![[r"
        error: the executable of butler-runner 99.1.0 reports that it is `butler-runner 0.0.1`
        hint: nothing was replaced
    "]]
    .assert_eq(&world.refused(&world.update(&[])));
    world.publish(NEWEST, &world.archive("other", &answering(NEWEST)));
    expect![[r"
        error: the archive of butler-runner 99.1.0 does not contain the file `butler-runner`
        hint: nothing was replaced; check whether a proxy modifies downloads
    "]]
    .assert_eq(&world.refused(&world.update(&[])));
}

#[test]
fn latest_release_without_a_redirect_is_an_error() {
    let world = World::new();
    world.site.put("/releases/latest", "<html>sign in</html>");
    world.site.redirect("/releases/latest", "/releases/latest.html");
    world.site.put("/releases/latest.html", "<html>sign in</html>");
    expect![[r"
        error: `<site>/releases/latest` does not redirect to a release
        hint: name the version: `butler-runner self update X.Y.Z`
    "]]
    .assert_eq(&world.refused(&world.update(&[])));
    let output = world.command(&[]).args(["--releases", "http://127.0.0.1/"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn attestation_is_verified_by_gh() {
    let world = World::new();
    expect![[r"
        error: cannot verify the attestation: `gh` is not on PATH
        hint: install it from https://cli.github.com, or leave out --attestation
    "]]
    .assert_eq(&world.refused(&world.update(&["--attestation"])));
    let record = world.machine.path("asked");
    let gh = |verdict: u8| {
        let output = format!("#!/bin/sh\necho \"$@\" > '{}'\nexit {verdict}\n", record.display());
        executable(&world.machine.path("bin").join("gh"), output);
    };
    gh(1);
    expect![[r"
        error: cannot verify that the project built butler-runner 99.1.0: `gh attestation verify` fails
        hint: nothing was replaced
    "]].assert_eq(&world.refused(&world.update(&["--attestation"])));
    gh(0);
    succeeded(&world.update(&["--attestation"]));
    let asked = std::fs::read_to_string(&record).unwrap();
    assert!(asked.starts_with("attestation verify "), "{asked}");
    assert!(asked.ends_with(".tar.gz --repo butlerdotdev/butler-runner\n"), "{asked}");
    assert_eq!(world.version(), format!("butler-runner {NEWEST}"));
}

#[test]
fn self_update_refuses_an_executable_of_a_package_manager() {
    let mut world = World::new();
    let plain = world.installed.clone();
    let keep = world.machine.path("opt/homebrew/Cellar/butler-runner/0.2.0/bin/butler-runner");
    std::fs::create_dir_all(keep.parent().unwrap()).unwrap();
    copy(&plain, &keep);
    world.installed = keep;
    let mut shown = world.refused(&world.update(&[]));

    world.installed = plain;
    let bin = world.machine.path("bin");
    // The real dpkg, with a database in which the executable belongs to a package.
    let database = world.machine.path("dpkg");
    std::fs::create_dir_all(database.join("info")).unwrap();
    let status = "Package: butler\nStatus: install ok installed\nVersion: 1\nArchitecture: all\n\
                  Maintainer: M <m@localhost>\nDescription: d\n\n";
    std::fs::write(database.join("status"), status).unwrap();
    let list = format!("/.\n{}\n", world.installed.display());
    std::fs::write(database.join("info/butler.list"), list).unwrap();
    std::fs::write(database.join("info/format"), "1\n").unwrap();
    std::os::unix::fs::symlink(found("dpkg-query"), bin.join("dpkg-query")).unwrap();
    let output = world.command(&[]).env("DPKG_ADMINDIR", &database).output().unwrap();
    shown.push_str(&world.refused(&output));
    std::fs::remove_file(bin.join("dpkg-query")).unwrap();

    let rpm = "#!/bin/sh\n[ \"$1 $4\" = '--query --file' ] && printf butler\n";
    executable(&bin.join("rpm"), rpm);
    shown.push_str(&world.refused(&world.update(&[])));
    executable(&bin.join("rpm"), "#!/bin/sh\necho 'file is not owned by any package'\nexit 1\n");

    let reason = "pull a newer image";
    let output = world.command(&[]).env("BUTLER_NO_SELF_UPDATE", reason).output().unwrap();
    shown.push_str(&world.refused(&output));
    expect![[r"
        error: `<machine>/opt/homebrew/Cellar/butler-runner/0.2.0/bin/butler-runner` was installed by Homebrew
        hint: `brew upgrade butler-runner` updates it
        error: `<machine>/home/.local/bin/butler-runner` belongs to the package `butler`
        hint: `apt-get install --only-upgrade butler` updates it
        error: `<machine>/home/.local/bin/butler-runner` belongs to the package `butler`
        hint: `dnf upgrade butler` updates it
        error: `<machine>/home/.local/bin/butler-runner` must not be replaced (BUTLER_NO_SELF_UPDATE)
        hint: pull a newer image
    "]].assert_eq(&shown);
    assert_eq!(world.site.requests(), Vec::<String>::new(), "it was refused before any download");
    succeeded(&world.update(&[]));
}

fn found(program: &str) -> PathBuf {
    let output = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    Path::new(String::from_utf8(output.unwrap().stdout).unwrap().trim()).to_owned()
}

#[test]
fn self_update_in_the_image_explains_its_refusal() {
    let dockerfile = Path::new(env!("CARGO_MANIFEST_DIR")).join("Dockerfile");
    let text = std::fs::read_to_string(dockerfile).unwrap();
    assert!(text.contains("BUTLER_NO_SELF_UPDATE="), "{text}");
}

#[test]
fn self_update_without_write_access_prints_a_hint() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let world = World::new();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // All users can read, and only root can write.
    for directory in [world.machine.path(""), world.machine.path("home")] {
        mode(&directory, 0o755);
    }
    mode(world.authority.bundle().parent().unwrap(), 0o755);
    mode(world.installed.parent().unwrap(), 0o555);
    let mut command = world.command(&[]);
    if nix::unistd::Uid::effective().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    mode(world.installed.parent().unwrap(), 0o755);
    expect![[r"
        error: this user cannot replace `<machine>/home/.local/bin/butler-runner`: Permission denied (os error 13)
        hint: run this as a user with write access to it, or install into another directory: install.sh --to DIRECTORY
    "]].assert_eq(&world.refused(&output));
}
