//! Jenkins: a parametrized job, the place in the queue that it gets, and the build that comes of it.
//!
//! The server gives its own address in what it answers, which behind a proxy is often another one:
//! from those answers only numbers are taken, and every request goes to the address that was given.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderValue, SET_COOKIE};
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;
use zeroize::Zeroizing;

use super::credentials::word;
use super::server::{Answer, Limits, Sent, Server};
use super::state::meaning;
use super::{CiConfig, ConfigError, Order, RunState, Started, State, TriggerError};

/// The parameter that says which run it is.
const RUN_ID: &str = "RUN_ID";

/// The one with its token.
const CALLBACK_TOKEN: &str = "CALLBACK_TOKEN";

/// What stands before the number of a place in the queue, where a build's number would stand.
const QUEUE: &str = "queue/";

/// How long is waited between two looks at the queue.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a build whose answer was lost is looked for: it is in the queue at once.
const LOOK: Duration = Duration::from_secs(20);

/// The results of builds, and what stands for one without a result.
pub(super) const STATES: &[(&str, State)] = &[
    ("waiting in the queue", State::Queued),
    ("building", State::Running),
    ("SUCCESS", State::Succeeded),
    ("UNSTABLE", State::Failed),
    ("FAILURE", State::Failed),
    ("ABORTED", State::Cancelled),
    ("cancelled in the queue", State::Cancelled),
    ("NOT_BUILT", State::Skipped),
];

/// A job.
#[derive(Debug)]
pub struct Jenkins {
    server: Server,
    /// Folders and name.
    job: Vec<String>,
    user: Option<String>,
    token: Option<SecretString>,
}

/// What a POST needs where the server guards against forged requests.
struct Crumb {
    field: String,
    value: SecretString,
    cookies: SecretString,
}

/// A place in the queue.
#[derive(Deserialize)]
struct Item {
    id: Option<u64>,
    why: Option<String>,
    #[serde(default)]
    cancelled: bool,
    executable: Option<Build>,
    #[serde(default)]
    actions: Vec<Value>,
    task: Option<Task>,
}

#[derive(Deserialize)]
struct Task {
    url: Option<String>,
}

/// As much of a build as is needed.
#[derive(Deserialize)]
struct Build {
    number: u64,
    #[serde(default)]
    building: bool,
    result: Option<String>,
    #[serde(default)]
    actions: Vec<Value>,
}

impl Jenkins {
    /// The job that `config` describes, with the API token of its user.
    ///
    /// # Errors
    /// When something is missing or cannot be.
    pub fn new(
        config: &CiConfig,
        token: Option<SecretString>,
        ca_bundle: Option<&Path>,
        limits: Limits,
    ) -> Result<Self, TriggerError> {
        let missing = |what, how| ConfigError::Missing { server: "Jenkins", what, how };
        let base = config
            .url
            .clone()
            .ok_or_else(|| missing("its address", "add --url https://jenkins.example.com"))?;
        let job = config.job.as_deref().ok_or_else(|| missing("a job", "add --job FOLDER/NAME"))?;
        let job = segments(job).ok_or_else(|| ConfigError::Value {
            key: "job",
            problem: "is no path of a job".to_owned(),
        })?;
        let token = token.map(|it| word("Jenkins", &it)).transpose()?;
        if token.is_some() && config.user.is_none() {
            return Err(missing("the user whose API token this is", "add --user NAME").into());
        }
        let user = config.user.clone().filter(|user| !user.contains(':'));
        if user.is_none() && config.user.is_some() {
            let problem = "holds a colon".to_owned();
            return Err(ConfigError::Value { key: "user", problem }.into());
        }
        let server = Server::new("Jenkins", base, ca_bundle, limits)?;
        Ok(Self { server, job, user, token })
    }

