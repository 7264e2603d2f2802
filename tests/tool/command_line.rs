//! Outputs of the command line parser: completions as a shell uses them, manual pages as `man`
//! reads them, and the version with the origin of the binary.

use std::path::Path;
use std::process::{Command, Output};

use expect_test::expect;

use butler_testing::machine::Machine;
use butler_testing::release_site::ReleaseSite;
use butler_testing::runner;
use butler_testing::terminal::Terminal;

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Completions that each shell must offer: words with an unfinished last one, and the candidates.
const OFFERED: [(&[&str], &[&str]); 11] = [
    (&["exe"], &["execute"]),
    (&["tool", "unin"], &["uninstall"]),
    (&["execute", "--run-"], &["--run-id"]),
    (&["execute", "--operation", "d"], &["destroy", "drift-check"]),
    (&["execute", "--log-format", ""], &["text", "json"]),
    (&["generate", "git"], &["github-actions", "gitlab-ci"]),
    (&["schema", "s"], &["settings", "status", "server"]),
    (&["completions", "z"], &["zsh"]),
    (&["tool", "use", "1."], &["1.10.5", "1.9.8"]),
    (&["tool", "exec", "opentofu-"], &["opentofu-1.8.3", "opentofu-latest"]),
    (&["help", "doc"], &["doctor"]),
];

/// A machine with the runner on PATH and three installed versions.
fn machine_to_complete_on() -> (ReleaseSite, Machine) {
    let site = ReleaseSite::start(&[
        ("1.9.8", b"binary"),
        ("1.10.5", b"binary"),
        ("opentofu-1.8.3", b"binary"),
    ]);
    let mut machine = Machine::with_site(&site);
    for version in ["1.9.8", "1.10.5", "opentofu-1.8.3"] {
        machine.run(&["tool", "install", version]).expect_success();
    }
    let runner = machine.path("bin/butler-runner");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_butler-runner"), runner).unwrap();
    #[expect(clippy::disallowed_methods, reason = "where the shells are")]
    let path = std::env::var("PATH").unwrap();
    machine.set("PATH", format!("{}:{path}", machine.path("bin").display()));
    (site, machine)
}

#[test]
fn bash_completes_commands_flags_values_and_versions() {
    let (_site, machine) = machine_to_complete_on();
    let program = r#"
        source <(butler-runner completions bash)
        [[ $(complete -p butler-runner) =~ -F\ ([^ ]+) ]]
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9 COMPREPLY=()
        "${BASH_REMATCH[1]}" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    for (words, expected) in OFFERED {
        let mut bash = machine.shell("bash");
        bash.args(["--norc", "-c", program, "bash", "butler-runner"]).args(words);
        let output = bash.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        let offered = succeeded(&output);
        assert_eq!(offered.lines().collect::<Vec<_>>(), expected, "{words:?}");
    }
}

#[test]
fn fish_completes_commands_flags_values_and_versions() {
    let (_site, machine) = machine_to_complete_on();
    for (words, expected) in OFFERED {
        let line = format!("butler-runner {}", words.join(" "));
        let program = "butler-runner completions fish | source; complete --do-complete $argv[1]";
        let mut fish = machine.shell("fish");
        let output = fish.args(["--no-config", "-c", program, &line]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        let offered = succeeded(&output);
        let values = offered.lines().map(|line| line.split('\t').next().unwrap());
        assert_eq!(values.collect::<Vec<_>>(), expected, "{words:?}");
    }
}

#[tokio::test]
async fn zsh_completes_commands_flags_values_and_versions() {
    let (_site, machine) = machine_to_complete_on();
    let terminal = Terminal::new(50, 120);
    let mut zsh = machine.shell("zsh");
    zsh.args(["-f", "-i"]).env("ZDOTDIR", machine.path("home"));
    let mut shell = terminal.start(&tokio::process::Command::from(zsh));
    let enter = |text: &str| text.bytes().for_each(|key| terminal.press(key));
    enter(
        "PS1='> ' ; autoload -Uz compinit && compinit -u -D ; source <(butler-runner completions zsh)\r",
    );
    enter("zstyle ':completion:*' list-prompt '' ; setopt no_list_beep\r");
    for (index, (words, expected)) in OFFERED.into_iter().enumerate() {
        // A prompt of its own for each line, on an empty screen: keys that are pressed before zsh shows
        // it reach the terminal while `clear` runs, and Ctrl-D is the end of its input then.
        enter(&format!("\u{15}clear ; PS1='{index}> '\r"));
        let prompt = format!("{index}>");
        terminal.wait_until("the next prompt", |text| text.trim() == prompt).await;
        // Lists the candidates (Ctrl-D after a word), then clears the line (Ctrl-U).
        enter(&format!("butler-runner {}\u{4}", words.join(" ")));
        terminal
            .wait_until(&format!("{expected:?} for {words:?}"), |text| {
                let mut below = text.lines().skip_while(|line| !line.contains("> butler-runner"));
                let line = below.next().unwrap_or_default();
                let offered: String = below.flat_map(|line| [line, " "]).collect();
                let offered: Vec<_> = offered.split_whitespace().collect();
                line.contains(words[0]) && expected.iter().all(|it| offered.contains(it))
            })
            .await;
    }
    enter("\u{15}exit\r");
    shell.wait().await.unwrap();
}

#[test]
fn completion_script_of_each_shell_calls_this_program() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = succeeded(&runner().args(["completions", shell]).output().unwrap());
        assert!(script.contains("BUTLER_COMPLETE") && script.contains("butler-runner"), "{shell}");
    }
}

