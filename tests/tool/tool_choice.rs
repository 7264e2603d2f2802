//! The tool that a local run starts, chosen from PATH, the cache and released versions.

use std::fs;
use std::path::Path;

use expect_test::expect;

use butler_testing::documented::assert_documented;
use butler_testing::machine::{CommandOutput, Machine};
use butler_testing::release_site::{ReleaseSite, executable, stand_in, terragrunt_stand_in};
use butler_testing::terraform::machine_terraform;

/// A release site with stand-ins of these versions.
fn site(versions: &[&str]) -> ReleaseSite {
    let releases: Vec<_> = versions.iter().map(|it| (*it, stand_in(bare(it)))).collect();
    let releases: Vec<_> = releases.iter().map(|(it, script)| (*it, script.as_bytes())).collect();
    ReleaseSite::start(&releases)
}

/// The version in a name such as `opentofu-1.8.3`.
fn bare(version: &str) -> &str {
    version.rsplit('-').next().unwrap()
}

/// Writes the module directory `module`.
fn module(machine: &Machine, files: &[(&str, &str)]) {
    fs::create_dir_all(machine.path("module")).unwrap();
    for (name, text) in files {
        fs::write(machine.path("module").join(name), text).unwrap();
    }
}

fn local(machine: &Machine, words: &[&str]) -> CommandOutput {
    let run = ["execute", "--local", "--module-dir", "module", "--operation", "plan"];
    machine.run(&[&run, words].concat())
}

/// The tool that a local run reports to use.
fn used(machine: &Machine, words: &[&str]) -> String {
    last_used(&local(machine, words))
}

fn last_used(output: &CommandOutput) -> String {
    let line = output.normalized().lines().rfind(|line| line.starts_with("INFO Using "));
    line.unwrap_or_else(|| panic!("{output:#?}")).replace("INFO ", "")
}

/// Product and version in `Using PRODUCT VERSION (PATH)`.
fn version_in(line: &str) -> &str {
    line.trim_start_matches("Using ").split(" (").next().unwrap()
}

/// The tools on a machine, and the version that its module requests.
struct Case {
    defaults: &'static [&'static str],
    path: &'static [&'static str],
    cached: &'static [&'static str],
    required: &'static str,
}

impl Case {
    /// The machine. Every release is a stand-in that only prints its version.
    fn machine(&self, site: &ReleaseSite) -> Machine {
        let machine = Machine::with_site(site);
        for version in self.defaults.iter().chain(self.cached) {
            machine.run(&["tool", "install", version]).expect_success();
        }
        for (name, executable) in [("opentofu", "tofu"), ("terraform", "terraform")] {
            let is_it = |version: &&&str| version.starts_with(name);
            if !self.defaults.iter().any(|version| is_it(&version)) {
                let _ = fs::remove_file(machine.installation(name, "default.json"));
            }
            if let Some(version) = self.path.iter().find(is_it) {
                let program = machine.path("bin").join(executable);
                butler_testing::release_site::executable(&program, stand_in(bare(version)));
            }
        }
        let required = format!("terraform {{\n  required_version = \"{}\"\n}}\n", self.required);
        let text = if self.required.is_empty() { "" } else { &required };
        module(&machine, &[("main.tf", text)]);
        machine
    }

