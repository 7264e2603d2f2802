//! The streams at which a run's output is shown.

use std::io::Write;

use crate::screen::Screen;

/// Where the output of children is shown.
pub struct Terminal {
    /// Their standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Their standard error.
    pub stderr: Box<dyn Write + Send>,
    /// Where the CI system reads commands that it does not show; none where somebody else may read
    /// them.
    pub commands: Option<Box<dyn Write + Send>>,
    /// What the runner itself shows at the end of a run.
    pub notices: Box<dyn Write + Send>,
    /// Where people see it, if any do.
    pub screen: Option<Screen>,
}

impl Default for Terminal {
    /// Shows nothing.
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
