//! Reads the errors and the crash that a command prints on standard error.
//!
//! The lines are not redacted. What is quoted of them is either whole or redacted before it is cut, because a
//! part of a secret is not recognised.

use super::cause::FailureCause;
use super::classify::{cause_of, follows_from_others};
use super::crash::CrashReader;
use super::sentence::{first_paragraph, first_sentence};
use butler_base::event::Stream;
use butler_base::secret::Redactor;
use butler_result::{DiagnosticReader, Severity};

/// How much of standard error is read, in bytes. An error that is not complete by then is not used.
const MAX_BYTES: usize = 256 * 1024;

/// The longest text that is quoted as a whole, in bytes. A longer one is not quoted.
const MAX_QUOTED: usize = 2000;

/// The exit code of a tool that has reported errors. A crash has another one, so the stack trace in an error is
/// that of a program of the module.
const ERRORS: i32 = 1;

/// Why a command failed, from what it has printed.
#[derive(Debug, Default, Eq, PartialEq)]
pub(in crate::engine) struct PrintedFailure {
    /// The summary of the error that decides about the cause. Not redacted.
    pub(in crate::engine) headline: Option<String>,
    /// The first sentence of its detail, redacted.
    pub(in crate::engine) detail: Option<String>,
    pub(in crate::engine) cause: FailureCause,
}

/// The beginnings of errors without the word `Error: ` in front, in lower case: the tool's older commands print
/// them, and those about workspaces and states.
const PLAIN_ERRORS: [&str; 12] = [
    "backend reinitialization required",
    "cannot ",
    "could not ",
    "error ",
    "failed to ",
    "no existing workspaces",
    "no state file was found",
    "the currently selected workspace",
    "the selected workspace is",
    "the workspace ",
    "unable to ",
    "workspace \"",
];

/// The errors that a command has printed so far.
#[derive(Debug)]
pub(in crate::engine) struct PrintedErrors {
    reader: DiagnosticReader,
    /// The bytes that were read.
    bytes: usize,
    crash: CrashReader,
    has_errors: bool,
    /// Whether lines can belong to an error or a warning.
    has_diagnostics: bool,
}

impl Default for PrintedErrors {
    fn default() -> Self {
        Self {
            reader: DiagnosticReader::with_limit(MAX_BYTES),
            bytes: 0,
            crash: CrashReader::default(),
            has_errors: false,
            has_diagnostics: false,
        }
    }
}

impl PrintedErrors {
    /// Reads a line of standard error.
    pub(in crate::engine) fn read(&mut self, line: &[u8]) {
        if self.bytes > MAX_BYTES {
            return;
        }
        self.bytes += line.len() + 1;
        if self.bytes > MAX_BYTES {
            return;
        }
        let line = String::from_utf8_lossy(line);
        let text = line.trim().trim_start_matches('│').trim_start();
        self.crash.read(text, self.has_errors);
        let is_error = text.starts_with("Error: ");
        let is_plain = !self.has_diagnostics && is_plain_error(text);
        self.has_errors |= is_error || is_plain;
        self.has_diagnostics |= self.has_errors || text.starts_with("Warning: ");
        if is_plain {
            self.reader.read(Stream::Stderr, &format!("Error: {text}"));
        } else {
            self.reader.read(Stream::Stderr, if is_error { text } else { &line });
        }
    }

    /// Whether the command has not printed an error.
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        !self.has_errors
    }

    /// The failure of a command with this exit code: a crash, or else the first error that time alone does not
    /// remove, or else the first error.
    pub(in crate::engine) fn into_failure(
        mut self,
        code: Option<i32>,
        redactor: &Redactor,
    ) -> PrintedFailure {
        if let Some((headline, cause)) = self.crash.of_tool(code == Some(ERRORS)) {
            return PrintedFailure { headline: Some(headline), detail: None, cause };
        }
        let mut errors = self.reader.take();
        if self.bytes > MAX_BYTES {
            errors.pop();
        }
        let mut causes: Vec<_> = errors
            .into_iter()
            .filter(|error| error.severity == Severity::Error)
            .map(|error| (self.crash.cause_of_provider(cause_of(&error)), error))
            .collect();
        if causes.iter().any(|(_, error)| !follows_from_others(&error.summary)) {
            causes.retain(|(_, error)| !follows_from_others(&error.summary));
        }
        let is_lasting = |cause: FailureCause| !cause.class().is_retried();
        let first = |matches: &dyn Fn(FailureCause) -> bool| {
            causes.iter().position(|(cause, _)| matches(*cause))
        };
        let decider = first(&|cause| cause == FailureCause::Locked)
            .or_else(|| first(&|cause| is_lasting(cause) && cause != FailureCause::Unknown))
            .or_else(|| first(&is_lasting))
            .unwrap_or_default();
        if decider >= causes.len() {
            return PrintedFailure::default();
        }
        let (cause, error) = causes.swap_remove(decider);
        let headline = Some(error.summary).filter(|summary| summary.len() <= MAX_QUOTED);
        let paragraph = first_paragraph(&error.detail);
        // As a whole: it is cut afterwards.
        let detail = first_sentence(&redactor.redact(paragraph.as_bytes()));
        PrintedFailure { headline, detail, cause }
    }
}

