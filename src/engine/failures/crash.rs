//! Finds a crash in the lines of a command.

use super::cause::FailureCause;

/// The longest reason that is quoted as a whole, in bytes. A longer one is not quoted.
const MAX_REASON: usize = 2000;

/// The end of the line in which the tool announces a crash.
const BANNER: &str = " CRASH !!!!!!!!!!!!!!!!!!!!!!!!!!!!";

/// The beginnings of lines with the reason of a crash.
const REASONS: [&str; 3] = ["panic: ", "fatal error: ", "runtime/cgo: "];

/// The beginnings of lines behind the reason of a crash.
const STACK: [&str; 3] = ["goroutine ", "runtime stack:", "[signal "];

/// Words about memory in the reason of a crash.
const MEMORY: [&str; 2] = ["out of memory", "cannot allocate memory"];

/// Words about threads in the reason of a crash.
const THREADS: [&str; 2] = ["newosproc", "pthread_create failed"];

/// The crash that a command has printed so far.
#[derive(Debug, Default)]
pub(super) struct CrashReader {
    crash: Crash,
    /// Whether an error was printed before the crash.
    is_behind_error: bool,
    /// Whether a provider had no memory left.
    is_provider_without_memory: bool,
    /// Whether there is a stack trace of a provider.
    has_provider_stack: bool,
}

#[derive(Debug, Default)]
enum Crash {
    #[default]
    None,
    /// The tool has announced a crash. The line in front of the stack trace is the reason.
    Announced(Option<String>),
    /// The lines belong to the stack trace of a provider.
    OfProvider,
    /// A line that can be the reason of a crash, if a stack trace follows.
    Possible(String),
    /// The reason.
    Certain(String),
}

impl CrashReader {
    /// Reads a line without spaces at its ends. `has_errors` is whether the command has printed an error.
    pub(super) fn read(&mut self, text: &str, has_errors: bool) {
        let is_stack = STACK.iter().any(|beginning| text.starts_with(beginning));
        let is_error = text.starts_with("Error: ");
        match &mut self.crash {
            Crash::Certain(_) => {}
            _ if text.ends_with(BANNER) => {
                self.crash = Crash::Announced(None);
                self.is_behind_error = has_errors;
            }
            _ if text.starts_with("Stack trace from the ") => {
                self.crash = Crash::OfProvider;
                self.has_provider_stack = true;
            }
            Crash::OfProvider => {
                self.is_provider_without_memory |=
                    reason(text).is_some_and(|reason| contains(&reason, &MEMORY));
                if is_error {
                    self.crash = Crash::None;
                }
            }
            Crash::Announced(Some(reason)) | Crash::Possible(reason) if is_stack => {
                self.crash = Crash::Certain(std::mem::take(reason));
            }
            Crash::Announced(last) => {
                if !text.is_empty() && text.len() <= MAX_REASON {
                    *last = Some(reason(text).unwrap_or_else(|| text.to_owned()));
                }
            }
            Crash::None | Crash::Possible(_) => {
                if let Some(reason) = reason(text) {
                    self.crash = Crash::Possible(reason);
                    self.is_behind_error = has_errors;
                } else if is_error {
                    self.crash = Crash::None;
                }
            }
        }
    }

    /// The headline and the cause of a crash of the tool. `can_quote` is whether the stack trace behind an error
    /// can be that of a program of the module.
    pub(super) fn of_tool(&self, can_quote: bool) -> Option<(String, FailureCause)> {
        if self.is_behind_error && can_quote {
            return None;
        }
        match &self.crash {
            Crash::Certain(reason) => {
                let cause = if contains(reason, &MEMORY) {
                    FailureCause::OutOfMemory
                } else if contains(reason, &THREADS) {
                    FailureCause::Machine
                } else {
                    FailureCause::ToolCrash
                };
                Some((format!("it crashed: {reason}"), cause))
            }
            Crash::Announced(_) => Some(("it crashed".to_owned(), FailureCause::ToolCrash)),
            _ => None,
        }
    }

    /// The cause of an error. If the error is about the end of a provider, the stack trace of the provider refines it.
    pub(super) const fn cause_of_provider(&self, cause: FailureCause) -> FailureCause {
        match cause {
            FailureCause::ProviderCrash | FailureCause::ProviderEnded
                if self.is_provider_without_memory =>
            {
                FailureCause::OutOfMemory
            }
            FailureCause::ProviderEnded if self.has_provider_stack => FailureCause::ProviderCrash,
            cause => cause,
        }
    }
}

fn reason(text: &str) -> Option<String> {
    let reason = REASONS.iter().find_map(|beginning| text.strip_prefix(beginning));
    reason.filter(|reason| reason.len() <= MAX_REASON).map(str::to_owned)
}

fn contains(reason: &str, words: &[&str]) -> bool {
    words.iter().any(|word| reason.contains(word))
}
