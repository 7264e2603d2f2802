//! Every command line in the documentation parses, and those without external dependencies are
//! executed as written.

use std::path::{Path, PathBuf};

use butler_runner::cli;

use butler_testing::environment::search_path;
use butler_testing::world::{MODULE, RUN_ID, TOKEN, World};

/// Command lines that cannot be executed here, by their first words, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("brew ", "needs Homebrew's servers"),
    ("butler-runner ci-status ", "needs a CI system or a cluster"),
    ("butler-runner config import ", "needs the configuration of another tool"),
    ("butler-runner config webhook ", "needs a repository with a webhook"),
    ("butler-runner completions zsh >", "is a line of zsh"),
    ("butler-runner generate kubernetes --apply", "needs a cluster"),
    ("butler-runner self update", "needs a release"),
    ("butler-runner tool exec ", "needs the release sites"),
    ("butler-runner tool install ", "needs the release sites"),
    ("butler-runner follower ", "needs a server"),
    ("butler-runner layer ", "needs a server"),
    ("butler-runner breaker ", "needs a server"),
    ("butler-runner run ", "needs a server"),
    ("butler-runner serve ", "goes on until it is stopped"),
    ("butler-runner store ", "needs the store of a server"),
    ("butler-runner tool list --available", "needs the release sites"),
    ("butler-runner trigger ", "needs a CI system or a cluster"),
    ("curl ", "needs a release"),
    ("docker ", "needs a container engine"),
    ("envsubst ", "needs a cluster"),
    ("export BUTLER_CI_TOKEN=", "is a secret of the reader's"),
    ("export OTEL_", "needs a collector"),
    ("gh ", "needs GitHub"),
    ("git clone ", "is the script that the runner is compared with"),
    ("make ", "builds the project"),
    ("terraform ", "is the script that the runner is compared with"),
    ("~/.local/bin/butler-runner demo", "is `make demo`, which CI runs"),
];

/// A shell block of a document.
struct Block {
    document: PathBuf,
    lines: Vec<String>,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![root.join("README.md")];
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Blocks marked as `bash`, `sh` or `console`. Of `console`, only the typed lines.
fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let mut language: Option<&str> = None;
        let mut lines = Vec::new();
        for line in text.lines() {
            match (line.strip_prefix("```"), language) {
                (Some(name), None) => language = Some(name),
                (Some(_), Some(name)) => {
                    if matches!(name, "bash" | "sh" | "console") {
                        let lines = std::mem::take(&mut lines);
                        blocks.push(Block { document: document.clone(), lines });
                    }
                    lines.clear();
                    language = None;
                }
                (None, Some("console")) => {
                    lines.extend(line.strip_prefix("$ ").map(str::to_owned));
                }
                (None, Some(_)) => lines.push(line.to_owned()),
                (None, None) => {}
            }
        }
    }
    blocks
}

/// The reason why a line cannot be executed here.
fn elsewhere(line: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find_map(|(beginning, why)| line.starts_with(beginning).then_some(*why))
}

/// The command lines of the runner in a shell line.
fn command_lines(line: &str) -> Vec<Vec<String>> {
    let code = line.split(" #").next().unwrap();
    let commands = code.split(['|', ';']).flat_map(|part| part.split("&&"));
    let commands = commands.map(|command| command.split(['>', '<']).next().unwrap());
    let words = commands.map(|command| {
        let words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
        words.map(str::to_owned).collect::<Vec<_>>()
    });
    let is_the_runner = |words: &Vec<String>| {
        words.first().is_some_and(|word| Path::new(word).ends_with("butler-runner"))
    };
    words.filter(is_the_runner).collect()
}

/// Another process writes the program. If this process had it open for writing, a child that
/// another test starts at the same time could inherit the descriptor, and the file could not be
/// executed.
fn stand_in(path: &Path, script: &str) {
    let write = "printf '%s' \"$2\" >\"$1\" && chmod 755 \"$1\"";
    let mut shell = std::process::Command::new("sh");
    assert!(shell.args(["-c", write, "sh"]).arg(path).arg(script).status().unwrap().success());
}

#[test]
fn documented_command_lines_parse() {
    let mut understood = 0;
    for Block { document, lines } in blocks() {
        for line in &lines {
            for mut words in command_lines(line) {
                // A placeholder for flags that the reader adds.
                words.retain(|word| word != "...");
                if let Err(error) = cli::command().try_get_matches_from(&words) {
                    let shows = clap::error::ErrorKind::DisplayHelp;
                    let version = clap::error::ErrorKind::DisplayVersion;
                    assert!(
                        [shows, version].contains(&error.kind()),
                        "{}: {line}\n{error}",
                        document.display()
                    );
                }
                understood += 1;
            }
        }
    }
    assert!(understood >= 30, "{understood}");
}

#[tokio::test]
async fn documented_commands_without_side_effects_succeed() {
    let mut ran = 0;
    for Block { document, lines } in blocks() {
        let lines: Vec<_> = lines.iter().filter(|line| elsewhere(line).is_none()).collect();
        let count = lines.iter().filter(|line| !command_lines(line).is_empty()).count();
        if count == 0 {
            continue;
        }
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        for module in ["network", "."] {
            let directory = world.path("home").join(module);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("main.tf"), MODULE).unwrap();
        }
        let config = world.config("plan").to_string();
        std::fs::write(world.path("home/run.json"), config).unwrap();
        let server = "repositories: {infra: {url: 'https://git.example.com/infra.git'}}\n";
        std::fs::write(world.path("home/butler.yaml"), server).unwrap();
        let included = "layers: {network: {repository: infra, path: network}}\n";
        std::fs::create_dir_all(world.path("home/ops/butler")).unwrap();
        std::fs::write(world.path("home/ops/butler/network.yaml"), included).unwrap();
        let bin = world.path("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_butler-runner"), bin.join("butler-runner"))
            .unwrap();
        // A stand-in for a cluster. It refuses placeholders as a cluster does: no object can have such a name.
        let script = "#!/bin/sh\n! grep --fixed-strings '${BUTLER_RUN_ID}' >&2\n";
        stand_in(&bin.join("kubectl"), script);
        let inherited = search_path();
        let path = [bin].into_iter().chain(std::env::split_paths(&inherited));
        world.set("PATH", std::env::join_paths(path).unwrap());
        let script: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let script = script
            .replace(
                "https://portal.example.com/api/registry",
                world.endpoint().trim_end_matches('/'),
            )
            .replace("brce_...", TOKEN)
            .replace(" ... ", " ");
        let job = world.command(&[]);
        let mut shell = tokio::process::Command::new("bash");
        shell
            .args(["-e", "-o", "pipefail", "-c", &script])
            .current_dir(world.path("home"))
            .env_clear()
            .envs(job.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("BUTLER_ENDPOINT", world.endpoint())
            .env("BUTLER_RUN_ID", RUN_ID)
            .env("BUTLER_TOKEN", TOKEN)
            .stdin(std::process::Stdio::null());
        let output = shell.output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(
            end.code,
            Some(0),
            "{}:\n{script}\n{}\n{}",
            document.display(),
            end.stdout,
            end.stderr
        );
        ran += count;
    }
    assert!(ran >= 15, "{ran}");
}
