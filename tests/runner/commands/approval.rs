//! `apply` and `destroy` prompt at a terminal only.

use super::{MODULE, applied, command, run, run_successfully, state_file, world};
use butler_testing::terminal::{INTERRUPT, Terminal};
use butler_testing::world::{RunEnd, World};

/// Types `answer` at the prompt.
async fn answered(world: &World, words: &[&str], answer: &[u8]) -> (RunEnd, String) {
    let terminal = Terminal::new(200, 200);
    let module = world.path("module");
    let child = terminal.start(&world.command(&[words, &[module.to_str().unwrap()]].concat()));
    terminal.wait_until("the question", |text| text.contains("Enter a value:")).await;
    let asked = terminal.text();
    for key in answer {
        terminal.press(*key);
    }
    let output = terminal.finish(child).await;
    (world.end(&output), asked)
}

#[tokio::test]
async fn apply_and_destroy_show_the_plan_and_continue_after_yes() {
    let world = world(&[("main.tf", MODULE)]).await;
    let (end, asked) = answered(&world, &["apply"], b"yes\n").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let (plan, question) = asked.split_once("Do you want to perform these actions?").expect(&asked);
    assert!(plan.contains("# terraform_data.server will be created"), "{plan}");
    let module = world.path("module").display().to_string();
    assert!(
        question.contains(&module) && question.contains("Only 'yes' will be accepted"),
        "{question}"
    );
    assert_eq!(applied(&world).as_deref(), Some("small"));

    let (end, asked) = answered(&world, &["destroy"], b"yes\n").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(asked.contains("Do you really want to destroy all of this?"), "{asked}");
    assert_eq!(applied(&world), None);
}

#[tokio::test]
async fn any_answer_except_yes_changes_nothing() {
    for answer in [&b"no\n"[..], b"y\n", b"YES\n", b"\n", b"\x04"] {
        let world = world(&[("main.tf", MODULE)]).await;
        let (end, _) = answered(&world, &["apply"], answer).await;
        assert_eq!(end.code, Some(1), "{answer:?}: {}", end.stderr);
        assert!(
            end.stderr.contains("the plan was not approved, and nothing was changed"),
            "{}",
            end.stderr
        );
        assert!(!state_file(&world).exists(), "{answer:?}");
    }
}

#[tokio::test]
async fn ctrl_c_at_the_prompt_exits_with_130_and_releases_the_lock() {
    let world = world(&[("main.tf", MODULE)]).await;
    let (end, _) = answered(&world, &["apply"], &[INTERRUPT]).await;
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert!(!state_file(&world).exists());
    assert!(!world.path("module/.terraform.tfstate.lock.info").exists());
    run_successfully(&world, &["apply", "--yes"]).await;
}

#[tokio::test]
async fn state_is_unlocked_during_the_prompt_and_a_stale_plan_refused() {
    let world = world(&[("main.tf", MODULE)]).await;
    let module = world.path("module");
    let terminal = Terminal::new(200, 200);
    let child = terminal.start(&world.command(&["apply", module.to_str().unwrap()]));
    terminal.wait_until("the question", |text| text.contains("Enter a value:")).await;
    let output = command(&world, &["apply", "--yes", "--var", "size=big"]).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    b"yes\n".iter().for_each(|key| terminal.press(*key));
    let end = world.end(&terminal.finish(child).await);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("Saved plan is stale"), "{}", end.stderr);
    assert_eq!(applied(&world).as_deref(), Some("big"));
}

#[tokio::test]
async fn input_typed_before_the_prompt_is_discarded() {
    let world = world(&[("main.tf", MODULE)]).await;
    let module = world.path("module");
    let terminal = Terminal::new(200, 200);
    b"yes\n".iter().for_each(|key| terminal.press(*key));
    let child = terminal.start(&world.command(&["apply", module.to_str().unwrap()]));
    terminal.wait_until("the question", |text| text.contains("Enter a value:")).await;
    b"no\n".iter().for_each(|key| terminal.press(*key));
    let end = world.end(&terminal.finish(child).await);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(!state_file(&world).exists());
}

#[tokio::test]
async fn plan_without_changes_shows_no_prompt() {
    let world = world(&[("main.tf", MODULE)]).await;
    run_successfully(&world, &["apply", "--yes"]).await;
    let terminal = Terminal::new(200, 200);
    let module = world.path("module");
    let child = terminal.start(&world.command(&["apply", module.to_str().unwrap()]));
    let output = terminal.finish(child).await;
    assert_eq!(world.end(&output).code, Some(0));
    assert!(!terminal.text().contains("Enter a value:"), "{}", terminal.text());
}

#[tokio::test]
async fn apply_without_a_terminal_needs_the_yes_flag() {
    let world = world(&[("main.tf", MODULE)]).await;
    for words in [&["apply"][..], &["destroy"], &["apply", "."]] {
        let end = run(&world, words).await;
        assert_eq!(end.code, Some(2), "{words:?}: {}", end.stderr);
        let said = "requires confirmation, but cannot ask without a terminal";
        assert!(end.stderr.contains(said) && end.stderr.contains("--yes"), "{}", end.stderr);
        assert_eq!(end.stdout, "");
    }
    assert!(!world.path("module/.terraform").exists(), "nothing was started");
    run_successfully(&world, &["apply", "-auto-approve"]).await;
    assert_eq!(applied(&world).as_deref(), Some("small"));
    run_successfully(&world, &["destroy", "--yes"]).await;
    assert_eq!(applied(&world), None);
}
