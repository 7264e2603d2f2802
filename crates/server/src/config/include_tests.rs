//! What included configuration can say, and how it joins the server's own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::load::parse;
use super::*;

/// The server's own files in these tests, with an include.
const OWN: &str = "repositories:
  infra: {url: 'https://git.example.com/infra.git'}
  other: {url: 'https://git.example.com/other.git'}
include: [{repository: infra, ref: main, path: ops/butler}]
layers: {dns: {repository: infra, path: dns}}
";

fn own(more: &str) -> Config {
    parse(&[(PathBuf::from("butler.yaml"), format!("{OWN}{more}"))]).unwrap()
}

fn limits(secrets: &Path) -> RemoteLimits {
    let git_hosts = vec!["*.example.com".to_owned()];
    RemoteLimits { secrets: Some(secrets.to_owned()), data: None, git_hosts }
}

fn read(text: &str, defaults: Option<&LayerEntry>) -> Result<Config, Vec<ConfigError>> {
    let files = [(PathBuf::from("infra@main:ops/butler/a.yaml"), text.to_owned())];
    parse_included(&files, &limits(Path::new("/run/secrets")), "infra", defaults)
}

fn texts(errors: &[ConfigError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The errors of an included file.
fn errors(text: &str) -> Vec<String> {
    texts(&read(text, None).err().unwrap_or_default())
}

#[test]
fn include_names_a_repository_and_a_path_inside_of_it() {
    let config = own("");
    let sources = config.include_sources();
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0].to_string(), "infra@main:ops/butler");
    assert_eq!(sources[0].file("ops/butler/a.yaml"), Path::new("infra@main:ops/butler/a.yaml"));
    for (include, expected) in [
        ("{repository: infra, path: .}", ""),
        ("{repository: infra, path: ops}, {repository: infra, path: ops, ref: next}", ""),
        (
            "{repository: infa, path: ops}",
            "butler.yaml:2:24: there is no repository `infa`; did you mean `infra`?",
        ),
        (
            "{repository: infra, path: ../ops}",
            "butler.yaml:2:37: `../ops` is not a path inside the repository",
        ),
        (
            "{repository: infra, path: ops}, {repository: infra, path: ./ops/}",
            "butler.yaml:2:43: the same include is given twice",
        ),
        ("{repository: infra, pth: ops}", "unknown key `pth`; did you mean `path`?"),
    ] {
        let text =
            format!("repositories: {{infra: {{url: 'https://a/b'}}}}\ninclude: [{include}]\n");
        let parsed = parse(&[(PathBuf::from("butler.yaml"), text)]);
        let errors = texts(&parsed.err().unwrap_or_default());
        let is_expected = match expected {
            "" => errors.is_empty(),
            _ => errors.len() == 1 && errors[0].contains(expected),
        };
        assert!(is_expected, "{include}: {errors:?}");
    }
}

#[test]
fn included_configuration_is_refused_where_it_goes_beyond_its_rules() {
    let at = |line: &str, message: &str| format!("infra@main:ops/butler/a.yaml:{line}: {message}");
    let repository = "repositories: {mine: {url: 'https://git.example.com/mine.git'}}\n";
    for (text, expected) in [
        ("layers: {a: {repository: infra, path: a}}".to_owned(), String::new()),
        (format!("{repository}layers: {{a: {{repository: mine, path: a}}}}"), String::new()),
        (
            "layers: {a: {repository: other, path: a}}".to_owned(),
            at(
                "1:26",
                "the layer cannot use the repository `other`: included layers can use only `infra`",
            ),
        ),
        (
            repository.replace("mine:", "infra:"),
            at("1:23", "the server has a repository `infra` already"),
        ),
        (
            repository.replace("git.example.com", "example.org"),
            at("1:28", "the host `example.org` is not allowed by `--allowed-git-host`"),
        ),
        (
            "include: [{repository: infra, path: b}]".to_owned(),
            at("1:11", "only the server's own configuration can have `include`"),
        ),
        (
            "notifications: [{url-file: /run/secrets/a, format: slack, on: [failed]}]".to_owned(),
            at("1:17", "only the server's own configuration can have notifications"),
        ),
        (
            "layers:\n  a: {repository: infra, path: a, secrets: {s: {file: /run/secrets/a}}}".to_owned(),
            String::new(),
        ),
        (
            "layers:\n  a: {repository: infra, path: a, secrets: {s: {file: /etc/a}}}".to_owned(),
            at("2:48", "`secrets.s` must be an existing file below `/run/secrets`"),
        ),
        (
            "layers:\n  a: {repository: infra, path: a, after: [dns]}".to_owned(),
            at("2:43", "there is no layer `dns`"),
        ),
        (
            "layers:\n  a: {repository: infra, path: a}\n  b: {repository: infra, path: b, after: [a]}"
                .to_owned(),
            String::new(),
        ),
    ] {
        let found = errors(&text);
        let is_expected = match &*expected {
            "" => found.is_empty(),
            expected => found.len() == 1 && found[0].starts_with(expected),
        };
        assert!(is_expected, "{text}: {found:?}");
    }
}

