//! The logs of the pods that an object has.

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};

use crate::native::NativeObjects;

/// The most pods whose logs are read.
const MOST_PODS: u32 = 10;

/// The last lines that are read of a container.
const LINES: i64 = 200;

/// The most bytes that are read of a container.
const BYTES: i64 = 4 * 1024 * 1024;

/// The most bytes that are kept of a container: those at the end.
const KEPT: usize = 64 * 1024;

/// The end of the log of a container.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ContainerLog {
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// The last lines, or why they cannot be read.
    pub text: Result<String, String>,
}

/// The label with which the pods of an object of this kind name it; `None` if it has no pods of its own.
#[must_use]
pub fn pod_label(kind: &str) -> Option<&'static str> {
    match kind {
        "Job" => Some("job-name"),
        "PipelineRun" => Some("tekton.dev/pipelineRun"),
        "TaskRun" => Some("tekton.dev/taskRun"),
        _ => None,
    }
}

impl NativeObjects {
    /// The ends of the logs of the pods with this label, such as `job-name=web-1`: at most ten pods, and 200 lines of
    /// each container.
    ///
    /// # Errors
    /// If the pods cannot be listed.
    pub async fn logs(
        &self,
        namespace: Option<&str>,
        label: &str,
    ) -> Result<Vec<ContainerLog>, String> {
        let (client, namespace) = self.place(namespace);
        let api: Api<Pod> = Api::namespaced(client, namespace);
        let parameters = ListParams::default().labels(label).limit(MOST_PODS);
        let pods = self.answer(api.list(&parameters)).await?;
        let containers = pods.items.into_iter().flat_map(|pod| {
            let name = pod.metadata.name.unwrap_or_default();
            let spec = pod.spec.unwrap_or_default();
            let containers = spec.init_containers.unwrap_or_default().into_iter();
            containers.chain(spec.containers).map(move |it| (name.clone(), it.name))
        });
        let api = &api;
        let logs = containers.map(async |(pod, container)| {
            let parameters = LogParams {
                container: Some(container.clone()),
                tail_lines: Some(LINES),
                limit_bytes: Some(BYTES),
                ..LogParams::default()
            };
            let text = self.answer(api.logs(&pod, &parameters)).await.map(|text| end_of(&text));
            ContainerLog { pod, container, text }
        });
        Ok(join_all(logs).await)
    }
}

/// The end of a text, which begins with a whole line if it has one.
fn end_of(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(KEPT));
    let end = &text[start..];
    let line = end.find('\n').map(|at| at + 1).filter(|at| start > 0 && *at < end.len());
    let line = line.unwrap_or_default();
    end[line..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_long_log_is_kept_and_begins_with_a_whole_line() {
        assert_eq!(end_of("a\nb\n"), "a\nb\n");
        let long = format!("{}\nlast ü\n", "ü".repeat(KEPT));
        assert_eq!(end_of(&long), "last ü\n");
        assert_eq!(end_of(&"ü".repeat(KEPT)).len(), KEPT);
        assert_eq!(end_of(&format!("{}\n", "x".repeat(2 * KEPT))).len(), KEPT);
    }
}
