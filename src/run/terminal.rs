//! The streams that show a run's output.

use std::io::Write;

use crate::screen::Screen;

/// The streams that show a run's output.
pub struct Terminal {
    /// The standard output of children.
    pub stdout: Box<dyn Write + Send>,
    /// The standard error of children.
    pub stderr: Box<dyn Write + Send>,
    /// The stream on which the CI system reads commands that it does not show; absent if other readers
    /// could see them.
    pub commands: Option<Box<dyn Write + Send>>,
    /// The runner's own output at the end of a run.
    pub notices: Box<dyn Write + Send>,
    /// The terminal of a user, if there is one.
    pub screen: Option<Screen>,
}

impl Terminal {
    /// The same without the output of children.
    #[must_use]
    pub fn without_log(self) -> Self {
        let Self { stdout, stderr, .. } = Self::default();
        Self { stdout, stderr, ..self }
    }
}

impl Default for Terminal {
    /// Discards the output.
    fn default() -> Self {
        Self {
            stdout: Box::new(std::io::sink()),
            stderr: Box::new(std::io::sink()),
            commands: None,
            notices: Box::new(std::io::sink()),
            screen: None,
        }
    }
}