    pub(super) async fn start(&self, order: &Order) -> Result<Started, TriggerError> {
        let what = "start the job";
        self.check(order).await?;
        let crumb = self.crumb().await?;
        let url = self.job_url(&["buildWithParameters"]);
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in &order.inputs {
            form.append_pair(name, value);
        }
        form.append_pair(RUN_ID, order.run_id.as_str());
        form.append_pair(CALLBACK_TOKEN, order.token.expose_secret());
        form.append_pair("BUTLER_ENDPOINT", order.endpoint.as_str());
        let form = Zeroizing::new(form.finish());
        let request = || {
            let request = self.with_login(self.server.http().post(url.clone()));
            let request = request
                .header(reqwest::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.to_string());
            match &crumb {
                None => request,
                Some(crumb) => request
                    .header(crumb.field.as_str(), sensitive(crumb.value.expose_secret()))
                    .header(COOKIE, sensitive(crumb.cookies.expose_secret())),
            }
        };
        let item = match self.server.order(what, request).await? {
            Sent::Answered(answer) if answer.status.is_success() => {
                let number = answer.header("location").and_then(item_number);
                number.ok_or_else(|| TriggerError::NotTheApi {
                    server: "Jenkins",
                    what: what.to_owned(),
                    seen: "an answer without the place in the queue",
                })?
            }
            Sent::Answered(answer) => return Err(self.explained(what, &answer)),
            Sent::Lost(why) => {
                tracing::warn!("the answer to the order was lost ({why}); looking for the build");
                match self.find(order, why).await? {
                    Found::Build(number) => return Ok(self.build_started(number)),
                    Found::Item(item) => item,
                }
            }
        };
        self.wait(item).await
    }

