//! Files as the documentation of Atlantis shows them, and files that it refuses.

use std::path::PathBuf;

use super::keys::{Key, Kind, SERVER_FILE};
use super::*;
use crate::config::{Config, EnvironmentValue, LayerEntry, parse};

const URL: &str = "https://github.com/acme/infra.git";

fn import(text: &str) -> Result<Imported, String> {
    import_with(text, None)
}

fn import_with(text: &str, server: Option<&str>) -> Result<Imported, String> {
    let server = server.map(|text| (Path::new("repos.yaml"), text));
    atlantis(Path::new("atlantis.yaml"), text, URL, server).map_err(|error| error.to_string())
}

fn config(imported: &Imported) -> Config {
    parse(&[(PathBuf::from("butler.yaml"), imported.yaml.clone())]).unwrap()
}

/// The layer of the only project, which has these keys.
fn layer_of(keys: &str) -> (LayerEntry, String) {
    let imported = import(&format!("version: 3\nprojects:\n- {{{keys}}}\n")).unwrap();
    let layers = config(&imported).layers;
    let (_, layer) = layers.into_iter().next().unwrap();
    (layer.entry, Vec::from_iter(imported.notes).join("\n"))
}

const ATLANTIS: &str = "version: 3
automerge: true
projects:
- name: network
  dir: envs/network
  terraform_version: v1.9.8
  autoplan:
    when_modified: ['*.tf*', '../../modules/**/*.tf', '!README.md']
  apply_requirements: [approved]
- name: app
  branch: /^main$/
  dir: envs/app
  workspace: staging
  terraform_distribution: opentofu
  terraform_version: 1.8.3
  depends_on: [network, gone]
  workflow: custom
- dir: .
workflows:
  custom:
    plan:
      steps:
      - env: {name: REGION, value: eu-west-1}
      - init
      - plan: {extra_args: ['-var-file', staging.tfvars]}
      - run: ./check.sh
    apply:
      steps:
      - env: {name: REGION, value: eu-west-1}
      - apply
";

