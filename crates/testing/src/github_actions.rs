//! Executes steps of GitHub Actions on this machine: expressions, conditions, outputs and
//! environment as GitHub documents them. Scripts are executed; third-party actions are only
//! recorded with their inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Map, Value, json};

use super::environment::search_path;
use super::world::{World, wrapped};

/// A job: the contexts of its expressions, and its results.
pub struct Job<'world> {
    world: &'world World,
    context: Value,
    variables: BTreeMap<String, String>,
    has_failed: bool,
    /// Third-party actions that fail, by the names of their steps.
    pub failing: Vec<&'static str>,
    /// The action of others during which the job is cancelled, by the name of its step.
    pub cancelled_in: Option<&'static str>,
    is_cancelled: bool,
}

/// A step that was executed or skipped.
#[derive(Debug)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// `success`, `failure`, `cancelled` or `skipped`.
    pub outcome: &'static str,
    /// Its inputs: `env` of a script, `with` of an action.
    pub given: BTreeMap<String, String>,
    /// The output of its script.
    pub output: Option<Output>,
}

impl<'world> Job<'world> {
    /// A job for `event`, the document that GitHub sends.
    pub fn new(world: &'world World, event: &Value) -> Self {
        let temporary = world.path("runner-temp");
        std::fs::create_dir_all(&temporary).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        std::fs::write(world.path("event.json"), format!("{event:#}")).unwrap();
        let is_by_hand = event["inputs"].is_object();
        let name = if is_by_hand { "workflow_dispatch" } else { "repository_dispatch" };
        let context = json!({
            "github": {
                "event": event,
                "event_name": name,
                "server_url": "https://github.com",
                "token": "ghs_x",
                "workspace": text(world.path("tmp")),
            },
            "inputs": event["inputs"],
            "runner": {"temp": text(temporary.clone()), "os": "Linux", "arch": "X64"},
            "secrets": {},
            "vars": {},
            "steps": {},
        });
        let mut variables = BTreeMap::new();
        let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
        set("GITHUB_ACTIONS", "true".to_owned());
        set("GITHUB_EVENT_PATH", text(world.path("event.json")));
        set("GITHUB_REPOSITORY", "acme/infra".to_owned());
        set("GITHUB_RUN_ID", "42".to_owned());
        set("GITHUB_SERVER_URL", "https://github.com".to_owned());
        set("RUNNER_TEMP", text(temporary));
        for name in ["GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"] {
            std::fs::write(world.path(name), "").unwrap();
            set(name, text(world.path(name)));
        }
        Self {
            world,
            context,
            variables,
            has_failed: false,
            failing: Vec::new(),
            cancelled_in: None,
            is_cancelled: false,
        }
    }

    /// Sets a value of a context: `secrets`, `vars`, `inputs`.
    pub fn set(&mut self, context: &str, name: &str, value: &str) {
        self.context[context][name] = json!(value);
    }

    /// Uses the declared inputs of an action instead of those of the event.
    pub fn declare(&mut self, inputs: &Value) {
        let inputs = inputs.as_object().unwrap().iter();
        let inputs = inputs.map(|(name, input)| (name.clone(), input["default"].clone()));
        self.context["inputs"] = Value::Object(inputs.collect());
    }

    /// Executes the `steps` whose condition holds.
    pub async fn execute(&mut self, steps: &Value) -> Vec<Step> {
        let mut done = Vec::new();
        for step in steps.as_array().unwrap() {
            done.push(self.step(step).await);
        }
        done
    }

    async fn step(&mut self, step: &Value) -> Step {
        let name = step["name"].as_str().unwrap().to_owned();
        let condition = step["if"].as_str().unwrap_or("success()");
        let is_about_status =
            ["always()", "failure()", "cancelled()"].iter().any(|it| condition.contains(it));
        let goes_on = !self.has_failed && !self.is_cancelled;
        let lets = is_truthy(&self.evaluate(condition)) && (is_about_status || goes_on);
        if !lets {
            self.note(step, "skipped", &Map::new());
            return Step { name, outcome: "skipped", given: BTreeMap::new(), output: None };
        }
        let Some(script) = step["run"].as_str() else {
            self.is_cancelled |= self.cancelled_in == Some(&*name);
            let outcome = match () {
                () if self.cancelled_in == Some(&*name) => "cancelled",
                () if self.failing.contains(&name.as_str()) => "failure",
                () => "success",
            };
            self.note(step, outcome, &Map::new());
            return Step { name, outcome, given: self.interpolated(&step["with"]), output: None };
        };
        assert_eq!(step["shell"], "bash", "{name}");
        let given = self.interpolated(&step["env"]);
        let output = self.run(script, &given).await;
        let outputs = read_outputs(&self.world.path("GITHUB_OUTPUT"));
        std::fs::write(self.world.path("GITHUB_OUTPUT"), "").unwrap();
        let outcome = if output.status.success() { "success" } else { "failure" };
        self.note(step, outcome, &outputs);
        Step { name, outcome, given, output: Some(output) }
    }

