use std::time::Duration;

use super::super::access::Access;
use super::*;

/// The hash of `breg_ana`, and of `breg_bob`.
fn hashes() -> [String; 2] {
    ["breg_ana", "breg_bob"].map(|token| {
        serde_json::to_value(TokenHash::of(token)).unwrap().as_str().unwrap().to_owned()
    })
}

fn valid() -> String {
    let [ana, bob] = hashes();
    format!(
        "users:
  - {{name: ana, role: operator, layers: ['*-prod', dns], token-sha256: {ana}}}
  - name: bob
    role: administrator
    token-sha256: {bob}
"
    )
}

#[test]
fn users_have_a_role_and_the_layers_that_they_may_change() {
    let users = parse(Path::new("access.yaml"), &valid()).unwrap();
    let [ana, bob] = &users[..] else { panic!("{users:?}") };
    assert_eq!((&*ana.name, ana.role), ("ana", Role::Operator));
    assert_eq!((&*bob.name, bob.role), ("bob", Role::Administrator));
    assert!(ana.token == TokenHash::of("breg_ana") && bob.token == TokenHash::of("breg_bob"));
    for (layer, by_ana) in [
        (Some("network-prod"), true),
        (Some("apps.envs.eu-prod"), true),
        (Some("dns"), true),
        (Some("dns2"), false),
        (Some("network-prod2"), false),
        (None, false),
    ] {
        assert_eq!(ana.may_change(layer), by_ana, "{layer:?}");
        assert!(bob.may_change(layer), "{layer:?}");
    }
    // A hash of decimal digits is not a number.
    let digits = format!("users: [{{name: a, role: viewer, token-sha256: {}}}]", "1".repeat(64));
    assert_eq!(parse(Path::new("access.yaml"), &digits).unwrap().len(), 1);
    // An empty list allows no change.
    let none = valid().replace("['*-prod', dns]", "[]");
    assert!(!parse(Path::new("a"), &none).unwrap()[0].may_change(Some("dns")));
}

#[test]
fn errors_have_a_place_and_a_suggestion() {
    let [ana, bob] = hashes();
    for (old, new, expected) in [
        ("role: admin", "rolle: admin", "a.yaml:4:5: unknown key `rolle`; did you mean `role`?"),
        (
            "administrator",
            "administator",
            "a.yaml:4:11: unknown value `administator`; did you mean `administrator`?",
        ),
        ("users:", "user:", "a.yaml:1:1: unknown key `user`; did you mean `users`?"),
        ("name: bob", "name: ana", "a.yaml:3:11: there are two users with the name `ana`"),
        ("name: bob", "name: ''", "a.yaml:3:11: the name is empty"),
        (&bob, &ana, "a.yaml:5:19: `ana` and `bob` have the same token"),
        (&bob, &ana.to_uppercase(), "a.yaml:5:19: `ana` and `bob` have the same token"),
        (&bob, &bob[1..], "a.yaml:5:19: `token-sha256` must be the SHA-256"),
        (&bob, &format!("{bob}00"), "a.yaml:5:19: `token-sha256` must be the SHA-256"),
        (&bob, &format!("x{}", &bob[1..]), "a.yaml:5:19: `token-sha256` must be the SHA-256"),
        ("['*-prod', dns]", "['[']", "a.yaml:2:41: "),
    ] {
        let text = valid();
        assert!(text.contains(old), "{old}");
        let errors = parse(Path::new("a.yaml"), &text.replacen(old, new, 1)).unwrap_err();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{new}: {errors:#?}");
    }
}

#[test]
fn token_in_the_place_of_its_hash_is_not_shown() {
    let text = valid().replace(&hashes()[0], "breg_ana_secret");
    let errors = parse(Path::new("a.yaml"), &text).unwrap_err();
    assert!(!errors[0].to_string().contains("secret"), "{errors:?}");
}

/// Writes the file with a time of its own.
fn write(path: &Path, text: &str, seconds: u64) {
    fs::write(path, text).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
    std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn changed_file_comes_into_force_unless_it_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.yaml");
    write(&path, &valid(), 0);
    let access = Access::looking(&path, Duration::ZERO).unwrap();
    let role = |token| access.user(token).map(|user| user.role);
    assert_eq!(role("breg_ana"), Some(Role::Operator));
    assert_eq!(role("breg_eve"), None);
    write(&path, &valid().replace("operator", "viewer"), 1);
    assert_eq!(role("breg_ana"), Some(Role::Viewer));
    for (seconds, wrong) in [(2, "users: ["), (3, "users: [{name: a}]")] {
        write(&path, wrong, seconds);
        assert_eq!(role("breg_ana"), Some(Role::Viewer), "{wrong}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(role("breg_ana"), Some(Role::Viewer));
    write(&path, "users: []", 4);
    assert_eq!(role("breg_ana"), None);
}

#[test]
fn file_is_not_looked_at_before_the_interval_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.yaml");
    write(&path, &valid(), 0);
    let access = Access::looking(&path, Duration::MAX).unwrap();
    write(&path, "users: []", 1);
    assert!(access.user("breg_ana").is_some());
}

#[test]
fn errors_of_a_changed_file_are_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.yaml");
    write(&path, &valid(), 0);
    let (mut file, _) = AccessFile::open(&path).unwrap();
    assert!(file.changed().unwrap().is_none());
    write(&path, "users: [", 1);
    assert!(file.changed().is_err());
    assert!(file.changed().unwrap().is_none());
    write(&path, &valid(), 2);
    assert_eq!(file.changed().unwrap().unwrap().len(), 2);
}
