//! The saved plans that attempts send and apply.

use std::io;
use std::time::Duration;

use axum::body::Body;
use butler_base::error::{FailureClass, chain};
use butler_registry::{Recorded, RegistryFailure};
use serde_json::Value;

use super::super::directory::AttemptDirectory;
use super::super::file_names::PLAN_INPUTS;
use super::super::plan_file::{PlanFileError, PlanOwner};
use super::{AttemptOfRun, StoreRegistry};
use crate::layers::LayerSource;
use crate::model::{Action, Cause, Ending, PlanDigest, Run, StalePlan, server_of};
use crate::plans::{KeyError, PlanInputs};
use crate::store::{AttemptId, AttemptResult, Note, Outcome, Store};

/// How long an apply waits for the copy of a plan that another server has made. The object store can be away for a
/// while. After that, the layer is planned again.
const COPIED_LATER: Duration = Duration::from_mins(15);

impl<S: Store + 'static> StoreRegistry<S> {
    /// Records what a plan is made from.
    pub(super) async fn keep_inputs(
        &self,
        attempt: &AttemptId,
        configuration: &Value,
    ) -> Result<(), RegistryFailure> {
        match PlanInputs::of(configuration, self.plan_files.keys()) {
            Ok(inputs) => Ok(self.directory(attempt).write_json(PLAN_INPUTS, &inputs)?),
            Err(error) => Err(self.without_key(attempt, &error).await),
        }
    }

    /// Ends an attempt that applies a plan if something has changed since the plan was made.
    pub(super) async fn check_inputs(
        &self,
        attempt: &AttemptOfRun,
        layer: &LayerSource,
        configuration: &Value,
    ) -> Result<(), RegistryFailure> {
        match self.changed_inputs(attempt, layer, configuration).await? {
            Ok(None) => Ok(()),
            Ok(Some((kind, why))) => Err(self.stale(attempt, kind, why).await),
            Err(error) => Err(self.without_key(&attempt.id, &error).await),
        }
    }

    /// The plan that an attempt applies; nothing if it applies none.
    pub(super) async fn plan_to_apply(
        &self,
        attempt: &AttemptOfRun,
    ) -> Result<Option<Body>, RegistryFailure> {
        let Cause::Plan { plan } = &attempt.run.cause else { return Ok(None) };
        let Some((planned, directory)) = self.planned(attempt, plan).await? else {
            return Err(self
                .stale(attempt, StalePlan::File, "its run was removed".to_owned())
                .await);
        };
        let (files, plan) = (self.plan_files.clone(), plan.clone());
        let read = move || files.read(&directory, PlanOwner::of(&planned), &plan);
        match tokio::task::spawn_blocking(read).await? {
            // Without this file it can change nothing, and with it everything: from here on the apply has
            // begun. It is refused if the attempt was asked to stop.
            Ok(body) => match self.store.note(&attempt.id, Note::Begins).await? {
                Outcome::Made => Ok(Some(body)),
                Outcome::Refused => Ok(None),
            },
            Err(error) if error.is_final() => {
                Err(self.stale(attempt, StalePlan::File, error.to_string()).await)
            }
            Err(PlanFileError::Key(error)) => Err(self.without_key(&attempt.id, &error).await),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores the plan that an attempt has made; nothing if it is not to make one.
    pub(super) async fn save_plan(
        &self,
        attempt: &AttemptOfRun,
        file: Body,
    ) -> Result<Option<Recorded>, RegistryFailure> {
        let AttemptOfRun { id, run, .. } = attempt;
        if run.action != Action::Plan {
            return Ok(None);
        }
        if self.hear(id).await? == Outcome::Refused {
            return Ok(Some(Recorded::Over));
        }
        let directory = self.directory(id);
        match self.plan_files.save(&directory, PlanOwner::of(run), file).await {
            Ok(_) => Ok(Some(Recorded::Recorded)),
            Err(PlanFileError::Key(error)) => Err(self.without_key(id, &error).await),
            Err(error) => Err(error.into()),
        }
    }

    /// The run that made a plan, with the directory of the attempt that did.
    async fn planned(
        &self,
        attempt: &AttemptOfRun,
        plan: &PlanDigest,
    ) -> Result<Option<(Run, AttemptDirectory)>, RegistryFailure> {
        let layer = &attempt.id.layer;
        let snapshot = self.store.snapshot(layer, "", &[]).await?;
        let runs = snapshot.facts.runs;
        let is_plan = |run: &Run| run.plan.as_ref().is_some_and(|saved| saved.digest == *plan);
        let Some(run) = runs.into_iter().rev().find(is_plan) else { return Ok(None) };
        let Some(made_by) = run.attempts.last() else { return Ok(None) };
        let id = AttemptId { layer: layer.clone(), run: run.id.clone(), number: made_by.number };
        // Another server can have made it. If the object store does not answer, the attempt asks again.
        let directory = self.files.of(&id, &made_by.place).await?;
        let is_recent = made_by.end.is_some_and(|(_, at)| snapshot.now.since(at) < COPIED_LATER);
        if is_recent && self.files.is_awaited(&id, &made_by.place) {
            let place = server_of(&made_by.place);
            let why =
                format!("the server `{place}` has not copied the plan to the object store yet");
            return Err(io::Error::other(why).into());
        }
        Ok(Some((run, directory)))
    }

    /// What has changed since the plan was made that an attempt applies, if it applies one.
    async fn changed_inputs(
        &self,
        attempt: &AttemptOfRun,
        layer: &LayerSource,
        configuration: &Value,
    ) -> Result<Result<Option<(StalePlan, String)>, KeyError>, RegistryFailure> {
        let Cause::Plan { plan } = &attempt.run.cause else { return Ok(Ok(None)) };
        let Some((_, directory)) = self.planned(attempt, plan).await? else {
            return Ok(Ok(Some((StalePlan::File, "its run was removed".to_owned()))));
        };
        let inputs: Option<PlanInputs> = directory.read_json(PLAN_INPUTS)?;
        Ok(match inputs {
            Some(inputs) => {
                let named: Vec<_> =
                    layer.entry.credential_env.iter().map(|it| &*it.value).collect();
                inputs.difference(configuration, &named, self.plan_files.keys())
            }
            None => Ok(Some((StalePlan::File, "what it was made from is not known".to_owned()))),
        })
    }

    /// Ends an attempt whose plan cannot be applied any more. Returns the answer to its request.
    async fn stale(&self, attempt: &AttemptOfRun, kind: StalePlan, why: String) -> RegistryFailure {
        let result = AttemptResult { stale: Some(kind), ..AttemptResult::ended(Ending::StalePlan) };
        let why = format!("the saved plan is not applied: {why}; the layer is planned again");
        self.end_early(&attempt.id, result, why).await
    }

    /// Ends an attempt because the key file cannot be used, for example while it is replaced. It is made
    /// again.
    async fn without_key(&self, attempt: &AttemptId, error: &KeyError) -> RegistryFailure {
        self.refuse(attempt, FailureClass::Platform, chain(error)).await
    }
}
