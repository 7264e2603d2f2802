//! Runs that a server executes in place of the tool: `cloud` and `remote` with remote execution.

use std::sync::{Mutex, PoisonError};

use butler_protocol::spec::RegistryHost;

/// The longest line with the address of a run, in bytes.
const LONGEST: usize = 1024;

/// A run on a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteRun {
    /// The server.
    pub host: RegistryHost,
    /// The id of the run, such as `run-CZcmD7eagjhyX0vN`.
    pub id: String,
    /// The page of the run.
    pub url: String,
}

impl RemoteRun {
    /// Reads the line that the tool prints about a run that it has created:
    /// `https://HOST/app/ORGANIZATION/WORKSPACE/runs/ID`.
    fn of_line(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii();
        if line.len() > LONGEST {
            return None;
        }
        let url = std::str::from_utf8(line).ok()?;
        let mut parts = url.strip_prefix("https://")?.split('/');
        let host = RegistryHost::parse(parts.next()?)?;
        let rest: Vec<_> = parts.collect();
        let ["app", organization, workspace, "runs", id] = *rest else { return None };
        let is_name = |text: &str| {
            let is_part =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !text.is_empty() && text.bytes().all(is_part)
        };
        [organization, workspace, id].into_iter().all(is_name).then(|| Self {
            host,
            id: id.to_owned(),
            url: url.to_owned(),
        })
    }
}

/// The last run that the commands of the tool have created on a server, until the runner knows its end.
#[derive(Debug, Default)]
pub struct RemoteRuns {
    last: Mutex<Option<RemoteRun>>,
    /// Whether the server of the backend can execute runs. Otherwise only a module can have printed such a line.
    is_possible: bool,
}

impl RemoteRuns {
    /// Records runs only if `is_possible`.
    #[must_use]
    pub fn new(is_possible: bool) -> Self {
        Self { last: Mutex::default(), is_possible }
    }

    /// Reads a line of a command.
    pub(super) fn read(&self, line: &[u8]) {
        if self.is_possible
            && let Some(run) = RemoteRun::of_line(line)
        {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
        }
    }

    /// The last run.
    #[must_use]
    pub fn last(&self) -> Option<RemoteRun> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last run. The next call returns nothing, until there is another run.
    pub fn take(&self) -> Option<RemoteRun> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_read_from_the_line_with_its_address() {
        let runs = RemoteRuns::new(true);
        for (line, host, id) in [
            ("https://app.terraform.io/app/acme/network/runs/run-1", "app.terraform.io", "run-1"),
            ("  https://tfe.acme.com:8443/app/a_b/c-d/runs/run-2\n", "tfe.acme.com:8443", "run-2"),
        ] {
            runs.read(line.as_bytes());
            let run = runs.take().unwrap();
            assert_eq!((run.host.as_str(), &*run.id, &*run.url), (host, id, line.trim()), "{line}");
            assert_eq!(runs.take(), None, "{line}");
        }
        let long = format!("https://h.io/app/a/{}/runs/run-1", "b".repeat(LONGEST));
        for line in [
            "http://app.terraform.io/app/acme/network/runs/run-1",
            "see https://app.terraform.io/app/acme/network/runs/run-1",
            "https://app.terraform.io/app/acme/network/runs/",
            "https://app.terraform.io/app/acme/network/runs/run-1/x",
            "https://app.terraform.io/app/acme/network/runs/run-1?x=y",
            "https://app.terraform.io/app/acme/../runs/run-1%2f",
            "https:///app/acme/network/runs/run-1",
            &long,
        ] {
            runs.read(line.as_bytes());
            assert_eq!(runs.take(), None, "{line}");
        }
        let none = RemoteRuns::default();
        none.read(b"https://app.terraform.io/app/acme/network/runs/run-1");
        assert_eq!(none.take(), None, "the backend does not make runs");
    }
}
