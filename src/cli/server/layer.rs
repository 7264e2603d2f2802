//! `layer`: the layers of a server.

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::{Client, EXIT_CODES, Failure, part, with_client};
use super::follow::{Followed, Log, follow};
use super::show::{self, text};
use super::{ClientFlags, approve};
use crate::cli::flags::Flags;
use crate::cli::output::print;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment};

/// The time between two requests about a repository that is read.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct Layer {
    #[command(subcommand)]
    command: LayerCommand,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ClientFlags>,
}

#[derive(Subcommand)]
enum LayerCommand {
    /// List layers with their phases, and why nothing is started
    List {
        /// Only layers in this phase; can be repeated
        #[arg(long, value_name = "PHASE")]
        phase: Vec<String>,
        /// Only layers of this repository
        #[arg(long, value_name = "NAME")]
        repository: Option<String>,
        /// Only layers with this text in their name
        #[arg(long, value_name = "TEXT")]
        query: Option<String>,
        /// Only layers that are no longer in the configuration, which are left out otherwise
        #[arg(long)]
        removed: bool,
    },
    /// Show a layer
    Show {
        /// The layer
        name: String,
    },
    /// Plan a layer
    Plan {
        /// The layer
        name: String,
        /// Print the log until the run is over; exit code 1 if it failed
        #[arg(long)]
        wait: bool,
    },
    /// Read the layer's repository now, and plan what a commit changed
    Sync {
        /// The layer
        name: String,
        /// Wait for the plan that a commit causes, and print its log; exit code 1 if it failed
        #[arg(long)]
        wait: bool,
    },
    /// Apply the newest plan of a layer, which approves it
    Apply {
        /// The layer
        name: String,
        /// Print the log until the run is over; exit code 1 if it failed
        #[arg(long)]
        wait: bool,
    },
    /// Show the newest plans of layers, ask, and apply exactly these plans
    Approve {
        /// The layers
        #[arg(value_name = "NAME", required_unless_present = "all")]
        names: Vec<String>,
        /// All layers whose plan waits for an approval
        #[arg(long, requires = "from", conflicts_with = "names")]
        all: bool,
        /// With --all: only plans of this commit
        #[arg(long, value_name = "COMMIT", requires = "all")]
        from: Option<String>,
        /// Do not ask: approve the plan with this digest, as `run show` prints it; for several layers once for each plan
        #[arg(long, value_name = "SHA256")]
        plan_digest: Vec<String>,
        /// Print the log of the apply until it is over; exit code 1 if it failed
        #[arg(long)]
        wait: bool,
    },
    /// Never apply the newest plan of a layer
    Discard {
        /// The layer
        name: String,
    },
    /// Plan a layer again whose work has failed
    Retry {
        /// The layer
        name: String,
        /// Print the log until the run is over; exit code 1 if it failed
        #[arg(long)]
        wait: bool,
    },
    /// Make a plan that writes what was changed outside of Terraform into the state; it is applied as any plan
    Accept {
        /// The layer
        name: String,
        /// Print the log of the plan until it is over; exit code 1 if it failed
        #[arg(long)]
        wait: bool,
    },
    /// Make a plan that destroys everything of a layer; it needs an approval
    Destroy {
        /// The layer
        name: String,
        /// Do not ask: the name of the layer once more
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
        /// Print the log of the plan until it is over; exit code 1 if it failed
        #[arg(long)]
        wait: bool,
    },
    /// Free the state of a layer whose attempt has ended, or remove a lock that Terraform has left
    Unlock {
        /// The layer
        name: String,
        /// Also if the attempt may still run: it counts as lost. First make sure that its process has ended
        #[arg(long)]
        force: bool,
        /// Plan the layer, and first remove this lock of Terraform, which `layer show` prints, if it is still the
        /// one that is held. First make sure that its holder has ended
        #[arg(long, value_name = "ID", conflicts_with = "force")]
        state_lock: Option<String>,
    },
    /// Remove the runs of a layer that is no longer in the configuration, and what is known of it; its infrastructure
    /// and its state are left alone
    Forget {
        /// The layer
        name: String,
    },
    /// List the runs of a layer, the newest first
    History {
        /// The layer
        name: String,
    },
    /// Start nothing more for a layer
    Pause {
        /// The layer
        name: String,
    },
    /// End the pause of a layer
    Resume {
        /// The layer
        name: String,
    },
}

impl Layer {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let (command, json) = (self.command, self.json);
        let followed = if json { Log::Hidden } else { Log::Printed };
        with_client(self.flags, log, environment, async |client| {
            let Answer { value: answer, show, code } = command.ask(client, followed).await?;
            for problem in answer["problems"].as_array().into_iter().flatten() {
                warn(&text(problem));
            }
            let text = if json { format!("{answer:#}") } else { show(&answer) };
            let printed = print(format!("{text}\n").as_bytes());
            Ok(if code == Exit::Success.code() { printed } else { code })
        })
    }
}

/// An answer, and how it is shown to people.
struct Answer {
    value: Value,
    show: fn(&Value) -> String,
    code: u8,
}

impl Answer {
    fn new(value: Value, show: fn(&Value) -> String) -> Self {
        Self { value, show, code: Exit::Success.code() }
    }
}