#[test]
fn hidden_commands_are_not_completed_or_listed() {
    let mut fish = runner();
    fish.env("BUTLER_COMPLETE", "fish").args(["--", "butler-runner", ""]);
    let offered = succeeded(&fish.output().unwrap());
    assert!(offered.contains("execute\t"), "{offered}");
    assert!(hidden_commands().iter().all(|hidden| !offered.contains(hidden)), "{offered}");
}

fn hidden_commands() -> Vec<String> {
    let command = butler_runner::cli::command();
    let hidden = command.get_subcommands().filter(|command| command.is_hide_set());
    let names: Vec<_> = hidden.map(|command| command.get_name().to_owned()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("internal-")), "{names:?}");
    names
}

#[test]
fn man_pages_have_no_warnings() {
    let machine = Machine::new();
    let directory = machine.path("share/man/man1");
    machine.run(&["man", directory.to_str().unwrap()]).expect_success();
    let pages: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["butler-runner", "butler-runner-execute", "butler-runner-tool-install"] {
        assert!(pages.contains(&directory.join(format!("{name}.1"))), "{name}: {pages:?}");
    }
    for page in &pages {
        let shown = man(page);
        assert!(shown.contains("butler-runner"), "{shown}");
        assert!(hidden_commands().iter().all(|hidden| !shown.contains(hidden)), "{shown}");
    }
    let execute = man(&directory.join("butler-runner-execute.1"));
    assert!(execute.contains("BUTLER_RUN_ID") && execute.contains("Exit codes"), "{execute}");
}

/// A page, rendered for a terminal.
fn man(page: &Path) -> String {
    let output = Command::new("man")
        .args(["--warnings", "--local-file"])
        .arg(page)
        .env("MANWIDTH", "200")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", page.display());
    // Bold text is overstruck: each letter, a backspace, and the letter again.
    let mut letters: Vec<char> = Vec::new();
    for letter in succeeded(&output).chars() {
        if letter == '\u{8}' {
            letters.pop();
        } else {
            letters.push(letter);
        }
    }
    letters.into_iter().filter(|letter| !matches!(letter, '\u{ad}' | '\u{2010}')).collect()
}

#[test]
fn printed_man_page_equals_the_written_one() {
    let machine = Machine::new();
    let printed = machine.run(&["man"]).expect_success().stdout;
    machine.run(&["man", "pages"]).expect_success();
    let written = std::fs::read_to_string(machine.path("pages/butler-runner.1")).unwrap();
    assert_eq!(printed, written);
    let error = machine.run(&["man", "pages/butler-runner.1"]);
    assert_eq!(error.code, Some(1), "{error:?}");
    assert!(error.stderr.contains("cannot write pages into `pages/butler-runner.1`"), "{error:?}");
}

