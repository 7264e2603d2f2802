//! How an attempt ended, from what it reported or left.

use butler_base::error::visible;
use butler_cluster::JobFailure;
use butler_protocol::backend::DriftComparison;
use butler_registry::StatusReport;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::directory::AttemptDirectory;
use super::drift::{self, Compared, Found};
use super::failure_text::stored_failure;
use super::plan_file::PlanFiles;
use crate::layers::Catalog;
use crate::model::{
    Action, ChangeCounts, DriftKind, Ending, FailureClass, LayerName, LockId, Moment, PlanDigest,
    SavedPlan, StateLock, StateVersion,
};
use crate::store::AttemptResult;

/// How much of a text of a lock is stored, in characters. It is as long as the longest id.
const MOST_OF_A_TEXT: usize = 200;

/// The end of a run: the fields that the body of `POST status` and `result.json` have in common.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct EndOfRun {
    pub(super) status: String,
    #[serde(default)]
    pub(super) plan_changes: Option<bool>,
    #[serde(default)]
    pub(super) counts: Option<ChangeCounts>,
    /// The version of the state.
    #[serde(default)]
    pub(super) state: Option<StateVersion>,
    /// Whether a check for drift has compared the code with the state.
    #[serde(default)]
    pub(super) compares_code: bool,
    #[serde(default)]
    pub(super) error: Option<Problem>,
}

/// Why a run failed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Problem {
    #[serde(default, deserialize_with = "known_class")]
    pub(super) class: Option<FailureClass>,
    /// The lock of the state.
    #[serde(default)]
    pub(super) lock: Option<Value>,
    /// The reason.
    #[serde(default)]
    pub(super) message: String,
}

/// A class of failures, if this version knows it.
fn known_class<'de, D: Deserializer<'de>>(given: D) -> Result<Option<FailureClass>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(given)?).ok())
}

/// The plan that an attempt has made.
#[derive(Clone, Debug)]
pub(super) struct KeptPlan {
    digest: PlanDigest,
    is_stored: bool,
}

impl KeptPlan {
    /// The plan that was saved, or else what was reported of it.
    pub(super) fn of(directory: &AttemptDirectory) -> Option<Self> {
        let saved = PlanFiles::digest(directory);
        let is_stored = saved.is_some();
        let digest = saved.or_else(|| directory.plan_digest())?;
        Some(Self { digest, is_stored })
    }
}

impl EndOfRun {
    /// The body of `POST status`.
    pub(super) fn reported(report: StatusReport) -> Self {
        let StatusReport { status, other, error, .. } = report;
        let counted =
            |count: Option<u64>| u32::try_from(count.unwrap_or_default()).unwrap_or(u32::MAX);
        let rare = |name: &str| counted(other.get(name).and_then(Value::as_u64));
        let counts = report.resources_to_add.map(|add| ChangeCounts {
            add: counted(Some(add)),
            change: counted(report.resources_to_change),
            destroy: counted(report.resources_to_destroy),
            replace: rare("resources_to_replace"),
            import: rare("resources_to_import"),
            moved: rare("resources_to_move"),
            forget: rare("resources_to_forget"),
            actions: rare("actions_to_execute"),
            outputs: rare("outputs_to_change"),
        });
        let (message, mut of_error) =
            error.map(|error| (error.message, error.other)).unwrap_or_default();
        let class = of_error.remove("class");
        Self {
            status,
            plan_changes: other.get("plan_changes").and_then(Value::as_bool),
            counts,
            state: other.get("state").and_then(|state| StateVersion::deserialize(state).ok()),
            compares_code: other.get("compares_code").and_then(Value::as_bool).unwrap_or_default(),
            error: Some(Problem {
                class: class.and_then(|class| serde_json::from_value(class).ok()),
                lock: of_error.remove("lock"),
                message,
            }),
        }
    }

    /// Whether this is the end of a run.
    pub(super) fn is_final(&self) -> bool {
        self.ending().is_some()
    }

    /// Whether only the cluster of a Job knows why the run failed: a signal ended it, or its machine failed.
    pub(super) fn leaves_reason_to_cluster(&self) -> bool {
        self.is_interrupted()
            || self.status == "failed" && self.class() == Some(FailureClass::Platform)
    }

