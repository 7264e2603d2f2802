//! The output of a run at a terminal, and that no other output has parts of it.

use serde_json::json;

use butler_testing::terminal::{INTERRUPT, STOP_OUTPUT, SUSPEND, Terminal};
use butler_testing::world::{TOKEN, World, eventually, wrapped};

/// Three resources. The second waits until the file `go` exists or the world is gone, so that a
/// failed test leaves no process behind.
fn held(world: &World) -> String {
    let (started, go) = (world.path("started"), world.path("go"));
    format!(
        r#"
resource "terraform_data" "first" {{ input = "one" }}
resource "terraform_data" "second" {{
  depends_on = [terraform_data.first]
  for_each   = toset(["東京と大阪"])
  input      = each.key
  provisioner "local-exec" {{
    command = ": > '{started}'; while [ -e '{started}' ] && [ ! -e '{go}' ]; do sleep 0.05; done"
    quiet   = true
  }}
}}
resource "terraform_data" "third" {{
  depends_on = [terraform_data.second]
  input      = "three"
}}
"#,
        started = started.display(),
        go = go.display()
    )
}

/// A world whose run applies that module.
async fn held_world() -> World {
    let world = World::new(&[]).await;
    world.commit(&[("main.tf", &held(&world))]);
    world.add_run(world.config("apply"));
    world
}

fn let_go(world: &World) {
    std::fs::write(world.path("go"), "").unwrap();
}

const BUSY: &str = "1 of 3 done  terraform_data.second[\"東京と大阪\"] creating";

fn is_live(line: &str) -> bool {
    line.contains(" going on") || line.contains(" done  ") || line.starts_with("apply 0s")
}

/// Asserts that the screen has every log line that the registry received, complete and in order.
fn assert_lines_complete(world: &World, shown: &str) {
    let mut shown = shown.lines();
    for line in world.received().logs {
        assert!(!line.content.contains('\u{1b}'), "{line:?}");
        assert!(!is_live(&line.content), "{line:?}");
        let text = line.content.trim_end();
        let is_of_runner = ["Using ", "Applied: ", "Error: ", "Resolved ", "Stopp", "Hint: "]
            .iter()
            .any(|begin| text.starts_with(begin));
        assert!(is_of_runner || shown.any(|it| it == text), "`{text}` is torn or missing");
    }
}

#[tokio::test]
async fn only_a_terminal_gets_a_live_line_and_an_ending() {
    let mut world = held_world().await;
    world.set("BUTLER_REPORT_DIR", world.path("reports"));
    let terminal = Terminal::new(200, 200);
    let child = terminal.start(&world.execute());
    terminal.wait_until("what is being created", |text| text.contains(BUSY)).await;
    assert!(terminal.last_line().starts_with("apply "), "{}", terminal.text());
    assert_eq!(terminal.text().lines().filter(|line| is_live(line)).count(), 1);
    let_go(&world);
    let output = terminal.finish(child).await;
    let end = world.end(&output);
    let text = terminal.text();
    assert_eq!(end.code, Some(0), "{text}");
    assert!(!text.lines().any(is_live), "{text}");
    assert_lines_complete(&world, &text);
    let ending = text.split_once("\nApply complete  terraform").expect(&text).1;
    for part in ["3 added; 3 resources now", "phase          start", "all reports: "] {
        assert!(ending.contains(part), "{part}: {ending}");
    }
    for (sign, colour) in [("+ create", 2), ("Apply complete! Res", 2), ("Apply complete  ", 2)] {
        assert_eq!(terminal.colour_of(sign), vt100::Color::Idx(colour), "{sign}");
    }
    let log = std::fs::read_to_string(world.path("reports/log.txt")).unwrap();
    assert!(!log.contains('\u{1b}') && !log.lines().any(is_live), "{log}");
}

#[tokio::test]
async fn live_line_fits_the_terminal_after_each_resize() {
    let world = held_world().await;
    let terminal = Terminal::new(300, 100);
    let child = terminal.start(&world.execute());
    terminal.wait_until("what is being created", |text| text.contains(BUSY)).await;
    for columns in [60, 40, 20, 90] {
        terminal.resize(columns);
        let fits = |text: &str| {
            let line = text.lines().last().unwrap_or_default();
            let is_cut = columns >= 90 || !line.contains("terraform_data.second[");
            line.starts_with("apply ") && is_cut
        };
        terminal.wait_until("a line that fits", fits).await;
        assert_eq!(terminal.rows(), 1, "{}", terminal.text());
    }
    let_go(&world);
    let output = terminal.finish(child).await;
    assert_eq!(world.end(&output).code, Some(0));
    assert!(!terminal.text().lines().any(|line| line.starts_with("apply ")));
}