    fn note(&mut self, step: &Value, outcome: &str, outputs: &Map<String, Value>) {
        self.has_failed |= outcome == "failure" && step["continue-on-error"] != true;
        if let Some(id) = step["id"].as_str() {
            self.context["steps"][id] = json!({"outcome": outcome, "outputs": outputs});
        }
    }

    fn interpolated(&self, values: &Value) -> BTreeMap<String, String> {
        let values = values.as_object().into_iter().flatten();
        values.map(|(name, value)| (name.clone(), self.interpolate(&as_text(value)))).collect()
    }

    async fn run(&self, script: &str, given: &BTreeMap<String, String>) -> Output {
        let words = ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script];
        let mut command = wrapped(&self.world.command(&[]), &words);
        let added = std::fs::read_to_string(self.world.path("GITHUB_PATH")).unwrap();
        let mut path: Vec<PathBuf> = added.lines().map(PathBuf::from).collect();
        path.extend(std::env::split_paths(&search_path()));
        command
            .current_dir(self.world.path("tmp"))
            .env("PATH", std::env::join_paths(path).unwrap())
            .envs(&self.variables)
            .envs(given);
        command.output().await.unwrap()
    }

    /// `text` with its expressions evaluated.
    fn interpolate(&self, text: &str) -> String {
        let mut parts = text.split("${{");
        let mut filled = parts.next().unwrap().to_owned();
        for part in parts {
            let (expression, rest) = part.split_once("}}").unwrap();
            filled.push_str(&as_text(&self.evaluate(expression)));
            filled.push_str(rest);
        }
        filled
    }

    fn evaluate(&self, expression: &str) -> Value {
        let expression = expression.trim();
        let whole = expression.strip_prefix("${{").and_then(|it| it.strip_suffix("}}"));
        let mut reader = Reader { rest: whole.unwrap_or(expression), job: self };
        let value = reader.either();
        assert_eq!(reader.rest.trim(), "", "{expression}");
        value
    }
}

/// Parses and evaluates an expression.
struct Reader<'text, 'job, 'world> {
    rest: &'text str,
    job: &'job Job<'world>,
}

impl Reader<'_, '_, '_> {
    fn skip_token(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(rest) = rest.strip_prefix(token) else { return false };
        self.rest = rest;
        true
    }

    fn either(&mut self) -> Value {
        let mut value = self.both();
        while self.skip_token("||") {
            let other = self.both();
            value = if is_truthy(&value) { value } else { other };
        }
        value
    }

    fn both(&mut self) -> Value {
        let mut value = self.compared();
        while self.skip_token("&&") {
            let other = self.compared();
            value = if is_truthy(&value) { other } else { value };
        }
        value
    }

    fn compared(&mut self) -> Value {
        let value = self.single();
        if self.skip_token("==") {
            json!(as_text(&value) == as_text(&self.single()))
        } else if self.skip_token("!=") {
            json!(as_text(&value) != as_text(&self.single()))
        } else {
            value
        }
    }

    fn single(&mut self) -> Value {
        if self.skip_token("!") {
            return json!(!is_truthy(&self.single()));
        }
        if self.skip_token("(") {
            let value = self.either();
            assert!(self.skip_token(")"), "{}", self.rest);
            return value;
        }
        if self.skip_token("'") {
            let (text, rest) = self.rest.split_once('\'').unwrap();
            self.rest = rest;
            return json!(text);
        }
        self.named()
    }

    fn named(&mut self) -> Value {
        let rest = self.rest.trim_start();
        let is_name = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
        let end = rest.find(|it| !is_name(it)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        self.rest = rest;
        if self.skip_token("()") {
            return json!(match name {
                "always" => true,
                "success" => !self.job.has_failed && !self.job.is_cancelled,
                "failure" => self.job.has_failed,
                "cancelled" => self.job.is_cancelled,
                _ => panic!("`{name}()` is not known here"),
            });
        }
        assert!(self.job.context.get(name.split('.').next().unwrap()).is_some(), "{name}");
        name.split('.').fold(self.job.context.clone(), |value, part| value[part].clone())
    }
}

fn is_truthy(value: &Value) -> bool {
    !matches!(as_text(value).as_str(), "" | "false" | "0")
}

fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The values that a step has set for later steps.
fn read_outputs(path: &Path) -> Map<String, Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let mut outputs = Map::new();
    while let Some(line) = lines.next() {
        let (name, value) = if let Some((name, end)) = line.split_once("<<") {
            let value: Vec<_> = lines.by_ref().take_while(|line| *line != end).collect();
            (name, value.join("\n"))
        } else {
            let (name, value) = line.split_once('=').unwrap();
            (name, value.to_owned())
        };
        outputs.insert(name.to_owned(), json!(value));
    }
    outputs
}