    /// Whether a signal ended the run.
    ///
    /// A runner reports `failed` if it was stopped before it knew that this registry takes `cancelled`.
    fn is_interrupted(&self) -> bool {
        let is_stop = self.class() == Some(FailureClass::Stopped);
        self.status == "cancelled" || self.status == "failed" && is_stop
    }

    fn class(&self) -> Option<FailureClass> {
        self.error.as_ref().and_then(|problem| problem.class)
    }

    fn ending(&self) -> Option<Ending> {
        let class = self.class();
        match self.status.as_str() {
            // If the server asked for it, the store says so.
            _ if self.is_interrupted() => Some(Ending::Failed(FailureClass::Platform)),
            "succeeded" | "planned" => Some(Ending::Succeeded),
            "failed" if class == Some(FailureClass::StalePlan) => Some(Ending::StalePlan),
            "failed" | "timed_out" => Some(Ending::Failed(class.unwrap_or(FailureClass::Module))),
            _ => None,
        }
    }

    /// The comparison that the run has made, for a layer with these rules.
    pub(super) fn compared(&self, rules: &DriftRules) -> Compared {
        match rules.compare {
            _ if !self.compares_code => Compared::State,
            DriftComparison::State => Compared::Code,
            DriftComparison::Code => Compared::Always,
        }
    }

    /// The result for the store, if this is the end of a run with the plan `plan`. The run has made the comparison
    /// `compared`, and its plan says that it found `drift`.
    pub(super) fn result(
        &self,
        action: Action,
        plan: Option<KeptPlan>,
        drift: Option<Found>,
        compared: Compared,
    ) -> Option<AttemptResult> {
        let mut result = AttemptResult::ended(self.ending()?);
        if action.changes_infrastructure() {
            result.applied = self.counts;
        }
        result.state.clone_from(&self.state);
        result.lock = self.error.as_ref().and_then(|problem| stored_lock(problem.lock.as_ref()?));
        if result.ending != Ending::Succeeded {
            result.failure =
                self.error.as_ref().and_then(|problem| stored_failure(&problem.message));
            return Some(result);
        }
        let counts = self.counts.unwrap_or_default();
        let has_changes = self.plan_changes.unwrap_or(counts.total() > 0);
        match action {
            Action::Plan => {
                result.state_difference = drift.and_then(|found| found.of_state);
                result.plan = plan.map(|KeptPlan { digest, is_stored }| SavedPlan {
                    digest,
                    counts,
                    is_empty: !has_changes,
                    is_stored,
                    saved: Moment::default(),
                    discarded: None,
                    stale: None,
                });
            }
            // Without its plan it is not known what differs, only whether something does.
            Action::Drift => {
                let kind = match compared {
                    _ if !has_changes => DriftKind::None,
                    Compared::State => DriftKind::Changes,
                    Compared::Code => DriftKind::ChangedOutside,
                    Compared::Always => DriftKind::CodeDiffers,
                };
                let difference = has_changes.then(String::new);
                let found = drift.unwrap_or_else(|| Found { kind, difference, ..Found::default() });
                (result.drift_kind, result.difference) = (found.kind, found.difference);
                result.compares_code = self.compares_code;
                (result.state_difference, result.unmatched) = (found.of_state, found.unmatched);
                result.seen = found.seen;
            }
            Action::Apply | Action::Destroy | Action::Trigger => result.changed = has_changes,
        }
        Some(result)
    }
}

impl AttemptResult {
    /// The result of the same attempt as a Job: its memory is that of its container. The runner or the cluster can have
    /// noticed that it was used up.
    pub(super) fn of_job(self) -> Self {
        let is_memory = self.ending == Ending::Failed(FailureClass::OutOfMemory);
        let ending = if is_memory { Ending::Job(JobFailure::OutOfMemory) } else { self.ending };
        Self { ending, ..self }
    }
}

/// What is stored of a lock that an attempt reported. The backend decides about its texts, so they are shortened,
/// and an id that cannot be an argument of `force-unlock` is left out.
fn stored_lock(reported: &Value) -> Option<StateLock> {
    let mut lock: StateLock = serde_json::from_value(reported.clone()).ok()?;
    lock.id = lock.id.and_then(|id| LockId::try_from(id).ok()).map(String::from);
    for text in lock.texts_mut() {
        *text = visible(text).take(MOST_OF_A_TEXT).collect();
    }
    Some(lock)
}

