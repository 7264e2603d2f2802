//! A run of the workspace.

use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::documents::resource;

/// The statuses in which a run has ended.
const ENDED: [&str; 5] = ["applied", "canceled", "discarded", "errored", "planned_and_finished"];

/// A run.
pub(super) struct Run {
    pub(super) id: String,
    pub(super) status: &'static str,
    /// The directory with its configuration.
    pub(super) directory: PathBuf,
    /// The attributes that the client has given.
    pub(super) options: Value,
    /// The files with the output of plan and apply.
    pub(super) logs: [PathBuf; 2],
    pub(super) has_changes: bool,
    /// The process that plans or applies.
    pub(super) process: Option<i32>,
}

impl Run {
    /// Whether other runs of the workspace wait for it.
    pub(super) fn is_open(&self) -> bool {
        !ENDED.contains(&self.status)
    }

    /// Whether this stage is over: `plans`, otherwise the apply.
    pub(super) fn is_over(&self, stage: &str) -> bool {
        match stage {
            "plans" => !matches!(self.status, "pending" | "planning"),
            _ => !self.is_open(),
        }
    }

    /// Whether it was created with this attribute.
    pub(super) fn is(&self, attribute: &str) -> bool {
        self.options[attribute] == true
    }

    /// Asks the process to end, if there is one.
    pub(super) fn interrupt(&self) {
        if let Some(process) = self.process {
            let _ = kill(Pid::from_raw(process), Signal::SIGINT);
        }
    }

    pub(super) fn resource(&self, workspace: &str) -> Value {
        let is_planned = matches!(self.status, "planned" | "planned_and_saved");
        let is_busy = matches!(self.status, "pending" | "planning" | "applying");
        let attributes = json!({
            "status": self.status,
            "has-changes": self.has_changes,
            "is-destroy": self.is("is-destroy"),
            "refresh-only": self.is("refresh-only"),
            "save-plan": self.is("save-plan"),
            "actions": {
                "is-cancelable": is_busy,
                "is-confirmable": is_planned && self.has_changes,
                "is-discardable": is_planned,
            },
            "permissions": {"can-apply": true, "can-cancel": true, "can-discard": true},
        });
        let id = &self.id;
        let related = |kind: &str, id: &str| json!({"data": {"id": id, "type": kind}});
        let relationships = json!({
            "plan": related("plans", id),
            "apply": related("applies", id),
            "workspace": related("workspaces", workspace),
        });
        resource("runs", id, &attributes, &relationships)
    }
}
