//! What people decide about plans at the command line: apply, approve, discard, destroy.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use serde_json::{Value, json};

use super::client::{Client, Failure, part};
use super::show::{self, text};

/// The newest plan of a layer.
struct Planned {
    run: String,
    digest: String,
    /// What it would change, in short.
    changes: String,
}

impl Planned {
    async fn find(client: &Client, layer: &str) -> Result<Self, Failure> {
        let runs = client.get(&format!("/runs?layer={}", part(layer))).await?;
        let mut all = runs["items"].as_array().into_iter().flatten();
        let newest = all.find(|run| run["action"] == "plan" && run["planDigest"].is_string());
        let Some(run) = newest else {
            return Err(Failure::refused(format!(
                "the layer {layer} has no plan; `butler-runner layer plan {layer}` makes one"
            )));
        };
        let (run, digest, changes) =
            (text(&run["id"]), text(&run["planDigest"]), show::changes(run));
        Ok(Self { run, digest, changes })
    }

    fn path(&self, what: &str) -> String {
        format!("/runs/{}/{what}", part(&self.run))
    }
}

/// Approves the newest plan of a layer, or the one with the digest `given`. Returns the run that applies it.
pub(super) async fn approve(
    client: &Client,
    layer: &str,
    given: Option<&str>,
) -> Result<Value, Failure> {
    let planned = Planned::find(client, layer).await?;
    if given.is_none() {
        if !can_ask() {
            return Err(Failure::usage(
                "without a terminal, an approval needs --plan-digest",
                format!("the digest of the newest plan of {layer} is {}", planned.digest),
            ));
        }
        let plan = client.text(&planned.path("plan")).await?;
        tell(&format!("{}\n", plan.trim_end()));
        if ask(&format!("Apply this plan of {layer}? Only `yes` is accepted: ")) != "yes" {
            return Err(Failure::refused("the plan was not approved"));
        }
    }
    let digest = given.unwrap_or(&planned.digest);
    client.post_json(&planned.path("approve"), &json!({"planDigest": digest})).await
}

/// The layers whose plan of this commit waits for an approval.
pub(super) async fn waiting_since(client: &Client, commit: &str) -> Result<Vec<String>, Failure> {
    let layers = client.list("/layers?waiting=approval").await?;
    let mut names = Vec::new();
    for layer in layers["items"].as_array().into_iter().flatten() {
        let run = client.get(&format!("/runs/{}", part(&text(&layer["waitingRun"])))).await?;
        if text(&run["commit"]).starts_with(commit) {
            names.push(text(&layer["name"]));
        }
    }
    if names.is_empty() {
        return Err(Failure::refused(format!(
            "no plan of the commit {commit} waits for an approval"
        )));
    }
    Ok(names)
}

/// Approves the newest plans of several layers by one decision: those with the digests `given`, or those that a person
/// has seen. Returns the runs that apply them.
pub(super) async fn approve_several(
    client: &Client,
    layers: &[String],
    given: &[String],
) -> Result<Vec<Value>, Failure> {
    let mut plans = Vec::new();
    for layer in layers {
        plans.push((layer, Planned::find(client, layer).await?));
    }
    let listed: Vec<String> = plans
        .iter()
        .map(|(layer, plan)| format!("{layer}  {}  {}", plan.changes, plan.digest))
        .collect();
    let listed = listed.join("\n");
    if given.is_empty() && can_ask() {
        tell(&format!("{listed}\n"));
        let question = format!("Apply these {} plans? Only `yes` is accepted: ", plans.len());
        if ask(&question) != "yes" {
            return Err(Failure::refused("the plans were not approved"));
        }
    } else if plans.iter().any(|(_, plan)| !given.contains(&plan.digest)) {
        return Err(Failure::usage(
            "without a terminal, an approval needs --plan-digest for each plan",
            format!("the newest plans are:\n{listed}"),
        ));
    }
    let decision: serde_json::Map<String, Value> =
        plans.into_iter().map(|(_, plan)| (plan.run, Value::from(plan.digest))).collect();
    let answer = client.post_json("/approvals", &Value::Object(decision)).await?;
    let (mut runs, mut refused) = (Vec::new(), Vec::new());
    for item in answer["items"].as_array().into_iter().flatten() {
        match item["error"].as_str() {
            Some(why) => refused.push(why.to_owned()),
            None => runs.push(item["applyRun"].clone()),
        }
    }
    if refused.is_empty() { Ok(runs) } else { Err(Failure::refused(refused.join("; "))) }
}

/// Discards the newest plan of a layer. Returns its run.
pub(super) async fn discard(client: &Client, layer: &str) -> Result<Value, Failure> {
    let planned = Planned::find(client, layer).await?;
    client.post(&planned.path("discard")).await
}

/// Makes a plan that destroys everything of a layer. Returns its run.
pub(super) async fn destroy(
    client: &Client,
    layer: &str,
    given: Option<&str>,
) -> Result<Value, Failure> {
    let confirm = match given {
        Some(given) => given.to_owned(),
        None if can_ask() => {
            let question = format!("To plan the end of all resources of {layer}, enter its name: ");
            ask(&question)
        }
        None => {
            return Err(Failure::usage(
                "without a terminal, `layer destroy` needs --confirm",
                format!("--confirm {layer}"),
            ));
        }
    };
    if confirm != layer {
        return Err(Failure::refused(format!(
            "`{confirm}` is not the layer {layer}; nothing was done"
        )));
    }
    let path = format!("/layers/{}/destroy", part(layer));
    client.post_json(&path, &json!({"confirm": confirm})).await
}

/// Whether a person can answer.
fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a person. Returns the answer without spaces around it.
fn ask(question: &str) -> String {
    tell(question);
    let mut answer = String::new();
    // If it cannot be read, nothing is approved.
    let _ = std::io::stdin().lock().read_line(&mut answer);
    answer.trim().to_owned()
}

/// Standard output is for the answer of the server.
fn tell(text: &str) {
    let mut stderr = std::io::stderr();
    // If it is closed, there is nobody to read it.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