    pub(super) async fn state(&self, external_run_id: &str) -> Result<RunState, TriggerError> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if let Some(item) = external_run_id.strip_prefix(QUEUE).filter(|it| is_number(it)) {
            return self.state_in_queue(item).await;
        }
        if !is_number(external_run_id) {
            let problem =
                "is neither a build's number nor `queue/` with the number of an item".to_owned();
            return Err(ConfigError::Value { key: "externalRunId", problem }.into());
        }
        let what = "read the build's state";
        let mut url = self.job_url(&[external_run_id, "api", "json"]);
        url.set_query(Some("tree=number,building,result"));
        let answer = self.get(what, &url).await?;
        let build: Build = self.server.understand(what, &answer)?;
        let (status, reported) = match build.result {
            Some(result) if !build.building => (meaning(STATES, &result, State::Failed), result),
            _ => (State::Running, "building".to_owned()),
        };
        let Started { external_run_id, external_url } = self.build_started(build.number);
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    async fn state_in_queue(&self, item: &str) -> Result<RunState, TriggerError> {
        let found = self.item(item).await?;
        if let Some(build) = found.executable {
            return Box::pin(self.state(&build.number.to_string())).await;
        }
        let (status, reported) = if found.cancelled {
            (State::Cancelled, "cancelled in the queue".to_owned())
        } else {
            (State::Queued, found.why.unwrap_or_else(|| "waiting in the queue".to_owned()))
        };
        let Started { external_run_id, external_url } = self.queued(item);
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    /// Waits until the item in the queue has become a build. What is still in the queue when the
    /// time is over was started all the same.
    async fn wait(&self, item: u64) -> Result<Started, TriggerError> {
        let item = item.to_string();
        let mut said = None;
        loop {
            let found = match self.item(&item).await {
                Ok(found) => found,
                Err(error) => {
                    let error = crate::error::chain(&error);
                    tracing::warn!(
                        "the job is in the queue, but its build's number is not known: {error}"
                    );
                    return Ok(self.queued(&item));
                }
            };
            if let Some(build) = found.executable {
                return Ok(self.build_started(build.number));
            }
            if found.cancelled {
                return Err(TriggerError::Withdrawn { server: "Jenkins" });
            }
            if found.why != said {
                said = found.why;
                tracing::info!("in the queue: {}", said.as_deref().unwrap_or("no reason is given"));
            }
            if self.server.left() < PAUSE * 2 {
                tracing::warn!("the job is still in the queue; ask for it with `ci-status`");
                return Ok(self.queued(&item));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn item(&self, number: &str) -> Result<Item, TriggerError> {
        let what = "read the place in the queue";
        let url = self.server.url(["queue", "item", number, "api", "json"]);
        let answer = self.get(what, &url).await?;
        self.server.understand(what, &answer)
    }

    /// Makes sure that the job hands on what it is told: Jenkins drops what a job does not declare
    /// without a word, and older ones fail on a job that declares nothing as they fail on their own
    /// troubles.
    async fn check(&self, order: &Order) -> Result<(), TriggerError> {
        #[derive(Deserialize)]
        struct Job {
            property: Vec<Property>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Property {
            #[serde(default)]
            parameter_definitions: Vec<Parameter>,
        }
        #[derive(Deserialize)]
        struct Parameter {
            name: String,
            r#type: Option<String>,
        }
        let what = "read the job's parameters";
        let mut url = self.job_url(&["api", "json"]);
        url.set_query(Some("tree=property[parameterDefinitions[name,type]]"));
        let answer = self.get(what, &url).await?;
        let job: Job = self.server.understand(what, &answer)?;
        let declared: Vec<_> =
            job.property.into_iter().flat_map(|it| it.parameter_definitions).collect();
        let named = |name: &str| declared.iter().find(|it| it.name == name);
        let wanted = [RUN_ID, CALLBACK_TOKEN].into_iter();
        let wanted = wanted.chain(order.inputs.keys().map(String::as_str));
        let missing: Vec<_> = wanted.filter(|name| named(name).is_none()).collect();
        if !missing.is_empty() {
            let (path, wanted) = (self.job.join("/"), missing.join("`, `"));
            return Err(TriggerError::Unfit {
                server: "Jenkins",
                problem: format!("the job `{path}` has no parameter `{wanted}`"),
                advice: "`butler-runner generate jenkins` writes a pipeline with RUN_ID and CALLBACK_TOKEN; Jenkins learns the parameters of a pipeline when it is built for the first time: build it once by hand".to_owned(),
            });
        }
        let kind = named(CALLBACK_TOKEN).and_then(|it| it.r#type.as_deref());
        if kind.is_some_and(|kind| kind != "PasswordParameterDefinition") {
            tracing::warn!(
                "CALLBACK_TOKEN is no password parameter: whoever sees the build sees the token"
            );
        }
        Ok(())
    }

    /// Looks for what became of an order whose answer was lost: in the queue, and among the builds.
    async fn find(&self, order: &Order, why: String) -> Result<Found, TriggerError> {
        let end = (Instant::now() + LOOK).min(self.server.limits().deadline);
        let unsure = |why: String| TriggerError::Unsure {
            server: "Jenkins",
            why,
            advice: format!(
                "look at the queue and the builds of `{}` before you start it again",
                self.job.join("/")
            ),
        };
        loop {
            match self.find_once(order).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) if Instant::now() + PAUSE < end => tokio::time::sleep(PAUSE).await,
                Ok(None) => return Err(unsure(why)),
                Err(error) => {
                    return Err(unsure(format!("{why}; {}", crate::error::chain(&error))));
                }
            }
        }
    }

    async fn find_once(&self, order: &Order) -> Result<Option<Found>, TriggerError> {
        #[derive(Deserialize)]
        struct Queue {
            items: Vec<Item>,
        }
        #[derive(Deserialize)]
        struct Job {
            builds: Vec<Build>,
        }
        let run_id = order.run_id.as_str();
        let what = "read the queue";
        let mut url = self.server.url(["queue", "api", "json"]);
        url.set_query(Some(
            "tree=items[id,why,cancelled,task[url],actions[parameters[name,value]]]",
        ));
        let answer = self.get(what, &url).await?;
        let queue: Queue = self.server.understand(what, &answer)?;
        let path = self.job_path();
        let is_ours = |item: &&Item| {
            let url = item.task.as_ref().and_then(|task| task.url.as_deref()).unwrap_or_default();
            url.trim_end_matches('/').ends_with(&path) && has_run(&item.actions, run_id)
        };
        if let Some(id) = queue.items.iter().find(is_ours).and_then(|item| item.id) {
            return Ok(Some(Found::Item(id)));
        }
        let what = "list the job's builds";
        let mut url = self.job_url(&["api", "json"]);
        url.set_query(Some(
            "tree=builds[number,building,result,actions[parameters[name,value]]]{0,50}",
        ));
        let answer = self.get(what, &url).await?;
        let job: Job = self.server.understand(what, &answer)?;
        let build = job.builds.iter().find(|build| has_run(&build.actions, run_id));
        Ok(build.map(|build| Found::Build(build.number)))
    }

    /// What guards against forged requests, where the server wants it. It belongs to a session.
    async fn crumb(&self) -> Result<Option<Crumb>, TriggerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Issued {
            crumb: SecretString,
            crumb_request_field: String,
        }
        let what = "get a crumb";
        let url = self.server.url(["crumbIssuer", "api", "json"]);
        let request = || self.with_login(self.server.http().get(url.clone()));
        let answer = self.server.ask(what, request).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(self.explained(what, &answer));
        }
        let issued: Issued = self.server.understand(what, &answer)?;
        let cookies = answer.headers.get_all(SET_COOKIE).iter();
        let cookies = cookies.filter_map(|it| it.to_str().ok()?.split(';').next());
        let cookies = cookies.collect::<Vec<_>>().join("; ");
        let is_header = issued
            .crumb_request_field
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it));
        if !is_header || issued.crumb_request_field.is_empty() {
            let (server, what) = ("Jenkins", what.to_owned());
            return Err(TriggerError::NotTheApi { server, what, seen: "a crumb without a header" });
        }
        Ok(Some(Crumb {
            field: issued.crumb_request_field,
            value: issued.crumb,
            cookies: cookies.into(),
        }))
    }