#[test]
fn projects_become_layers() {
    let imported = import(ATLANTIS).unwrap();
    assert_eq!((imported.repositories, imported.layers), (1, 3));
    let config = config(&imported);
    let network = &config.layers["network"].entry;
    let triggers: Vec<_> = network.triggers.iter().map(|it| &*it.value).collect();
    assert_eq!(triggers, ["modules/**/*.tf"]);
    assert_eq!(network.tool.as_ref().unwrap().value, "1.9.8");
    let app = &config.layers["app"].entry;
    assert_eq!(app.reference.as_deref(), Some("main"));
    assert_eq!(app.workspace.as_deref(), Some("staging"));
    assert_eq!(app.tool.as_ref().unwrap().value, "opentofu-1.8.3");
    assert_eq!(app.after.iter().map(|it| &*it.value).collect::<Vec<_>>(), ["network"]);
    assert_eq!(app.env.keys().collect::<Vec<_>>(), ["REGION"]);
    assert_eq!(config.layers["root"].entry.path.as_ref().unwrap().value, ".");
    let expected = [
        "app: `depends_on`: there is no project `gone`",
        "app: `workflow: custom`: plan: `plan -var-file staging.tfvars`: write the values in `variables` or `secrets`",
        "app: `workflow: custom`: plan: `run: ./check.sh`: name a program that checks plans in `after-plan`",
        "infra: `automerge`: it is about pull requests; a server plans the commits of a branch",
        "network: `apply_requirements`: it is about pull requests; a server plans the commits of a branch, and an operator \
         approves each plan",
        "network: `autoplan.when_modified`: `!README.md`: files cannot be excluded",
    ];
    assert_eq!(imported.notes.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn texts_are_taken_as_they_are_written() {
    for text in [
        "no",
        "yes",
        "on",
        "y",
        "off",
        "010",
        "1e3",
        "0x10",
        "1.10",
        "2024-01-01",
        "1_000",
        ".inf",
        "007",
    ] {
        let (layer, _) = layer_of(&format!("name: {text}, dir: {text}, workspace: {text}"));
        assert_eq!(layer.workspace.as_deref(), Some(text));
        assert_eq!(layer.path.unwrap().value, text);
        let steps = format!("[env: {{name: A, value: {text}}}]");
        let imported = import(&format!(
            "version: 3\nprojects: [{{dir: a, workflow: {text}}}]\nworkflows: {{{text}: {{plan: {{steps: {steps}}}}}}}\n"
        ));
        let env = &config(&imported.unwrap()).layers["a"].entry.env;
        assert_eq!(env["A"], EnvironmentValue::Text(text.to_owned()));
    }
    let (layer, notes) = layer_of("dir: a, terraform_version: 1.10");
    assert_eq!(layer.tool.unwrap().value, "1.10");
    assert!(notes.contains("`terraform_version: 1.10`: Atlantis adds zeros"), "{notes}");
    for absent in ["default", "''", "~", ""] {
        let (layer, notes) = layer_of(&format!("dir: a, workspace: {absent}"));
        assert_eq!((layer.workspace, notes.as_str()), (None, ""), "{absent}");
    }
}

#[test]
fn directory_that_is_a_glob_becomes_a_layer_set() {
    let (layer, notes) = layer_of(
        "dir: './envs/*', workspace: eu, terraform_version: 1.9.8, autoplan: {when_modified: ['*.tf', x.json, '../../lib/*']}",
    );
    assert_eq!(layer.paths.iter().map(|it| &*it.value).collect::<Vec<_>>(), ["envs/*"]);
    assert_eq!(layer.workspace.as_deref(), Some("eu"));
    assert_eq!(
        layer.triggers.iter().map(|it| &*it.value).collect::<Vec<_>>(),
        ["lib/*", "lib/*/**"]
    );
    assert!(layer.path.is_none() && notes.is_empty(), "{notes}");
    for (dir, name) in [("envs/*", "envs"), ("a/b/**", "a.b"), ("**", "infra"), ("[ab]", "infra")] {
        let imported = import(&format!("version: 3\nprojects: [{{dir: '{dir}'}}]\n")).unwrap();
        assert_eq!(config(&imported).layers.keys().collect::<Vec<_>>(), [name]);
    }
}

#[test]
fn without_projects_the_directories_that_atlantis_finds_are_a_layer_set() {
    for (text, layers, note) in [
        ("version: 3\n", 1, "infra: `projects`: there are none, so Atlantis finds them"),
        (
            "version: 3\nprojects: []\n",
            1,
            "infra: `projects`: there are none, so Atlantis finds them",
        ),
        (
            "version: 3\nautodiscover: {mode: enabled, ignore_paths: ['x/*']}\n",
            1,
            "infra: `autodiscover.ignore_paths`: `x/*`: directories cannot be excluded",
        ),
        ("version: 3\nautodiscover: {mode: disabled}\n", 0, "Atlantis plans nothing"),
        (
            "version: 3\nautodiscover: {mode: enabled}\nprojects: [{dir: a}]\n",
            1,
            "Atlantis finds further directories",
        ),
    ] {
        let imported = import(text).unwrap();
        assert_eq!(imported.layers, layers, "{text}");
        let notes = Vec::from_iter(imported.notes).join("\n");
        assert!(notes.contains(note), "{notes}");
    }
    let set = &config(&import("version: 3\n").unwrap()).layers["infra"].entry;
    assert_eq!(set.paths.iter().map(|it| &*it.value).collect::<Vec<_>>(), ["**"]);
}

#[test]
fn project_that_is_planned_manually_says_so() {
    for (keys, is_manual) in [
        ("dir: a, autoplan: {enabled: false}", true),
        ("dir: a, autoplan: {enabled: no}", true),
        ("dir: a, autoplan: {when_modified: []}", true),
        ("dir: a, autoplan: {when_modified: ['!x']}", true),
        ("dir: a, autoplan: {when_modified: ~}", false),
        ("dir: a, autoplan: {enabled: true, when_modified: ['*.tf']}", false),
        ("dir: a, autoplan: {}", false),
    ] {
        let (_, notes) = layer_of(keys);
        assert_eq!(
            notes.contains("plans the project only when a person asks"),
            is_manual,
            "{keys}: {notes}"
        );
    }
}

#[test]
fn variables_of_plans_and_applies_are_different_things() {
    for (plan, apply, env, note) in [
        ("A=1", "A=1", "A=1", None),
        ("A=1", "", "A=1", Some("plan: `env`: `A` is set for plans only")),
        ("A=1", "A=2", "A=1", Some("apply: `env`: `A` has another value than in `plan`")),
        ("", "A=1", "", Some("apply: `env`: `A` is set for applies only")),
        ("HOME=/x", "", "", Some("plan: `env`: `HOME` cannot be set")),
    ] {
        let step = |text: &str| {
            let pair = text.split_once('=');
            pair.map_or("init".to_owned(), |(name, value)| {
                format!("env: {{name: {name}, value: {value}}}")
            })
        };
        let imported = import(&format!(
            "version: 3\nprojects: [{{dir: a, workflow: w}}]\nworkflows:\n  w:\n    plan: {{steps: [{}, plan]}}\n    \
             apply: {{steps: [{}, apply]}}\n",
            step(plan),
            step(apply)
        ))
        .unwrap();
        let found = &config(&imported).layers["a"].entry.env;
        let found = found.iter().map(|(name, value)| match value {
            EnvironmentValue::Text(value) => format!("{name}={value}"),
            EnvironmentValue::Secret(_) => name.clone(),
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found.join(","), env);
        let notes = Vec::from_iter(imported.notes).join("\n");
        assert!(
            note.map_or(notes.is_empty(), |note| notes.contains(note)),
            "{plan} {apply}: {notes}"
        );
    }
}

#[test]
fn notes_about_steps_name_the_command_and_the_right_reason() {
    for (stage, steps, note) in [
        ("plan", "[run: ./a.sh, plan]", "plan: `run: ./a.sh`: no program runs before a plan"),
        ("plan", "[plan, run: ./a.sh]", "plan: `run: ./a.sh`: name a program that checks plans"),
        ("plan", "[run: terraform plan]", "plan: it has no step `plan`"),
        ("apply", "[run: ./a.sh, apply]", "apply: `run: ./a.sh`: no program runs around an apply"),
        (
            "plan",
            "[run: {command: x, output: hide}, plan]",
            "plan: `run: x` with `output`: no program",
        ),
        (
            "plan",
            "[multienv: ./b.sh, plan]",
            "plan: `multienv: ./b.sh`: the variables that it prints",
        ),
        ("plan", "[env: {name: A, command: ./c}, plan]", "`env`: `A` is the output of `./c`"),
        ("plan", "[plan, env: {name: A, value: x}]", "`env`: `A` is set after `plan`"),
        (
            "plan",
            "[init: {extra_args: [-backend-config=x]}, plan]",
            "`init -backend-config=x`: write the settings in `backend`",
        ),
        (
            "plan",
            "[plan: {extra_args: [-parallelism, '5']}]",
            "`plan -parallelism 5`: write it in `env`",
        ),
        (
            "plan",
            "[plan: {extra_args: ['-lock=false']}]",
            "`plan -lock=false`: it has no counterpart",
        ),
        ("policy_check", "[policy_check]", "policy_check: the step `policy_check`: a server runs"),
        ("import", "[import: {extra_args: [-x]}]", "import: `import -x`: it has no counterpart"),
        ("state_rm", "[env: {name: A, value: x}]", "state_rm: `env`: `A`: a server runs"),
    ] {
        let text = format!(
            "version: 3\nprojects: [{{dir: a, workflow: w}}]\nworkflows: {{w: {{{stage}: {{steps: {steps}}}}}}}\n"
        );
        let notes = Vec::from_iter(import(&text).unwrap().notes).join("\n");
        assert!(notes.lines().all(|line| line.starts_with("a: `workflow: w`: ")), "{notes}");
        assert!(notes.contains(note), "{steps}: {notes}");
    }
}

#[test]
fn workflow_of_the_server_is_read_from_its_configuration() {
    let file = "version: 3\nprojects: [{dir: a, workflow: ours}, {dir: b}]\n";
    let notes = Vec::from_iter(import(file).unwrap().notes).join("\n");
    assert!(
        notes.contains("a: `workflow: ours`: the file does not have it; `--server-config FILE`"),
        "{notes}"
    );
    let steps =
        |value: &str| format!("{{plan: {{steps: [env: {{name: A, value: {value}}}, plan]}}}}");
    let server = format!(
        "repos:\n- {{id: /.*/, workflow: other}}\n- {{id: github.com/acme/infra, workflow: all, pre_workflow_hooks: [run: x]}}\n- {{id: github.com/acme/x, \
         workflow: ours}}\nworkflows: {{ours: {}, all: {}, other: {}}}\n",
        steps("ours"),
        steps("all"),
        steps("other")
    );
    let imported = import_with(file, Some(&server)).unwrap();
    let layers = config(&imported).layers;
    let value = |name: &str| layers[name].entry.env["A"].clone();
    assert_eq!(value("a"), EnvironmentValue::Text("ours".to_owned()));
    assert_eq!(value("b"), EnvironmentValue::Text("all".to_owned()));
    let notes = Vec::from_iter(imported.notes).join("\n");
    assert!(notes.contains("server configuration: `pre_workflow_hooks`"), "{notes}");
    let notes = import_with(file, Some("repos: []\n")).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("neither file has it")), "{notes:?}");
    let error = import_with(file, Some("repos: [{branch: x}]\n")).unwrap_err();
    assert!(error.contains("repos.yaml") && error.contains("without `id`"), "{error}");
}

/// Adds a document for each key, with a value.
fn documents(
    keys: &[Key],
    around: &dyn Fn(String) -> String,
    path: &str,
    found: &mut Vec<(String, String)>,
) {
    for (key, kind) in keys {
        let path = if path.is_empty() { (*key).to_owned() } else { format!("{path}.{key}") };
        let value = match (*key, kind) {
            ("version" | "dir" | "id", _) => continue,
            ("projects" | "repos", _) => "[]",
            ("branch", _) => "/^main$/",
            ("terraform_distribution", _) => "opentofu",
            ("terraform_version", _) => "1.9.8",
            ("plan_requirements" | "apply_requirements" | "import_requirements", _) => "[approved]",
            ("steps", _) => "[run: x]",
            ("mode", _) => "on_apply",
            (_, Kind::Text) => "text",
            (_, Kind::Flag) => "false",
            (_, Kind::Number) => "1",
            (_, Kind::Texts) => "[text]",
            (_, Kind::Map(_) | Kind::Named(_)) => "{}",
            (_, Kind::List(_) | Kind::Any) => "[]",
        };
        found.push((path.clone(), around(format!("{key}: {value}"))));
        match kind {
            Kind::Map(keys) => {
                documents(keys, &|text| around(format!("{key}: {{{text}}}")), &path, found);
            }
            Kind::Named(keys) => {
                documents(keys, &|text| around(format!("{key}: {{w: {{{text}}}}}")), &path, found);
            }
            Kind::List(keys) if *key == "projects" => {
                let project = |text: String| format!("projects: [{{dir: a, {text}}}]");
                documents(keys, &|text| around(project(text)), &path, found);
            }
            Kind::List(keys) if *key == "repos" => {
                let repository = |text: String| format!("repos: [{{id: /.*/, {text}}}]");
                documents(keys, &|text| around(repository(text)), &path, found);
            }
            _ => {}
        }
    }
}

#[test]
fn each_key_becomes_a_setting_or_a_note() {
    let mut found = Vec::new();
    // A workflow that is used.
    let around = |text: String| {
        let projects =
            if text.starts_with("projects") { "" } else { ", projects: [{dir: a, workflow: w}]" };
        format!("{{version: 3, {text}{projects}}}")
    };
    documents(REPOSITORY_FILE, &around, "", &mut found);
    assert!(found.len() > 35, "{}", found.len());
    let plain =
        ["{version: 3, projects: [{dir: a}]}", "{version: 3, projects: [{dir: a, workflow: w}]}"];
    let plain = plain.map(|text| import(text).unwrap().yaml);
    for (path, text) in found {
        // These are read, and mean nothing without what is in them.
        if ["workflows", "autodiscover", "projects.autoplan", "projects.repo_locks"]
            .contains(&&*path)
            || path.matches('.').count() == 1 && path.starts_with("workflows.")
            || matches!(&*path, "projects.autoplan.enabled" | "autodiscover.mode")
        {
            continue;
        }
        let imported = import(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(plain.iter().all(|plain| *plain != imported.yaml), "`{path}` is dropped: {text}");
    }
}

#[test]
fn each_key_of_a_server_becomes_a_setting_or_a_note() {
    let mut found = Vec::new();
    documents(SERVER_FILE, &|text| format!("{{{text}}}"), "", &mut found);
    assert!(found.len() > 25, "{}", found.len());
    let file = "{version: 3, projects: [{dir: a}]}";
    let plain = import_with(file, Some("{repos: []}")).unwrap().yaml;
    for (path, text) in found {
        // Without repositories, and without projects that use the workflows, they do not have an effect.
        if path == "repos" || path.starts_with("workflows") {
            continue;
        }
        let imported =
            import_with(file, Some(&text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_ne!(imported.yaml, plain, "`{path}` is dropped: {text}");
    }
}

#[test]
fn what_atlantis_refuses_is_refused() {
    for (text, reason) in [
        ("repos: [{id: /.*/}]\n", "configuration of an Atlantis server"),
        ("[1]\n", "not a mapping"),
        ("", "it is empty"),
        ("version: 3\n---\nversion: 3\n", "several documents"),
        ("a: [\n", "atlantis.yaml:"),
        ("projects: [{dir: a}]\n", "without `version: 3`"),
        ("version: 1\n", "`version: 1`"),
        ("version: three\n", "`version`, which must be a number"),
        ("version: 3\nautomergee: true\n", "unknown key `automergee`; did you mean `automerge`?"),
        ("version: 3\nautomerge: maybe\n", "`automerge`, which must be `true` or `false`"),
        ("version: 3\nprojects: {}\n", "`projects`, which must be a list"),
        ("version: 3\nprojects: [a]\n", "`projects[0]`, which must be a mapping"),
        ("version: 3\nprojects: [{dir: a, workspce: x}]\n", "unknown key `projects[0].workspce`"),
        ("version: 3\nprojects: [{dir: [a]}]\n", "`projects[0].dir`, which must be a text"),
        ("version: 3\nprojects: [{name: a}]\n", "`projects[0]`: it needs `dir`"),
        ("version: 3\nprojects: [{dir: ''}]\n", "`projects[0]`: it needs `dir`"),
        ("version: 3\nprojects: [{dir: a/../b}]\n", "must not contain `..`"),
        ("version: 3\nprojects: [{dir: 'a/[b'}]\n", "is not a valid glob"),
        ("version: 3\nprojects: [{dir: 'a/*', name: x}]\n", "each directory that matches"),
        ("version: 3\nprojects: [{dir: a, name: 'x*'}]\n", "must not be a glob"),
        ("version: 3\nprojects: [{dir: a, name: 'x y'}]\n", "`name: x y` must have"),
        ("version: 3\nprojects: [{dir: a, name: ''}]\n", "`name: ` must have"),
        (
            "version: 3\nprojects: [{dir: a, name: x}, {dir: b, name: x}]\n",
            "two projects with the name `x`",
        ),
        (
            "version: 3\nprojects: [{dir: a}, {dir: ./a/, workspace: default}]\n",
            "two projects with `dir: a`",
        ),
        ("version: 3\nprojects: [{dir: a, name: x}, {dir: a}]\n", "two projects with `dir: a`"),
        ("version: 3\nprojects: [{dir: a, workspace: a/b}]\n", "is not the name of a workspace"),
        ("version: 3\nprojects: [{dir: a, workspace: ' a'}]\n", "is not the name of a workspace"),
        ("version: 3\nprojects: [{dir: a, workspace: -a}]\n", "is not the name of a workspace"),
        (
            "version: 3\nprojects: [{dir: a, branch: main}]\n",
            "`branch: main` must be a regular expression",
        ),
        ("version: 3\nprojects: [{dir: a, branch: '/(/'}]\n", "must be a regular expression"),
        ("version: 3\nprojects: [{dir: a, branch: /}]\n", "must be a regular expression"),
        ("version: 3\nprojects: [{dir: a, terraform_version: '>= 1'}]\n", "is not a version"),
        (
            "version: 3\nprojects: [{dir: a, terraform_distribution: tofu}]\n",
            "must be `terraform` or `opentofu`",
        ),
        (
            "version: 3\nprojects: [{dir: a, apply_requirements: [aproved]}]\n",
            "must not have `aproved`",
        ),
        ("version: 3\nprojects: [{dir: a, execution_order_group: a}]\n", "must be a number"),
        (
            "version: 3\nprojects: [{dir: a, autoplan: {when_modified: x}}]\n",
            "must be a list of texts",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {step: []}}}\n",
            "unknown key `workflows.w.plan.step`; did",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [terraform plan]}}}\n",
            "write a command as `run: COMMAND`",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{init: {}, plan: {}}]}}}\n",
            "exactly one key",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{plan: {args: []}}]}}}\n",
            "only the key `extra_args`",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{plan: {extra_args: -x}}]}}}\n",
            "only the key `extra_args`",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{env: {value: x}}]}}}\n",
            "needs the key `name`",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{env: {name: a, value: x, command: y}}]}}}\n",
            "either `value`",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{env: {name: a, value: x, shell: y}}]}}}\n",
            "needs the key `command`",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{run: {output: hide}}]}}}\n",
            "needs the key `command`",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{run: {command: x, output: y}}]}}}\n",
            "is not one of show",
        ),
        (
            "version: 3\nworkflows: {w: {plan: {steps: [{run: {command: x, shellArgs: y}}]}}}\n",
            "needs the key `shell`",
        ),
    ] {
        let error = import(text).map(|it| it.yaml).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
    // Atlantis takes these.
    for text in [
        "version: '3'\n",
        "version: 2\nprojects: [{dir: /a/b}]\n",
        "version: 3\nautomerge: yes\nprojects: ~\n",
        "version: 3\nprojects: [{dir: a, name: x, branch: /a/}, {dir: a, name: x, branch: /b/}]\n",
        "version: 3\nprojects: [{dir: a, name: x/y~z}]\n",
        "version: 3\nprojects: [{dir: a, name: x}, {dir: a, name: y}]\n",
        "version: 3\nworkflows: {w: {plan: {steps: ~}, apply: ~}}\n",
    ] {
        import(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}
