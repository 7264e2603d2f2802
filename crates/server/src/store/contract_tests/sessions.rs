//! Browsers that are signed in.

use super::*;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

pub(super) async fn session_ends_if_it_is_not_used_after_a_week_and_when_it_is_ended(
    tested: Tested<impl Store>,
) {
    let id = |name: &str| TokenHash::of(name);
    let user = |name: &str| {
        let used = tested.store.use_session(id(name));
        async { used.await.unwrap().map(|session| session.user) }
    };
    for name in ["idle", "used", "ended"] {
        tested.store.begin_session(id(name), TokenHash::of("ana")).await.unwrap();
    }
    assert_eq!(user("unknown").await, None);
    tested.store.end_session(id("ended")).await.unwrap();
    assert_eq!(user("ended").await, None);
    tested.clock.set(11 * HOUR);
    assert_eq!(user("used").await, Some(TokenHash::of("ana")));
    // A look at a session is not a use.
    let seen = tested.store.session(id("idle")).await.unwrap();
    assert_eq!(seen.map(|session| session.user), Some(TokenHash::of("ana")));
    tested.clock.set(12 * HOUR);
    assert_eq!(tested.store.session(id("idle")).await.unwrap(), None);
    assert_eq!(user("idle").await, None);
    // Each use counts, but not for more than a week.
    for hour in 12..7 * 24 {
        tested.clock.set(hour * HOUR);
        assert_eq!(user("used").await, Some(TokenHash::of("ana")), "{hour}");
    }
    tested.store.prune_sessions().await.unwrap();
    // What was removed stays away, also if the clock is set back; what was not is still there.
    tested.clock.set(HOUR);
    assert_eq!(user("idle").await, None);
    assert_eq!(user("used").await, Some(TokenHash::of("ana")));
    tested.clock.set(7 * 24 * HOUR);
    assert_eq!(user("used").await, None);
}
