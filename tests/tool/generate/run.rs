//! The scripts of generated files without options, executed from the download to the exit code.
//! `github.com` is a site on loopback; the configuration of curl redirects to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sha2::{Digest, Sha256};

use super::{generate, gitlab_script, jenkins_script};
use butler_testing::authority::Authority;
use butler_testing::environment::find_program;
use butler_testing::release_site::{Fault, ReleaseSite, executable, platform};
use butler_testing::world::{MODULE, RUN_ID, TOKEN, World, eventually, wrapped};

/// The release of this version on a local `github.com`.
pub(super) struct Releases {
    authority: Authority,
    pub(super) site: ReleaseSite,
}

impl Releases {
    /// A release whose archive contains `binary`.
    pub(super) fn with(binary: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let archive = archive();
        let packed = Command::new("tar")
            .args(["--create", "--use-compress-program=gzip -1", "--dereference"])
            .arg("--file")
            .arg(directory.path().join(&archive))
            .args(["--transform=s,.*/,,", "--absolute-names"])
            .arg(binary)
            .output()
            .unwrap();
        assert!(packed.status.success(), "{packed:?}");
        let packed = std::fs::read(directory.path().join(&archive)).unwrap();
        let sums = format!("{}  {archive}\n", hex::encode(Sha256::digest(&packed)));
        let version = env!("CARGO_PKG_VERSION");
        let place = format!("/butlerdotdev/butler-runner/releases/download/v{version}/{archive}");
        let authority = Authority::of(&["github.com"]);
        let files = [(&*place, &*packed), (&*format!("{place}.sha256"), sums.as_bytes())];
        let site = ReleaseSite::start_with_files(&authority, &files);
        Self { authority, site }
    }

    /// A release with the runner under test.
    pub(super) fn of_the_runner() -> Self {
        Self::with(Path::new(env!("CARGO_BIN_EXE_butler-runner")))
    }

    /// A release with a script that becomes the runner under test. Packing the runner itself takes seconds.
    pub(super) fn that_starts_the_runner() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("butler-runner");
        let runner = env!("CARGO_BIN_EXE_butler-runner");
        executable(&script, format!("#!/bin/sh\nexec '{runner}' \"$@\"\n"));
        Self::with(&script)
    }

    /// Redirects the curl of this home directory to the site.
    pub(super) fn redirect_curl(&self, home: &Path) {
        let port = self.site.url().port().unwrap();
        let bundle = self.authority.bundle();
        let text = format!(
            "connect-to = \"github.com:443:127.0.0.1:{port}\"\ncacert = \"{}\"\n",
            bundle.display()
        );
        std::fs::write(home.join(".curlrc"), text).unwrap();
    }
}

pub(super) fn archive() -> String {
    format!("butler-runner_{}.tar.gz", platform())
}

