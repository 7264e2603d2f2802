//! What every store must do. A further store is added at the end.

mod breaker;
mod changes;
mod cursors;
mod deciders;
mod ends;
mod followers;
mod journal;
mod needs;
mod random;
mod readings;
mod rename;
mod sessions;
mod starts;

use std::sync::Mutex;

use butler_protocol::backend::Holder;

pub(super) use self::random::transactions_equal_those_in_memory;
use super::*;
use crate::model::{
    Action, Attempt, Cause, ChangeCounts, Commit, Digest, FailureClass, Liveness, Revision, Run,
    StopReason, StoredFollower, UpstreamWait,
};

/// A clock of a test, which stands until it is set.
#[derive(Clone, Default)]
pub(super) struct TestClock(Arc<Mutex<Moment>>);

impl TestClock {
    pub(super) fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Arc::new(move || *now.lock().unwrap())
    }

    fn set(&self, millis: u64) {
        *self.0.lock().unwrap() = Moment::from_millis(millis);
    }
}

/// A store of a test, with its clock, and what is removed after the test.
pub(super) struct Tested<S> {
    pub(super) store: S,
    pub(super) clock: TestClock,
    pub(super) _directory: Option<tempfile::TempDir>,
}

const KEY: &str = "state";

const TIMEOUT: Duration = Duration::from_mins(1);

fn layer(name: &str) -> LayerName {
    name.parse().unwrap()
}

pub(super) fn found(digest: &str) -> Sighting {
    Sighting::Found(revision(digest))
}

fn revision(digest: &str) -> Revision {
    Revision { commit: Commit::new(format!("c-{digest}")), digest: Digest::new(digest) }
}

fn new_run(name: &str, action: Action, cause: Cause, digest: &str, change: u64) -> NewRun {
    let id = RunId::derived(&layer(name), &Digest::new(digest), action, &cause);
    let destroys = matches!(cause, Cause::Destroy { .. });
    NewRun { id, action, cause, revision: revision(digest), change, destroys }
}

fn saved(digest: &str, is_empty: bool) -> AttemptResult {
    AttemptResult {
        plan: Some(SavedPlan {
            digest: PlanDigest::new(digest),
            counts: ChangeCounts { add: 1, ..ChangeCounts::default() },
            is_stored: true,
            is_empty,
            saved: Moment::from_millis(5),
            discarded: None,
            stale: None,
        }),
        ..AttemptResult::ended(Ending::Succeeded)
    }
}

impl<S: Store> Tested<S> {
    pub(super) async fn see(&self, name: &str, digest: &str) {
        let readings = self.store.readings("infra").await.unwrap();
        let seen = [(layer(name), found(digest))];
        let made = self.store.observe("infra", readings, &seen, &[]).await.unwrap();
        assert_eq!(made, Outcome::Made);
    }

    async fn facts(&self, name: &str) -> Snapshot {
        self.store.snapshot(&layer(name), KEY, &[]).await.unwrap()
    }

    async fn create(&self, name: &str, run: NewRun) -> RunId {
        let id = run.id.clone();
        assert_eq!(self.store.insert_run(&layer(name), run).await.unwrap(), Outcome::Made);
        id
    }

    /// Creates a plan of the layer's first change.
    pub(super) async fn plan(&self, name: &str) -> RunId {
        self.see(name, "d1").await;
        let cause = Cause::Commit { change: 1 };
        self.create(name, new_run(name, Action::Plan, cause, "d1", 1)).await
    }

    pub(super) async fn try_start(&self, id: &AttemptId, after: &[LayerName]) -> Outcome {
        let request = StartRequest {
            attempt: id,
            state_key: KEY,
            after,
            concurrency: 2,
            repository: "infra",
            repository_concurrency: None,
            timeout: TIMEOUT,
            place: "this machine",
            token: &TokenHash::of("brce_test"),
            fence: None,
        };
        self.store.start_attempt(request).await.unwrap()
    }

    pub(super) async fn start(&self, name: &str, run: &RunId, number: u32) -> AttemptId {
        let id = AttemptId { layer: layer(name), run: run.clone(), number };
        assert_eq!(self.try_start(&id, &[]).await, Outcome::Made);
        id
    }

    pub(super) async fn finish(&self, id: &AttemptId, result: AttemptResult) {
        assert_eq!(self.store.finish(id, result).await.unwrap(), Outcome::Made);
    }

    /// Records that the attempt ended without a report.
    async fn lose(&self, id: &AttemptId) {
        let runs = self.facts(id.layer.as_str()).await.facts.runs;
        let run = runs.iter().find(|run| run.id == id.run).unwrap();
        let reports = run.running().unwrap().reports;
        let lost = || AttemptResult::ended(Ending::Lost);
        assert_eq!(self.store.finish(id, lost()).await.unwrap(), Outcome::Refused);
        let late = Note::Probed { liveness: Liveness::Gone, reports: reports + 1 };
        assert_eq!(self.store.note(id, late).await.unwrap(), Outcome::Refused);
        let gone = Note::Probed { liveness: Liveness::Gone, reports };
        assert_eq!(self.store.note(id, gone).await.unwrap(), Outcome::Made);
        // A process that shows up now is too late.
        assert_eq!(self.store.note(id, Note::Heartbeat).await.unwrap(), Outcome::Refused);
        self.finish(id, lost()).await;
    }

    /// Creates a check for drift of the layer's first change, which was due at this time.
    pub(super) async fn check_drift(&self, name: &str, due: u64) {
        let cause = Cause::Schedule { due: Moment::from_millis(due) };
        self.create(name, new_run(name, Action::Drift, cause, "d1", 1)).await;
    }

