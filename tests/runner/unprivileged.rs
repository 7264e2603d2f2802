//! Properties of a runner that is not root: protection of its memory, and what it can wipe.

use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, World};

#[tokio::test]
async fn processes_of_a_module_cannot_read_the_runners_environment_or_memory() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let snoop = r#"for file in environ mem maps; do
    true < "/proc/$PPID/$file" || echo "$file" >> "$record/denied"
  done"#;
    let tool = StandIn::install(&mut world, AtPlan::Do(snoop));
    world.add_run(world.config("plan"));
    let output = world.execute_as_user().output().await.unwrap();
    let end = world.end(&output);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(tool.record("denied"), "environ\nmem\nmaps\n", "{}", end.stderr);
}

#[tokio::test]
async fn files_without_owner_permissions_are_wiped() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let lock = r"mkdir -p locked/inside
  echo secret | tee locked/inside/file > terraform.tfstate
  chmod 0400 locked/inside/file terraform.tfstate
  chmod 0500 locked/inside
  chmod 0000 locked";
    let tool = StandIn::install(&mut world, AtPlan::Do(lock));
    world.add_run(world.config("plan"));
    let output = world.execute_as_user().output().await.unwrap();
    // Asserts that no file is left.
    let end = world.end(&output);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(!end.stderr.contains("may remain"), "{}", end.stderr);
    assert!(!tool.record("arguments").is_empty(), "the tool did run");
}
