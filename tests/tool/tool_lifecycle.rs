//! Installed versions while several processes use, install and remove them.

#[cfg(target_os = "linux")]
mod kills;
mod pruning;
mod read_only;
mod removal;
mod taking_turns;

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use butler_base::http::LazyClient;
use butler_protocol::spec::{Product, ToolRequest};
use butler_runner::tool::{
    HistoryEntry, InProgress, Queue, Sites, ToolOptions, ToolStatus, VersionUser, WhenBusy, status,
};

use butler_testing::machine::{CommandOutput, Machine};
use butler_testing::release_site::{ReleaseSite, platform};

/// Options for requests to the machine's cache.
fn options(machine: &Machine, site: &ReleaseSite) -> ToolOptions {
    ToolOptions {
        cache: machine.path("cache"),
        sites: Sites::mirrored(Some(site.url())),
        signing_keys: vec![site.key_file()],
        search_path: None,
        http: LazyClient::new(None),
        meter: None,
        timeout: Duration::from_mins(10),
        when_busy: WhenBusy::Wait,
        owner: "run 7".to_owned(),
    }
}

fn request(version: &str) -> ToolRequest {
    version.parse().unwrap()
}

/// The status of a product, read in a thread of its own: some callers are in a runtime.
fn status_of(product: Product, options: &ToolOptions) -> ToolStatus {
    let read = || runtime().block_on(status(product, options)).unwrap();
    std::thread::scope(|scope| scope.spawn(read).join().unwrap())
}

fn queue_of(options: &ToolOptions) -> Queue {
    status_of(Product::Terraform, options).queue
}

fn working(options: &ToolOptions) -> Option<InProgress> {
    queue_of(options).in_progress.filter(|it| it.version == request("1.9.8").version)
}

fn users_of(options: &ToolOptions) -> Vec<VersionUser> {
    let installed = status_of(Product::Terraform, options).installed.into_iter();
    let mut found = installed.filter(|it| it.version == request("1.9.8").version);
    found.next().expect("1.9.8 must be installed").users
}

/// How many notes processes have about 1.9.8, installed or not; `doing` selects notes by activity.
fn note_count(options: &ToolOptions, doing: Option<&str>) -> usize {
    let notes = std::fs::read_dir(options.cache.join("terraform/.1.9.8.users"));
    let notes = notes.into_iter().flatten().map(|entry| entry.unwrap().path());
    let is_note = |name: &str| name != "used" && !name.starts_with(".new-");
    let notes = notes.filter(|path| is_note(path.file_name().unwrap().to_str().unwrap()));
    let is_counted = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        doing.is_none_or(|doing| text.contains(&format!("\"doing\":\"{doing}\"")))
    };
    notes.filter(|path| is_counted(path)).count()
}

/// The history: version, operation, result, and the reason of a failure.
fn history_of(options: &ToolOptions) -> Vec<String> {
    let entries = status_of(Product::Terraform, options).history;
    let shown = |HistoryEntry { version, operation, state, error, .. }: HistoryEntry| {
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        format!("{operation:?} {version} {state:?}{error}")
    };
    entries.into_iter().rev().map(shown).collect()
}

/// The number of requests for an archive.
fn archives(site: &ReleaseSite) -> usize {
    let end = format!("{}.zip", platform());
    site.requests().iter().filter(|path| path.ends_with(&end)).count()
}

/// The entries of Terraform's cache directory, except the metadata of versions.
fn kept(machine: &Machine) -> Vec<String> {
    let entries = std::fs::read_dir(machine.path("cache/terraform")).into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let is_known_about = |name: &str| {
        let extension = Path::new(name).extension();
        extension.is_some_and(|it| it == "lock" || it == "users")
    };
    names.retain(|name| !is_known_about(name));
    names.retain(|name| !["history.json", "default.json"].contains(&name.as_str()));
    names.sort();
    names
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn spawn(machine: &Machine, words: &[&str]) -> Child {
    machine.command(words).spawn().unwrap()
}

fn ended(machine: &Machine, child: Child) -> CommandOutput {
    machine.output_of(&child.wait_with_output().unwrap())
}

/// The output without the number of `pid` and without times.
fn shown(said: &CommandOutput, pid: u32) -> String {
    let mut words = Vec::new();
    for word in said.normalized().split_inclusive([' ', '\n', ';']) {
        let bare = word.trim_end_matches([' ', '\n', ';', ':', ',']);
        let is_time = bare.ends_with('Z') && bare.contains('T') && bare.starts_with("20");
        words.push(match bare {
            _ if is_time => word.replace(bare, "<time>"),
            _ if bare == pid.to_string() => word.replace(bare, "<pid>"),
            _ => word.to_owned(),
        });
    }
    words.concat()
}

/// Whether the file at `path` exists and is executable.
fn is_executable(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// Waits, without a runtime, until `condition` holds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_mins(1), "there never was {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `sleep`, a real executable that replaces Terraform and runs for a given time.
fn sleeping() -> Vec<u8> {
    std::fs::read("/bin/sleep").unwrap()
}

/// Kills its process when it is dropped.
struct Ends(Child);

impl Ends {
    fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `butler-runner WORDS` in its own mount namespace, after the shell script `before`.
fn with_mounts(machine: &Machine, before: &str, words: &[&str]) -> Command {
    let script = format!("{before}\nexec \"$0\" \"$@\"");
    let shell =
        butler_testing::world::unshare(&["--mount", "/bin/sh", "-e", "-c", script.as_str()]);
    let runner = machine.command(words);
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(runner.get_program()).args(runner.get_args()).env_clear();
    command.envs(runner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", butler_testing::environment::search_path());
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command
}

/// Mounts `path` read-only.
fn read_only(path: &Path) -> String {
    let path = path.display();
    format!("mount --bind '{path}' '{path}' && mount -o remount,bind,ro '{path}'")
}
