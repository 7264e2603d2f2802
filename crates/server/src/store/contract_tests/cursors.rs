//! Receivers of notifications, and how far they have come in the journal.

use super::*;

pub(super) async fn receiver_begins_at_the_end_of_the_journal_and_never_goes_back(
    tested: Tested<impl Store>,
) {
    let store = &tested.store;
    assert_eq!(store.cursor("early").await.unwrap(), 0);
    tested.see("a", "d1").await;
    tested.see("a", "d2").await;
    // Also if the entries were removed.
    store.prune_events(Moment::from_millis(u64::MAX)).await.unwrap();
    assert_eq!(store.cursor("late").await.unwrap(), 2);
    tested.see("a", "d3").await;
    assert_eq!(store.cursor("early").await.unwrap(), 0);
    assert_eq!(store.cursor("late").await.unwrap(), 2);
    for (sequence, expected) in [(2, 2), (1, 2), (3, 3), (3, 3)] {
        store.advance_cursor("early", sequence).await.unwrap();
        assert_eq!(store.cursor("early").await.unwrap(), expected, "{sequence}");
    }
    assert_eq!(store.cursor("late").await.unwrap(), 2);
}

pub(super) async fn receiver_that_was_removed_is_a_new_one(tested: Tested<impl Store>) {
    let store = &tested.store;
    for name in ["stays", "leaves"] {
        assert_eq!(store.cursor(name).await.unwrap(), 0);
    }
    tested.see("a", "d1").await;
    store.retain_cursors(&["stays".to_owned(), "other".to_owned()]).await.unwrap();
    // A delivery that ends after that does not bring the cursor back.
    store.advance_cursor("leaves", 1).await.unwrap();
    tested.see("a", "d2").await;
    assert_eq!(store.cursor("stays").await.unwrap(), 0);
    assert_eq!(store.cursor("leaves").await.unwrap(), 2);
}
