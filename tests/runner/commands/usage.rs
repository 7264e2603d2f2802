//! Typos and unexpected arguments are two-line errors before anything starts.

use super::{MODULE, run, run_successfully, world, write};

#[tokio::test]
async fn directory_without_a_module_error_suggests_modules_nearby() {
    let world = world(&[("network/main.tf", MODULE), ("notes.txt", "")]).await;
    for (words, said, hint) in [
        (&["plan", "netwrok"][..], "`netwrok`: No such file", "did you mean `network`?"),
        (&["plan"], "`.` has no Terraform configuration", "name one of these modules: `network`"),
        (&["destroy", "--yes", "notes.txt"], "`notes.txt` is a file", "name the directory"),
        (&["apply", "plan.bin"], "`plan.bin` is neither a saved plan nor a directory", ""),
        (&["apply", "notes.txt"], "`notes.txt` is not a plan that", "plan --out FILE"),
        (&["plan", "--out", "missing/x"], "cannot save the plan as `missing/x`", "--out"),
        (&["plan", "--var", "hunter22"], "number 1 is not NAME=VALUE", "--var region"),
        (&["plan", "-refresh-only"], "`plan` has no flag `-refresh-only`", "butler-runner drift"),
        (&["plan", "-chdir=nowhere"], "cannot change to the directory `nowhere`", ""),
        (&["validate", "network", "more"], "", ""),
    ] {
        let end = run(&world, words).await;
        assert_eq!(end.code, Some(2), "{words:?}: {}", end.stderr);
        assert!(end.stderr.contains(said), "{words:?}: {}", end.stderr);
        assert!(end.stderr.contains(hint), "{words:?}: {}", end.stderr);
        assert!(end.stderr.lines().count() <= 2, "{words:?}: {}", end.stderr);
        assert!(!end.stderr.contains("hunter22") && end.stdout.is_empty(), "{end:?}");
    }
}

#[tokio::test]
async fn module_directory_is_an_argument_or_the_working_directory() {
    let world = world(&[("network/main.tf", MODULE)]).await;
    write(&world, "network/big.tfvars", "size = \"big\"\n");
    let end =
        run_successfully(&world, &["plan", "network", "--var-file", "network/big.tfvars"]).await;
    assert!(end.stdout.contains("\"big\""), "{}", end.stdout);
    for words in [
        &["-chdir=network", "plan", "-var-file=big.tfvars"][..],
        &["plan", "-chdir=network", "-var-file=big.tfvars", "-input=false"],
    ] {
        let end = run_successfully(&world, words).await;
        assert!(end.stdout.contains("\"big\""), "{}", end.stdout);
    }
}

#[tokio::test]
async fn run_settings_of_the_environment_are_ignored_and_variable_files_used() {
    let mut world = world(&[("main.tf", MODULE)]).await;
    write(&world, "big.tfvars", "size = \"big\"\n");
    world.set("BUTLER_ENDPOINT", world.endpoint());
    world.set("BUTLER_OPERATION", "destroy");
    world.set("BUTLER_MODULE_DIR", "/nonexistent");
    world.set("BUTLER_CONFIG", "/nonexistent");
    world.set("BUTLER_VAR_FILE", "big.tfvars");
    let end = run_successfully(&world, &["plan"]).await;
    assert!(end.stdout.contains("\"big\""), "{}", end.stdout);
}
