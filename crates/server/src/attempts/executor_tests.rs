use super::*;
use crate::attempts::LogPosition;
use crate::model::{Ending, RunId};

#[tokio::test]
async fn attempt_whose_process_cannot_be_started_ends_with_the_reason_in_its_log() {
    let root = tempfile::tempdir().unwrap();
    let settings = AttemptSettings {
        place: "here".to_owned(),
        executable: root.path().join("missing"),
        data: DataDirectory::create(root.path()).unwrap(),
        catalog: watch::Sender::new(Arc::<Catalog>::default()).subscribe(),
        endpoint: "http://127.0.0.1:1".to_owned(),
        environment: Environment::default(),
    };
    let (sender, mut events) = mpsc::unbounded_channel();
    let executor = ProcessExecutor::new(settings, sender);
    let id = AttemptId { layer: "a".parse().unwrap(), run: RunId::new("r"), number: 1 };
    executor.launch(&id, &AttemptToken::random().unwrap(), Duration::from_mins(1)).await.unwrap();
    assert!(matches!(events.try_recv(), Ok(Event::Exited(ended)) if ended == id));
    let Probe::Ended(result) = executor.probe(&id).await else { panic!("it has not ended") };
    assert_eq!(result.ending, Ending::Failed(FailureClass::Platform));
    let directory = executor.directory(&id);
    let log = directory.log().page(LogPosition::default()).unwrap().lines;
    let text = "Error: cannot start the attempt: No such file or directory";
    assert!(log[0].content.starts_with(text), "{log:?}");
    assert!(directory.is_tidy());
}

/// A mirror has only the commits of the history of a commit, and not their files.
#[test]
fn mirror_without_the_files_of_a_commit_does_not_have_it() {
    let root = tempfile::tempdir().unwrap();
    let data = DataDirectory::create(root.path()).unwrap();
    let mirror = git2::Repository::init_bare(data.mirror("infra")).unwrap();
    let objects = mirror.odb().unwrap();
    let tree = mirror.treebuilder(None).unwrap().write().unwrap();
    let write = |tree: git2::Oid| {
        let text = format!("tree {tree}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\na\n");
        let id = objects.write(git2::ObjectType::Commit, text.as_bytes()).unwrap();
        Commit::new(id.to_string())
    };
    let missing = git2::Oid::from_str(&"1".repeat(40)).unwrap();
    let (whole, history) = (write(tree), write(missing));
    let has = |commit: &Commit| has_commit(&data, "infra", commit);
    assert_eq!(
        [has(&whole), has(&history), has(&Commit::new(missing.to_string()))],
        [true, false, false]
    );
}
