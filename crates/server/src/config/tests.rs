//! What is refused in single values, and where.

use std::path::PathBuf;

use super::load::parse;

fn errors(text: &str) -> Vec<String> {
    let parsed = parse(&[(PathBuf::from("a.yaml"), text.to_owned())]);
    parsed.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// The errors of a configuration whose only layer `net-prod` has these keys in its third line.
fn layer_errors(keys: &str) -> Vec<String> {
    errors(&format!(
        "repositories: {{infra: {{url: 'https://example.com/a'}}}}\nlayers:\n  net-prod: {{repository: infra, \
         path: a, {keys}}}\n"
    ))
}

/// The errors of a window, with a layer `net-prod` and a set `apps`.
fn window_errors(keys: &str) -> Vec<String> {
    errors(&format!(
        "repositories: {{infra: {{url: 'https://example.com/a'}}}}\nlayers: {{net-prod: {{repository: infra, \
         path: a}}, apps: {{repository: infra, paths: ['*']}}}}\nwindows:\n  - {{deny: [apply], for: 1h, {keys}}}\n"
    ))
}

fn assert_only(errors: &[String], expected: &str, input: &str) {
    assert!(errors.len() == 1 && errors[0].contains(expected), "{input}: {errors:#?}");
}

#[test]
fn values_of_layers_are_refused_with_a_reason() {
    for (keys, expected) in [
        (
            "tool: newest",
            "a.yaml:3:48: `newest` is neither a version nor a constraint; write `1.9.8`",
        ),
        ("tool: latest-allowed", "`latest-allowed` is for version files"),
        ("triggers: ['[']", "a.yaml:3:53: `[` is not a valid glob"),
        ("triggers: ['[[:alpha:]]']", "classes such as `[:alpha:]` are not supported"),
        ("triggers: [./x/**]", "a.yaml:3:53: `./x/**` matches nothing"),
        ("triggers: [x/]", "write `x/**`"),
        ("triggers: ['!x']", "files cannot be excluded"),
        ("backend: {type: ''}", "a.yaml:3:58: `backend.type` must not be empty"),
        (
            "backend: {type: cloud}",
            "a.yaml:3:58: `cloud` is a block of a module and not a type of backend: use `remote` with its `workspaces` block",
        ),
        ("drift: {every: 59s}", "a.yaml:3:13: `drift.every` must be at least 1m"),
        ("retries: {max: 101}", "a.yaml:3:13: `retries.max` must be at most 100"),
        ("max-layers: 0", "a.yaml:3:13: `max-layers` must be at least 1"),
        ("max-log: 64 bags", "a.yaml:3:51: `64 bags` is not a size"),
        ("max-log: 1KiB", "a.yaml:3:51: `max-log` must be between 64KiB and 1GiB"),
        ("module-credentials: {token-env: A}", "`module-credentials.host` must be a host"),
        (
            "module-credentials: {host: 'https://a', token-env: A}",
            "a.yaml:3:62: `module-credentials.host` must be a host, such as `git.example.com`",
        ),
        ("module-credentials: {host: 'b@a', token-env: A}", "must be a host"),
        ("module-credentials: {host: a/b, token-env: A}", "must be a host"),
        ("module-credentials: {host: a}", "a.yaml:3:62: credentials are one of `token-file`"),
        (
            "module-credentials: {host: a, token-file: t}",
            "the file `t` of `module-credentials.token-file` must be an absolute path",
        ),
        ("isolation: {read: [data]}", "a.yaml:3:61: `data` must be an absolute path"),
        ("isolation: {write: ['/a:b']}", "`/a:b` has a separator of paths in it"),
        ("job: {memory: much}", "`much` of `job.memory` must be an amount such as 500m or 2Gi"),
        ("job: {env-from: [A_B]}", "`A_B` of `job.env-from` must consist of lower-case letters"),
        ("job: {tolerations: ['a:Never']}", "`a:Never` of `job.tolerations` is refused"),
        ("variables: {'a=b': 1}", "`a=b` is not the name of a variable"),
        ("secrets: {'1a': {env: A}}", "`1a` is not the name of a variable"),
        (
            "secrets: {a: {file: db}}",
            "a.yaml:3:55: the file `db` of `secrets.a` must be an absolute path",
        ),
        ("env: {A: {file: ../a}}", "the file `../a` of `env.A` must be an absolute path"),
        (
            "backend: {type: s3, config: {k: {file: a}}}",
            "of `backend.config.k` must be an absolute",
        ),
        ("env: {'A=B': a}", "`env` cannot set `A=B`: a name is not empty"),
        ("env: {HOME: /root}", "`env` cannot set `HOME`: the server gives each attempt"),
        ("env: {TMPDIR: /tmp}", "`env` cannot set `TMPDIR`: the server gives"),
        ("env: {PATH: /bin}", "`env` cannot set `PATH`: it decides which git"),
        (
            "env: {BUTLER_TOKEN: a}",
            "`env` cannot set `BUTLER_TOKEN`: it is a setting of the runner",
        ),
        ("env: {LD_PRELOAD: a}", "`env` cannot set `LD_PRELOAD`: it loads other code"),
        ("env: {TF_WORKSPACE: a}", "`env` cannot set `TF_WORKSPACE`: use `workspace`"),
        ("pass-env: [A, HOME]", "a.yaml:3:56: `pass-env` cannot pass `HOME`: the server gives"),
        ("pass-env: [BUTLER_TOKEN]", "`pass-env` cannot pass `BUTLER_TOKEN`: it is a setting of"),
        ("pass-env: ['A=B']", "`pass-env` cannot pass `A=B`: a name is not empty"),
    ] {
        assert_only(&layer_errors(keys), expected, keys);
    }
    let accepted = "tool: 'tofu@1.8', triggers: ['**/*.yaml'], backend: {type: s3}, drift: {every: 1m}, \
                    retries: {max: 100}, max-log: 64KiB, module-credentials: {host: 'a.b:1', token-env: A}, isolation: {read: [/a], write: [/b]}, \
                    job: {cpu: \"1\", memory: 4Gi, node-selector: {pool: x}, tolerations: [spot], service-account: a, env-from: [b]}, \
                    variables: {größe: 1, a-b: 2}, secrets: {_a: {env: A}}, \
                    env: {AWS_PROFILE: prod, TF_LOG: debug, A: {file: /a}}, pass-env: [AWS_REGION]";
    assert_eq!(layer_errors(accepted), Vec::<String>::new());
}

#[test]
fn wrong_default_is_reported_once_where_it_stands() {
    let layers = "repositories: {infra: {url: 'https://example.com/a'}}\nlayers: {a: {repository: infra, path: a}, \
                  b: {repository: infra, path: b}}\ndefaults: {tool: newest}\n";
    assert_only(&errors(layers), "a.yaml:3:18: `newest`", layers);
}

#[test]
fn values_of_repositories_and_notifications_are_refused_with_a_reason() {
    let repository = |keys: &str| {
        errors(&format!("repositories:\n  infra: {{url: 'https://example.com/a', {keys}}}\n"))
    };
    for (keys, expected) in [
        ("poll: 999ms", "a.yaml:2:10: `poll` must be at least 1s"),
        ("concurrency: 0", "a.yaml:2:10: `concurrency` must be at least 1"),
        ("credentials: {token-file: t}", "a.yaml:2:54: the file `t` of `token-file` must be"),
        ("webhook: {provider: github, secret-file: s}", "the file `s` of `webhook.secret-file`"),
    ] {
        assert_only(&repository(keys), expected, keys);
    }
    assert_eq!(repository("poll: 1s"), Vec::<String>::new());
    let of_type = |keys: &str| errors(&format!("notifications: [{{{keys}}}]"));
    for (keys, expected) in [
        ("url-file: u, format: slack, on: [failed]", "a.yaml:1:17: the file `u` of `url-file`"),
        (
            "url-file: /u, format: generic, on: [failed], secret-file: s",
            "a.yaml:1:17: the file `s` of `secret-file`",
        ),
        ("url-file: /u, format: generic, on: [failed]", "`generic` needs `secret-file`"),
        ("url-file: /u, format: teams, on: [drift], secret-file: /s", "remove `secret-file`"),
        ("url-file: /u, format: slack, on: []", "`on` must name at least one event"),
        ("url-file: /u, format: slack, on: [fialed]", "did you mean `failed`?"),
        ("url-file: /u, format: slack, on: [failed], name: a b", "the receiver needs a `name`"),
        ("url-file: /, format: slack, on: [failed]", "the receiver needs a `name`"),
        ("url-file: /u, format: slack, on: [failed], layers: [net]", "no layer matches `net`"),
    ] {
        assert_only(&of_type(keys), expected, keys);
    }
}

#[test]
fn receivers_have_names_of_their_own() {
    let with_name =
        |name: &str| format!("{{url-file: /run/secrets/slack, format: slack, on: [failed]{name}}}");
    let both = |one: &str, other: &str| {
        format!("notifications:\n  - {}\n  - {}\n", with_name(one), with_name(other))
    };
    let same = "a.yaml:3:5: the receiver `slack` is also given in a.yaml:2; give one of them";
    for text in [both("", ""), both(", name: slack", "")] {
        assert_only(&errors(&text), same, &text);
    }
    let text = both("", ", name: team");
    let config = parse(&[(PathBuf::from("a.yaml"), text)]).unwrap();
    let names: Vec<_> = config.notifications.iter().map(|it| it.entry.receiver()).collect();
    assert_eq!(names, [Some("slack".to_owned()), Some("team".to_owned())]);
}

#[test]
fn windows_have_a_schedule_a_time_zone_and_layers_that_exist() {
    for (keys, expected) in [
        ("layers: ['*'], schedule: '0 18 * *'", "is not a cron expression of 5 fields"),
        ("layers: ['*'], schedule: '0 18 * * FRI UTC'", "is not a cron expression of 5 fields"),
        (
            "layers: ['*'], schedule: '0 25 * * FRI'",
            "is not a cron expression that matches any time",
        ),
        ("layers: ['*'], schedule: '0 0 31 2 *'", "is not a cron expression that matches any time"),
        (
            "layers: ['*'], schedule: '0 18 * * FRI', timezone: Europe/Berln",
            "there is no time zone `Europe/Berln`; did you mean `Europe/Berlin`?",
        ),
        (
            "layers: [net-prd], schedule: '0 18 * * *'",
            "a.yaml:4:5: no layer matches `net-prd`; did you mean `net-prod`?",
        ),
        ("layers: ['*-dev'], schedule: '0 18 * * *'", ""),
        ("layers: ['app.*'], schedule: '0 18 * * *'", "no layer matches `app.*`"),
        // Of custom resources.
        ("layers: ['team-a.*'], schedule: '0 18 * * *'", ""),
        ("layers: ['['], schedule: '0 18 * * *'", "error parsing glob"),
    ] {
        let found = window_errors(keys);
        if expected.is_empty() {
            assert_eq!(found, Vec::<String>::new(), "{keys}");
        } else {
            assert_only(&found, expected, keys);
        }
    }
    for layers in ["net-prod", "'*-prod'", "apps", "'apps.*'", "apps.envs.web", "'ap*web'"] {
        let keys =
            format!("layers: [{layers}], schedule: '*/5 0 * * MON-FRI', timezone: Asia/Tokyo");
        assert_eq!(window_errors(&keys), Vec::<String>::new(), "{layers}");
    }
}
