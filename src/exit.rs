//! The exit codes of the runner, as the README and `--help` list them.

use butler_base::platform::Signal;

/// The exit codes of the runner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// The run or the command succeeded.
    Success,
    /// The run failed.
    Failed,
    /// A setting is missing or its value cannot be used. Nothing was sent.
    Usage,
    /// The registry ended the run before or while the runner executed it.
    Cancelled,
    /// The registry was unreachable, rejected a request, or did not receive the final status.
    Registry,
    /// A plan with `--detailed-exitcode`, or a drift check, found changes.
    Changes,
    /// A signal stopped the runner.
    Signal(Signal),
}

impl Exit {
    /// The exit status of the process.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            // Commands that can end with `Changes` use 64 for usage errors.
            Self::Usage | Self::Changes => 2,
            Self::Cancelled => 3,
            Self::Registry => 4,
            // Signals are numbered from 1 to 31.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "signals are small and positive"
            )]
            Self::Signal(signal) => 128 + signal as i32 as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_and_usage_errors_have_the_documented_codes() {
        assert_eq!(Exit::Usage.code(), 2);
        assert_eq!(Exit::Signal(Signal::SIGINT).code(), 130);
    }
}