    async fn get(&self, what: &str, url: &Url) -> Result<Answer, TriggerError> {
        let request = || self.with_login(self.server.http().get(url.clone()));
        let answer = self.server.ask(what, request).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.explained(what, &answer)) }
    }

    fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        let (Some(user), Some(token)) = (&self.user, &self.token) else { return request };
        let login = Zeroizing::new(format!("{user}:{}", token.expose_secret()));
        let login = base64::engine::general_purpose::STANDARD.encode(login.as_bytes());
        request.header(AUTHORIZATION, sensitive(&format!("Basic {login}")))
    }

    fn explained(&self, what: &str, answer: &Answer) -> TriggerError {
        let job = self.job.join("/");
        let who = answer.header("x-you-are-authenticated-as").unwrap_or("anonymous");
        let who: String = crate::error::visible(who).take(60).collect();
        let advice = match answer.status {
            StatusCode::UNAUTHORIZED => {
                "the API token was not taken: check --user and the token (the user's page > Security); a password does not do".to_owned()
            }
            StatusCode::FORBIDDEN if answer.says("crumb") => {
                "the crumb was not taken: behind a proxy that changes the client's address, let Jenkins' crumb issuer ignore that (proxy compatibility)".to_owned()
            }
            StatusCode::FORBIDDEN => match answer.header("x-required-permission") {
                Some(wanted) => format!("`{who}` needs the permission `{}`", permission(wanted)),
                None => format!("`{who}` needs the permissions Job/Build and Job/Read for `{job}`"),
            },
            StatusCode::NOT_FOUND => format!(
                "check --url and --job; Jenkins hides jobs for which `{who}` has no Job/Read"
            ),
            StatusCode::CONFLICT => format!("the job `{job}` is disabled: enable it on its page"),
            StatusCode::BAD_REQUEST => format!(
                "the job `{job}` has to have the parameters RUN_ID and CALLBACK_TOKEN (a password parameter)"
            ),
            _ => return self.server.refused(what, answer, None),
        };
        self.server.refused(what, answer, Some(advice))
    }

    fn build_started(&self, number: u64) -> Started {
        let number = number.to_string();
        let url = format!("{}/", self.job_url(&[&number]));
        Started { external_run_id: number, external_url: Some(url) }
    }

    fn queued(&self, item: &str) -> Started {
        let url = format!("{}/", self.server.url(["queue", "item", item]));
        Started { external_run_id: format!("{QUEUE}{item}"), external_url: Some(url) }
    }

    fn job_url(&self, segments: &[&str]) -> Url {
        let path = self.job.iter().flat_map(|name| ["job", name]);
        self.server.url(path.chain(segments.iter().copied()))
    }

    /// `/job/folder/job/name`, as URLs of the server's own end.
    fn job_path(&self) -> String {
        let relative = Url::parse("x:///").ok().and_then(|mut url| {
            url.path_segments_mut()
                .ok()?
                .pop_if_empty()
                .extend(self.job.iter().flat_map(|it| ["job", it]));
            Some(url.path().to_owned())
        });
        relative.unwrap_or_default()
    }
}

