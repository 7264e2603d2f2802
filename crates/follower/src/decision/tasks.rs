//! Summaries of the `TaskRun`s of a `PipelineRun`.

use serde_json::Value;

use crate::condition::said_of_condition;
use crate::state::{MOST_TASKS, StageProgress, TaskRecord};
use crate::text::shorten;
use butler_base::moment::Moment;

/// The letters of a name.
const NAME: usize = 63;

/// The summaries, in the order in which the tasks began. Their times are those of Tekton.
pub(super) fn summaries(task_runs: &[Value]) -> Vec<TaskRecord> {
    let mut tasks: Vec<_> = task_runs.iter().map(summary).collect();
    // One that has not begun comes last.
    tasks.sort_by_key(|task| (task.started_at.is_none(), task.started_at, task.name.clone()));
    let oldest = tasks.len().saturating_sub(MOST_TASKS);
    tasks.drain(..oldest);
    tasks
}

fn summary(task_run: &Value) -> TaskRecord {
    let text = |pointer: &str| task_run.pointer(pointer).and_then(Value::as_str);
    let time = |pointer: &str| {
        let time = humantime::parse_rfc3339(text(pointer)?).ok()?;
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Moment::from_millis(u64::try_from(since.as_millis()).ok()?))
    };
    let object = text("/metadata/name").unwrap_or_default();
    let name = text("/metadata/labels/tekton.dev~1pipelineTask").unwrap_or(object);
    let started_at = time("/status/startTime");
    let conditions = task_run.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == "Succeeded");
    let progress = match condition.and_then(|condition| condition["status"].as_str()) {
        Some("True") => StageProgress::Complete,
        Some("False") => StageProgress::Failed,
        _ if started_at.is_some() => StageProgress::Running,
        _ => StageProgress::Waiting,
    };
    let message = match (progress, condition) {
        (StageProgress::Complete, _) | (_, None) => String::new(),
        (_, Some(condition)) => said_of_condition(condition).unwrap_or_default(),
    };
    TaskRecord {
        name: shorten(name, NAME),
        object: shorten(object, 253),
        progress,
        started_at,
        finished_at: time("/status/completionTime"),
        message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task_run(name: &str, start: Option<&str>, status: &str, message: &str) -> Value {
        json!({
            "metadata": {"name": format!("web-1-{name}"), "labels": {"tekton.dev/pipelineTask": name}},
            "status": {
                "startTime": start,
                "completionTime": "2026-03-01T10:00:30Z",
                "conditions": [{"type": "Succeeded", "status": status, "reason": "Failed", "message": message}],
            },
        })
    }

    #[test]
    fn summary_has_the_times_of_tekton_and_why_a_task_failed() {
        let later = task_run("test", Some("2026-03-01T10:00:10Z"), "False", "exit code 1");
        let first = task_run("clone", Some("2026-03-01T10:00:05.5Z"), "True", "done");
        let waiting = json!({"metadata": {"name": "web-1-deploy"}});
        let [clone, test, deploy] = &summaries(&[waiting, later, first])[..] else { panic!() };
        assert_eq!((&*clone.name, &*clone.object), ("clone", "web-1-clone"));
        assert_eq!((clone.progress, &*clone.message), (StageProgress::Complete, ""));
        let took = clone.finished_at.unwrap().since(clone.started_at.unwrap());
        assert_eq!(took.as_millis(), 24_500);
        assert_eq!((test.progress, &*test.message), (StageProgress::Failed, "exit code 1"));
        assert_eq!((&*deploy.name, deploy.progress), ("web-1-deploy", StageProgress::Waiting));
        assert_eq!((deploy.started_at, deploy.finished_at), (None, None));
    }

    #[test]
    fn summaries_are_bounded_and_what_is_not_a_task_run_is_harmless() {
        let start = Some("2026-03-01T10:00:00Z");
        let name = |number: usize| format!("t{number:03}");
        let many = (0..500).map(|it| task_run(&name(it), start, "Unknown", &"x".repeat(9000)));
        let tasks = summaries(&many.collect::<Vec<_>>());
        assert_eq!((tasks.len(), &*tasks[31].name), (MOST_TASKS, "t499"));
        assert!(tasks.iter().all(|task| task.message.len() < 400));
        for odd in
            [json!(null), json!([]), json!({"status": {"startTime": "soon", "conditions": 1}})]
        {
            assert_eq!(summaries(&[odd])[0].progress, StageProgress::Waiting);
        }
    }
}
