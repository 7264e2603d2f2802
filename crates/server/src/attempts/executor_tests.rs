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
