//! What plans are made from beside the commit: the tool, values, and the key that seals them.

use butler_server::model::StalePlan;
use butler_server::plans::{PlanInputs, PlanKeys};
use serde_json::{Value, json};

use crate::world::World;

/// What the configuration of a layer contains, and the key that is used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Inputs {
    tool: u64,
    variable: u64,
    secret: u64,
    key: u64,
}

/// What of it changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    Tool,
    Variable,
    Secret,
    /// A new key, beside the old ones.
    Key,
    /// A new key instead of the old ones.
    LostKeys,
}

/// The key file. Only the numbers of the keys are known here.
#[derive(Debug)]
pub(crate) struct KeyFile {
    directory: tempfile::TempDir,
    /// The newest first.
    numbers: Vec<u64>,
}

impl KeyFile {
    pub(crate) fn new() -> Self {
        let file = Self { directory: tempfile::tempdir().unwrap(), numbers: vec![0] };
        file.write();
        file
    }

    fn write(&self) {
        let keys: Vec<String> = self.numbers.iter().map(|number| format!("{number:064}")).collect();
        let path = self.directory.path().join("plan.key");
        std::fs::write(&path, keys.join("\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, mode).unwrap();
    }

    fn keys(&self) -> PlanKeys {
        PlanKeys::at(&self.directory.path().join("plan.key")).unwrap()
    }
}

/// The configuration of an attempt.
fn configuration(inputs: Inputs) -> Value {
    json!({
        "terraformVersion": inputs.tool.to_string(),
        "variables": {
            "size": {"value": inputs.variable, "sensitive": false},
            "password": {"value": inputs.secret, "sensitive": true},
        },
    })
}

impl World {
    /// A person changes an input of a layer.
    pub(crate) fn change_input(&mut self, layer: usize, input: Input) {
        self.changes += 1;
        let (inputs, new) = (&mut self.inputs[layer], self.changes);
        match input {
            Input::Tool => inputs.tool = new,
            Input::Variable => inputs.variable = new,
            Input::Secret => inputs.secret = new,
            Input::Key => self.keys.numbers.insert(0, new),
            Input::LostKeys => self.keys.numbers = vec![new],
        }
        if matches!(input, Input::Key | Input::LostKeys) {
            self.keys.write();
        }
    }

    /// What an attempt of a layer is given now, and what the server records about it.
    pub(crate) fn current_inputs(&self, layer: usize) -> (Inputs, PlanInputs) {
        let inputs = Inputs { key: self.keys.numbers[0], ..self.inputs[layer] };
        let recorded = PlanInputs::of(&configuration(inputs), &self.keys.keys()).unwrap();
        (inputs, recorded)
    }

    /// Why the server says that a plan is stale.
    pub(crate) fn why_stale(&self, layer: usize, recorded: &PlanInputs) -> Option<StalePlan> {
        let now = configuration(self.inputs[layer]);
        recorded.difference(&now, &[], &self.keys.keys()).unwrap().map(|(kind, _)| kind)
    }

    /// Whether a plan from these inputs says what an apply would do now.
    pub(crate) fn are_current(&self, layer: usize, inputs: Inputs) -> bool {
        let now = Inputs { key: inputs.key, ..self.inputs[layer] };
        now == inputs && self.keys.numbers.contains(&inputs.key)
    }
}
