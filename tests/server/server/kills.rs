//! The server, attempts, or both are killed again and again, at moments that a seed chooses, while plans are
//! made, approved and applied.
//!
//! `make test` kills a few times from a fixed seed: one server, and two servers that share a store. `make soak` sets
//! `SOAK_KILLS`, `SOAK_SECONDS` and `SOAK_SEED`: it goes on until both are reached.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::str::FromStr;
use std::time::{Duration, Instant};

use butler_testing::{PASSWORD, Postgres};
use fastrand::Rng;

use super::*;
use butler_testing::files_provider::FilesProvider;
use butler_testing::http_backend::HttpBackend;

/// The plans of the last one wait for an approval, those of the others are applied at once, unless the apply before
/// was killed after it had begun. The state of the
/// third one is at an `http` backend, where a lock stays if its holder is killed.
const LAYERS: [&str; 4] = ["a", "b", REMOTE, APPROVED];
const REMOTE: &str = "c";
const APPROVED: &str = "d";

/// The files of each layer.
const FILES: usize = 3;

/// The longest time between a commit and the kill that follows.
const LONGEST: Duration = Duration::from_secs(4);

/// The longest time between the begin of an apply and the kill that follows. Terraform applies for about as
/// long.
const APPLY: Duration = Duration::from_millis(600);

/// The longest time until everything is at rest. Work whose process was killed is planned again after 15
/// seconds, and after longer waits if that happens again.
const REST: Duration = Duration::from_mins(6);

/// What was done to the server.
#[derive(Debug, Default)]
struct Totals {
    commits: u32,
    approvals: u32,
    breaker_resets: u32,
    unlocks: u32,
    retries: u32,
    server_kills: u32,
    attempt_kills: u32,
    versions: BTreeMap<&'static str, u32>,
}

/// What is left of it.
#[derive(Debug, Default)]
struct Found {
    logs: usize,
    plans: usize,
    applies: usize,
    interrupted_applies: usize,
}

/// Servers that are killed, and what they need.
struct Soak {
    /// One server, or several that share a store. One that was killed is down until the next commit.
    servers: Vec<Installation>,
    postgres: Option<Postgres>,
    repository: Repository,
    backend: HttpBackend,
    managed: PathBuf,
    random: Rng,
    totals: Totals,
    _provider: FilesProvider,
}

