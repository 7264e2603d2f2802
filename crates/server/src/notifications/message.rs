//! A notification in words, before it has the format of a receiver.

use std::time::{Duration, UNIX_EPOCH};

use url::Url;

use crate::config::NotificationEvent;
use crate::model::{Action, ChangeCounts, Commit, LayerName, Moment, RunId};

/// How many characters of a commit are shown.
const SHORT: usize = 8;

/// What happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Notification {
    /// Its kind.
    pub(super) event: NotificationEvent,
    /// The layer.
    pub(super) layer: LayerName,
    /// The run, unless it happened to the layer.
    pub(super) run: Option<RunId>,
    /// What the run does.
    pub(super) action: Option<Action>,
    /// The commit of the run.
    pub(super) commit: Option<Commit>,
    /// What the plan would change, or what the apply has changed.
    pub(super) counts: Option<ChangeCounts>,
    /// What happened, in a few words.
    pub(super) title: String,
    /// Why, as a sentence.
    pub(super) reason: String,
    /// When.
    pub(super) at: Moment,
}

/// A notification on its way to one receiver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Delivery {
    /// The same for each try, so that a receiver can recognise a repeated one.
    pub(super) id: String,
    /// What happened.
    pub(super) notification: Notification,
    /// The page of the run, or of the layer if there is no run.
    pub(super) page: Option<String>,
}

impl Notification {
    /// The changes, like `3 to add, 1 to destroy`.
    pub(super) fn changes(&self) -> Option<String> {
        let changes = self.counts?.occurring(self.event != NotificationEvent::Waiting);
        Some(if changes.is_empty() { "outputs only".to_owned() } else { changes })
    }

    /// The begin of the commit's hash.
    fn short_commit(&self) -> Option<String> {
        Some(self.commit.as_ref()?.to_string().chars().take(SHORT).collect())
    }

    /// Names and values for a table.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("Layer", self.layer.to_string())];
        facts.extend(self.changes().map(|changes| ("Changes", changes)));
        facts.extend(self.short_commit().map(|commit| ("Commit", commit)));
        facts
    }

    /// When it happened, as RFC 3339 text.
    pub(super) fn time(&self) -> String {
        let time = UNIX_EPOCH + Duration::from_millis(self.at.as_millis());
        humantime::format_rfc3339_millis(time).to_string()
    }
}

impl Delivery {
    /// A notification with this id. `public_url` is where people reach the server.
    pub(super) fn new(id: String, notification: Notification, public_url: Option<&Url>) -> Self {
        let page = match &notification.run {
            Some(run) => format!("runs/{run}"),
            None => format!("layers/{}", notification.layer),
        };
        let page = public_url.map(|url| format!("{}/{page}", url.as_str().trim_end_matches('/')));
        Self { id, notification, page }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A plan of the layer `net` that waits, with this reason.
    pub(in super::super) fn delivery(reason: &str) -> Delivery {
        let notification = Notification {
            event: NotificationEvent::Waiting,
            layer: "net".parse().unwrap(),
            run: Some(RunId::new("r1")),
            action: Some(Action::Plan),
            commit: Some(Commit::new("0123456789abcdef0123456789abcdef01234567")),
            counts: Some(ChangeCounts { add: 3, destroy: 1, ..ChangeCounts::default() }),
            title: "net: plan waits for approval".to_owned(),
            reason: reason.to_owned(),
            at: Moment::from_millis(1_700_000_000_000),
        };
        let url = "https://butler.example.com/prefix/".parse().unwrap();
        Delivery::new("d1".to_owned(), notification, Some(&url))
    }

    #[test]
    fn delivery_has_counts_in_words_and_a_page() {
        let Delivery { notification, page, .. } = delivery("");
        assert_eq!(page.as_deref(), Some("https://butler.example.com/prefix/runs/r1"));
        let facts = ["net", "3 to add, 1 to destroy", "01234567"];
        assert_eq!(
            notification.facts().into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
            facts
        );
        let applied = Notification { event: NotificationEvent::Applied, ..notification.clone() };
        assert_eq!(applied.changes().as_deref(), Some("3 added, 1 destroyed"));
        let rare = ChangeCounts { import: 1, moved: 2, forget: 3, ..ChangeCounts::default() };
        let rare = Notification { counts: Some(rare), ..applied.clone() };
        assert_eq!(rare.changes().as_deref(), Some("1 imported, 2 moved, 3 forgotten"));
        let outputs = Notification { counts: Some(ChangeCounts::default()), ..applied };
        assert_eq!(outputs.changes().as_deref(), Some("outputs only"));
        let of_layer = Notification { run: None, ..notification.clone() };
        let url = "https://butler.example.com".parse().unwrap();
        let page = Delivery::new("d".to_owned(), of_layer, Some(&url)).page;
        assert_eq!(page.as_deref(), Some("https://butler.example.com/layers/net"));
        assert_eq!(Delivery::new("d".to_owned(), notification, None).page, None);
    }
}
