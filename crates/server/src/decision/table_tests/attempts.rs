//! Attempts that run.

use super::*;
use Phase::{Blocked, ClosingOut, Triggering};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Row> {
    vec![
        (
            "being started",
            auto().with(|w| attempt(w.plan()).launched = false),
            (Triggering, "", &[], true),
        ),
        (
            "running",
            auto().with(|w| {
                attempt(w.plan());
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "running while paused",
            auto().with(|w| {
                attempt(w.plan());
                w.facts.paused_by = Some("ana".into());
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "running, layer gone",
            auto().with(|w| {
                attempt(w.plan());
                w.layer = None;
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "plan runs, newer digest",
            auto().with(|w| {
                attempt(w.plan());
                w.facts.runs[0].change = 1;
            }),
            (ClosingOut, "stop Superseded", &[], false),
        ),
        (
            "apply runs, newer digest",
            auto().with(|w| {
                attempt(w.apply());
                w.facts.runs[1].change = 1;
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "drift check runs, newer digest",
            auto().with(|w| {
                attempt(w.run(Action::Drift, Cause::Schedule { due: NOW }, "old")).launched = true;
                w.facts.runs[0].change = 1;
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "stop recorded, not delivered",
            auto().with(|w| attempt(w.plan()).stop = Some((StopReason::Cancelled, NOW))),
            (ClosingOut, "stop Cancelled", &[], false),
        ),
        (
            "stop delivered",
            auto().with(|w| {
                let a = attempt(w.plan());
                a.stop = Some((StopReason::Cancelled, NOW));
                a.stop_delivered = true;
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "plan takes too long",
            auto().with(|w| {
                let a = attempt(w.plan());
                a.deadline = NOW;
                a.heartbeat = NOW;
            }),
            (ClosingOut, "stop TimedOut", &[], false),
        ),
        (
            "apply may take longer",
            auto().with(|w| {
                let a = attempt(w.apply());
                a.deadline = NOW + secs(1);
                a.heartbeat = NOW;
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "silent",
            auto().with(|w| attempt(w.plan()).heartbeat = ago(SILENCE)),
            (ClosingOut, "probe", &[], false),
        ),
        (
            "silent, just asked",
            auto().with(|w| {
                let a = attempt(w.plan());
                a.heartbeat = ago(SILENCE);
                a.probed = Some((Liveness::Alive, ago(secs(14))));
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "silent, asked a while ago",
            auto().with(|w| {
                let a = attempt(w.plan());
                a.heartbeat = ago(SILENCE);
                a.probed = Some((Liveness::Alive, ago(secs(15))));
            }),
            (ClosingOut, "probe", &[], false),
        ),
        (
            "process gone",
            auto().with(|w| attempt(w.plan()).probed = Some((Liveness::Gone, NOW))),
            (ClosingOut, "end Lost", &[], false),
        ),
        (
            "process never started",
            auto().with(|w| {
                let a = attempt(w.plan());
                a.launched = false;
                a.probed = Some((Liveness::Gone, NOW));
            }),
            (Triggering, "end NeverStarted", &[], false),
        ),
        (
            "fate unknown for nine minutes",
            auto().with(|w| {
                let a = attempt(w.apply());
                a.heartbeat = ago(SILENCE);
                a.probed = Some((Liveness::Unknown, ago(secs(1))));
                a.unknown_since = Some(ago(secs(540)));
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "fate unknown for ten minutes",
            auto().with(|w| {
                let a = attempt(w.apply());
                a.heartbeat = ago(SILENCE);
                a.probed = Some((Liveness::Unknown, ago(secs(1))));
                a.unknown_since = Some(ago(FATE_UNKNOWN));
            }),
            (Blocked, "", &[Gate::Lease], true),
        ),
        (
            "stop ignored for half an hour",
            auto().with(|w| {
                let a = attempt(w.plan());
                a.stop = Some((StopReason::Cancelled, ago(secs(1800))));
                a.stop_delivered = true;
                a.heartbeat = NOW;
            }),
            (Blocked, "", &[Gate::Lease], true),
        ),
        (
            "silent and to be stopped",
            auto().with(|w| {
                let a = attempt(w.plan());
                (a.heartbeat, a.deadline) = (ago(SILENCE), NOW);
            }),
            (ClosingOut, "probe", &[], false),
        ),
        (
            "cannot be reached and is to be stopped",
            auto().with(|w| {
                let a = attempt(w.plan());
                (a.heartbeat, a.deadline) = (ago(SILENCE), NOW);
                a.probed = Some((Liveness::Unknown, ago(secs(1))));
                a.unknown_since = Some(ago(secs(1)));
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "silent, alive and to be stopped",
            auto().with(|w| {
                let a = attempt(w.plan());
                (a.heartbeat, a.deadline) = (ago(SILENCE), NOW);
                a.probed = Some((Liveness::Alive, ago(secs(1))));
            }),
            (ClosingOut, "stop TimedOut", &[], false),
        ),
    ]
}

/// The attempt runs on the machine of another server.
pub(super) fn elsewhere() -> Vec<Row> {
    let elsewhere = |change: fn(&mut Attempt)| {
        auto().with(|w| {
            w.surroundings.reaches_attempt = false;
            change(attempt(w.apply()));
        })
    };
    vec![
        (
            "elsewhere, silent: its server asks",
            elsewhere(|a| a.heartbeat = ago(SILENCE + secs(59))),
            (ClosingOut, "", &[], true),
        ),
        (
            "elsewhere, silent, and its server does not ask",
            elsewhere(|a| a.heartbeat = ago(SILENCE + secs(60))),
            (ClosingOut, "miss", &[], false),
        ),
        (
            "elsewhere, silent, and its server has asked",
            elsewhere(|a| {
                a.heartbeat = ago(secs(900));
                a.probed = Some((Liveness::Alive, ago(secs(59))));
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "elsewhere, nothing heard for nine minutes",
            elsewhere(|a| {
                a.heartbeat = ago(secs(900));
                a.probed = Some((Liveness::Unknown, ago(secs(540))));
                a.unknown_since = Some(ago(secs(540)));
            }),
            (ClosingOut, "", &[], true),
        ),
        (
            "elsewhere, nothing heard for ten minutes",
            elsewhere(|a| {
                a.heartbeat = ago(secs(900));
                a.probed = Some((Liveness::Unknown, ago(FATE_UNKNOWN)));
                a.unknown_since = Some(ago(FATE_UNKNOWN));
            }),
            (Blocked, "", &[Gate::Lease], false),
        ),
        (
            "elsewhere, to be stopped",
            elsewhere(|a| (a.heartbeat, a.deadline) = (NOW, NOW)),
            (ClosingOut, "request stop TimedOut", &[], false),
        ),
        (
            "elsewhere, asked to stop: its server tells it",
            elsewhere(|a| {
                a.heartbeat = NOW;
                a.stop = Some((StopReason::Cancelled, ago(secs(1))));
            }),
            (ClosingOut, "", &[], true),
        ),
    ]
}
