//! A run that a window forbids.

use std::path::PathBuf;

use super::*;
use crate::config::parse;

/// A window that begins each minute and takes an hour never ends.
const CLOSED: &str = "
repositories: {infra: {url: 'file:///infra'}}
layers: {a: {repository: infra, path: a}}
windows: [{deny: [plan], layers: ['*'], schedule: '* * * * *', for: 1h}]
";

/// Milliseconds of the clock: later than the first begin of the window.
const NOW: u64 = 100_000_000;

fn close(tested: &Tested) {
    let config = parse(&[(PathBuf::from("butler.yaml"), CLOSED.to_owned())]).unwrap();
    tested.desired.configure(config).unwrap();
}

#[tokio::test]
async fn administrator_lets_a_run_start_that_a_window_forbids() {
    let tested = tested().await;
    tested.clock.store(NOW, Ordering::Relaxed);
    let run = tested.plan("a").await;
    let path = format!("/runs/{run}");
    let action = format!("{path}/override-window");
    let mut administrator = Visitor::signed_in(&tested, &token(Role::Administrator)).await;
    let mut operator = Visitor::signed_in(&tested, &token(Role::Operator)).await;
    let page = administrator.get(&path).await.body;
    assert!(!page.contains(&action), "no window forbids it: {page}");

    close(&tested);
    assert!(administrator.get(&path).await.body.contains(&action));
    assert!(!operator.get(&path).await.body.contains(&action));
    for empty in ["", "  "] {
        let refused = administrator.submit(&action, &[("reason", empty)]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(refused.body.contains("a text of 1 to 500 characters"), "{}", refused.body);
        assert!(refused.body.contains(&action), "the form is still there: {}", refused.body);
    }

    let given = administrator.submit(&action, &[("reason", "incident <4711>")]).await;
    assert_eq!(given.location(), path);
    let page = operator.get(&path).await.body;
    let fact = "<dt>Window overridden by</dt><dd>administrator: incident &#60;4711&#62;</dd>";
    assert!(page.contains(fact), "{page}");
    assert!(!administrator.get(&path).await.body.contains(&action), "it is decided");
}

#[tokio::test]
async fn window_is_not_overridden_for_a_run_that_runs_or_is_over() {
    for is_over in [false, true] {
        let tested = tested().await;
        tested.clock.store(NOW, Ordering::Relaxed);
        let run = if is_over {
            waiting_plan(&tested).await
        } else {
            let run = tested.plan("a").await;
            tested.start(&run, 1).await;
            run
        };
        close(&tested);
        let mut administrator = Visitor::signed_in(&tested, &token(Role::Administrator)).await;
        let page = administrator.get(&format!("/runs/{run}")).await.body;
        assert!(!page.contains("override-window"), "{page}");
    }
}