/// What an attempt that has ended left in its directory, if it could not report it, or why it has no
/// process.
///
/// `rules` say what counts as drift.
pub(super) fn left_by(directory: &AttemptDirectory, rules: &DriftRules) -> Option<AttemptResult> {
    #[derive(Deserialize)]
    struct Left {
        operation: String,
        #[serde(flatten)]
        end: EndOfRun,
    }
    if let Some(result) = directory.failed_start() {
        return Some(result);
    }
    let left: Left = directory.result().ok()??;
    let action = match left.operation.as_str() {
        "plan" => Action::Plan,
        "drift-check" => Action::Drift,
        "apply" => Action::Apply,
        "destroy" => Action::Destroy,
        _ => return None,
    };
    let compared = left.end.compared(rules);
    let drift = drift_of(directory, action, rules, compared);
    left.end.result(action, KeptPlan::of(directory), drift, compared)
}

/// The rules that say what counts as drift of a layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriftRules {
    /// The entries of `drift.ignore`.
    ignored: Vec<String>,
    /// The side that its checks for drift compare with the state.
    compare: DriftComparison,
}

impl DriftRules {
    /// The rules of a layer.
    pub(crate) fn of(catalog: &Catalog, layer: &LayerName) -> Self {
        let Some(source) = catalog.layers.get(layer) else { return Self::default() };
        let ignored = source.entry.drift.as_ref().map(|drift| drift.ignore.clone());
        let check = source.configured.layer.drift;
        Self {
            ignored: ignored.unwrap_or_default(),
            compare: check.map(|check| check.compare).unwrap_or_default(),
        }
    }
}

/// What a plan or a check for drift found, if `action` is one of them and its plan can be read.
pub(super) fn drift_of(
    directory: &AttemptDirectory,
    action: Action,
    rules: &DriftRules,
    compared: Compared,
) -> Option<Found> {
    if !matches!(action, Action::Plan | Action::Drift) {
        return None;
    }
    let plan = directory.plan_json().ok()??;
    drift::find(&plan, &rules.ignored, compared).ok()
}

#[cfg(test)]
mod tests {
    use super::super::failure_text::MOST_OF_A_FAILURE;
    use super::*;

    fn result(json: &str, action: Action) -> Option<AttemptResult> {
        let end: EndOfRun = serde_json::from_str(json).unwrap();
        let plan = KeptPlan { digest: PlanDigest::new("p"), is_stored: true };
        end.result(action, Some(plan), None, end.compared(&DriftRules::default()))
    }