/// Whether a line is an error without the word `Error: ` in front.
fn is_plain_error(text: &str) -> bool {
    PLAIN_ERRORS.iter().any(|beginning| {
        let first = text.get(..beginning.len());
        first.is_some_and(|first| first.eq_ignore_ascii_case(beginning))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    fn failure(text: &str, secrets: &[&str]) -> PrintedFailure {
        failure_with(2, text, secrets)
    }

    fn failure_with(code: i32, text: &str, secrets: &[&str]) -> PrintedFailure {
        let redactor = Redactor::new();
        for secret in secrets {
            redactor.register([&SecretString::from((*secret).to_owned())]);
        }
        let mut errors = PrintedErrors::default();
        text.lines().for_each(|line| errors.read(line.as_bytes()));
        errors.into_failure(Some(code), &redactor)
    }

    fn headline(text: &str) -> Option<String> {
        failure(text, &[]).headline
    }

    #[test]
    fn first_error_after_the_announcement_of_init_is_reported() {
        let announcement = "Error: Terraform encountered problems during initialisation, including problems\nwith the configuration, described below.";
        let of_opentofu =
            "Error: OpenTofu encountered problems during initialization, including problems";
        for (lines, expected) in [
            (&[announcement, "", "Error: Missing name", "Error: Other"][..], "Missing name"),
            (&[of_opentofu, "Error: Missing name"], "Missing name"),
            (&[of_opentofu], &of_opentofu["Error: ".len()..]),
            (&["Error: One", "Error: Two"], "One"),
            (&["  Error: One", "│ Error: Two"], "One"),
        ] {
            assert_eq!(headline(&lines.join("\n")).as_deref(), Some(expected));
        }
        assert_eq!(headline("Warning: One"), None);
    }

    #[test]
    fn error_that_a_retry_does_not_remove_decides() {
        let away = "Error: Get \"http://a/\": dial tcp: no such host\n\n";
        let refused = "Error: creating a bucket: api error AccessDenied: Access Denied\n\n";
        let released = "Error: Error releasing the state lock\n\nError message: it is gone\n\n";
        for (text, cause) in [
            (format!("{away}{refused}"), FailureCause::CredentialsRefused),
            (format!("{refused}{away}"), FailureCause::CredentialsRefused),
            (format!("{away}{released}"), FailureCause::Unreachable),
            (released.to_owned(), FailureCause::Unknown),
        ] {
            assert_eq!(failure(&text, &[]).cause, cause, "{text}");
        }
    }

    #[test]
    fn detail_is_redacted_before_it_is_cut() {
        let text = "Error: No\n\nThe passphrase correct horse\nbattery. Staple is wrong. Another sentence.\n";
        let secret = "correct horse battery. Staple";
        let detail = failure(text, &[secret]).detail.unwrap();
        assert_eq!(detail, "The passphrase *** is wrong");
        let long = "x".repeat(MAX_QUOTED);
        let found = failure(&format!("Error: {long}y\n\n{long}{long}"), &[&long.repeat(2)]);
        assert_eq!((found.headline, found.detail.as_deref()), (None, Some("***")));
        // An error that is not complete is not quoted: its last part can be the beginning of a secret.
        let endless = format!("Error: One\n\n{}", "y\n".repeat(MAX_BYTES));
        assert_eq!(failure(&endless, &[]), PrintedFailure::default());
    }

    #[test]
    fn crash_of_the_tool_is_distinguished_from_that_of_a_provider() {
        let stack = "panic: runtime error: invalid memory address\n[signal SIGSEGV]\n\ngoroutine 1 [running]:\nmain.main()";
        let banner = "!!!!!!!!!!!!!!!!!!!!!!!!!!! TERRAFORM CRASH !!!!!!!!!!!!!!!!!!!!!!!!!!!!";
        let expected = Some("it crashed: runtime error: invalid memory address".to_owned());
        for text in [
            stack.to_owned(),
            format!("{banner}\n\nTerraform crashed!\n\n{banner}\n\n{stack}"),
            format!("{}\n{stack}", banner.replace("TERRAFORM", "OPENTOFU")),
            format!("Error: Something\n\nbefore\n\n{stack}"),
        ] {
            let found = failure(&text, &[]);
            assert_eq!((found.headline, found.cause), (expected.clone(), FailureCause::ToolCrash));
        }
        let provider = format!(
            "Error: Plugin did not respond\n\nIt failed.\n\nStack trace from the terraform-provider-x plugin:\n\n{stack}\n\n\
             Error: The terraform-provider-x plugin crashed!\n"
        );
        let found = failure(&provider, &[]);
        assert_eq!(found.headline.as_deref(), Some("Plugin did not respond"));
        assert_eq!(found.cause, FailureCause::ProviderCrash);
        // A program of the module can print such lines.
        let quoted = format!("Error: External Program Execution Failed\n\n{stack}");
        assert_eq!(failure_with(1, &quoted, &[]).cause, FailureCause::ModuleCheck);
        assert_eq!(headline("panic: a module prints this\nError: One").as_deref(), Some("One"));
        let memory = failure("fatal error: runtime: out of memory\n\ngoroutine 5 [running]:", &[]);
        assert_eq!(memory.cause, FailureCause::OutOfMemory);
    }

    #[test]
    fn error_without_its_word_is_read_if_it_is_the_first() {
        let plain = "Failed to save state: Put \"http://a/\": no such host\n\n";
        let follows = "Error: Failed to persist state to backend\n\nIt is in errored.tfstate.\n";
        let found = failure(&format!("Initializing...\n{plain}{follows}"), &[]);
        assert_eq!(found.cause, FailureCause::Unreachable);
        assert_eq!(found.headline.as_deref(), plain.lines().next());
        let detail = "Error: Wrong\n\nFailed to read it: no such host\n";
        assert_eq!(headline(detail).as_deref(), Some("Wrong"));
        assert_eq!(headline("Planning failed.\n\nError: One").as_deref(), Some("One"));
        let mut errors = PrintedErrors::default();
        errors.read(b"Workspace \"a\" doesn't exist.");
        assert!(!errors.is_empty());
    }

    #[test]
    fn crash_in_front_of_errors_counts_with_any_exit_code() {
        let banner = "!!!!!!!!!!!!!!!!!!!!!!!!!!! TERRAFORM CRASH !!!!!!!!!!!!!!!!!!!!!!!!!!!!";
        for (text, cause) in [
            ("panic: nil map\n\ngoroutine 1 [running]:".to_owned(), FailureCause::ToolCrash),
            (format!("{banner}\n\nnil map\ngoroutine 1 [running]:"), FailureCause::ToolCrash),
            (format!("{banner}\n\nA crash log has been placed"), FailureCause::ToolCrash),
            (
                "fatal error: runtime: out of memory\n\nruntime stack:".to_owned(),
                FailureCause::OutOfMemory,
            ),
            ("fatal error: newosproc\n\nruntime stack:".to_owned(), FailureCause::Machine),
        ] {
            assert_eq!(failure_with(1, &text, &[]).cause, cause, "{text}");
        }
        let behind = format!("Error: One\n\n{banner}\n\nnil map\ngoroutine 1 [running]:");
        assert_eq!(failure_with(1, &behind, &[]).headline.as_deref(), Some("One"));
        let provider = "Error: Plugin did not respond\n\nStack trace from the a plugin:\n\n";
        let memory = format!("{provider}fatal error: runtime: cannot allocate memory\n");
        assert_eq!(failure(&memory, &[]).cause, FailureCause::OutOfMemory);
    }
}