#[tokio::test]
async fn no_color_removes_colours_and_keeps_the_live_line() {
    let mut world = held_world().await;
    world.set("NO_COLOR", "1");
    let terminal = Terminal::new(200, 200);
    let child = terminal.start(&world.execute());
    terminal.wait_until("what is being created", |text| text.contains(BUSY)).await;
    let_go(&world);
    let output = terminal.finish(child).await;
    assert_eq!(world.end(&output).code, Some(0));
    assert!(terminal.text().contains("\nApply complete  terraform"), "{}", terminal.text());
    let raw = terminal.raw().replace("\u{1b}[J", "").replace("\u{1b}[0m", "");
    assert!(!raw.contains("\u{1b}["), "{raw:?}");
}

#[tokio::test]
async fn dumb_terminals_ci_systems_and_quiet_runs_get_plain_lines() {
    for (name, value) in [("TERM", "dumb"), ("CI", "true"), ("BUTLER_CI", "jenkins")] {
        let mut world = held_world().await;
        world.set(name, value);
        world.set("NO_COLOR", "1");
        let_go(&world);
        let terminal = Terminal::new(200, 200);
        let output = terminal.finish(terminal.start(&world.execute())).await;
        assert_eq!(world.end(&output).code, Some(0), "{name}");
        let raw = terminal.raw().replace("\u{1b}]7;end", "");
        assert!(!raw.contains('\u{1b}'), "{name}: {raw:?}");
        assert!(!terminal.text().contains("Apply complete  terraform"), "{name}");
    }
    let mut world = held_world().await;
    world.set("BUTLER_LOG", "warn");
    let_go(&world);
    let terminal = Terminal::new(200, 200);
    let output = terminal.finish(terminal.start(&world.execute())).await;
    assert_eq!(world.end(&output).code, Some(0));
    assert!(!terminal.raw().contains("\u{1b}[J") && !terminal.text().contains("Apply complete  "));
}

#[tokio::test]
async fn pipes_get_plain_lines_and_colours_only_if_forced() {
    for (name, is_coloured) in [("TERM", false), ("CLICOLOR_FORCE", true), ("FORCE_COLOR", true)] {
        let mut world = held_world().await;
        world.set("TERM", "xterm-256color");
        world.set(name, "1");
        let_go(&world);
        let output = world.execute().output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{name}: {}", end.stderr);
        assert_eq!(end.stdout.contains("\u{1b}[32m+"), is_coloured, "{name}: {}", end.stdout);
        assert_eq!(end.stderr.contains('\u{1b}'), is_coloured, "{name}: {}", end.stderr);
        for text in [&end.stdout, &end.stderr] {
            assert!(!text.contains("\u{1b}[J") && !text.contains("Apply complete  "), "{text}");
        }
        assert!(world.received().logs.iter().all(|line| !line.content.contains('\u{1b}')));
    }
}

#[tokio::test]
async fn live_line_is_shown_if_stdout_is_a_file_but_not_if_it_is_a_pipe() {
    let world = held_world().await;
    let terminal = Terminal::new(200, 200);
    let file = world.path("stdout.txt");
    let mut command = terminal.command(&world.execute());
    let child = command.stdout(std::fs::File::create(&file).unwrap()).spawn().unwrap();
    terminal.wait_until("what is being created", |text| text.contains(BUSY)).await;
    let_go(&world);
    let output = terminal.finish(child).await;
    assert_eq!(world.end(&output).code, Some(0));
    assert!(!terminal.text().lines().any(is_live), "{}", terminal.text());
    let lines = std::fs::read_to_string(file).unwrap();
    assert!(lines.contains("Apply complete! Resources: 3 added"), "{lines}");
    assert!(!lines.contains('\u{1b}'), "{lines}");

    let world = held_world().await;
    let_go(&world);
    let terminal = Terminal::new(200, 200);
    let mut command = terminal.command(&world.execute());
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
    assert!(!terminal.raw().contains("\u{1b}[J"), "{:?}", terminal.raw());
}

#[tokio::test]
async fn ctrl_c_removes_the_live_line() {
    let world = held_world().await;
    let terminal = Terminal::new(200, 200);
    let child = terminal.start(&world.execute());
    terminal.wait_until("what is being created", |text| text.contains(BUSY)).await;
    terminal.press(INTERRUPT);
    let output = terminal.finish(child).await;
    let text = terminal.text();
    assert_eq!(world.end(&output).code, Some(130), "{text}");
    assert!(!text.lines().any(|line| line.contains(" of 3 done")), "{text}");
    assert!(text.contains("\nApply cancelled  terraform"), "{text}");
}