#[test]
fn version_prints_the_origin_and_the_components_of_the_binary() {
    let long = succeeded(&runner().arg("--version").output().unwrap());
    let lines: Vec<_> = long.lines().collect();
    assert_eq!(lines[0], concat!("butler-runner ", env!("CARGO_PKG_VERSION")));
    let names: Vec<_> = lines[1..].iter().map(|line| line.split_once(':').unwrap().0).collect();
    assert_eq!(names, ["commit", "date", "target", "features"]);
    assert!(lines[3].contains(std::env::consts::ARCH), "{long}");
    let features = lines[4].trim_start_matches("features: ").split(", ").skip(1);
    let versions: Vec<_> = features.map(|feature| feature.split_once(' ').unwrap()).collect();
    let names: Vec<_> = versions.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["rustls", "ring", "OpenSSL", "libgit2"]);
    let is_version =
        |text: &str| text.split('.').count() == 3 && text.starts_with(char::is_numeric);
    assert!(versions.iter().all(|(_, version)| is_version(version)), "{long}");
    let short = succeeded(&runner().arg("-V").output().unwrap());
    assert_eq!(short.trim_end(), lines[0]);
}

#[test]
fn help_and_version_commands_equal_their_flags() {
    let printed = |words: &[&str]| succeeded(&runner().args(words).output().unwrap());
    assert_eq!(printed(&["version"]), printed(&["--version"]));
    assert_eq!(printed(&["help"]), printed(&["--help"]));
    assert_eq!(printed(&["help", "execute"]), printed(&["execute", "--help"]));
    assert_eq!(printed(&["help", "tool", "install"]), printed(&["tool", "install", "--help"]));
}

#[test]
fn short_help_lists_the_main_flags_and_names_the_long_help() {
    let short = succeeded(&runner().args(["execute", "-h"]).output().unwrap());
    let flag = |line: &str| {
        // Continuation lines are indented further.
        let flags = line.strip_prefix("      ").unwrap_or_default();
        flags
            .starts_with("--")
            .then(|| flags.split([' ', ',']).next().unwrap_or_default().to_owned())
    };
    let flags: Vec<String> = short.lines().filter_map(flag).collect();
    let matter = [
        "--endpoint",
        "--run-id",
        "--token-file",
        "--local",
        "--module-dir",
        "--operation",
        "--var-file",
        "--config",
        "--report",
        "--lock-timeout",
    ];
    assert_eq!(flags.len(), matter.len(), "{short}");
    assert!(matter.iter().all(|flag| flags.iter().any(|it| it == flag)), "{short}");
    assert!(short.contains("`--help` shows all flags"), "{short}");
    assert!(short.lines().count() < 60, "{short}");
    let long = succeeded(&runner().args(["execute", "--help"]).output().unwrap());
    assert!(long.contains("--cancel-interval") && long.contains("Exit codes"), "{long}");
}

#[test]
fn long_help_has_each_setting_in_a_group() {
    let long = succeeded(&runner().args(["execute", "--help"]).output().unwrap());
    let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
    let headings: Vec<_> = long.lines().filter(is_heading).collect();
    let groups =
        ["Registry:", "Without a registry:", "Run:", "Terraform and OpenTofu:", "Output:", "Log:"];
    for group in groups {
        assert_eq!(headings.iter().filter(|it| **it == group).count(), 1, "{group} {headings:?}");
    }
    let (_, rest) = long.split_once("\nOptions:\n").unwrap();
    let rest = rest.lines().take_while(|line| !is_heading(line));
    let flags: Vec<_> = rest.map(str::trim_start).filter(|it| it.starts_with('-')).collect();
    assert!(flags.iter().all(|flag| flag.starts_with("-h, --help")), "{flags:?}");
}

