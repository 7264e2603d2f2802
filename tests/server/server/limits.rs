//! What a layer says about its attempts.

use super::*;

#[tokio::test]
async fn log_ends_at_its_limit_and_counts_the_rest() {
    let mut installation = Installation::new();
    let module = "resource \"terraform_data\" \"one\" {\n  count = 500\n}\n";
    let repository = Repository::create(&[("a/main.tf", module)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers: {{a: {{repository: infra, ref: main, strategy: plan-only, path: a, max-log: 64KiB}}}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;
    let run = &installation.runs("a")[0];
    assert_eq!(run["counts"]["add"], 500);
    let id = run["id"].as_str().unwrap();
    let file = installation.data().join(format!("attempts/{id}-1/log.jsonl"));
    let size = std::fs::metadata(file).unwrap().len();
    assert!((60_000..=64 * 1024).contains(&size), "{size}");
    let output = installation.ask(&["run", "logs", id]);
    let (log, note) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!log.contains("Plan: 500 to add"), "{log}");
    let count = note.split(' ').next().unwrap().parse::<u32>().unwrap();
    assert!(count > 100, "{note}");
    assert!(note.contains("further lines were not kept: the log has reached `max-log`"), "{note}");
}

#[tokio::test]
async fn module_reads_only_the_paths_that_its_layer_adds() {
    let mut installation = Installation::new();
    let shared = installation.path("shared");
    std::fs::write(&shared, "four").unwrap();
    let module = format!(
        "resource \"terraform_data\" \"one\" {{\n  input = file(\"{}\")\n}}\n",
        shared.display()
    );
    let repository = Repository::create(&[("a/main.tf", &module), ("b/main.tf", &module)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers:
  a: {{path: a, isolation: {{read: ['{}']}}}}
  b: {{path: b}}
",
        repository.url(),
        shared.display()
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;
    installation.until("b", "Failed", 1).await;
    let id = installation.runs("b")[0]["id"].as_str().unwrap().to_owned();
    let log = text(&installation.ask(&["run", "logs", &id]));
    assert!(log.contains("shared"), "{log}");
}

#[tokio::test]
async fn starts_after_a_start_of_the_server_are_limited_and_later_commits_are_not() {
    let mut installation = Installation::new();
    let files = [("a/main.tf", LAYER), ("b/main.tf", LAYER), ("c/main.tf", LAYER)];
    let repository = Repository::create(&files);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}', poll: 1s}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers: {{a: {{path: a}}, b: {{path: b}}, c: {{path: c}}}}
",
        repository.url()
    ));
    // What was never planned is not limited.
    let arguments = ["--starts-per-minute", "2"].map(str::to_owned);
    installation.serve(&arguments).await;
    for layer in ["a", "b", "c"] {
        installation.until(layer, "Succeeded", 1).await;
    }
    assert_eq!(installation.terminate().await, Some(0));
    let changed = LAYER.replace("\"a\"", "\"b\"");
    repository.commit("all", &["a/main.tf", "b/main.tf", "c/main.tf"].map(|it| (it, &*changed)));
    installation.serve(&arguments).await;
    let planned = || {
        let layers = ["a", "b", "c"].into_iter();
        let is_planned = |runs: &[Value]| runs.len() == 2 && runs[0]["phase"] == "Succeeded";
        layers.filter(|name| is_planned(&installation.runs(name))).collect::<Vec<_>>()
    };
    let is_limited = |name| {
        let layer = installation.layer(name);
        layer["reasons"][0]["text"].as_str().is_some_and(|it| it.contains("starts-per-minute"))
    };
    eventually("two planned layers, and one that waits", || {
        planned().len() == 2
            && ["a", "b", "c"].into_iter().filter(|name| is_limited(name)).count() == 1
    })
    .await;

    // The limit is used up, but this is not the first pass any more.
    let first = planned()[0];
    let file = format!("{first}/main.tf");
    repository.commit("change", &[(file.as_str(), LAYER.replace("\"a\"", "\"c\"").as_str())]);
    installation.until(first, "Succeeded", 3).await;
}

#[tokio::test]
async fn runs_that_wait_are_limited_after_a_kill_too() {
    let mut installation = Installation::new();
    let layers = ["a", "b", "c", "d"];
    let files = layers.map(|layer| (format!("{layer}/main.tf"), LAYER));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let repository = Repository::create(&files);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers: {{a: {{path: a}}, b: {{path: b}}, c: {{path: c}}, d: {{path: d}}}}
",
        repository.url()
    ));
    let arguments = ["--starts-per-minute", "1"].map(str::to_owned);
    let until = async |installation: &Installation, planned: usize| {
        eventually(&format!("{planned} planned layers, and others that wait"), || {
            let shown = layers.map(|name| installation.layer(name));
            let is_limited = |layer: &&Value| {
                let reason = layer["reasons"][0]["text"].as_str();
                reason.is_some_and(|text| text.contains("starts-per-minute"))
            };
            let succeeded = shown.iter().filter(|layer| layer["phase"] == "Succeeded");
            succeeded.count() == planned
                && shown.iter().filter(is_limited).count() == layers.len() - planned
        })
        .await;
        assert_eq!(attempts(&installation.data()).len(), layers.len() + planned);
    };
    installation.serve(&arguments).await;
    for layer in layers {
        installation.until(layer, "Succeeded", 1).await;
    }
    installation.kill().await;
    let changed = LAYER.replace("\"a\"", "\"b\"");
    let all: Vec<_> = files.iter().map(|(name, _)| (*name, &*changed)).collect();
    repository.commit("all", &all);
    installation.serve(&arguments).await;
    until(&installation, 1).await;
    installation.kill().await;
    // So that no reading tells the server which layers are due.
    let moved = installation.path("moved");
    std::fs::rename(repository.path(), &moved).unwrap();
    installation.serve(&arguments).await;
    until(&installation, 2).await;
    std::fs::rename(&moved, repository.path()).unwrap();
}

