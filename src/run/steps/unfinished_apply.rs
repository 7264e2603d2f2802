//! An apply that failed or was stopped, with its reason and the changes that are not in the stored state.

use std::path::PathBuf;

use crate::engine::{AppliedChanges, ReportedResources, Unstored};
use crate::run::failure::Failure;
use butler_base::error::FailureClass;
use butler_result::{Action, unstored};

/// The most addresses of one action in a reason.
const MOST_ADDRESSES: usize = 10;

/// The hint about changes that are in no state.
const NO_STATE: &str = "before the next apply, import what was created into the state, or delete it: the next apply does \
not know it and would create it again";

/// The hint about a state that is kept in a file or in the log.
const STORE_FIRST: &str =
    "store this state before the next apply, which would make the changes again";

/// The reason about a state that the tool has only printed.
const PRINTED: &str = "the tool could not write the state to a file either, and printed it: the only copy is in the log of \
this run, where secrets are masked";

/// An apply that failed or was stopped.
pub(super) struct UnfinishedApply {
    pub(super) failure: Failure,
    /// The resources in the output of the tool.
    pub(super) reported: ReportedResources,
    /// The file with the state that the tool could not store.
    pub(super) state: Option<PathBuf>,
    /// A part of the reason: the place of this state with the next step, or the status of the apply on a server.
    pub(super) note: Option<String>,
    /// Whether a server executes the apply and may continue it. The state then does not show its changes.
    pub(super) goes_on: bool,
}

impl UnfinishedApply {
    /// The failure, whose reason names the changes that were made and are not in the stored state.
    pub(super) fn into_failure(self, applied: Option<&AppliedChanges>) -> Failure {
        let Self { mut failure, reported, state, note, .. } = self;
        let made = applied.and_then(|applied| described(&applied.unstored));
        let is_printed = reported.has_printed_state() && state.is_none() && note.is_none();
        if made.is_some() {
            // Not the hint about the backend, which says to try again.
            let other = failure
                .advice
                .take()
                .filter(|_| failure.left.is_some() || failure.class != Some(FailureClass::Network));
            let hint = if state.is_some() || is_printed { STORE_FIRST } else { NO_STATE };
            let hints: Vec<_> = other.into_iter().chain([hint.to_owned()]).collect();
            failure.advice = Some(hints.join("; "));
        }
        let printed = is_printed.then(|| PRINTED.to_owned());
        for part in [reported.failed_actions(), made, note, printed].into_iter().flatten() {
            failure.reason = format!("{}; {part}", failure.reason);
        }
        failure
    }
}

/// `created, but not in the stored state: a, b; destroyed, but still in the stored state: c`.
fn described(made: &[Unstored]) -> Option<String> {
    const KINDS: [(Action, &str); 6] = [
        (Action::Create, "created"),
        (Action::Replace, "replaced"),
        (Action::Update, "updated"),
        (Action::Delete, "destroyed"),
        (Action::Forget, "forgotten"),
        (Action::Nothing, "imported"),
    ];
    let part = |(action, done): (Action, &str)| {
        let all: Vec<_> = made.iter().filter(|it| it.action == action).collect();
        let (first, more) = all.split_at(all.len().min(MOST_ADDRESSES));
        let first: Vec<_> = first.iter().map(|it| it.address.as_str()).collect();
        let more =
            if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        (!all.is_empty())
            .then(|| format!("{done}, but {}: {}{more}", unstored(action), first.join(", ")))
    };
    let parts: Vec<_> = KINDS.into_iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::event::Phase;

    fn made(changes: &[(Action, &str)]) -> Vec<Unstored> {
        let change = |(action, address): &(Action, &str)| Unstored {
            action: *action,
            address: (*address).to_owned(),
        };
        changes.iter().map(change).collect()
    }

    #[test]
    fn changes_are_named_by_their_action() {
        assert_eq!(described(&[]), None);
        let changes =
            made(&[(Action::Delete, "a.c"), (Action::Create, "a.a"), (Action::Create, "a.b")]);
        let forgotten = described(&made(&[(Action::Forget, "a.d")])).unwrap();
        assert_eq!(forgotten, "forgotten, but still in the stored state: a.d");
        assert_eq!(
            described(&changes).unwrap(),
            "created, but not in the stored state: a.a, a.b; destroyed, but still in the stored state: a.c"
        );
        let many: Vec<_> = (0..12).map(|number| format!("a.a[{number}]")).collect();
        let many: Vec<_> = many.iter().map(|it| (Action::Update, it.as_str())).collect();
        let text = described(&made(&many)).unwrap();
        assert!(text.starts_with("updated, but not in the stored state: a.a[0], "), "{text}");
        assert!(text.ends_with(", a.a[9] and 2 more"), "{text}");
    }

    #[test]
    fn reason_says_where_the_only_copy_is() {
        let failure = |printed: bool, state: Option<&str>, note: Option<&str>| {
            let mut reported = ReportedResources::default();
            if printed {
                reported.read_error(b"Error: Failed to create local state file");
            }
            let unfinished = UnfinishedApply {
                failure: Failure::because(Phase::Apply, "failed").advise("more memory"),
                reported,
                state: state.map(PathBuf::from),
                note: note.map(str::to_owned),
                goes_on: false,
            };
            let unstored = made(&[(Action::Create, "a.a")]);
            let failure =
                unfinished.into_failure(Some(&AppliedChanges { unstored, ..Default::default() }));
            (failure.reason, failure.advice.unwrap())
        };
        let named = "failed; created, but not in the stored state: a.a";
        let (reason, advice) = failure(false, Some("/m/errored.tfstate"), Some("it is in `x`"));
        let store_first = format!("more memory; {STORE_FIRST}");
        assert_eq!((reason, &*advice), (format!("{named}; it is in `x`"), &*store_first));
        let (reason, advice) = failure(true, None, None);
        assert_eq!((reason, &*advice), (format!("{named}; {PRINTED}"), &*store_first));
        let (reason, advice) = failure(false, None, None);
        assert_eq!((reason, advice), (named.to_owned(), format!("more memory; {NO_STATE}")));
    }

    #[test]
    fn hint_to_try_again_is_replaced() {
        let unstored = made(&[(Action::Create, "a.a")]);
        let unfinished = UnfinishedApply {
            failure: Failure::because(Phase::Apply, "failed")
                .advise("retry later")
                .classed(FailureClass::Network),
            reported: ReportedResources::default(),
            state: Some("/m/errored.tfstate".into()),
            note: None,
            goes_on: false,
        };
        let applied = AppliedChanges { unstored, ..Default::default() };
        let failure = unfinished.into_failure(Some(&applied));
        assert_eq!(failure.advice.as_deref(), Some(STORE_FIRST));
    }
}