/// The error for each of these malformed command lines.
fn usage_errors(lines: &[&[&str]]) -> String {
    let mut all = String::new();
    for words in lines {
        let output = runner().args(*words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        all.push_str(&String::from_utf8(output.stderr).unwrap());
    }
    all
}

#[test]
fn misspelled_command_error_suggests_the_nearest_one() {
    let shown = usage_errors(&[
        &["tool", "instal"],
        &["tool", "unistall", "1.9.8"],
        &["generate", "github"],
        &["generate", "gitlab"],
        &["exceute"],
        &["mann"],
        &["xyzzy"],
        &["instal"],
        &["github"],
        &["tool", "brce_secret"],
        &["help", "tool", "lsit"],
        &["init"],
        &["tofu", "install", "1.8.3"],
    ]);
    expect![[r"
        error: unknown command `instal`
        hint: did you mean `install`?
        error: unknown command `unistall`
        hint: did you mean `uninstall`?
        error: unknown command `github`
        hint: did you mean `github-actions`?
        error: unknown command `gitlab`
        hint: did you mean `gitlab-ci`?
        error: unknown command `exceute`
        hint: did you mean `execute`?
        error: unknown command `mann`
        hint: did you mean `man`?
        error: unknown command `xyzzy`
        hint: run `butler-runner --help`
        error: unknown command `instal`
        hint: did you mean `tool install`?
        error: unknown command `github`
        hint: did you mean `generate github-actions`?
        error: unknown command `***`
        hint: run `butler-runner tool --help`
        error: unknown command `lsit`
        hint: did you mean `list`?
        error: unknown command `init`
        hint: to run Terraform's `init`, use `butler-runner tool exec -- init`
        error: unknown command `tofu`
        hint: to install it, use `butler-runner tool install tofu@latest`; to run it, use `butler-runner tool exec tofu@latest -- ARGUMENTS`
    "]].assert_eq(&shown);
}

#[test]
fn unexpected_argument_error_suggests_the_right_form() {
    let shown = usage_errors(&[
        &["execute", "plan"],
        &["execute", "./network"],
        &["execute", "run.json"],
        &["execute", "prod.tfvars"],
        &["execute", "local"],
        &["execute", "550e8400-e29b-41d4-a716-446655440000"],
        &["execute", "https://portal.example.com/api/registry"],
        &["execute", "brce_secret"],
        &["execute", "https://user:pw@portal.example.com"],
        &["execute", "hunter2"],
        &["tool", "list", "tofu"],
        &["tool", "install", "1.9.8", "1.8.5"],
        &["generate", "tekton", "pipeline.yml"],
    ]);
    expect![[r"
        error: unexpected argument `plan`
        hint: use `butler-runner plan`
        error: unexpected argument `./network`
        hint: use `--local --module-dir ./network`
        error: unexpected argument `run.json`
        hint: use `--config run.json`
        error: unexpected argument `prod.tfvars`
        hint: use `--var-file prod.tfvars`
        error: unexpected argument `local`
        hint: use `--local`
        error: unexpected argument `550e8400-e29b-41d4-a716-446655440000`
        hint: use `--run-id 550e8400-e29b-41d4-a716-446655440000`
        error: unexpected argument `https://portal.example.com/api/registry`
        hint: use `--endpoint https://portal.example.com/api/registry`
        error: unexpected argument `***`
        hint: run `butler-runner execute --help`
        error: unexpected argument `***`
        hint: run `butler-runner execute --help`
        error: unexpected argument `***`
        hint: run `butler-runner execute --help`
        error: unexpected argument `tofu`
        hint: use `--product tofu`
        error: unexpected argument `1.8.5`
        hint: use `butler-runner tool install [OPTIONS] [VERSION]`
        error: unexpected argument `pipeline.yml`
        hint: use `--output pipeline.yml`
    "]]
    .assert_eq(&shown);
}

#[test]
fn log_filter_that_hides_errors_of_the_runner_is_refused() {
    let shown = usage_errors(&[&["--log", "debg", "clean"], &["clean", "--log", "info,tool"]]);
    expect![[r"
        error: `debg` is neither a log level (error, warn, info, debug, trace, off) nor MODULE=LEVEL; did you mean `debug`? (--log, BUTLER_LOG)
        hint: for example --log debug
        error: `tool` is neither a log level (error, warn, info, debug, trace, off) nor MODULE=LEVEL (--log, BUTLER_LOG)
        hint: for example --log debug
    "]].assert_eq(&shown);
}

/// The values that the build script records for a release in `directory`.
fn noted(script: &Path, directory: &Path, variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(script);
    command.current_dir(directory).env_clear();
    #[expect(clippy::disallowed_methods, reason = "where git is")]
    let path = std::env::var_os("PATH").unwrap();
    command.env("PATH", path).env("PROFILE", "release").env("TARGET", "some-target");
    command.env("HOME", directory).env("GIT_CONFIG_NOSYSTEM", "1");
    let said = succeeded(&command.envs(variables.iter().copied()).output().unwrap());
    let notes = said.lines().filter_map(|line| line.strip_prefix("cargo:rustc-env=BUTLER_RUNNER_"));
    notes.map(str::to_owned).collect()
}

#[test]
fn build_records_commit_and_date_and_works_without_git() {
    let machine = Machine::new();
    let script = machine.path("build-script");
    let compiled = Command::new("rustc")
        .args(["--edition=2024", "-o"])
        .arg(&script)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    succeeded(&compiled);
    let tree = machine.path("tree");
    std::fs::create_dir(&tree).unwrap();
    let notes = noted(&script, &tree, &[]);
    assert_eq!(notes[..3], ["COMMIT=unknown", "DATE=unknown", "TARGET=some-target"]);
    assert_eq!(notes[3..], ["RUSTLS=unknown", "RING=unknown"]);
    let lock = "[[package]]\nname = \"ring\"\nversion = \"0.1.2\"\n\n\
                [[package]]\nname = \"rustls\"\nversion = \"3.4.5\"\n";
    std::fs::write(tree.join("Cargo.lock"), lock).unwrap();
    assert_eq!(noted(&script, &tree, &[])[3..], ["RUSTLS=3.4.5", "RING=0.1.2"]);
    let bare = noted(&script, &tree, &[("PATH", "/nonexistent"), ("SOURCE_DATE_EPOCH", "0")]);
    assert_eq!(bare[..2], ["COMMIT=unknown", "DATE=1970-01-01"]);

    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Test", "-c", "user.email=test@localhost"]).args(arguments);
        let when = "2024-02-29T23:00:00+00:00";
        git.env("GIT_COMMITTER_DATE", when).env("HOME", &tree).current_dir(&tree);
        succeeded(&git.output().unwrap()).trim().to_owned()
    };
    git(&["init", "--quiet"]);
    std::fs::write(tree.join("file"), "one").unwrap();
    git(&["add", "file"]);
    git(&["commit", "--quiet", "--message", "change"]);
    git(&["tag", "--annotate", "v9.9.9", "--message", "release"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let notes = noted(&script, &tree, &[]);
    assert_eq!(notes[..2], [format!("COMMIT={commit}"), "DATE=2024-02-29".to_owned()]);
    assert_eq!(noted(&script, &tree, &[]), notes, "the same commit gives the same notes");
    let named = [("BUTLER_RUNNER_COMMIT", "c0ffee"), ("SOURCE_DATE_EPOCH", "4102444800")];
    assert_eq!(noted(&script, &tree, &named)[..2], ["COMMIT=c0ffee", "DATE=2100-01-01"]);

    std::fs::write(tree.join("file"), "two").unwrap();
    assert_eq!(noted(&script, &tree, &[])[0], format!("COMMIT={commit}-dirty"));
    // Sources that were unpacked inside another repository do not get its commit.
    std::fs::create_dir(tree.join("unpacked")).unwrap();
    assert_eq!(noted(&script, &tree.join("unpacked"), &[])[0], "COMMIT=unknown");
}

#[test]
fn closed_pipe_on_standard_output_is_not_an_error() {
    for words in [
        &["completions", "zsh"][..],
        &["man"],
        &["schema", "run"],
        &["generate", "tekton"],
        &["execute", "--help"],
    ] {
        // The reader is closed from the start.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = runner().args(words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn unknown_value_error_lists_the_possible_values() {
    let shown = usage_errors(&[
        &["generate", "github-actions", "--oidc", "foo"],
        &["generate", "github-actions", "--oidc", "aws,gcp"],
        &["generate", "github-actions", "--oidc", "azur"],
        &["generate", "github-actions", "--oidc=brce_secret"],
        &["generate", "github-actions", "--oidc"],
        &["completions", "foo"],
        &["schema", "foo"],
    ]);
    expect![[r"
        error: unknown value `foo` for `--oidc <CLOUD>`
        hint: use one of: aws, gcp, azure
        error: unknown value `aws,gcp` for `--oidc <CLOUD>`
        hint: use one of: aws, gcp, azure
        error: unknown value `azur` for `--oidc <CLOUD>`
        hint: use one of: aws, gcp, azure
        error: unknown value `***` for `--oidc <CLOUD>`
        hint: use one of: aws, gcp, azure
        error: `--oidc <CLOUD>` needs a value
        error: unknown value `foo` for `<SHELL>`
        hint: use one of: bash, elvish, fish, powershell, zsh
        error: unknown value `foo` for `<DOCUMENT>`
        hint: use one of: settings, run, status, server, followers
    "]]
    .assert_eq(&shown);
}
