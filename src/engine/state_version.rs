//! The version of a state, from a plan or from the backend.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::arguments;
use super::error::EngineError;
use super::invocation::Engine;
use super::json_output::open_json;
use butler_base::process::{Output, Sink};
use butler_protocol::backend::StateVersion;

/// The state in a plan file, which is a ZIP archive. Its header is that of the state from which the plan was made.
const STATE: &str = "tfstate";

/// The most bytes of a state that are read.
const MOST: u64 = 1 << 30;

impl<S: Sink> Engine<'_, S> {
    /// The version of the state that the backend has now; `None` if there is none. Ignores the stop: drop the future
    /// instead.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn pull_state_version(&self) -> Result<Option<StateVersion>, EngineError> {
        let path = self.private.join("pulled-state.json");
        let mut command = self.command(arguments::pull_state(), Output::File(path.clone()));
        self.reduce_garbage_collection(&mut command);
        self.run_ignoring_stop("state pull", &command).await?;
        Ok(open_json(&path).ok().and_then(of_state))
    }
}

/// The version of the state from which a plan was made; `None` if it cannot be read, for example because the tool has
/// encrypted the plan, or if there was no state.
#[must_use]
pub fn planned_version(plan: &Path) -> Option<StateVersion> {
    let mut archive = zip::ZipArchive::new(File::open(plan).ok()?).ok()?;
    of_state(archive.by_name(STATE).ok()?)
}

fn of_state(state: impl Read) -> Option<StateVersion> {
    let version: StateVersion = serde_json::from_reader(BufReader::new(state.take(MOST))).ok()?;
    (!version.lineage.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_without_a_lineage_has_no_version() {
        let version = |state: &str| of_state(state.as_bytes());
        let known = StateVersion { lineage: "a-b".to_owned(), serial: 7 };
        let state =
            r#"{"version": 4, "serial": 7, "lineage": "a-b", "outputs": {"x": {"value": 1}}}"#;
        assert_eq!(version(state), Some(known));
        for state in
            ["", "{}", r#"{"serial": 0, "lineage": ""}"#, r#"{"serial": -1, "lineage": "a"}"#]
        {
            assert_eq!(version(state), None, "{state}");
        }
    }
}
