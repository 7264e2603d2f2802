//! The result of a check.

use serde::Serialize;

use butler_base::error::{Advice, chain};
use butler_base::secret::Redactor;

/// One thing that was looked at.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `registry`.
    pub check: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it has to be.
    Ok,
    /// Neither good nor bad.
    Note,
    /// Runs may suffer from it.
    Warning,
    /// No run can do without.
    Failed,
}

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: State::Ok, message: message.into(), hint: None }
    }

    pub(super) fn note(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: State::Note, ..Self::ok(check, message) }
    }

    pub(super) fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: State::Warning, ..Self::ok(check, message) }
    }

    pub(super) fn failed(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: State::Failed, ..Self::ok(check, message) }
    }

    /// What `error` says, and what it advises.
    pub(super) fn error(check: &'static str, error: &(impl Advice + 'static)) -> Self {
        Self { hint: error.advice(), ..Self::failed(check, chain(error)) }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(super) fn masked(self, redactor: &Redactor) -> Self {
        let mask = |text: &str| redactor.redact(text.as_bytes()).into_owned();
        Self { message: mask(&self.message), hint: self.hint.as_deref().map(mask), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_messages_and_hints() {
        let redactor = Redactor::new();
        redactor.register(&[secrecy::SecretString::from("hunter22")]);
        let finding = Finding::failed("a", "said hunter22").hint("not hunter22").masked(&redactor);
        assert_eq!(
            (finding.message.as_str(), finding.hint.as_deref()),
            ("said ***", Some("not ***"))
        );
    }
}
