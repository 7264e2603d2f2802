use serde_json::json;

use super::*;

/// A planned change of a resource, whose value before the change is 1 unless it is created.
fn change(address: &str, actions: &[&str]) -> Value {
    let before = if actions == ["create"] { Value::Null } else { json!({"v": 1}) };
    json!({"address": address, "mode": "managed", "change": {"actions": actions, "before": before}})
}

fn resource(address: &str, value: u8) -> Value {
    json!({"address": address, "mode": "managed", "values": {"v": value}})
}

fn tainted(address: &str, value: u8) -> Value {
    json!({"address": address, "mode": "managed", "values": {"v": value}, "tainted": true})
}

fn compare(changes: &[Value], resources: &[Value], lines: &[&str]) -> AppliedChanges {
    compare_with(changes, (Some(resources), None), lines)
}

/// Compares with the stored and the unsaved state.
fn compare_with(
    changes: &[Value],
    (stored, unsaved): (Option<&[Value]>, Option<&[Value]>),
    lines: &[&str],
) -> AppliedChanges {
    let mut reported = ReportedResources::default();
    for line in lines {
        reported.read_progress(line.as_bytes());
        reported.read_error(line.as_bytes());
    }
    let plan = json!({"resource_changes": changes}).to_string();
    let state = |resources: &[Value]| {
        let (one, other) = resources.split_at(resources.len() / 2);
        let module = json!({"resources": one, "child_modules": [{"resources": other}]});
        json!({"values": {"root_module": module}}).to_string()
    };
    let (stored, unsaved) = (stored.map(state), unsaved.map(state));
    let states = StatesAfter {
        stored: stored.as_deref().map(str::as_bytes),
        unsaved: unsaved.as_deref().map(str::as_bytes),
    };
    AppliedChanges::compare(plan.as_bytes(), states, &reported).unwrap()
}

/// The error of a tool that cannot store its state.
const UNSAVED: &str = "Error: Failed to save state";

#[test]
fn completed_change_that_is_not_in_the_stored_state_is_not_reported_as_not_started() {
    use ChangeOutcome::{Interrupted, NotInState, NotStarted, Unknown};

    let mut import = change("a.imported", &["no-op"]);
    import["change"]["importing"] = json!({"id": "1"});
    let changes = [
        change("a.created", &["create"]),
        change("a.updated", &["update"]),
        change("a.deleted", &["delete"]),
        change("a.replaced", &["delete", "create"]),
        change("a.replaced_first", &["create", "delete"]),
        change("a.half", &["delete", "create"]),
        change("a.waiting", &["create"]),
        change("a.forgotten", &["forget"]),
        import,
    ];
    let before = ["updated", "deleted", "replaced", "replaced_first", "half", "forgotten"]
        .map(|name| resource(&format!("a.{name}"), 1));
    let lines = [
        "a.created: Creation complete after 0s [id=1]",
        "a.updated: Modifications complete after 0s [id=1]",
        "a.deleted: Destruction complete after 0s",
        "a.replaced: Destruction complete after 0s",
        "a.replaced: Creation complete after 0s [id=1]",
        "a.replaced_first: Creation complete after 0s [id=1]",
        "a.replaced_first (deposed object 0a1b): Destruction complete after 0s",
        "a.half: Destruction complete after 0s",
        "a.half: Creating...",
        "a.imported: Import complete [id=1]",
    ];
    let unsaved = [&lines[..], &[UNSAVED]].concat();
    let counts = ChangeCounts {
        add: 3,
        change: 1,
        destroy: 3,
        replace: 2,
        import: 1,
        ..ChangeCounts::default()
    };

    // The stored state is the one before the apply.
    let applied = compare_with(&changes, (Some(&before), None), &unsaved);
    let mut expected = [
        NotInState,
        NotInState,
        NotInState,
        NotInState,
        NotInState,
        Interrupted,
        NotStarted,
        NotStarted,
        NotInState,
    ];
    assert_eq!(applied.outcomes, expected.map(Some));
    assert_eq!((applied.counts, applied.resources), (Some(counts), None));
    let named: Vec<_> = applied.unstored.iter().map(|it| (it.action, &*it.address)).collect();
    assert_eq!(
        named,
        [
            (Action::Create, "a.created"),
            (Action::Update, "a.updated"),
            (Action::Delete, "a.deleted"),
            (Action::Replace, "a.replaced"),
            (Action::Replace, "a.replaced_first"),
            (Action::Nothing, "a.imported"),
        ]
    );

    // The backend cannot be read: only a state shows whether `a.forgotten` was forgotten.
    let applied = compare_with(&changes, (None, None), &unsaved);
    expected[7] = Unknown;
    assert_eq!(applied.outcomes, expected.map(Some));
    assert_eq!((applied.counts, applied.resources), (None, None));

    // The tool has stored its state, and the backend cannot be read now.
    let applied = compare_with(&changes, (None, None), &lines);
    let expected =
        [Unknown, Unknown, Unknown, Unknown, Unknown, Interrupted, NotStarted, Unknown, Unknown];
    assert_eq!(applied.outcomes, expected.map(Some));
    assert_eq!((applied.counts, applied.unstored), (None, Vec::new()));
}