fn given<T: FromStr>(variable: &str, default: T) -> T {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The module of a layer: files that are written one after the other, each with the version.
fn module(managed: &Path, layer: &str, version: u32) -> String {
    let path = |number: usize| managed.join(format!("{layer}-{number}"));
    let files: Vec<_> = (0..FILES).map(|number| (path(number), version.to_string())).collect();
    FilesProvider::chain(&files, FILES, managed)
}

fn file(layer: &str) -> String {
    format!("envs/{layer}/main.tf")
}

/// A directory for PATH with a `terraform` that notes the working directory and the SHA-256 of each plan that it
/// is asked to apply, before it does.
fn witness(directory: &Path, notes: &Path) {
    std::fs::create_dir(directory).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let terraform = std::env::split_paths(&path).map(|it| it.join("terraform"));
    let terraform = terraform.into_iter().find(|it| it.exists()).expect("terraform in PATH");
    let script = format!(
        "#!/bin/sh
for last; do :; done
case \" $* \" in
*' apply '*) sum=$(sha256sum \"$last\") && echo \"$PWD ${{sum%% *}}\" >> '{}' ;;
esac
exec '{}' \"$@\"
",
        notes.display(),
        terraform.display()
    );
    let file = directory.join("terraform");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A backend that answers while the test waits for a command. It ends with the process.
fn backend() -> HttpBackend {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            sender.send(HttpBackend::start().await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().unwrap()
}

/// One of the servers that are up.
fn up(servers: &[Installation]) -> &Installation {
    servers.iter().find(|server| server.server.is_some()).unwrap()
}

impl Soak {
    async fn serve(seed: u64, count: usize) -> Self {
        let servers: Vec<_> = (0..count).map(|_| Installation::new()).collect();
        let postgres = (count > 1).then(Postgres::start);
        let (shared, provider) = (&servers[0], FilesProvider::unpack());
        let backend = backend();
        let managed = shared.path("managed");
        std::fs::create_dir(&managed).unwrap();
        witness(&shared.path("bin"), &managed.join("applied"));
        let files = LAYERS.map(|layer| (file(layer), module(&managed, layer, 1)));
        let files = files.each_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        let repository = Repository::create(&files);
        // Servers that share a store need states that all of them find.
        let local = |layer: &str| {
            let path = managed.join(format!("states/{layer}"));
            let path = format!("config: {{path: '{}'}}", path.display());
            format!("{{type: local, {}}}", if count > 1 { path } else { String::new() })
        };
        let configuration = format!(
            "repositories: {{infra: {{url: '{}', poll: 1s}}}}
defaults:
  strategy: auto
  history: {{runs: 100000}}
  drift: {{every: 30d}}
  isolation: {{read: ['{}', '{}'], write: ['{}']}}
layers:
  a: {{repository: infra, path: envs/a, backend: {}}}
  b: {{repository: infra, path: envs/b, backend: {}}}
  {REMOTE}: {{repository: infra, path: envs/{REMOTE}, backend: {{type: http, config: {}}}}}
  {APPROVED}: {{repository: infra, path: envs/{APPROVED}, strategy: approve, backend: {}}}
",
            repository.url(),
            provider.mirror().display(),
            shared.path("bin").display(),
            managed.display(),
            local("a"),
            local("b"),
            backend.config(),
            local(APPROVED),
        );
        let mirror = format!("{{filesystemMirror: {{path: '{}'}}}}", provider.mirror().display());
        let settings = format!("terraformrc: {{providerInstallation: {mirror}}}\n");
        for server in &servers {
            server.configure(&configuration);
            std::fs::write(server.path("settings.yaml"), &settings).unwrap();
            std::fs::write(server.path("password"), PASSWORD).unwrap();
        }
        let totals = Totals {
            versions: LAYERS.iter().map(|layer| (*layer, 1)).collect(),
            ..Totals::default()
        };
        let random = Rng::with_seed(seed);
        let mut soak = Self {
            servers,
            postgres,
            repository,
            backend,
            managed,
            random,
            totals,
            _provider: provider,
        };
        soak.start().await;
        soak
    }

    /// Starts the servers that are down.
    async fn start(&mut self) {
        let path = std::env::var("PATH").unwrap();
        let path = format!("PATH={}:{path}", self.servers[0].path("bin").display());
        let mut arguments =
            ["--concurrency", "3", "--settings", "settings.yaml"].map(str::to_owned).to_vec();
        if let Some(postgres) = &self.postgres {
            let address = format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port());
            let store = ["--store", &address, "--store-password-file", "password"];
            arguments.extend(store.map(str::to_owned));
        }
        for server in self.servers.iter_mut().filter(|server| server.server.is_none()) {
            server.serve_behind(&["env", &path], &arguments).await;
        }
    }

    async fn kill_a_server(&mut self) {
        let killed = self.random.usize(0..self.servers.len());
        self.servers[killed].kill().await;
        self.totals.server_kills += 1;
        if self.servers.len() == 1 || self.random.bool() {
            self.start().await;
        }
    }

    /// Changes some of the layers.
    fn commit(&mut self) {
        for layer in LAYERS {
            if self.random.bool() {
                let version = self.totals.versions.get_mut(layer).unwrap();
                *version += 1;
                let text = module(&self.managed, layer, *version);
                self.repository.commit("Change", &[(file(layer).as_str(), text.as_str())]);
                self.totals.commits += 1;
            }
        }
    }

    /// Waits for the random moment of the next kill: after any time, or while an apply runs if one begins.
    async fn wait(&mut self) {
        let (begun, applied) = (Instant::now(), self.applied());
        let longest = if self.random.bool() {
            while self.applied() == applied && begun.elapsed() < LONGEST {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            APPLY
        } else {
            LONGEST
        };
        tokio::time::sleep(longest.mul_f64(self.random.f64())).await;
    }

    /// What Terraform was asked to apply.
    fn applied(&self) -> String {
        std::fs::read_to_string(self.managed.join("applied")).unwrap_or_default()
    }

    /// Kills the runner of an attempt that runs, if there is one.
    fn kill_an_attempt(&mut self) {
        let mut running: Vec<_> =
            self.servers.iter().flat_map(|server| running(&server.data())).collect();
        self.random.shuffle(&mut running);
        let was_killed = running
            .into_iter()
            .any(|pid| butler_base::platform::kill_child(Pid::from_raw(pid)).is_ok());
        self.totals.attempt_kills += u32::from(was_killed);
    }

    /// Does what waits for a person: approves plans, resets the breaker after applies were killed, and removes
    /// the locks that they have left.
    fn attend(&mut self, layers: &[Value]) {
        let server = up(&self.servers);
        let asked = |arguments: &[&str]| u32::from(server.ask(arguments).status.success());
        if server.json(&["breaker", "show"])["open"] == true {
            self.totals.breaker_resets += asked(&["breaker", "reset"]);
        }
        for layer in layers {
            let name = layer["name"].as_str().unwrap();
            let waits = layer["reasons"].to_string().contains("waiting for approval");
            if waits {
                // Refused if a commit takes over at this moment.
                self.totals.approvals += asked(&["layer", "apply", name]);
            } else if let Some(lock) = layer["stateLock"]["id"].as_str() {
                // Refused while an attempt of the layer runs.
                self.totals.unlocks += asked(&["layer", "unlock", name, "--state-lock", lock]);
            } else if layer["phase"] == "Blocked" {
                self.totals.retries += asked(&["layer", "retry", name]);
            }
        }
    }

    fn layers(&self) -> Vec<Value> {
        let layers = up(&self.servers).json(&["layer", "list"]);
        layers["items"].as_array().unwrap().clone()
    }

    fn contents(&self, layer: &str) -> Vec<String> {
        let path = |number| self.managed.join(format!("{layer}-{number}"));
        let read = |number| std::fs::read_to_string(path(number)).unwrap_or_default();
        (0..FILES).map(read).collect()
    }

    /// Waits until every layer has applied what it contains. Returns how long that took.
    async fn come_to_rest(&mut self) -> Duration {
        let begun = Instant::now();
        loop {
            let layers = self.layers();
            let is_at_rest = layers.len() == LAYERS.len()
                && layers.iter().all(|layer| {
                    let name = layer["name"].as_str().unwrap();
                    layer["phase"] == "Noop"
                        && layer["revision"]["digest"] == layer["appliedRevision"]["digest"]
                        && layer["revision"]["commit"] == self.repository.head()
                        && self
                            .contents(name)
                            .iter()
                            .all(|content| *content == self.totals.versions[name].to_string())
                });
            if is_at_rest {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < REST, "not at rest: {layers:#?}\n{:#?}", self.totals);
            self.attend(&layers);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Checks what is left.
    fn check(&self) -> Found {
        let mut found = Found::default();
        let applied = self.applied();
        let applied: Vec<_> = applied.lines().collect();
        let sum = |line: &str| line.rsplit_once(' ').unwrap().1.to_owned();
        let mut sums: Vec<_> = applied.iter().map(|line| sum(line)).collect();
        sums.sort_unstable();
        let twice = sums.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "Terraform applied a plan twice");
        for layer in LAYERS {
            assert_eq!(up(&self.servers).layer(layer)["lease"], Value::Null, "{layer}");
            let runs = up(&self.servers).runs(layer);
            self.check_ends(&runs);
            let plans = runs.iter().filter(|run| run["action"] == "plan");
            let of_commits = plans.clone().filter(|run| run["cause"] == "commit");
            let mut digests: Vec<_> =
                of_commits.map(|run| run["digest"].as_str().unwrap()).collect();
            digests.sort_unstable();
            assert!(digests.windows(2).all(|pair| pair[0] != pair[1]), "two plans: {runs:#?}");
            let of_plans: Vec<_> = runs.iter().filter(|run| run["action"] == "apply").collect();
            let done = of_plans.iter().filter(|run| run["phase"] == "Succeeded").count();
            let started = of_plans.iter().map(|apply| {
                let attempts = apply["attempts"].as_array().unwrap().iter();
                let started =
                    attempts.filter(|it| it["outcome"] != "its process was never started");
                let started = started.count();
                assert!(started <= 1, "an apply was repeated: {apply:#?}");
                started
            });
            let directory = format!("/work/{layer}/");
            let begun = applied.iter().filter(|line| line.contains(&directory)).count();
            assert!((done..=started.sum()).contains(&begun), "{begun} applies of {runs:#?}");
            found.interrupted_applies += begun - done;
            found.plans += plans.count();
            found.applies += of_plans.len();
            // The newest apply that was not killed.
            if let Some(apply) = of_plans.iter().find(|run| run["phase"] == "Succeeded") {
                self.check_log(apply);
                found.logs += 1;
            } else {
                // All applies of a layer can be killed after their last change. The plan that follows has none.
                let last = runs.iter().find(|run| run["action"] == "plan").unwrap();
                assert!(begun > 0 && last["phase"] == "Succeeded", "{runs:#?}");
            }
        }
        assert!(found.logs > 0, "all applies of all layers were killed");
        found
    }

    /// The log of the last attempt of a run.
    fn log(&self, run: &Value) -> String {
        let (id, number) = (run["id"].as_str().unwrap(), run["attempts"].as_array().unwrap().len());
        let log = format!("attempts/{id}-{number}/log.jsonl");
        let mut logs = self.servers.iter().map(|server| server.data().join(&log));
        logs.find_map(|log| std::fs::read_to_string(log).ok()).unwrap_or_default()
    }

    /// The log of a run has every line.
    fn check_log(&self, run: &Value) {
        let log = self.log(run);
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers = lines.iter().map(|line| line["sequence"].as_u64().unwrap());
        assert!(numbers.eq(1..=lines.len() as u64), "{lines:#?}");
        let summary = "Apply complete! Resources: ";
        assert!(
            lines.iter().any(|line| line["content"].to_string().contains(summary)),
            "{lines:#?}"
        );
    }

    /// Each run has ended, and for a reason that a kill or a commit explains.
    fn check_ends(&self, runs: &[Value]) {
        for run in runs {
            let phase = run["phase"].as_str().unwrap();
            let explained = [
                "its process ended without a report",
                "its process was never started",
                // A kill in the middle of an apply changes the state that later plans were made of.
                "the plan no longer fits",
                // An apply that was killed has left it.
                "the state is locked",
            ];
            let is_explained = run["ended"]
                .as_str()
                .is_some_and(|ended| explained.iter().any(|reason| ended.starts_with(reason)));
            assert!(
                ["Succeeded", "Superseded"].contains(&phase) || is_explained,
                "{run:#?}\n{}",
                self.log(run)
            );
            let attempts = run["attempts"].as_array().unwrap();
            let succeeded = attempts.iter().filter(|attempt| attempt["outcome"] == "succeeded");
            assert_eq!(succeeded.count(), usize::from(phase == "Succeeded"), "{run:#?}");
            assert!(attempts.iter().all(|attempt| attempt["ended"].is_string()), "{run:#?}");
        }
    }

    /// The states are free, and contain what the modules describe.
    fn check_states(&self) {
        assert_eq!(self.backend.lock(), None, "a lock is left");
        for layer in LAYERS {
            let planned = up(&self.servers).ask(&["layer", "plan", layer, "--wait"]);
            assert!(planned.status.success(), "{}", text(&planned));
            assert!(text(&planned).contains("No changes."), "{}", text(&planned));
        }
    }
}

/// Kills, and checks what is left. Returns what was done, for people.
async fn soak(servers: usize, kills: u32) -> String {
    let kills = given("SOAK_KILLS", kills);
    let seconds = Duration::from_secs(given("SOAK_SECONDS", 0));
    let seed: u64 = given("SOAK_SEED", 17);
    let mut soak = Soak::serve(seed, servers).await;
    let begun = Instant::now();
    while soak.totals.server_kills + soak.totals.attempt_kills < kills || begun.elapsed() < seconds
    {
        soak.commit();
        soak.wait().await;
        if soak.random.bool() {
            let layers = soak.layers();
            soak.attend(&layers);
        }
        soak.start().await;
        let what = soak.random.u8(0..4);
        if what < 2 {
            soak.kill_an_attempt();
        }
        if what > 0 {
            soak.kill_a_server().await;
        }
    }
    soak.start().await;
    let rest = soak.come_to_rest().await;
    for server in &soak.servers {
        server.until_tidy().await;
    }
    let found = soak.check();
    soak.check_states();
    let Soak { totals, mut servers, .. } = soak;
    for server in &mut servers {
        assert_eq!(server.terminate().await, Some(0));
    }
    format!(
        "{} servers, seed {seed}, {} s: {} commits, {} kills of servers, {} kills of attempts, {} approvals, \
         {} resets of the breaker, {} locks removed, {} retries
runs started: {} plans, {} applies, of which {} were interrupted
lost: 0, applied twice: 0, leases left: 0, state locks left: 0
at rest after {:.1} s",
        servers.len(),
        begun.elapsed().as_secs(),
        totals.commits,
        totals.server_kills,
        totals.attempt_kills,
        totals.approvals,
        totals.breaker_resets,
        totals.unlocks,
        totals.retries,
        found.plans,
        found.applies,
        found.interrupted_applies,
        rest.as_secs_f64()
    )
}

#[tokio::test]
async fn killed_servers_and_attempts_lose_no_commit_and_apply_none_twice() {
    println!("{}", soak(1, 8).await);
}

#[tokio::test]
async fn killed_servers_with_one_store_lose_no_commit_and_apply_none_twice() {
    println!("{}", soak(2, 6).await);
}