/// The shell word between these two texts in a line of `script`.
pub(super) fn shell_word(script: &str, before: &str, after: &str) -> String {
    let mut lines = script.lines().filter_map(|line| line.trim_start().strip_prefix(before));
    let line = lines.next_back().unwrap();
    let word = line.split(after).next().unwrap();
    let printed = format!("printf %s {word}");
    let output = Command::new("/bin/sh").args(["-c", &printed]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A job's shell in the world, with the environment of the CI system.
pub(super) fn job(
    world: &World,
    shell: &[&str],
    script: &str,
    variables: &[(&str, &str)],
) -> tokio::process::Command {
    let words = [shell, &["-c", script]].concat();
    let mut command = wrapped(&world.command(&[]), &words);
    command.envs(variables.iter().copied()).current_dir(world.path("tmp"));
    command
}

/// A world with a waiting run, whose curl reaches `releases`.
pub(super) async fn world(operation: &str, releases: &Releases) -> World {
    let world = World::new(&[("main.tf", MODULE)]).await;
    for name in ["workspace", "workspace-tmp"] {
        std::fs::create_dir(world.path(name)).unwrap();
    }
    releases.redirect_curl(&world.path("home"));
    world.add_run(world.config(operation));
    world
}

pub(super) fn shown(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[tokio::test]
async fn gitlab_job_installs_the_runner_and_returns_the_exit_code_of_the_run() {
    let releases = Releases::of_the_runner();
    let script = gitlab_script(&generate("gitlab-ci", &[]).expect_success().stdout);
    for (operation, code) in [("apply", 0), ("explode", 1)] {
        let world = world(operation, &releases).await;
        let workspace = world.path("workspace");
        let output = in_gitlab(&world, &script).output().await.unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", shown(&output));
        assert!(!shown(&output).contains(TOKEN), "{}", shown(&output));
        assert!(workspace.join(".butler/report/result.json").is_file(), "{}", shown(&output));
    }
}

/// The job's shell with GitLab's environment.
pub(super) fn in_gitlab(world: &World, script: &str) -> tokio::process::Command {
    in_gitlab_shell(world, &["/bin/sh", "-e"], script)
}

/// The same with another shell.
pub(super) fn in_gitlab_shell(
    world: &World,
    shell: &[&str],
    script: &str,
) -> tokio::process::Command {
    let (endpoint, workspace) = (world.endpoint(), world.path("workspace"));
    let variables = [
        ("BUTLER_REGISTRY_URL", &*endpoint),
        ("CALLBACK_TOKEN", TOKEN),
        ("CI_PROJECT_DIR", workspace.to_str().unwrap()),
        ("CI_SERVER_HOST", "gitlab.example.com"),
        ("GITLAB_CI", "true"),
        ("RUN_ID", RUN_ID),
    ];
    job(world, shell, script, &variables)
}

#[tokio::test]
async fn jenkins_step_installs_the_runner_and_returns_the_exit_code_of_the_run() {
    let releases = Releases::that_starts_the_runner();
    let script = jenkins_script(&generate("jenkins", &[]).expect_success().stdout);
    for (operation, code) in [("plan", 0), ("explode", 1)] {
        let world = world(operation, &releases).await;
        let output = in_jenkins(&world, &script).output().await.unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", shown(&output));
        assert!(!shown(&output).contains(TOKEN), "{}", shown(&output));
    }
}

/// The step's shell with Jenkins' environment.
pub(super) fn in_jenkins(world: &World, script: &str) -> tokio::process::Command {
    let text = |name: &str| world.path(name).display().to_string();
    let variables = [
        ("BUILD_TAG", "jenkins-run-7"),
        ("BUTLER_ENDPOINT", &*world.endpoint()),
        ("CALLBACK_TOKEN", TOKEN),
        ("HUDSON_COOKIE", "f1108901-9650-426e-89e8-b40aeba4c784"),
        ("HUDSON_SERVER_COOKIE", "e28a37828ffba010"),
        ("JENKINS_NODE_COOKIE", "53d0ec43-b3e1-4f6a-9b23-3957eaf8a8b8"),
        ("JENKINS_SERVER_COOKIE", "durable-d259f7f23dec0511"),
        ("JENKINS_URL", "https://jenkins.example.com/"),
        ("RUN_ID", RUN_ID),
        ("WORKSPACE", &*text("workspace")),
        ("WORKSPACE_TMP", &*text("workspace-tmp")),
    ];
    job(world, &["/bin/sh"], script, &variables)
}

/// Processes of the world that have a variable of this name.
pub(super) fn with_variable(world: &World, name: &str) -> Vec<Pid> {
    let (mark, own) = (format!("\0{name}="), world.path("tmp").display().to_string());
    let processes = std::fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = format!("\0{}", String::from_utf8_lossy(&environment));
        environment.contains(&mark) && environment.contains(&own)
    })
    .map(Pid::from_raw)
    .collect()
}

#[tokio::test]
async fn jenkins_cookie_is_not_inherited_and_its_signal_stops_terraform_gracefully() {
    let releases = Releases::that_starts_the_runner();
    let world = world("apply", &releases).await;
    let started = world.path("started");
    let module = format!(
        r#"resource "terraform_data" "held" {{
  provisioner "local-exec" {{
    command = "env > '{0}.part' && mv '{0}.part' '{0}' && exec sleep 600"
  }}
}}
"#,
        started.display()
    );
    world.commit(&[("main.tf", &module)]);
    let script = jenkins_script(&generate("jenkins", &[]).expect_success().stdout);
    let process = in_jenkins(&world, &script).spawn().unwrap();
    eventually("a provisioner", || started.exists()).await;
    let inherited = std::fs::read_to_string(&started).unwrap();
    assert!(!inherited.contains("COOKIE="), "{inherited}");
    assert!(inherited.contains("JENKINS_URL="), "{inherited}");
    // Root can read the runner's environment; Jenkins runs as another user and does not find the
    // cookie.
    let found = with_variable(&world, "JENKINS_SERVER_COOKIE");
    assert_eq!(found, [Pid::from_raw(process.id().unwrap().cast_signed())], "the runner alone");
    kill(found[0], Signal::SIGTERM).unwrap();
    let output = process.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", shown(&output));
    assert_eq!(world.last_status()["error"]["class"], "stopped");
    let log = world.received().logs.iter().any(|line| line.content.contains("Interrupt received"));
    assert!(log, "Terraform was asked to end, not killed: {}", shown(&output));
    assert!(!world.path(".terraform.tfstate.lock.info").exists());
}

/// A stand-in for the runner that prints a marker.
const STAND_IN: &str = "#!/bin/sh\necho it began\n";

/// A machine with the programs that the installation needs, and a release of a stand-in.
struct InstallMachine {
    releases: Releases,
    directory: tempfile::TempDir,
}

