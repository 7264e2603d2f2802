//! What is made from the command line: completions as a shell uses them, manual pages as `man` reads
//! them, and the version with where the binary is from.

use std::path::Path;
use std::process::{Command, Output};

use expect_test::expect;

use crate::support::machine::Machine;
use crate::support::runner;

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a bash that has loaded the completions offers after `words`, the last of which is unfinished.
fn offered_by_bash(words: &[&str]) -> Vec<String> {
    let program = r#"
        source <("$0" completions bash)
        [[ $(complete -p butler-runner) =~ -F\ ([^ ]+) ]]
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        "${BASH_REMATCH[1]}" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", program, env!("CARGO_BIN_EXE_butler-runner")]);
    let output = bash.args(words).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    succeeded(&output).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_documents() {
    assert_eq!(offered_by_bash(&["butler-runner", "exe"]), ["execute", "exec"]);
    assert_eq!(offered_by_bash(&["butler-runner", "tool", "unin"]), ["uninstall"]);
    assert_eq!(offered_by_bash(&["butler-runner", "execute", "--run-"]), ["--run-id"]);
    assert_eq!(offered_by_bash(&["butler-runner", "schema", "s"]), ["settings", "status"]);
    assert_eq!(offered_by_bash(&["butler-runner", "completions", "z"]), ["zsh"]);
}

#[test]
fn each_shell_gets_a_script_without_the_commands_that_are_not_for_people() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = succeeded(&runner().args(["completions", shell]).output().unwrap());
        assert!(script.contains("terragrunt") && script.contains("force-unlock-own"), "{shell}");
        for hidden in hidden_commands() {
            assert!(!script.contains(&hidden), "{hidden} in {shell}");
        }
    }
}

fn hidden_commands() -> Vec<String> {
    let command = butler_runner::cli::command();
    let hidden = command.get_subcommands().filter(|command| command.is_hide_set());
    let names: Vec<_> = hidden.map(|command| command.get_name().to_owned()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    names
}

#[test]
fn man_finds_nothing_to_warn_of_in_any_page() {
    let machine = Machine::new();
    let directory = machine.path("share/man/man1");
    machine.run(&["man", directory.to_str().unwrap()]).well();
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

/// A page as a terminal shows it.
fn man(page: &Path) -> String {
    let output = Command::new("man")
        .args(["--warnings", "--local-file"])
        .arg(page)
        .env("MANWIDTH", "200")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", page.display());
    // Bold is written as a letter twice in the same place.
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
fn page_that_is_printed_is_the_one_that_is_written() {
    let machine = Machine::new();
    let printed = machine.run(&["man"]).well().stdout;
    machine.run(&["man", "pages"]).well();
    let written = std::fs::read_to_string(machine.path("pages/butler-runner.1")).unwrap();
    assert_eq!(printed, written);
    let error = machine.run(&["man", "pages/butler-runner.1"]);
    assert_eq!(error.code, Some(1), "{error:?}");
    assert!(error.stderr.contains("cannot write pages into `pages/butler-runner.1`"), "{error:?}");
}

#[test]
fn version_says_where_the_binary_is_from_and_what_is_in_it() {
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

/// What the build script notes when a release is built in `directory`.
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
fn build_notes_the_commit_and_its_date_and_needs_no_git() {
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
    // Sources that were unpacked inside of somebody else's repository are not that repository's.
    std::fs::create_dir(tree.join("unpacked")).unwrap();
    assert_eq!(noted(&script, &tree.join("unpacked"), &[])[0], "COMMIT=unknown");
}

#[test]
fn reader_that_has_read_enough_is_no_error() {
    for words in [
        &["completions", "zsh"][..],
        &["man"],
        &["schema", "run"],
        &["generate", "tekton"],
        &["execute", "--help"],
    ] {
        // Nobody reads from the start.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = runner().args(words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn value_that_is_none_of_a_list_is_answered_with_the_list() {
    let said = |words: &[&str]| {
        let output = runner().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let shown = [
        said(&["generate", "github-actions", "--oidc", "foo"]),
        said(&["generate", "github-actions", "--oidc", "aws,gcp"]),
        said(&["generate", "github-actions", "--oidc", "azur"]),
        said(&["generate", "github-actions", "--oidc=brce_secret"]),
        said(&["generate", "github-actions", "--oidc"]),
        said(&["completions", "foo"]),
        said(&["schema", "foo"]),
    ];
    expect![[r"
        error: `--oidc <CLOUD>` does not know `foo`
        hint: it knows aws, gcp, azure
        error: `--oidc <CLOUD>` does not know `aws,gcp`
        hint: it knows aws, gcp, azure
        error: `--oidc <CLOUD>` does not know `azur`
        hint: it knows aws, gcp, azure
        error: `--oidc <CLOUD>` does not know `***`
        hint: it knows aws, gcp, azure
        error: `--oidc <CLOUD>` needs a value
        error: `<SHELL>` does not know `foo`
        hint: it knows bash, elvish, fish, powershell, zsh
        error: `<DOCUMENT>` does not know `foo`
        hint: it knows settings, run, status
    "]]
    .assert_eq(&shown.concat());
}
