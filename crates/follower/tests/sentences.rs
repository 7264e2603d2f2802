//! What a follower must and must not do, each rule with its test. The rest needs a cluster or the
//! command line.
//!
//! | Rule | Test |
//! | --- | --- |
//! | `plan` shows what would change | later: needs the command line |
//! | `apply --confirm --wait` installs or updates the controller | later: needs the cluster |
//! | `status` shows the stored state and reads nothing | `status_needs_only_the_stored_record` |
//! | `status --live` and `run-once` create a bounded Job that reads inside the cluster | later: needs the cluster |
//! | `events` and `logs` only read | later: needs the cluster |
//! | `run-once --confirm --wait` triggers and closes out one commit | `confirmed_run_triggers_and_closes_out` |
//! | Without `--confirm`, nothing is triggered | `unconfirmed_run_triggers_nothing` |
//! | Decisions use only the given head and objects, not worktrees or local git | `decision_depends_only_on_its_input` |
//! | The controller reads the mirror inside the cluster | later: needs the cluster |
//! | Sources and closeout belong to the objects of each adapter | `observed_object_must_show_the_source_commit` |
//! | Triggers go to the API and not to a program | `submission_is_an_object_or_a_run_and_never_a_command` |
//! | A stale object cannot change the result | `object_of_an_earlier_commit_changes_nothing` |
//! | The registry file has controller, followers, adapters, references and budgets | `config::tests::registry_has_followers_with_defaults` |
//! | The registry file does not copy settings of others; references are shown | `status_shows_references_to_the_owning_configurations` |
//! | The chain: image, publication, flush, pipeline, Argo CD, runtime with the commit | `stages_run_in_the_order_of_the_chain` |
//! | Names of objects are derived from the commit, so a later loop resumes | `later_loop_reuses_completed_stages_after_the_record_is_lost` |
//! | Unchanged services are not built again | later: needs the adapters; `reuse_evidence_is_stored_compactly` shows their evidence |
//! | The flush of the mirror is a stage of its own | `flush_of_the_mirror_holds_the_delivery` |
//! | Evidence of reuse is exposed compactly | `reuse_evidence_is_stored_compactly` |
//! | A follower without a flush has the same contract | `chain_without_a_flush_is_delivered_in_the_same_way` |
//! | The budget is 120 s per source change | `budget_is_120_seconds_and_stops_nothing` |
//! | `ClosingOut` while Argo CD or the runtime is not ready | `follower_closes_out_while_gates_are_open` |
//! | Never `Noop` with an open gate, also if the commit matches | `noop_needs_each_required_gate_also_if_the_commit_matches` |
//! | The default status has each column | `status::tests::status_shows_each_commit_the_object_in_flight_and_the_next_commands` |
//! | `STAGE TIMINGS` has a row for each kind | `status::tests::stage_timings_have_a_row_for_each_kind` |
//! | The timings are in JSON too | `status::tests::json_has_the_same_timings` |
//! | The total is end minus start, or now minus start | `total_runs_from_the_first_submission_to_the_closeout` |
//! | The total is not a sum | `status::tests::total_is_end_minus_start_and_never_a_sum_of_stages` |
//! | Missing history is not filled in | `status::tests::missing_history_is_a_dash_and_stays_missing`, `record_without_a_start_gets_none_later` |
//! | A reused object does not become the total | `reused_object_is_a_stage_observation_and_not_the_total` |
//! | A resumed closeout has a closeout time, and no total without a stored start | `resumed_closeout_has_a_closeout_time_only` |
//! | Ten phases | `each_phase_is_reached_and_has_a_way_out` |
//! | Inputs are conditions of objects | `config::tests`: one test for each preset |
//! | Nothing is inferred from printed text | `text_that_a_command_printed_decides_nothing` |
//! | The loop submits without a wait | `submission_does_not_wait` |
//! | A failed commit is tried again | `failed_commit_is_tried_again_under_a_new_name` |
//! | A new reading moves a failed follower on | `recovered_gate_moves_a_failed_follower_on` |
//! | The stored state is bounded | `state::bounded::tests::copy_is_valid_json_within_the_limit_for_every_record` |
//! | No payloads and logs are stored | `record_has_no_payloads` |
//! | Cleanup is not needed to converge | `stale_record_converges_without_a_cleanup` |
//! | A dry run refreshes the record and triggers nothing | `dry_run_refreshes_the_record_and_triggers_nothing` |
//! | A newer commit supersedes | `newer_commit_supersedes_an_undelivered_one` |
//! | A missing dependency blocks | `missing_object_of_another_controller_blocks` |
//! | A paused follower is skipped | `paused_follower_is_skipped` |

mod sentences {
    mod delivery;
    mod failures;
    mod limits;
    mod readings;
    mod timings;
}
mod support;
