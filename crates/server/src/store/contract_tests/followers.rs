//! The records of followers.

use butler_follower::Phase;
use butler_follower::state::Record;

use super::*;

fn record(id: &str, phase: Phase) -> Record {
    Record { phase, message: format!("{id} is {phase:?}"), ..Record::new(id) }
}

pub(super) async fn record_of_a_follower_is_written_only_by_those_who_have_read_it(
    tested: Tested<impl Store>,
) {
    let store = &tested.store;
    assert_eq!(store.follower("web").await.unwrap(), None);
    for (version, phase, expected) in [
        (1, Phase::Failed, Outcome::Refused),
        (0, Phase::PendingTrigger, Outcome::Made),
        // Another server that has read the same.
        (0, Phase::Failed, Outcome::Refused),
        (1, Phase::Triggering, Outcome::Made),
        (1, Phase::Failed, Outcome::Refused),
        (3, Phase::Failed, Outcome::Refused),
    ] {
        let written = store.write_follower(version, record("web", phase)).await.unwrap();
        assert_eq!(written, expected, "{version} {phase:?}");
    }
    let written = StoredFollower { version: 2, record: record("web", Phase::Triggering) };
    assert_eq!(store.follower("web").await.unwrap(), Some(written));
}

pub(super) async fn followers_are_listed_by_their_ids(tested: Tested<impl Store>) {
    let store = &tested.store;
    for (version, id) in [(0, "web"), (0, "api-2"), (0, "api"), (1, "api")] {
        let written = store.write_follower(version, record(id, Phase::Noop)).await.unwrap();
        assert_eq!(written, Outcome::Made, "{id}");
    }
    let all = store.followers().await.unwrap();
    let all: Vec<_> = all.iter().map(|it| (&*it.record.follower, it.version)).collect();
    assert_eq!(all, [("api", 2), ("api-2", 1), ("web", 1)]);
}
