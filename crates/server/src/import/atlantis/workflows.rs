//! The workflows of a repository and of the Atlantis server.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::fields::Fields;
use super::server::ServerFile;
use super::workflow::{Workflow, workflow};

/// The workflows that projects can name.
pub(super) struct Workflows {
    of_repository: Map<String, Value>,
    of_server: Map<String, Value>,
    /// The workflow of projects that do not name one.
    pub(super) default: Option<String>,
    /// Whether the configuration of the Atlantis server is known.
    pub(super) has_server: bool,
}

impl Workflows {
    pub(super) fn new(file: &mut Fields, server: ServerFile, has_server: bool) -> Self {
        let of_repository = match file.take("workflows") {
            Some(Value::Object(workflows)) => workflows,
            _ => Map::new(),
        };
        let (of_server, default) = (server.workflows, server.workflow);
        Self { of_repository, of_server, default, has_server }
    }

    /// Checks all workflows, as Atlantis does, also those that no project names.
    pub(super) fn check(&self) -> Result<(), String> {
        let all = self.of_repository.iter().chain(&self.of_server);
        all.map(|(name, value)| workflow(value, &format!("workflows.{name}")))
            .try_for_each(|it| it.map(drop))
    }

    /// The workflow with this name; `None` if neither file has it. A workflow of the repository is preferred.
    pub(super) fn read(&self, name: &str) -> Result<Option<Workflow>, String> {
        let found = self.of_repository.get(name).or_else(|| self.of_server.get(name));
        found.map(|value| workflow(value, &format!("workflows.{name}"))).transpose()
    }

    /// Adds a note for each workflow of the repository that none of these projects uses.
    pub(super) fn add_unused(
        &self,
        projects: &[&Fields],
        notes: &mut BTreeSet<String>,
        repository: &str,
    ) {
        let used = projects.iter().filter_map(|project| project.peek("workflow"));
        let used: BTreeSet<_> = used.chain(self.default.as_deref()).collect();
        for name in self.of_repository.keys().filter(|name| !used.contains(name.as_str())) {
            notes.insert(format!("{repository}: `workflows.{name}`: no project uses it"));
        }
    }
}
