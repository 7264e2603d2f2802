//! The result of a check.

use serde::Serialize;

use butler_base::error::{Advice, chain};
use butler_base::secret::Redactor;

/// The result of one check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the check, such as `registry`.
    pub check: &'static str,
    /// The severity.
    pub state: FindingState,
    /// The message.
    pub message: String,
    /// Advice.
    pub hint: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingState {
    /// The requirement is met.
    Ok,
    /// Information.
    Note,
    /// Some runs may fail.
    Warning,
    /// No run can succeed.
    Failed,
}

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: FindingState::Ok, message: message.into(), hint: None }
    }

    pub(super) fn note(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: FindingState::Note, ..Self::ok(check, message) }
    }

    pub(super) fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: FindingState::Warning, ..Self::ok(check, message) }
    }

    pub(super) fn failed(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: FindingState::Failed, ..Self::ok(check, message) }
    }

    /// A failed check with the message and the advice of `error`.
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