    /// Plans the layer's first change, and approves the plan.
    async fn waiting_apply(&self, name: &str) -> RunId {
        let plan = self.plan(name).await;
        let attempt = self.start(name, &plan, 1).await;
        self.finish(&attempt, saved("p1", false)).await;
        let approved = self.store.approve(&layer(name), &PlanDigest::new("p1"), "ana").await;
        assert_eq!(approved.unwrap(), Outcome::Made);
        self.facts(name).await.facts.runs[1].id.clone()
    }

    /// Plans and applies the layer's first change.
    async fn apply(&self, name: &str, changed: bool) -> RunId {
        let apply = self.waiting_apply(name).await;
        let attempt = self.start(name, &apply, 1).await;
        let result = AttemptResult { changed, ..AttemptResult::ended(Ending::Succeeded) };
        self.finish(&attempt, result).await;
        apply
    }
}

/// Calls a macro with the arguments, and with each topic of the contract and its tests.
macro_rules! with_contract {
    ($run:ident, $($arguments:tt)*) => {
        $run! {
            $($arguments)*;
            readings: unknown_layers_are_empty, changes_of_the_digest_are_counted,
                older_reading_of_a_repository_is_refused,
                unrelated_history_concerns_runs_until_one_is_applied,
                layers_that_are_new_with_an_unrelated_history_belong_to_it, layers_with_facts_are_listed,
                commits_that_may_be_needed_are_listed;
            starts: runs_are_inserted_once_and_for_the_current_change, one_attempt_uses_a_state,
                layer_whose_state_key_changes_runs_once_and_keeps_its_lease,
                only_the_next_attempt_of_a_waiting_run_starts, concurrency_is_compared_at_the_start,
                limit_of_a_repository_is_compared_at_the_start,
                checks_for_drift_are_counted_for_their_repository,
                runs_are_found_by_id_and_by_layer, applies_of_upstream_layers_are_ordered,
                plan_for_a_person_does_not_wait_for_upstream_layers;
            ends: applies_that_begin_leave_nothing_applied,
                notes_change_attempts_until_they_end, stopped_attempts_end_as_stopped,
                stopped_apply_may_have_changed_something, results_change_what_is_applied,
                drift_has_an_age_until_a_check_finds_none,
                failing_checks_are_told_once_and_moved_outputs_plan_what_comes_after,
                repaired_drift_is_known_until_a_check_finds_none,
                plans_are_approved_once_and_for_the_current_change,
                lock_that_an_attempt_reported_is_stored_until_one_succeeds;
            changes: repair_after_a_revert_is_a_new_run,
                failed_runs_of_earlier_changes_are_over, waiting_plan_keeps_its_commit;
            needs: newest_run_is_known_also_if_decisions_do_not_read_it,
                plans_that_succeed_are_not_read_for_ever, failures_are_read_back_to_a_request,
                run_that_failed_is_replaced_by_a_newer_one, plan_for_an_upstream_layer_is_due_once,
                old_runs_are_removed, plan_whose_apply_was_started_is_never_discarded,
                plan_with_the_bytes_of_a_discarded_one_is_applied;
            journal: each_change_has_its_entries, what_changes_nothing_has_no_entry,
                entries_are_listed_in_order_and_numbered_once,
                newest_entries_are_listed_first_and_can_be_filtered;
            breaker: failures_in_a_row_open_the_breaker_until_a_person_resets_it,
                layer_counts_once_in_a_row_of_failures, only_failures_of_automatic_applies_count,
                automatic_applies_do_not_start_while_the_breaker_is_open;
            rename: history_moves_once_and_nothing_starts_before_the_files_were_moved,
                layer_that_was_started_or_not_read_keeps_its_own_history,
                name_that_was_only_read_is_taken_over_and_gets_no_run_any_more,
                plan_that_waits_becomes_stale_with_the_name,
                plan_that_was_applied_is_not_applied_again_under_the_new_name,
                layer_whose_started_runs_were_removed_keeps_its_own_record,
                run_is_not_created_twice_if_a_layer_is_named_back;
            sessions: session_ends_if_it_is_not_used_after_a_week_and_when_it_is_ended;
            cursors: receiver_begins_at_the_end_of_the_journal_and_never_goes_back,
                receiver_that_was_removed_is_a_new_one;
            followers: record_of_a_follower_is_written_only_by_those_who_have_read_it,
                followers_are_listed_by_their_ids;
            deciders: one_server_decides_until_its_lease_ends,
                server_that_decided_before_starts_nothing;
            random: transactions_equal_those_in_memory;
        }
    };
}

/// Makes one test of each test of the contract.
macro_rules! tests {
    ($store:ident, $new:expr; $($topic:ident: $($test:ident),*;)*) => {
        mod $store {
            $($(
                #[tokio::test]
                async fn $test() {
                    super::$topic::$test($new).await;
                }
            )*)*
        }
    };
}

/// Makes one test of the whole contract, for a server that takes longer to start than the tests do.
macro_rules! one_test {
    ($store:ident, $server:expr, $new:path; $($topic:ident: $($test:ident),*;)*) => {
        #[tokio::test]
        async fn $store() {
            let server = $server;
            $($(
                println!("{}", stringify!($test));
                $topic::$test($new(&server).await).await;
            )*)*
        }
    };
}

fn in_memory() -> Tested<MemoryStore> {
    let clock = TestClock::default();
    Tested { store: MemoryStore::new(clock.clock()), clock, _directory: None }
}

with_contract!(tests, memory, super::in_memory());

with_contract!(tests, sqlite, crate::store::sqlite::tests::tested());

with_contract!(
    one_test,
    postgres,
    butler_testing::Postgres::start(),
    crate::store::postgres::tests::tested
);