#[test]
fn state_that_could_not_be_stored_shows_what_was_made() {
    use ChangeOutcome::{Done, NotInState, NotStarted};

    let changes = [
        change("a.stored", &["create"]),
        change("a.created", &["create"]),
        change("a.tainted", &["create"]),
        change("a.deleted", &["delete"]),
        change("a.waiting", &["create"]),
    ];
    let stored = [resource("a.stored", 1), resource("a.deleted", 1)];
    let unsaved = [resource("a.stored", 1), resource("a.created", 1), tainted("a.tainted", 1)];
    let made = [Done, NotInState, NotInState, NotInState, NotStarted];
    let counts = ChangeCounts { add: 2, destroy: 1, ..ChangeCounts::default() };
    let applied = compare_with(&changes, (Some(&stored), Some(&unsaved)), &[UNSAVED]);
    assert_eq!(applied.outcomes, made.map(Some));
    assert_eq!((applied.counts, applied.resources), (Some(counts), Some(3)));
    let applied = compare_with(&changes, (None, Some(&unsaved)), &[UNSAVED]);
    assert_eq!(applied.outcomes[0], Some(NotInState), "the backend cannot be read");
    assert_eq!((applied.counts, applied.resources), (Some(counts), Some(3)));
}

#[test]
fn change_is_done_only_if_the_state_shows_it() {
    use ChangeOutcome::{Done, Interrupted, NotStarted};

    let (create, update, delete) = (["create"], ["update"], ["delete"]);
    let replace = ["delete", "create"];
    let changes = [
        change("created", &create),
        change("not_created", &create),
        change("nothing", &["no-op"]),
        change("updated", &update),
        change("not_updated", &update),
        change("deleted", &delete),
        change("not_deleted", &delete),
        change("replaced", &replace),
        change("half_replaced", &replace),
        change("not_replaced", &replace),
    ];
    let resources = [
        resource("created", 1),
        resource("updated", 2),
        resource("not_updated", 1),
        resource("not_deleted", 1),
        resource("replaced", 2),
        resource("not_replaced", 1),
        resource("nothing", 1),
    ];
    let applied = compare(&changes, &resources, &[]);
    let counts =
        ChangeCounts { add: 2, change: 1, destroy: 3, replace: 1, ..ChangeCounts::default() };
    assert_eq!((applied.counts, applied.resources), (Some(counts), Some(7)));
    assert_eq!(
        applied.outcomes,
        [Done, NotStarted, Done, NotStarted, Done, NotStarted, Done, Interrupted, NotStarted]
            .map(Some)
    );
}

#[test]
fn tainted_failed_and_interrupted_changes_are_not_done() {
    use ChangeOutcome::{Failed, Interrupted, NotStarted, Tainted};

    let changes = [
        change("a.tainted", &["create"]),
        change("a.failed", &["create"]),
        change("a.provisioning", &["create"]),
        change("a.half_updated", &["update"]),
        change("a.destroying", &["delete"]),
        change("a.tainted_again", &["create", "delete"]),
        change("a.tainted_before", &["delete", "create"]),
        json!({"address": "data.a.b", "mode": "data", "change": {"actions": ["read"]}}),
        json!({"address": "data.a.c", "mode": "data", "change": {"actions": ["read"]}}),
    ];
    let resources = [
        tainted("a.tainted", 1),
        resource("a.provisioning", 1),
        resource("a.half_updated", 2),
        resource("a.destroying", 1),
        tainted("a.tainted_again", 2),
        tainted("a.tainted_before", 1),
    ];
    let lines = [
        "a.provisioning: Creating...",
        "a.half_updated: Modifying... [id=1]",
        "a.destroying: Destroying... [id=1]",
        "data.a.c: Reading...",
        "Error: refused",
        "  with a.failed,",
        "Error: refused",
        "  with a.half_updated,",
    ];
    let applied = compare(&changes, &resources, &lines);
    let counts = ChangeCounts { destroy: 1, ..ChangeCounts::default() };
    assert_eq!(applied.counts, Some(counts));
    let expected = [Tainted, Failed, Interrupted, Failed, Interrupted, Tainted, NotStarted];
    assert_eq!(applied.outcomes[..7], expected.map(Some));
    assert_eq!(applied.outcomes[7..], [None, Some(Interrupted)]);
}

#[test]
fn deposed_object_is_not_destroyed_yet() {
    let changes = [change("a", &["create", "delete"])];
    let mut old = resource("a", 1);
    old["deposed_key"] = json!("0a1b");
    let applied = compare(&changes, &[resource("a", 2), old.clone()], &[]);
    assert_eq!(applied.counts, Some(ChangeCounts { add: 1, ..ChangeCounts::default() }));
    assert_eq!(applied.outcomes, [Some(ChangeOutcome::Interrupted)]);
    // An object that an earlier apply has deposed is a change of its own.
    let mut change = change("a", &["delete"]);
    change["deposed"] = json!("0a1b");
    let lines = ["a (deposed object 0a1b): Destroying... [id=1]"];
    let applied = compare(&[change], &[resource("a", 2), old], &lines);
    assert_eq!(applied.outcomes, [Some(ChangeOutcome::Interrupted)]);
}

#[test]
fn empty_state_is_valid() {
    let states = StatesAfter { stored: Some(&br#"{"format_version":"1.0"}"#[..]), unsaved: None };
    let reported = ReportedResources::default();
    let applied =
        AppliedChanges::compare(&br#"{"resource_changes":[]}"#[..], states, &reported).unwrap();
    assert_eq!((applied.counts, applied.resources), (Some(ChangeCounts::default()), Some(0)));
}