/// Where an order whose answer was lost has got to.
enum Found {
    Item(u64),
    Build(u64),
}

/// `folder/name`, as people write it and as the address of its page has it.
fn segments(job: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = job.trim_matches('/').split('/').collect();
    let is_address = words.len() >= 2
        && words.len().is_multiple_of(2)
        && words.iter().step_by(2).all(|it| *it == "job");
    let names: Vec<String> = words
        .iter()
        .enumerate()
        .filter(|(index, _)| !is_address || index % 2 == 1)
        .map(|(_, name)| (*name).to_owned())
        .collect();
    let is_name = |name: &String| !matches!(name.as_str(), "" | "." | "..");
    names.iter().all(is_name).then_some(names)
}

/// The number in `.../queue/item/39/`.
fn item_number(location: &str) -> Option<u64> {
    let (_, after) = location.rsplit_once("/queue/item/")?;
    after.trim_end_matches('/').parse().ok()
}

/// Whether these actions of a build have a parameter that says that it is this run.
fn has_run(actions: &[Value], run_id: &str) -> bool {
    let parameters = actions.iter().filter_map(|action| action.get("parameters")?.as_array());
    parameters
        .flatten()
        .any(|parameter| parameter["name"] == RUN_ID && parameter["value"] == run_id)
}

/// `Job/Build`, which Jenkins calls `hudson.model.Item.Build` in its headers.
fn permission(id: &str) -> String {
    let id: String = crate::error::visible(id).take(80).collect();
    match id.strip_prefix("hudson.model.Item.") {
        Some(name) => format!("Job/{name}"),
        None => id,
    }
}

fn sensitive(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_as_people_write_it_or_as_its_address_has_it() {
        for job in ["team/infra run", "/team/infra run/", "job/team/job/infra run"] {
            assert_eq!(segments(job).unwrap(), ["team", "infra run"], "{job}");
        }
        assert_eq!(segments("job").unwrap(), ["job"]);
        assert_eq!(segments("job/job").unwrap(), ["job"]);
        for job in ["", "/", "a//b", "../x", "a/./b"] {
            assert_eq!(segments(job), None, "{job}");
        }
    }

    #[test]
    fn only_the_number_is_taken_from_where_the_server_says_that_it_is() {
        assert_eq!(item_number("http://inside:8080/jenkins/queue/item/39/"), Some(39));
        assert_eq!(item_number("/queue/item/39"), Some(39));
        assert_eq!(item_number("http://inside/job/x/"), None);
        assert_eq!(item_number("http://inside/queue/item/39/../../x"), None);
    }
}