    fn row(&self, used: &str) -> String {
        let names = |versions: &[&str]| versions.join(", ").replace('-', " ");
        let limit = match self.required {
            "" => String::new(),
            text => format!("`{text}`"),
        };
        let cells =
            [names(self.defaults), names(self.path), names(self.cached), limit, used.to_owned()];
        format!("| {} |", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |")
    }
}

const CASES: [Case; 10] = [
    Case {
        defaults: &["terraform-1.8.5", "opentofu-1.9.0"],
        path: &[],
        cached: &["terraform-1.9.8"],
        required: ">= 1.9",
    },
    Case {
        defaults: &["terraform-1.8.5"],
        path: &["terraform-1.8.5", "opentofu-1.9.0"],
        cached: &["terraform-1.9.8"],
        required: ">= 1.9",
    },
    Case {
        defaults: &["opentofu-1.9.0"],
        path: &["terraform-1.8.5"],
        cached: &[],
        required: ">= 1.9",
    },
    Case {
        defaults: &["opentofu-1.8.3"],
        path: &[],
        cached: &["opentofu-1.9.0", "terraform-1.9.8"],
        required: ">= 1.9",
    },
    Case {
        defaults: &[],
        path: &["opentofu-1.9.0"],
        cached: &["terraform-1.9.8"],
        required: ">= 1.8",
    },
    Case { defaults: &[], path: &[], cached: &["opentofu-1.9.0"], required: ">= 1.8" },
    Case {
        defaults: &["terraform-1.8.5"],
        path: &["terraform-1.10.0"],
        cached: &["terraform-1.9.8"],
        required: ">= 1.9",
    },
    Case { defaults: &["opentofu-1.9.0"], path: &["terraform-1.8.5"], cached: &[], required: "" },
    Case { defaults: &["opentofu-1.8.3"], path: &["opentofu-1.9.0"], cached: &[], required: "" },
    Case { defaults: &[], path: &["opentofu-1.9.0"], cached: &["terraform-1.9.8"], required: "" },
];

const RELEASED: [&str; 5] = ["1.8.5", "1.9.8", "1.10.5", "opentofu-1.8.3", "opentofu-1.9.0"];

#[test]
fn documentation_lists_the_chosen_product_if_both_are_available() {
    let site = site(&RELEASED);
    let rows = CASES.map(|case| {
        let machine = case.machine(&site);
        case.row(version_in(&used(&machine, &[])))
    });
    assert_documented("docs/versions.md", "runs", &rows);
}

#[test]
fn which_from_prints_the_executable_that_a_run_would_start() {
    let site = site(&RELEASED);
    for case in &CASES {
        let machine = case.machine(&site);
        let found = machine.run(&["tool", "which", "--from", "module", "--json"]);
        let started = used(&machine, &[]);
        if version_in(&started) == "terraform 1.10.5" {
            assert_eq!(found.code, Some(1), "it is not installed before the run: {found:#?}");
            continue;
        }
        let found = found.expect_success().json();
        let word = |key: &str| found[key].as_str().unwrap().to_owned();
        let path = word("path").replace(machine.path("").to_str().unwrap(), "<machine>/");
        let line = format!("Using {} {} ({path})", word("product"), word("version"));
        assert_eq!(line, started);
        assert_eq!(word("origin") == "path", path.starts_with("<machine>/bin/"), "{found}");
    }
}

#[test]
fn which_from_uses_the_configured_default_version() {
    let site = site(&RELEASED);
    let mut machine = Machine::with_site(&site);
    module(&machine, &[("main.tf", "")]);
    machine.run(&["tool", "install", "1.8.5"]).expect_success();
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let which = |machine: &Machine| {
        let output = machine.run(&["tool", "which", "--from", "module"]).expect_success();
        output.printed_path().strip_prefix(machine.path("cache")).unwrap().to_owned()
    };
    assert_eq!(which(&machine), Path::new("terraform/1.8.5/terraform"));
    machine.set("BUTLER_DEFAULT_TOOL_VERSION", "1.9.8");
    assert_eq!(which(&machine), Path::new("terraform/1.9.8/terraform"));
    let help = machine.run(&["tool", "which", "--help"]).expect_success().stdout;
    assert!(help.contains("BUTLER_DEFAULT_TOOL_VERSION"), "{help}");
}

/// A proxy of a version manager: the version depends on the directory in which it runs.
fn shim(machine: &Machine, elsewhere: &str, in_module: &str) {
    let script = format!(
        "#!/bin/sh\nversion={elsewhere}\n[ -e main.tf ] && version={in_module}\n\
         [ \"$1\" = version ] || echo \"$@\" >> '{}'\n\
         echo \"{{\\\"terraform_version\\\": \\\"$version\\\"}}\"\n",
        machine.path("record").display()
    );
    executable(&machine.path("bin/terraform"), script);
}

#[test]
fn shim_with_another_version_in_the_module_is_skipped() {
    let site = site(&RELEASED);
    let machine = Machine::with_site(&site);
    module(&machine, &[("main.tf", "")]);
    shim(&machine, "1.8.5", "1.9.8");
    let output = local(&machine, &["--tf-version", "1.8.5"]);
    assert!(output.stderr.contains("not using"), "{output:#?}");
    assert_eq!(
        last_used(&output),
        "Using terraform 1.8.5 (<machine>/cache/terraform/1.8.5/terraform)"
    );
    assert!(!machine.path("record").exists(), "it was started for more than its version");
    let which = machine.run(&["tool", "which", "--from", "module", "--json"]).expect_success();
    assert_eq!(which.json()["origin"], "cache");
}

#[test]
fn shim_with_the_same_version_in_the_module_is_used() {
    let site = site(&RELEASED);
    let mut machine = Machine::with_site(&site);
    module(&machine, &[("main.tf", "")]);
    shim(&machine, "1.8.5", "1.8.5");
    // Variables for other commands do not affect the version query.
    machine.set("TF_CLI_ARGS", "-lock-timeout=5s");
    let used = used(&machine, &["--tf-version", "1.8.5"]);
    assert_eq!(used, "Using terraform 1.8.5 (<machine>/bin/terraform)");
    assert!(machine.path("record").exists());
    assert!(site.requests().is_empty());
}

/// Terraform cannot even print its version in this environment.
#[test]
fn version_is_queried_again_in_the_module_for_scripts_only() {
    let (program, version) = machine_terraform();
    let mut machine = Machine::new();
    module(&machine, &[("main.tf", "")]);
    machine.set("GOMEMLIMIT", "what no program of Go starts with");
    let path = machine.path("bin/terraform");
    std::os::unix::fs::symlink(&program, &path).unwrap();
    let which = || machine.run(&["tool", "which", "--from", "module", "--json"]);
    for _ in 0..2 {
        let found = which().expect_success().json();
        assert_eq!(
            (&found["origin"], &found["version"]),
            (&"path".into(), &version.clone().into())
        );
    }
    fs::remove_file(&path).unwrap();
    executable(&path, format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display()));
    let output = which();
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.stderr.contains("it does not print its version"), "{output:#?}");
}