impl InstallMachine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["bin", "home", "release"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let binary = directory.path().join("release/butler-runner");
        executable(&binary, STAND_IN);
        let bare = Self { releases: Releases::with(&binary), directory };
        bare.releases.redirect_curl(&bare.path("home"));
        let needed = [
            "cat",
            "chmod",
            "curl",
            "gzip",
            "mkdir",
            "mktemp",
            "mv",
            "rm",
            "sh",
            "sha256sum",
            "tar",
            "uname",
        ];
        for name in needed {
            bare.add(name);
        }
        bare
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn add(&self, name: &str) {
        let program = find_program(name).unwrap_or_else(|| panic!("the tests need {name}"));
        std::os::unix::fs::symlink(program, self.path("bin").join(name)).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.path("bin").join(name)).unwrap();
    }

    /// Installs with the commands of `generic` and these options, and runs the installed stand-in.
    /// Returns the exit code and the output.
    fn install(&self, options: &[&str]) -> (Option<i32>, String) {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let answer = generate("generic", &options).expect_success().json();
        let install = answer["runner"]["install"].as_str().unwrap();
        let script = format!("{install}\nexec ./butler-runner execute\n");
        let place = self.path("job");
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir(&place).unwrap();
        let output = Command::new("/bin/sh")
            .args(["-c", &script])
            .current_dir(&place)
            .env_clear()
            .envs([("PATH", self.path("bin")), ("HOME", self.path("home"))])
            .env("GH_TOKEN", "ghs_x")
            .output()
            .unwrap();
        let names = std::fs::read_dir(&place).unwrap();
        let left: Vec<_> = names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        let expected: &[&str] = if output.status.success() { &["butler-runner"] } else { &[] };
        assert_eq!(left, expected, "nothing but what was verified is left");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// The output of an installation that must fail.
    fn refused(&self, options: &[&str]) -> String {
        let (code, text) = self.install(options);
        assert_eq!(code, Some(1), "{text}");
        assert!(!text.contains("it began"), "{text}");
        text
    }
}

#[test]
fn modified_release_is_not_installed() {
    let bare = InstallMachine::new();
    let (code, text) = bare.install(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("it began\n"), "{text}");
    let archive = archive();
    let site = &bare.releases.site;
    for (file, fault, reason) in [
        (&*archive, Fault::Changed, "the release has"),
        (&*archive, Fault::Missing, "cannot be downloaded"),
        (".sha256", Fault::Missing, "cannot be downloaded"),
        (".sha256", Fault::Halved, "is about another file"),
    ] {
        let path = if file == ".sha256" { format!("{archive}.sha256") } else { file.to_owned() };
        site.inject_fault(&path, fault);
        let text = bare.refused(&[]);
        assert!(text.contains("butler-runner is not installed: "), "{text}");
        assert!(text.contains(reason), "{reason}: {text}");
        site.remove_faults();
    }
    let digest = "0".repeat(64);
    for sums in
        [format!("{digest}  {archive}\n"), format!("{digest}  other.tar.gz\n"), String::new()]
    {
        site.replace(&format!("{archive}.sha256"), sums);
        bare.refused(&[]);
    }
}

#[test]
fn archive_can_be_pinned_by_digest() {
    let bare = InstallMachine::new();
    let (_, packed) = bare.releases.site.file(&archive());
    let digest = format!("--checksum={}", hex::encode(Sha256::digest(&packed)));
    let other = format!("--checksum={}", "0".repeat(64));
    assert_eq!(bare.install(&[&other, &digest]).0, Some(0));
    let text = bare.refused(&[&other]);
    assert!(text.contains("which is not one of the allowed digests"), "{text}");
}