    #[test]
    fn final_statuses_end_an_attempt() {
        let ending = |json: &str| result(json, Action::Plan).map(|result| result.ending);
        assert_eq!(ending(r#"{"status": "running"}"#), None);
        assert_eq!(ending(r#"{"status": "succeeded"}"#), Some(Ending::Succeeded));
        for (class, expected) in [
            (r#", "error": {"class": "lock"}"#, FailureClass::Lock),
            (r#", "error": {"class": "stopped"}"#, FailureClass::Platform),
            (r#", "error": {}"#, FailureClass::Module),
            ("", FailureClass::Module),
        ] {
            let json = format!(r#"{{"status": "failed"{class}}}"#);
            assert_eq!(ending(&json), Some(Ending::Failed(expected)));
        }
    }

    #[test]
    fn cluster_is_asked_why_a_job_was_ended_and_its_memory_is_that_of_its_container() {
        let failed = |class: &str| {
            let json = format!(r#"{{"status": "failed", "error": {{"class": "{class}"}}}}"#);
            let end: EndOfRun = serde_json::from_str(&json).unwrap();
            let result = end.result(Action::Apply, None, None, Compared::State).unwrap();
            (end.leaves_reason_to_cluster(), result.of_job().ending)
        };
        let memory = Ending::Job(JobFailure::OutOfMemory);
        assert_eq!(failed("out-of-memory"), (false, memory));
        assert_eq!(failed("platform"), (true, Ending::Failed(FailureClass::Platform)));
        assert_eq!(failed("stopped"), (true, Ending::Failed(FailureClass::Platform)));
        assert_eq!(failed("network"), (false, Ending::Failed(FailureClass::Network)));
        // Of a newer runner.
        assert_eq!(failed("unknown-class"), (false, Ending::Failed(FailureClass::Module)));
    }

    #[test]
    fn attempt_that_was_not_started_says_why_also_as_earlier_versions_wrote_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = AttemptDirectory::at(root.path());
        let ending = Ending::Job(JobFailure::Setup);
        directory.record_failed_start(ending, "no Secret `git`").unwrap();
        let result = left_by(&directory, &DriftRules::default()).unwrap();
        assert_eq!((result.ending, result.failure.as_deref()), (ending, Some("no Secret `git`")));
        std::fs::write(root.path().join("failed-start.json"), r#"{"job": "setup"}"#).unwrap();
        let result = left_by(&directory, &DriftRules::default()).unwrap();
        assert_eq!((result.ending, result.failure), (ending, None));
    }

    #[test]
    fn lock_of_a_failed_attempt_is_stored_as_far_as_it_can_be_shown() {
        let lock = |lock: &str| {
            let json =
                format!(r#"{{"status": "failed", "error": {{"class": "lock", "lock": {lock}}}}}"#);
            let result = result(&json, Action::Plan).unwrap();
            assert_eq!(result.ending, Ending::Failed(FailureClass::Lock), "{lock:?}");
            result.lock
        };
        let full = r#"{"id": "1-2", "who": "a@b", "operation": "o", "created": "c\u001b[1m"}"#;
        let found = lock(full).unwrap();
        let expected = r"the state is locked by a@b since c\u{1b}[1m (o, id 1-2)";
        assert_eq!(found.to_string(), expected);
        assert_eq!(lock(&full.replace("1-2", "-lock=false")).unwrap().id, None);
        let long = lock(&full.replace("a@b", &"a".repeat(70_000))).unwrap();
        assert_eq!(long.holder.unwrap().who.len(), MOST_OF_A_TEXT);
        for nothing in ["null", "7", "[]", r#"{"id": 7}"#] {
            assert_eq!(lock(nothing), None);
        }
        // As the final status reports it.
        let report =
            format!(r#"{{"status": "failed", "error": {{"message": "no", "lock": {full}}}}}"#);
        let end = EndOfRun::reported(serde_json::from_str(&report).unwrap());
        let result = end.result(Action::Apply, None, None, Compared::State).unwrap();
        assert_eq!(result.lock, Some(found));
    }

    #[test]
    fn reason_of_a_failed_attempt_is_stored_as_one_line() {
        let failure = |message: &str| {
            let error = serde_json::json!({"message": message, "class": "network"});
            let json = serde_json::json!({"status": "failed", "error": error}).to_string();
            result(&json, Action::Plan).unwrap().failure
        };
        let reason = "`terraform init` failed with exit code 1: no such host";
        assert_eq!(failure(reason).as_deref(), Some(reason));
        assert_eq!(failure("no\u{1b}[1m\nmore").as_deref(), Some(r"no\u{1b}[1m"));
        assert_eq!(failure("\n"), None);
        assert_eq!(failure(&"ä".repeat(70_000)).unwrap().chars().count(), MOST_OF_A_FAILURE + 1);
        // As the final status reports it.
        let report = serde_json::json!({"status": "failed", "error": {"message": reason}});
        let end = EndOfRun::reported(serde_json::from_value(report).unwrap());
        assert_eq!(
            end.result(Action::Plan, None, None, Compared::State).unwrap().failure.as_deref(),
            Some(reason)
        );
        assert_eq!(result(r#"{"status": "succeeded"}"#, Action::Plan).unwrap().failure, None);
    }

    #[test]
    fn result_file_of_an_attempt_is_read() {
        let root = tempfile::tempdir().unwrap();
        let directory = AttemptDirectory::at(root.path());
        std::fs::create_dir(directory.reports()).unwrap();
        assert!(left_by(&directory, &DriftRules::default()).is_none());
        directory.write_plan(Some("{}"), None).unwrap();
        let leave = |text: &str| {
            std::fs::write(directory.reports().join("result.json"), text).unwrap();
            left_by(&directory, &DriftRules::default())
        };
        // As `execute` writes it.
        let planned = r#"{
            "operation": "plan", "status": "planned", "exit_code": 0, "plan_changes": true,
            "counts": {"add": 2, "change": 1, "replace": 0, "destroy": 3, "import": 4, "move": 5, "forget": 6}
        }"#;
        let plan = leave(planned).unwrap().plan.unwrap();
        let counts = ChangeCounts {
            add: 2,
            change: 1,
            destroy: 3,
            import: 4,
            moved: 5,
            forget: 6,
            ..ChangeCounts::default()
        };
        assert_eq!(plan.counts, counts);
        assert_eq!(Some(plan.digest), directory.plan_digest());
        let failed = r#"{
            "operation": "apply", "status": "failed", "error": {"class": "lock", "message": "no"}
        }"#;
        let result = leave(failed).unwrap();
        assert_eq!(result.ending, Ending::Failed(FailureClass::Lock));
        assert_eq!(result.applied, None);
        let counts = r#""counts": {"add": 2, "change": 0, "destroy": 0}, "error""#;
        let applied = leave(&failed.replace("\"error\"", counts)).unwrap().applied;
        assert_eq!(applied, Some(ChangeCounts { add: 2, ..ChangeCounts::default() }));
        assert!(leave(r#"{"operation": "validate", "status": "succeeded"}"#).is_none());
        assert!(leave(r#"{"operation": "plan", "stat"#).is_none());
    }

    #[test]
    fn rare_actions_of_a_final_status_are_counted() {
        let counts = |rare: &str| {
            let report = format!(r#"{{"status": "succeeded", "resources_to_add": 0{rare}}}"#);
            let end = EndOfRun::reported(serde_json::from_str(&report).unwrap());
            let plan = KeptPlan { digest: PlanDigest::new("p"), is_stored: true };
            let plan =
                end.result(Action::Plan, Some(plan), None, Compared::State).unwrap().plan.unwrap();
            (plan.is_empty, plan.counts.occurring(false))
        };
        for (field, words) in [("import", "import"), ("move", "move"), ("forget", "forget")] {
            let (is_empty, said) = counts(&format!(r#", "resources_to_{field}": 2"#));
            assert_eq!((is_empty, said), (false, format!("2 to {words}")));
        }
        let said = counts(r#", "actions_to_execute": 1"#);
        assert_eq!(said, (false, "1 action to execute".to_owned()));
        assert_eq!(counts(r#", "outputs_to_change": 1"#).1, "1 output to change");
        assert_eq!(counts(""), (true, String::new()));
        assert_eq!(counts(r#", "resources_to_move": "2""#), (true, String::new()));
    }

    #[test]
    fn plan_without_changes_is_empty_and_drift_has_a_difference() {
        let json =
            |changes: bool| format!(r#"{{"status": "succeeded", "plan_changes": {changes}}}"#);
        for changes in [false, true] {
            let plan = result(&json(changes), Action::Plan).unwrap().plan.unwrap();
            assert_eq!(plan.is_empty, !changes);
            let drift = result(&json(changes), Action::Drift).unwrap();
            assert_eq!(drift.difference.is_some(), changes);
        }
    }

    #[test]
    fn kind_of_drift_without_a_plan_is_that_of_its_comparison() {
        for (compares_code, compare, expected) in [
            (false, DriftComparison::State, DriftKind::Changes),
            // The layer was changed while the check ran.
            (false, DriftComparison::Code, DriftKind::Changes),
            (true, DriftComparison::State, DriftKind::ChangedOutside),
            (true, DriftComparison::Code, DriftKind::CodeDiffers),
        ] {
            let end = EndOfRun {
                status: "succeeded".to_owned(),
                plan_changes: Some(true),
                compares_code,
                ..EndOfRun::default()
            };
            let rules = DriftRules { compare, ..DriftRules::default() };
            let result = end.result(Action::Drift, None, None, end.compared(&rules)).unwrap();
            assert_eq!(result.drift_kind, expected);
            assert!(result.difference.is_some());
        }
    }
}
