//! `plan --out` saves a plan with all files that it needs, and `apply` applies exactly that plan.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{MODULE, applied, run, run_successfully, world, wrap_terraform, write};
use butler_testing::world::World;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Makes `plan` also write a file to the module, as the data source `archive_file` does.
fn with_created_files(world: &mut World) {
    let create = "if [ \"$1\" = plan ]; then mkdir -p build && echo content > build/a.zip; fi";
    wrap_terraform(world, &format!("{create}\nexec \"$real\" \"$@\""));
}

#[tokio::test]
async fn saved_plan_is_applied_unchanged_despite_later_edits() {
    let world = world(&[("main.tf", MODULE)]).await;
    let reports = ["--report-dir", "reports", "--report", "page.html"];
    let plan = ["plan", "--var", "size=first", "--out", "my.plan"];
    let end = run_successfully(&world, &[&plan[..], &reports].concat()).await;
    assert!(!end.stderr.contains("Saved with the plan"), "{}", end.stderr);
    assert!(end.stderr.contains("Saved the plan as "), "{}", end.stderr);
    let plan = world.path("module/my.plan");
    assert_eq!(mode(&plan), 0o600);
    write(&world, "main.tf", &MODULE.replace("small", "second"));
    // Only the version of the plan counts.
    write(&world, ".terraform-version", "0.99.0");
    let end = run_successfully(&world, &["apply", "my.plan"]).await;
    assert!(end.stdout.contains("# terraform_data.server will be created"), "{}", end.stdout);
    assert_eq!(applied(&world).as_deref(), Some("first"));
    let left: Vec<_> = world
        .left_in("module")
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(".butler-plan"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let end = run(&world, &["apply", "my.plan"]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("Saved plan is stale"), "{}", end.stderr);
    assert!(end.stderr.contains("make a new plan"), "{}", end.stderr);
}

#[tokio::test]
async fn destroy_plan_can_be_saved_and_applied() {
    let world = world(&[("main.tf", MODULE)]).await;
    run_successfully(&world, &["apply", "--yes"]).await;
    run_successfully(&world, &["plan", "-destroy", "-out=gone.plan"]).await;
    assert_eq!(applied(&world).as_deref(), Some("small"));
    let end = run_successfully(&world, &["apply", "gone.plan"]).await;
    assert!(end.stdout.contains("1 destroyed"), "{}", end.stdout);
    assert_eq!(applied(&world), None);
}

#[tokio::test]
async fn files_created_by_the_plan_are_restored_at_the_same_path() {
    let module = "resource \"terraform_data\" \"it\" {\n  input = \"x\"\n  provisioner \"local-exec\" {\n    command = \"cat build/a.zip\"\n  }\n}\n";
    let mut world = world(&[("main.tf", module)]).await;
    with_created_files(&mut world);
    let end = run_successfully(&world, &["plan", "--out", "my.plan"]).await;
    assert!(end.stderr.contains("Saved with the plan: build/a.zip"), "{}", end.stderr);
    std::fs::remove_dir_all(world.path("module/build")).unwrap();
    std::fs::remove_dir_all(world.path("module/.terraform")).unwrap_or_default();

    // A different file at the path is not overwritten, and nothing is applied.
    write(&world, "build/a.zip", "another");
    let end = run(&world, &["apply", "my.plan"]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(
        end.stderr.contains("build/a.zip` has changed since the plan was saved"),
        "{}",
        end.stderr
    );
    // A symbolic link out of the directory is not followed.
    std::fs::remove_dir_all(world.path("module/build")).unwrap();
    std::fs::create_dir(world.path("outside")).unwrap();
    std::os::unix::fs::symlink(world.path("outside"), world.path("module/build")).unwrap();
    let end = run(&world, &["apply", "my.plan"]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("build` is not a directory"), "{}", end.stderr);
    assert_eq!(std::fs::read_dir(world.path("outside")).unwrap().count(), 0);
    std::fs::remove_file(world.path("module/build")).unwrap();
    assert!(!super::state_file(&world).exists());

    let end = run_successfully(&world, &["apply", "my.plan"]).await;
    assert!(end.stdout.contains("content"), "{}", end.stdout);
}

#[tokio::test]
async fn saved_plan_is_applied_only_in_its_directory_and_with_its_options() {
    let world = world(&[("one/main.tf", MODULE), ("two/main.tf", MODULE)]).await;
    run_successfully(&world, &["plan", "one", "--out", "one.plan"]).await;
    for words in [&["apply", "one.plan"][..], &["apply", "one.plan", "two"]] {
        let end = run(&world, words).await;
        assert_eq!(end.code, Some(2), "{words:?}: {}", end.stderr);
        let one = world.path("module/one");
        assert!(end.stderr.contains(&format!("the plan was made in `{}`, not in", one.display())));
        assert!(
            end.stderr.contains(&format!("apply one.plan {}", one.display())),
            "{}",
            end.stderr
        );
    }
    for flag in
        ["--target=a.b", "--replace=a.b", "--refresh=false", "--workspace=x", "--tf-version=1.9.0"]
    {
        let end = run(&world, &["apply", "one.plan", "one", flag]).await;
        assert_eq!(end.code, Some(2), "{flag}: {}", end.stderr);
        assert!(end.stderr.contains("cannot be used with a saved plan"), "{}", end.stderr);
    }
    run_successfully(&world, &["apply", "one.plan", "one"]).await;
    assert!(world.path("module/one/terraform.tfstate").exists());
    assert!(!world.path("module/two/terraform.tfstate").exists());
}

#[tokio::test]
async fn saved_plan_is_applied_in_its_workspace() {
    let world = world(&[("main.tf", "output \"server\" { value = terraform.workspace }\n")]).await;
    std::fs::create_dir_all(world.path("module/terraform.tfstate.d/stage")).unwrap();
    run_successfully(&world, &["plan", "--workspace", "stage", "--out", "my.plan"]).await;
    run_successfully(&world, &["apply", "my.plan"]).await;
    let state = world.path("module/terraform.tfstate.d/stage/terraform.tfstate");
    assert!(std::fs::read_to_string(state).unwrap().contains("\"stage\""));
    assert!(!super::state_file(&world).exists());
}

#[tokio::test]
async fn damaged_or_foreign_plan_files_are_refused_before_terraform_starts() {
    let world = world(&[("main.tf", MODULE)]).await;
    run_successfully(&world, &["plan", "--out", "my.plan"]).await;
    let good = std::fs::read(world.path("module/my.plan")).unwrap();
    let place = good.windows(4).position(|bytes| bytes == b"PK\x03\x04").unwrap();
    let mut flipped = good.clone();
    flipped[place + 40] ^= 1;
    let own = &good[place..];
    for (name, bytes, said) in [
        ("flipped.plan", &flipped[..], "is damaged: `plan.tfplan` has a different digest"),
        ("cut.plan", &good[..place + 100], "is damaged"),
        ("own.plan", own, "is a plan file of Terraform itself"),
        ("empty.plan", b"", "is not a plan that `butler-runner plan --out` saved"),
    ] {
        std::fs::write(world.path("module").join(name), bytes).unwrap();
        let end = run(&world, &["apply", name]).await;
        assert_eq!(end.code, Some(2), "{name}: {}", end.stderr);
        assert!(end.stderr.contains(said), "{name}: {}", end.stderr);
        assert!(end.stderr.contains("plan --out FILE"), "{name}: {}", end.stderr);
    }
    assert!(!super::state_file(&world).exists());
}