#[test]
fn included_layers_have_their_own_defaults_on_top_of_the_servers() {
    let own = own("defaults: {tool: 1.11.4, strategy: approve, variables: {region: eu, size: 1}}");
    let text = "defaults: {tool: 1.12.0, repository: infra, variables: {size: 2}}
layers: {a: {path: a, variables: {name: a}}, b: {path: b, tool: 1.13.0}}";
    let included = read(text, own.defaults.as_ref()).unwrap();
    let [source] = &own.include_sources()[..] else { panic!("one include") };
    let merged = merge(&own, [(source, &included)]).unwrap();
    let tool = |name: &str| merged.layers[name].entry.tool.as_ref().unwrap().value.clone();
    assert_eq!([tool("dns"), tool("a"), tool("b")], ["1.11.4", "1.12.0", "1.13.0"]);
    let variables = &merged.layers["a"].entry.variables;
    let found: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(found, ["name=\"a\"", "region=\"eu\"", "size=2"]);
    assert_eq!(merged.layers["dns"].entry.variables["size"], 1);
    assert_eq!(merged.layers["a"].entry.strategy, Some(crate::model::Strategy::Approve));
}

#[test]
fn plans_of_included_layers_are_checked_by_the_program_of_the_servers_defaults() {
    let own = own("defaults: {after-plan: /usr/local/bin/check}");
    let included =
        read("layers: {a: {repository: infra, path: a}}", own.defaults.as_ref()).unwrap();
    let command = included.layers["a"].entry.after_plan.as_ref().unwrap();
    assert_eq!(command.value, "/usr/local/bin/check");
    let replaced = "layers: {a: {repository: infra, path: a, after-plan: /bin/true}}";
    assert!(read(replaced, own.defaults.as_ref()).is_err());
}

#[test]
fn included_layers_take_no_secret_from_the_servers_defaults_that_they_could_not_name() {
    let defaults = |keys: &str| own(&format!("defaults: {{{keys}}}")).defaults;
    let layer = |keys: &str| {
        let text = "layers: {a: {repository: infra, path: a}}";
        let mut config = read(text, defaults(keys).as_ref()).unwrap();
        config.layers.remove("a").unwrap().entry
    };
    let secrets = layer("secrets: {a: {file: /run/secrets/a}, b: {file: /etc/b}, c: {env: C}}");
    assert_eq!(secrets.secrets.keys().collect::<Vec<_>>(), ["a"]);
    let env = layer("env: {A: text, B: {file: /run/secrets/b}, C: {file: /etc/c}, D: {env: D}}");
    assert_eq!(env.env.keys().collect::<Vec<_>>(), ["A", "B"]);
    let keys = "pass-env: [AWS_PROFILE], isolation: {read: [/srv]}, repository: other";
    let none = layer(keys);
    assert!(none.pass_env.is_empty() && none.isolation.is_none());
    assert_eq!(none.repository.unwrap().value, "infra");
    let job =
        layer("job: {memory: 4Gi, service-account: admin, env-from: [cloud], cache-claim: c}");
    let job = job.job.unwrap();
    assert_eq!(job.memory.unwrap().value, "4Gi");
    assert!(job.service_account.is_none() && job.env_from.is_empty() && job.cache_claim.is_none());
    for (config, is_taken) in [
        ("{type: s3, config: {bucket: b}}", true),
        ("{type: s3, config: {secret_key: {file: /run/secrets/key}}}", true),
        ("{type: s3, config: {secret_key: {env: KEY}}}", false),
        ("{type: local, config: {path: /srv/states/a.tfstate}}", false),
    ] {
        let found = layer(&format!("backend: {config}"));
        assert_eq!(found.backend.is_some(), is_taken, "{config}");
    }
    for (credentials, is_taken) in [
        ("{host: git.example.com, token-file: /run/secrets/git}", true),
        ("{host: git.example.com, token-env: GIT}", false),
        ("{host: example.org, token-file: /run/secrets/git}", false),
    ] {
        let found = layer(&format!("module-credentials: {credentials}"));
        assert_eq!(found.module_credentials.is_some(), is_taken, "{credentials}");
    }
}