#[tokio::test]
async fn plan_that_hangs_is_stopped_when_its_time_is_up() {
    let mut installation = Installation::new();
    let backend = super::faults::HeldBackend::start().await;
    let repository = Repository::create(&[("a/main.tf", &backend.reading_module())]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers: {{a: {{repository: infra, ref: main, strategy: plan-only, path: a, timeout: {{plan: 10s}}}}}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    backend.wait_for_request().await;
    let id = installation.runs("a")[0]["id"].as_str().unwrap().to_owned();
    let log = || text(&installation.ask(&["run", "logs", &id]));
    eventually("Terraform's interruption", || log().contains("Interrupt received")).await;
    // Terraform ends its request before it stops.
    backend.release();
    installation.until("a", "Failed", 1).await;
    let run = installation.runs("a").remove(0);
    assert_eq!(run["ended"], "stopped, because its time was up", "{run:#}");
    installation.until_free("a").await;
}

#[tokio::test]
async fn attempt_that_cannot_be_started_ends_at_once_and_says_why() {
    let mut installation = Installation::new();
    let (shared, link) = (installation.path("shared"), installation.path("link"));
    std::fs::create_dir(&shared).unwrap();
    std::os::unix::fs::symlink(&shared, &link).unwrap();
    let repository = Repository::create(&[("a/main.tf", LAYER)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers: {{a: {{repository: infra, ref: main, strategy: plan-only, path: a, isolation: {{read: ['{}']}}}}}}
",
        repository.url(),
        link.display()
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;
    // The configuration was checked before this.
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(installation.data().join("mirrors"), &link).unwrap();
    assert!(installation.ask(&["layer", "plan", "a"]).status.success());
    installation.until("a", "Failed", 2).await;
    let run = installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run:#}");
    assert_eq!(run["ended"], "the configuration is not valid", "{run:#}");
    let log = text(&installation.ask(&["run", "logs", run["id"].as_str().unwrap()]));
    assert!(log.contains("Error: cannot start the attempt: "), "{log}");
    assert!(log.contains("is in the data directory"), "{log}");
    installation.until_tidy().await;
}

#[tokio::test]
async fn layer_list_names_a_set_with_too_many_layers() {
    let mut installation = Installation::new();
    let files = [("envs/a/main.tf", LAYER), ("envs/b/main.tf", LAYER)];
    let repository = Repository::create(&files);
    let url = repository.url();
    let with_limit = |most: u32| {
        format!(
            "repositories: {{infra: {{url: '{url}'}}}}
layers: {{all: {{repository: infra, ref: main, strategy: plan-only, paths: ['envs/*'], max-layers: {most}}}}}
"
        )
    };
    installation.configure(&with_limit(1));
    installation.serve(&[]).await;
    eventually("the problem", || {
        let list = installation.json(&["layer", "list"]);
        let problem = "the layer set `all` matches 2 directories, and at most 1 are allowed";
        list["problems"][0].as_str().is_some_and(|it| it.starts_with(problem))
    })
    .await;
    assert!(installation.json(&["layer", "list"])["items"].as_array().unwrap().is_empty());
    installation.configure(&with_limit(2));
    installation.until("all.envs.b", "Succeeded", 1).await;
    assert_eq!(installation.json(&["layer", "list"])["problems"], serde_json::json!([]));
}