#[tokio::test]
async fn failed_run_ends_with_its_reason_and_without_a_live_line() {
    let world = World::new(&[("main.tf", "output \"x\" { value = file(\"missing\") }")]).await;
    world.add_run(world.config("plan"));
    let terminal = Terminal::new(200, 200);
    let output = terminal.finish(terminal.start(&world.execute())).await;
    let text = terminal.text();
    assert_eq!(world.end(&output).code, Some(1), "{text}");
    assert_eq!(terminal.colour_of("Error: "), vt100::Color::Idx(1), "{text}");
    assert_eq!(terminal.colour_of("Plan failed"), vt100::Color::Idx(1), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("plan 0s")), "{text}");
}

#[tokio::test]
async fn suspended_run_removes_its_live_line_and_redraws_it_after_continue() {
    let world = held_world().await;
    let terminal = Terminal::new(200, 200);
    // A shell with job control; it reads the next command when the job is stopped.
    let script = "set -m; \"$0\" \"$@\"; echo it stopped; read -r line; fg; echo it ended with $?";
    let child = terminal.start(&wrapped(&world.execute(), &["bash", "-c", script]));
    terminal.wait_until("what is being created", |text| text.contains(BUSY)).await;
    terminal.press(SUSPEND);
    terminal.wait_until("that it stopped", |text| text.contains("it stopped")).await;
    let text = terminal.text();
    assert!(!text.lines().any(|line| line.contains(" of 3 done")), "{text}");
    terminal.press(b'\n');
    terminal
        .wait_until("the line again", |text| {
            text.split_once("it stopped").is_some_and(|(_, after)| after.contains(BUSY))
        })
        .await;
    let_go(&world);
    let output = terminal.finish(child).await;
    let text = terminal.text();
    assert_eq!(world.end(&output).code, Some(0), "{text}");
    assert!(text.contains("it ended with 0"), "{text}");
    assert!(!text.lines().any(|line| line.contains(" of 3 done")), "{text}");
}

#[tokio::test]
async fn blocked_terminal_does_not_block_the_run_or_its_end() {
    let mut world = held_world().await;
    world.set("BUTLER_LOG_INTERVAL", "50ms");
    let terminal = Terminal::new(200, 200);
    let mut child = terminal.start(&world.execute());
    terminal.wait_until("what is being created", |text| text.contains(BUSY)).await;
    terminal.press(STOP_OUTPUT);
    let_go(&world);
    let has_ended = |status: &serde_json::Value| status["status"] == json!("succeeded");
    eventually("a final status", || world.received().statuses.iter().any(has_ended)).await;
    assert!(child.wait().await.unwrap().success());
    let text = terminal.text();
    assert!(!text.contains("Apply complete"), "it was not stopped: {text}");
}

#[tokio::test]
async fn output_lines_are_never_interleaved() {
    let many = r#"
resource "terraform_data" "many" {
  count = 4
  provisioner "local-exec" {
    command = "for i in $(seq 1 300); do echo line $i of ${count.index}; echo error $i of ${count.index} >&2; done"
    quiet   = true
  }
}
"#;
    let mut world = World::new(&[("main.tf", many)]).await;
    world.set("BUTLER_LOG", "debug");
    world.set("BUTLER_LOG_INTERVAL", "10ms");
    world.add_run(world.config("apply"));
    let terminal = Terminal::new(6000, 120);
    let output = terminal.finish(terminal.start(&world.execute())).await;
    let text = terminal.text();
    assert_eq!(world.end(&output).code, Some(0), "{text}");
    assert_lines_complete(&world, &text);
    let is_of_many = |line: &&str| line.contains("): line ") || line.contains("): error ");
    assert_eq!(text.lines().filter(is_of_many).count(), 4 * 300 * 2);
    assert!(!text.contains(TOKEN));
}

#[test]
fn recording_shows_a_complete_run_and_no_paths_of_its_machine() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/recording/apply");
    let read = |kind: &str| std::fs::read_to_string(format!("{place}.{kind}")).unwrap();
    let (cast, picture) = (read("cast"), read("svg"));
    let mut lines =
        cast.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(header["version"], 2);
    let size = |name: &str| u16::try_from(header[name].as_u64().unwrap()).unwrap();
    let mut emulator = vt100::Parser::new(size("height"), size("width"), 0);
    let mut was_busy = false;
    for event in lines {
        emulator.process(event[2].as_str().unwrap().as_bytes());
        was_busy |= emulator.screen().contents().contains(" of 5 done  terraform_data.");
    }
    let text = emulator.screen().contents();
    assert!(was_busy && text.contains("\nApply complete  terraform "), "{text}");
    assert!(!text.lines().any(is_live), "{text}");
    roxmltree::Document::parse(&picture).unwrap();
    for file in [&cast, &picture] {
        assert!(file.len() < 200_000);
        assert!(!["/tmp", "/root", "/home", "/work", "target/"].iter().any(|it| file.contains(it)));
    }
}