impl LayerCommand {
    async fn ask(&self, client: &Client, log: Log) -> Result<Answer, Failure> {
        let path = |name: &str| format!("/layers/{}", part(name));
        let change =
            async |name: &str, what: &str| client.post(&format!("{}/{what}", path(name))).await;
        Ok(match self {
            Self::List { phase, repository, query, removed } => {
                let mut pairs: Vec<String> =
                    phase.iter().map(|phase| format!("phase={}", part(phase))).collect();
                pairs.extend(repository.iter().map(|it| format!("repository={}", part(it))));
                pairs.extend(query.iter().map(|it| format!("q={}", part(it))));
                pairs.extend(removed.then(|| "removed=true".to_owned()));
                let layers = client.list(&format!("/layers?{}", pairs.join("&"))).await?;
                Answer::new(layers, show::layers)
            }
            Self::Show { name } => Answer::new(client.get(&path(name)).await?, show::layer),
            Self::Plan { name, wait } => {
                created(client, change(name, "plan").await?, *wait, log).await?
            }
            Self::Apply { name, wait } => {
                created(client, change(name, "apply").await?, *wait, log).await?
            }
            Self::Accept { name, wait } => {
                created(client, change(name, "accept").await?, *wait, log).await?
            }
            Self::Retry { name, wait } => {
                created(client, change(name, "retry").await?, *wait, log).await?
            }
            Self::Approve { names, from, plan_digest, wait, .. } => {
                let names = match from {
                    Some(commit) => approve::waiting_since(client, commit).await?,
                    None => names.clone(),
                };
                match &names[..] {
                    [name] if plan_digest.len() < 2 => {
                        let given = plan_digest.first().map(String::as_str);
                        let run = approve::approve(client, name, given).await?;
                        created(client, run, *wait, log).await?
                    }
                    names => {
                        let runs = approve::approve_several(client, names, plan_digest).await?;
                        several(client, runs, *wait, log).await?
                    }
                }
            }
            Self::Destroy { name, confirm, wait } => {
                let run = approve::destroy(client, name, confirm.as_deref()).await?;
                created(client, run, *wait, log).await?
            }
            Self::Discard { name } => {
                Answer::new(approve::discard(client, name).await?, show::discarded)
            }
            Self::Sync { name, wait: false } => {
                Answer::new(change(name, "sync").await?, show::synced)
            }
            Self::Sync { name, wait: true } => sync(client, name, log).await?,
            Self::Unlock { name, force, state_lock } => {
                let what = match state_lock {
                    Some(id) => format!("unlock?stateLock={}", part(id)),
                    None if *force => "unlock?force=true".to_owned(),
                    None => "unlock".to_owned(),
                };
                Answer::new(change(name, &what).await?, show::unlocked)
            }
            Self::History { name } => {
                let runs = client.list(&format!("/runs?layer={}", part(name))).await?;
                Answer::new(runs, show::runs)
            }
            Self::Forget { name } => Answer::new(change(name, "forget").await?, show::forgotten),
            Self::Pause { name } => Answer::new(change(name, "pause").await?, show::paused),
            Self::Resume { name } => Answer::new(change(name, "resume").await?, show::paused),
        })
    }
}

/// The answer to a request that has created a run, which is followed with `wait`.
async fn created(client: &Client, run: Value, wait: bool, log: Log) -> Result<Answer, Failure> {
    if !wait {
        return Ok(Answer::new(run, show::created));
    }
    let Followed { run, code } = follow(client, &text(&run["id"]), None, log).await?;
    Ok(Answer { value: run, show: show::ended, code })
}

/// The answers to several approvals, whose runs are followed one after the other with `wait`.
async fn several(
    client: &Client,
    runs: Vec<Value>,
    wait: bool,
    log: Log,
) -> Result<Answer, Failure> {
    let (mut items, mut code) = (Vec::new(), Exit::Success.code());
    for run in runs {
        let answer = created(client, run, wait, log).await?;
        code = code.max(answer.code);
        items.push(answer.value);
    }
    let value = serde_json::json!({"items": items});
    Ok(Answer { value, show: show::approved, code })
}

/// Makes the server read the repository of a layer, and follows the plan that a commit causes.
async fn sync(client: &Client, name: &str, log: Log) -> Result<Answer, Failure> {
    let path = format!("/layers/{}", part(name));
    let before = client.get(&path).await?["lastRun"].take();
    let asked = client.post(&format!("{path}/sync")).await?;
    wait_for_poll(client, &asked).await?;
    // The server decides about the layer when it has read the repository.
    let mut layer = client.get(&path).await?;
    while layer["upToDate"] == false {
        tokio::time::sleep(LOOK).await;
        layer = client.get(&path).await?;
    }
    let last = &layer["lastRun"];
    let is_of_commit = last["digest"] == layer["revision"]["digest"] && last["action"] != "drift";
    let is_new = before["id"] != last["id"] || before["over"] == false;
    if last.is_null() || !is_of_commit || !is_new {
        return Ok(Answer::new(layer, show::nothing_to_plan));
    }
    let Followed { run, code } = follow(client, &text(&last["id"]), None, log).await?;
    Ok(Answer { value: run, show: show::ended, code })
}

/// Waits for the end of the poll that `asked` names.
async fn wait_for_poll(client: &Client, asked: &Value) -> Result<(), Failure> {
    let name = text(&asked["repository"]);
    loop {
        let repositories = client.get("/repositories").await?;
        let mut all = repositories["items"].as_array().into_iter().flatten();
        let Some(repository) = all.find(|repository| repository["name"] == *name) else {
            let message = format!("the repository {name} is no longer in the configuration");
            return Err(Failure::refused(message));
        };
        if repository["polls"].as_u64() >= asked["poll"].as_u64() {
            return match repository["error"].as_str() {
                Some(error) => Err(Failure::refused(format!(
                    "the server cannot read the repository {name}: {error}"
                ))),
                None => Ok(()),
            };
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Tells what is wrong with the configuration of the server.
fn warn(problem: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(std::io::stderr(), "warning: {problem}");
}