#[test]
fn name_that_is_given_twice_names_both_places() {
    let own = own("");
    let source = |path: &str| {
        let text = format!(
            "repositories: {{infra: {{url: 'file:///a'}}}}\ninclude: [{{repository: infra, path: {path}}}]"
        );
        parse(&[(PathBuf::from("butler.yaml"), text)]).unwrap().include_sources().remove(0)
    };
    let layers = |names: &[&str]| {
        let layers = names.iter().map(|name| format!("  {name}: {{repository: infra, path: a}}\n"));
        read(&format!("layers:\n{}", layers.collect::<String>()), None).unwrap()
    };
    let (one, two) = (source("one"), source("two"));
    let errors = |first: &Config, second: &Config| {
        texts(&merge(&own, [(&one, first), (&two, second)]).err().unwrap_or_default())
    };
    assert_eq!(errors(&layers(&["a"]), &layers(&["b"])), Vec::<String>::new());
    let file = "infra@main:ops/butler/a.yaml";
    assert_eq!(
        errors(&layers(&["dns"]), &layers(&["b"])),
        [format!("{file}:2:8: the layer `dns` is also given in butler.yaml:5")]
    );
    assert_eq!(
        errors(&layers(&["a", "b"]), &layers(&["b"])),
        [format!("{file}:2:6: the layer `b` is also given in {file}:3")]
    );
    let repository =
        read("repositories: {other: {url: 'https://git.example.com/a'}}", None).unwrap();
    assert_eq!(
        errors(&repository, &layers(&["b"])),
        [format!("{file}:1:23: the repository `other` is also given in butler.yaml:3")]
    );
}

#[test]
fn windows_of_an_include_are_about_its_layers_only() {
    let window = |layers: &str| {
        format!(
            "layers: {{a: {{repository: infra, path: a}}}}\nwindows:\n  - {{deny: [apply], layers: [{layers}], \
             schedule: '0 18 * * FRI', for: 62h}}\n"
        )
    };
    let found = errors(&window("dns"));
    assert!(found.len() == 1 && found[0].contains(":3:5: no layer matches `dns`"), "{found:?}");
    let own = own("");
    let included = read(&window("'*'"), None).unwrap();
    let merged = merge(&own, [(&own.include_sources()[0], &included)]).unwrap();
    assert!(merged.windows.is_empty());
    let [part] = &merged.included[..] else { panic!("one include") };
    assert_eq!((part.windows.len(), &part.layers), (1, &BTreeSet::from(["a".to_owned()])));
}

#[test]
fn errors_of_an_included_file_do_not_quote_values_that_can_be_secrets() {
    for text in [
        "layers: {a: {repository: infra, path: a, secrets: {s: hunter22}}}",
        "layers: {a: {repository: infra, path: a, env: {s: [hunter22]}}}",
        "layers: {a: {repository: infra, path: a, variables: hunter22}}",
        "layers: {a: {repository: infra, path: a, secrets: {s: {value: hunter22}}}}",
        "layers: {a: {repository: infra, path: a, module-credentials: hunter22}}",
        "repositories: {a: {url: 'https://me:hunter22@example.org/a'}}",
        "repositories: {a: {url: 'https://git.example.com/a', credentials: hunter22}}",
        "layers: {a: {repository: infra, path: a, backend: {type: s3, config: hunter22}}}",
    ] {
        let found = errors(text).concat();
        assert!(found.contains(":1:") && !found.contains("hunter22"), "{text}: {found}");
    }
}

#[test]
fn file_that_grows_without_end_is_refused() {
    let mut text =
        "layers: {a: {repository: infra, path: a, variables: {x0: &x0 [a, a, a, a, a, a, a, a, a]"
            .to_owned();
    for number in 1..12 {
        let before = format!("*x{}", number - 1);
        let members = vec![before; 9].join(", ");
        text = format!("{text}, x{number}: &x{number} [{members}]");
    }
    text.push_str("}}}\n");
    assert_eq!(errors(&text).len(), 1);
}
