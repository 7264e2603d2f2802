//! The server, attempts, or both are killed again and again, at moments that a seed chooses.
//!
//! `make test` kills ten times from a fixed seed. `make soak` sets `SOAK_KILLS`, `SOAK_SECONDS` and
//! `SOAK_SEED`: it goes on until both are reached.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::*;

const LAYERS: [&str; 4] = ["all.envs.a", "all.envs.b", "all.envs.c", "all.envs.d"];

/// The longest time between a commit and the kill that follows.
const LONGEST: Duration = Duration::from_millis(1_500);

/// The longest time until everything is at rest. A plan whose process was killed is retried after 15
/// seconds, and after longer waits if that happens again.
const REST: Duration = Duration::from_mins(6);

#[derive(Debug, Default)]
struct Totals {
    commits: u32,
    server_kills: u32,
    attempt_kills: u32,
    changes: BTreeMap<&'static str, usize>,
}

fn given<T: FromStr>(variable: &str, default: T) -> T {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A module whose plan has as many resources as its version says.
fn module(version: u32) -> String {
    format!("resource \"terraform_data\" \"one\" {{\n  count = {version}\n}}\n")
}

fn file(layer: &str) -> String {
    format!("{}/main.tf", layer.replace("all.", "").replace('.', "/"))
}

/// Kills the runner of an attempt that runs, if there is one.
fn kill_an_attempt(installation: &Installation, random: &mut Rng) -> bool {
    let mut running = running(&installation.data());
    random.shuffle(&mut running);
    running.into_iter().any(|pid| {
        let pid = butler_base::platform::Pid::from_raw(pid);
        butler_base::platform::kill_child(pid).is_ok()
    })
}

/// Waits until every layer has planned what it contains. Returns how long that took.
async fn come_to_rest(installation: &Installation, totals: &Totals) -> Duration {
    let begun = Instant::now();
    loop {
        let layers = installation.json(&["layer", "list"]);
        let layers = layers["items"].as_array().unwrap();
        let is_at_rest = layers.len() == LAYERS.len()
            && layers.iter().all(|layer| {
                let (name, planned) = (&layer["name"], &layer["plannedRevision"]["digest"]);
                layer["phase"] == "Succeeded"
                    && layer["revision"]["digest"] == *planned
                    && layer["lastRun"]["counts"]["add"] == totals.changes[name.as_str().unwrap()]
            });
        if is_at_rest {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < REST, "not at rest: {layers:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Checks what is left. Returns the number of runs.
fn check(installation: &Installation, totals: &Totals) -> usize {
    let mut all = 0;
    for layer in LAYERS {
        assert_eq!(installation.layer(layer)["lease"], Value::Null, "{layer}");
        let runs = installation.runs(layer);
        all += runs.len();
        let mut digests: Vec<_> = runs.iter().map(|run| run["digest"].as_str().unwrap()).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), runs.len(), "a commit made two runs: {runs:#?}");
        for run in &runs {
            let phase = run["phase"].as_str().unwrap();
            // A newer commit took over before a killed attempt was repeated.
            let killed = ["its process ended without a report", "its process was never started"];
            let was_killed = run["ended"].as_str().is_some_and(|why| killed.contains(&why));
            assert!(["Succeeded", "Superseded"].contains(&phase) || was_killed, "{run:#?}");
            let ended = run["attempts"].as_array().unwrap();
            let succeeded = ended.iter().filter(|attempt| attempt["outcome"] == "succeeded");
            assert_eq!(succeeded.count(), usize::from(phase == "Succeeded"), "{run:#?}");
            assert!(ended.iter().all(|attempt| attempt["ended"].is_string()), "{run:#?}");
        }
        // The log of the newest plan is complete.
        let (id, number) =
            (runs[0]["id"].as_str().unwrap(), runs[0]["attempts"].as_array().unwrap().len());
        let log = installation.data().join(format!("attempts/{id}-{number}/log.jsonl"));
        let log = std::fs::read_to_string(log).unwrap();
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers = lines.iter().map(|line| line["sequence"].as_u64().unwrap());
        assert!(numbers.eq(1..=lines.len() as u64), "{lines:#?}");
        let summary = format!("Plan: {} to add, 0 to change, 0 to destroy.", totals.changes[layer]);
        assert!(lines.iter().any(|line| line["content"] == *summary), "{lines:#?}");
    }
    all
}

#[tokio::test]
async fn killed_servers_and_attempts_lose_no_commit_and_plan_none_twice() {
    let kills: u32 = given("SOAK_KILLS", 10);
    let seconds = Duration::from_secs(given("SOAK_SECONDS", 0));
    let seed: u64 = given("SOAK_SEED", 17);
    let (mut random, mut totals) = (Rng::with_seed(seed), Totals::default());
    totals.changes = LAYERS.iter().map(|layer| (*layer, 1)).collect();
    let files: Vec<_> = LAYERS.iter().map(|layer| (file(layer), module(1))).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let repository = Repository::create(&files);
    let mut installation = Installation::new();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}', poll: 1s}}}}
defaults: {{strategy: plan-only}}
layers: {{all: {{repository: infra, ref: main, paths: ['envs/*']}}}}
",
        repository.url()
    ));
    let arguments = ["--concurrency", "3"].map(str::to_owned);
    installation.serve(&arguments).await;
    let begun = Instant::now();
    while totals.server_kills + totals.attempt_kills < kills || begun.elapsed() < seconds {
        for layer in LAYERS {
            if random.bool() {
                let version = totals.changes[layer] + 1;
                totals.changes.insert(layer, version);
                let text = module(u32::try_from(version).unwrap());
                repository.commit("Change", &[(file(layer).as_str(), text.as_str())]);
                totals.commits += 1;
            }
        }
        // Waits for nothing: it is the random moment of the kill.
        tokio::time::sleep(LONGEST.mul_f64(random.f64())).await;
        let what = random.u8(0..4);
        if what < 2 && kill_an_attempt(&installation, &mut random) {
            totals.attempt_kills += 1;
        }
        if what > 0 {
            installation.kill().await;
            totals.server_kills += 1;
            installation.serve(&arguments).await;
        }
    }
    let rest = come_to_rest(&installation, &totals).await;
    let runs = check(&installation, &totals);
    installation.until_tidy().await;
    assert_eq!(installation.terminate().await, Some(0));
    let Totals { commits, server_kills, attempt_kills, .. } = totals;
    println!(
        "seed {seed}: {commits} commits, {server_kills} kills of the server and {attempt_kills} of \
         attempts in {} s; {runs} runs, 0 lost, 0 planned twice, 0 leases left; at rest after {:.1} s",
        begun.elapsed().as_secs(),
        rest.as_secs_f64()
    );
}