#[test]
fn version_query_sees_the_version_manager_variables_of_the_run() {
    let site = site(&RELEASED);
    let mut machine = Machine::with_site(&site);
    module(&machine, &[("main.tf", "")]);
    let script = "#!/bin/sh\necho \"{\\\"terraform_version\\\": \\\"${TFENV_TERRAFORM_VERSION:-1.8.5}\\\"}\"\n";
    executable(&machine.path("bin/terraform"), script);
    machine.set("TFENV_TERRAFORM_VERSION", "1.9.8");
    let used = used(&machine, &["--tf-version", "1.8.5"]);
    assert_eq!(used, "Using terraform 1.8.5 (<machine>/cache/terraform/1.8.5/terraform)");
}

#[test]
fn shims_are_never_used_for_terragrunt() {
    let site = site(&RELEASED);
    let machine = Machine::with_site(&site);
    module(&machine, &[("terragrunt.hcl", ""), (".terraform-version", "1.8.5")]);
    shim(&machine, "1.8.5", "1.8.5");
    executable(&machine.path("bin/terragrunt"), terragrunt_stand_in("0.99.1"));
    let used = used(&machine, &["--tf-version", "terragrunt-0.99.1"]);
    assert_eq!(
        used,
        "Using terragrunt 0.99.1 (<machine>/bin/terragrunt) with terraform 1.8.5 (<machine>/cache/terraform/1.8.5/terraform)"
    );
}

/// The tool itself tries to uninstall its own version during the run.
#[test]
fn cached_version_on_path_is_not_removed_while_a_run_uses_it() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\nversion) echo '{{\"terraform_version\": \"1.8.5\"}}' ;;\n\
         init) BUTLER_CACHE_DIR=\"$CACHE\" '{}' tool uninstall 1.8.5 --drain-period 0s 2> '{}'; exit 7 ;;\nesac\n",
        env!("CARGO_BIN_EXE_butler-runner"),
        record.display()
    );
    let site = ReleaseSite::start(&[("1.8.5", script.as_bytes())]);
    let mut machine = Machine::with_site(&site);
    machine.set("CACHE", machine.path("cache"));
    module(&machine, &[("main.tf", "")]);
    let path =
        machine.run(&["tool", "install", "1.8.5"]).expect_success().printed_path().to_owned();
    std::os::unix::fs::symlink(&path, machine.path("bin/terraform")).unwrap();
    let used = used(&machine, &[]);
    assert_eq!(used, "Using terraform 1.8.5 (<machine>/cache/terraform/1.8.5/terraform)");
    assert!(path.exists());
    let refusal = fs::read_to_string(record).unwrap();
    let place = machine.path("module");
    assert!(refusal.contains("is in use by 1 run: pid "), "{refusal}");
    assert!(refusal.contains(&format!("run in {}, since", place.display())), "{refusal}");
}

#[test]
fn terraform_is_chosen_if_tool_versions_names_both_products_in_any_order() {
    let site = site(&RELEASED);
    let machine = Machine::with_site(&site);
    module(&machine, &[("main.tf", ""), (".tool-versions", "opentofu 1.9.0\nterraform 1.9.8\n")]);
    assert_eq!(version_in(&used(&machine, &[])), "terraform 1.9.8");
    let output =
        machine.run(&["tool", "--product", "tofu", "install", "--from", "module"]).expect_success();
    assert!(output.printed_path().ends_with("opentofu/1.9.0/tofu"));
}

