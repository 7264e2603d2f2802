//! Reads the stages of a chain.

use std::collections::BTreeSet;
use std::time::Duration;

use super::check_entry::CheckEntry;
use super::document::{ObserveEntry, StageEntry};
use super::error::ConfigError;
use super::name::is_name;
use super::preset::Preset;
use super::registry::Controller;
use super::span::Span;
use super::stage::{CiPlace, ExternalRun, Stage, StageKind, StageWork};
use crate::condition::{Check, Closeout, Condition, JsonPath, Test};
use crate::object::{ObjectReference, Template};

/// The timeout of a stage that does not set one.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// The most stages of a chain, as in the copy of a record.
const MOST_STAGES: usize = 64;

/// Which chain is read.
pub(super) struct Chain<'a> {
    pub(super) follower: &'a str,
    pub(super) controller: &'a Controller,
}

impl Chain<'_> {
    /// Reads the stages of a chain.
    pub(super) fn parse(&self, entries: Vec<StageEntry>) -> Result<Vec<Stage>, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut stages = Vec::new();
        let mut names = BTreeSet::new();
        for entry in entries {
            let name = entry.name.clone();
            let mut refuse = |message| {
                let (follower, stage) = (self.follower.to_owned(), name.clone());
                errors.push(ConfigError::Stage { follower, stage, message });
            };
            if !names.insert(name.clone()) {
                refuse("the name is given twice; each stage needs its own".to_owned());
            }
            match self.stage(entry) {
                Ok(stage) => stages.push(stage),
                Err(message) => refuse(message),
            }
        }
        let mut refuse = |message: String| {
            let follower = self.follower.to_owned();
            errors.push(ConfigError::Follower { follower, message });
        };
        if names.len() > MOST_STAGES {
            refuse(format!("`stages` must have at most {MOST_STAGES} entries"));
        } else if stages.len() == names.len() && !stages.iter().any(|stage| stage.is_required) {
            refuse(
                "at least one stage must be required; otherwise every commit would count as \
                 delivered"
                    .to_owned(),
            );
        }
        if errors.is_empty() { Ok(stages) } else { Err(errors) }
    }

    fn stage(&self, entry: StageEntry) -> Result<Stage, String> {
        if !is_name(&entry.name) {
            return Err("`name` must have 1 to 63 lowercase letters, digits and `-`, and must \
                        begin with a letter"
                .to_owned());
        }
        let kind = entry.kind.or_else(|| entry.preset.map(Preset::kind));
        let closeout = closeout(&entry)?;
        let work = match (entry.create, entry.observe) {
            (Some(template), None) => {
                let template = Template::parse(template, &self.controller.namespace);
                StageWork::Create(template.map_err(|error| error.to_string())?)
            }
            (None, Some(object)) => {
                StageWork::Observe(observed(object, &self.controller.namespace)?)
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err("a stage must have either `create` or `observe`".to_owned());
            }
        };
        Ok(Stage {
            name: entry.name,
            kind: kind.ok_or("`kind` is missing; set it, or use a `preset`")?,
            work,
            closeout,
            timeout: entry.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
            is_required: entry.required.unwrap_or(true),
        })
    }
}

/// The only stage of a follower whose adapter is not a chain.
pub(super) fn external_stage(
    follower: &str,
    run: ExternalRun,
    timeout: Option<Span>,
) -> Result<Stage, Vec<ConfigError>> {
    let texts = match &run {
        ExternalRun::Terraform { layer } => vec![layer],
        ExternalRun::Ci(job) => match &job.place {
            CiPlace::GithubActions { repository, workflow } => vec![repository, workflow],
            CiPlace::GitlabCi { project } => vec![project],
            CiPlace::Jenkins { job } => vec![job],
        },
    };
    let refused =
        |message: String| vec![ConfigError::Follower { follower: follower.to_owned(), message }];
    if texts.into_iter().any(|text| text.trim().is_empty()) {
        return Err(refused("the settings of the adapter must not be empty".to_owned()));
    }
    let kind = match run {
        ExternalRun::Terraform { .. } => StageKind::Job,
        ExternalRun::Ci(_) => StageKind::PipelineRun,
    };
    let commit = JsonPath::parse("$.spec.commit").map_err(|error| refused(error.to_string()))?;
    let succeeded = condition("succeeded", Preset::Run.succeeded()).map_err(refused)?;
    let failed = Preset::Run.failed().map(|checks| condition("failed", checks));
    Ok(Stage {
        name: "run".to_owned(),
        kind,
        work: StageWork::Run(run),
        closeout: Closeout {
            succeeded,
            failed: failed.transpose().map_err(refused)?,
            source_commit: vec![commit],
            reuse: Vec::new(),
        },
        timeout: timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
        is_required: true,
    })
}

/// The object that a stage observes. Without a namespace, it is in that of the controller, as created objects are;
/// an object of the whole cluster is read without it.
fn observed(entry: ObserveEntry, default_namespace: &str) -> Result<ObjectReference, String> {
    let ObserveEntry { api_version, kind, namespace, name } = entry;
    if [&api_version, &kind, &name].into_iter().any(|text| text.trim().is_empty()) {
        return Err("`observe` must have `api-version`, `kind` and `name`".to_owned());
    }
    let namespace = Some(namespace.unwrap_or_else(|| default_namespace.to_owned()));
    Ok(ObjectReference { api_version, kind, namespace, name })
}

fn closeout(entry: &StageEntry) -> Result<Closeout, String> {
    let succeeded = entry.succeeded.clone().or_else(|| Some(entry.preset?.succeeded()));
    let succeeded = succeeded.ok_or("`succeeded` is missing; set it, or use a `preset`")?;
    let failed = entry.failed.clone().or_else(|| entry.preset?.failed());
    let reuse = entry.reuse.clone().or_else(|| Some(entry.preset?.reuse()));
    Ok(Closeout {
        succeeded: condition("succeeded", succeeded)?,
        failed: failed.map(|checks| condition("failed", checks)).transpose()?,
        source_commit: paths(&entry.source_commit)?,
        reuse: paths(&reuse.unwrap_or_default())?,
    })
}

fn paths(texts: &[String]) -> Result<Vec<JsonPath>, String> {
    texts.iter().map(|text| path(text)).collect()
}

fn path(text: &str) -> Result<JsonPath, String> {
    JsonPath::parse(text).map_err(|error| error.to_string())
}

fn condition(key: &str, entries: Vec<CheckEntry>) -> Result<Condition, String> {
    let checks = entries.into_iter().map(check).collect::<Result<Vec<_>, _>>()?;
    Condition::new(checks).ok_or_else(|| {
        format!("`{key}` must have at least one check; an empty list would hold for every object")
    })
}

fn check(entry: CheckEntry) -> Result<Check, String> {
    let tests = [
        entry.equals.map(Test::Equals),
        entry.one_of.map(Test::In),
        entry.at_least.map(Test::AtLeast),
        entry.exists.map(Test::Exists),
        entry.equals_path.map(|text| path(&text)).transpose()?.map(Test::EqualsPath),
        entry.at_least_path.map(|text| path(&text)).transpose()?.map(Test::AtLeastPath),
    ];
    let mut tests = tests.into_iter().flatten();
    let (Some(test), None) = (tests.next(), tests.next()) else {
        return Err(format!(
            "the check of `{}` must have exactly one of `equals`, `in`, `at-least`, `exists`, \
             `equals-path` and `at-least-path`",
            entry.path
        ));
    };
    Ok(Check { path: path(&entry.path)?, test, default: entry.default })
}