#[test]
fn temporary_failure_of_the_release_site_is_retried() {
    let bare = InstallMachine::new();
    bare.releases.site.inject_fault(&archive(), Fault::Failing(1));
    let (code, text) = bare.install(&[]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn download_does_not_follow_a_redirect_to_http() {
    let bare = InstallMachine::new();
    let plain = ReleaseSite::start(&[]);
    bare.releases.site.redirect_all_to(&plain.url());
    assert!(bare.refused(&[]).contains("cannot be downloaded"));
    assert_eq!(plain.requests(), [""; 0]);
}

#[test]
fn installation_needs_sha256sum_or_shasum() {
    let bare = InstallMachine::new();
    bare.remove("sha256sum");
    let text = bare.refused(&[]);
    assert!(text.contains("neither sha256sum nor shasum is installed"), "{text}");
    let sums = find_program("sha256sum").unwrap();
    let shasum = format!("#!/bin/sh\nshift 2\nexec {} \"$@\"\n", sums.display());
    executable(&bare.path("bin/shasum"), shasum);
    assert_eq!(bare.install(&[]).0, Some(0));
    bare.remove("curl");
    assert!(bare.refused(&[]).contains("curl is missing"));
}

#[test]
fn attestation_is_required_if_the_github_cli_is_installed() {
    let bare = InstallMachine::new();
    let asked = bare.path("asked");
    let gh = |code: i32| {
        let script = format!(
            "#!/bin/sh\n[ \"$3\" != '' ] || exit 0\necho \"$*\" >'{}'\nexit {code}\n",
            asked.display()
        );
        executable(&bare.path("bin/gh"), script);
    };
    gh(1);
    let text = bare.refused(&[]);
    assert!(text.contains("was not built by its project"), "{text}");
    gh(0);
    assert_eq!(bare.install(&[]).0, Some(0));
    let expected = format!("attestation verify {} --repo butlerdotdev/butler-runner\n", archive());
    assert_eq!(std::fs::read_to_string(&asked).unwrap(), expected);
}

/// The files below these directories that contain this token.
fn holding_a_token(token: &str, places: &[&Path]) -> Vec<PathBuf> {
    let found = Command::new("grep").args(["-rlF", token]).args(places).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// Prints the cloud credentials that it got.
const SEEN: &str = "#!/bin/sh
cat \"$AWS_WEB_IDENTITY_TOKEN_FILE\" && echo
echo \"$AWS_WEB_IDENTITY_TOKEN_FILE\"
sed -n 's/.*\"credential_source\".*\"file\": \"\\(.*\\)\" .*/\\1/p' \"$GOOGLE_APPLICATION_CREDENTIALS\"
";

#[tokio::test]
async fn jenkins_step_reads_identity_tokens_from_their_files() {
    let bare = InstallMachine::new();
    let world = world("plan", &bare.releases).await;
    executable(&world.path("installed/butler-runner"), SEEN);
    let releases = Releases::with(&world.path("installed/butler-runner"));
    releases.redirect_curl(&world.path("home"));
    let options = ["--aws-role=r", "--aws-region=e", "--gcp-provider=p", "--gcp-service-account=a"];
    let text = generate("jenkins", &options.map(str::to_owned)).expect_success().stdout;
    let script = jenkins_script(&text);
    let secret = world.path("secret-file");
    let token = format!("token-of-{}-end", std::process::id());
    std::fs::write(&secret, &token).unwrap();
    for _ in 0..2 {
        let mut step = in_jenkins(&world, &script);
        step.env("AWS_ID_TOKEN", &secret).env("GCP_ID_TOKEN", &secret);
        let output = step.output().await.unwrap();
        let place = secret.display();
        let expected = format!("{token}\n{place}\n{place}\n");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&expected), "{}", shown(&output));
        let places =
            [&*world.path("workspace"), &world.path("workspace-tmp"), Path::new("/dev/shm")];
        assert_eq!(holding_a_token(&token, &places), [""; 0].map(PathBuf::from));
        let left = std::fs::read_dir(world.path("workspace-tmp")).unwrap();
        let left = left.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("butler-identity")
        });
        assert_eq!(left.count(), 1, "what an earlier step has left is removed");
    }
    assert!(text.contains(r#"rm -rf "$WORKSPACE_TMP"/butler-identity"#), "{text}");
}

#[tokio::test]
async fn gitlab_identity_token_is_on_tmpfs_and_removed_by_the_next_job() {
    let bare = InstallMachine::new();
    let world = world("plan", &bare.releases).await;
    executable(&world.path("installed/butler-runner"), SEEN);
    let releases = Releases::with(&world.path("installed/butler-runner"));
    releases.redirect_curl(&world.path("home"));
    let options = ["--aws-role=r", "--aws-region=e", "--gcp-provider=p", "--gcp-service-account=a"];
    let job_script =
        gitlab_script(&generate("gitlab-ci", &options.map(str::to_owned)).expect_success().stdout);
    let workspace = world.path("workspace");
    // Other tests use /dev/shm too.
    let own = format!("of-{}-end", std::process::id());
    for number in 0..2 {
        let token = format!("token.{number}.{own}");
        let mut job = in_gitlab(&world, &job_script);
        let output =
            job.env("AWS_ID_TOKEN", &token).env("GCP_ID_TOKEN", &token).output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.starts_with(&format!("{token}\n/dev/shm/butler-identity")),
            "{}",
            shown(&output)
        );
        let places = [&*workspace, &world.path("tmp"), Path::new("/dev/shm")];
        let mut expected: Vec<_> = said.lines().skip(1).map(PathBuf::from).collect();
        expected.sort();
        let mut left = holding_a_token(&own, &places);
        left.sort();
        assert_eq!(left, expected, "those of this job alone");
        if number == 1 {
            std::fs::remove_dir_all(expected[0].parent().unwrap()).unwrap();
        }
    }
}