#[test]
fn sources_of_other_version_managers_are_used_or_named() {
    let site = site(&RELEASED);
    let mut machine = Machine::with_site(&site);
    module(&machine, &[("main.tf", ""), (".tfswitchrc", "1.8.5\n")]);
    let output = local(&machine, &[]);
    assert_eq!(version_in(&last_used(&output)), "terraform 1.8.5");
    assert!(output.stderr.contains("`.tfswitchrc`"), "{output:#?}");

    // Other files and variables are named, unless the run uses that version.
    fs::remove_file(machine.path("module/.tfswitchrc")).unwrap();
    module(&machine, &[("mise.toml", "[tools]\nterraform = \"1.8.5\"\n")]);
    module(&machine, &[("versions.tf", "terraform {\n  required_version = (\"~> 1.9.0\")\n}\n")]);
    machine.set("TFENV_TERRAFORM_VERSION", "1.8.5");
    let output = local(&machine, &[]);
    assert_eq!(version_in(&last_used(&output)), "terraform 1.9.8");
    assert!(
        output.stderr.contains("`mise.toml` names a version of a tool and is not read"),
        "{output:#?}"
    );
    assert!(
        output.stderr.contains("TFENV_TERRAFORM_VERSION is `1.8.5` and is not read"),
        "{output:#?}"
    );
    machine.set("TFENV_TERRAFORM_VERSION", "1.9.8");
    assert!(!local(&machine, &[]).stderr.contains("TFENV_TERRAFORM_VERSION"));
}

#[test]
fn run_that_names_terragrunt_takes_the_version_of_its_file() {
    let site = site(&RELEASED);
    let machine = Machine::with_site(&site);
    let files = [
        ("terragrunt.hcl", ""),
        (".terraform-version", "1.8.5"),
        (".terragrunt-version", "0.99.1"),
    ];
    module(&machine, &files);
    executable(&machine.path("bin/terragrunt"), terragrunt_stand_in("0.99.1"));
    let used = used(&machine, &["--tf-version", "terragrunt"]);
    assert!(
        used.starts_with("Using terragrunt 0.99.1 (") && used.contains("with terraform 1.8.5 ("),
        "{used}"
    );
}

#[test]
fn usage_errors_quote_the_input_and_name_the_help_of_the_command() {
    let machine = Machine::new();
    let show = |words: &[&str]| machine.run(words).normalized().to_owned();
    expect![[r"
        exit 2
        error: invalid value 'it's' for '--timeout <DURATION>': `it's` is not a duration
        hint: run `butler-runner tool install --help`
    "]]
    .assert_eq(&show(&["tool", "install", "1.9.8", "--timeout", "it's"]));
    expect![[r"
        exit 2
        error: unexpected argument `extra`
        hint: use `butler-runner tool list [OPTIONS]`
    "]]
    .assert_eq(&show(&["tool", "list", "extra"]));
    expect![[r"
        exit 2
        error: unknown flag `--unused`
        hint: did you mean `--unused-for`?
    "]]
    .assert_eq(&show(&["tool", "--product", "terraform", "prune", "--unused"]));
    expect![[r"
        exit 2
        error: no command is given
        hint: run `butler-runner tool --help`
    "]]
    .assert_eq(&show(&["tool"]));
    expect![[r"
        exit 2
        error: unknown flag `--hello`
        hint: did you mean `--help`?
    "]]
    .assert_eq(&show(&["clean", "--hello"]));
    expect![[r"
        exit 2
        error: `<VERSION>` is missing
        hint: run `butler-runner tool use --help`
    "]]
    .assert_eq(&show(&["tool", "use"]));
}

#[test]
fn failed_command_prints_no_json() {
    let machine = Machine::new();
    for words in [&["tool", "which", "--json"][..], &["tool", "which", "1.9.8", "--json"]] {
        let output = machine.run(words);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output:#?}");
        assert!(output.stderr.starts_with("error: "), "{output:#?}");
    }
}

#[test]
fn list_shows_the_problem_of_a_damaged_version() {
    let site = site(&["1.8.5"]);
    let machine = Machine::with_site(&site);
    let path =
        machine.run(&["tool", "install", "1.8.5"]).expect_success().printed_path().to_owned();
    fs::write(path, "another").unwrap();
    let listed = machine.run(&["tool", "list"]).expect_success().stdout;
    assert!(listed.trim_end().ends_with("it is not the executable that was verified"), "{listed}");
}
