//! The id of a run: an opaque text, and one path segment in a URL.

/// The id of a run. The registry decides its form; in a URL it is one percent-encoded path segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunId(String);

/// A text that cannot be the id of a run.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidRunId {
    /// The text is empty.
    #[error("the run id is empty")]
    Empty,
    /// `.` and `..` are steps of a path, however they are encoded.
    #[error("`{0}` is not a run id")]
    PathStep(String),
    /// Control characters.
    #[error("the run id holds a control character")]
    Control,
}

impl RunId {
    /// The id as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a UUID, hyphens or not (RFC 9562).
    #[must_use]
    pub fn is_uuid(&self) -> bool {
        let digits = self.0.bytes().filter(|byte| *byte != b'-');
        self.0.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()) && digits.count() == 32
    }

    /// The id as one segment of a URL's path: everything but unreserved characters (RFC 3986,
    /// 2.3) is percent-encoded.
    #[must_use]
    pub fn path_segment(&self) -> String {
        const RESERVED: percent_encoding::AsciiSet =
            percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
        percent_encoding::utf8_percent_encode(&self.0, &RESERVED).to_string()
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::str::FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err(InvalidRunId::Empty),
            "." | ".." => Err(InvalidRunId::PathStep(text.to_owned())),
            _ if text.chars().any(char::is_control) => Err(InvalidRunId::Control),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_id_is_one_segment_of_a_path() {
        let id: RunId = "a/../b?c#d %é".parse().unwrap();
        assert_eq!(id.as_str(), "a/../b?c#d %é");
        assert_eq!(id.path_segment(), "a%2F..%2Fb%3Fc%23d%20%25%C3%A9");
    }

    #[test]
    fn uuid_is_recognised() {
        for (text, expected) in [
            ("550e8400-e29b-41d4-a716-446655440000", true),
            ("550E8400E29B41D4A716446655440000", true),
            ("550e8400-e29b-41d4-a716-44665544000", false),
            ("550e8400-e29b-41d4-a716-44665544000x", false),
            ("run-42", false),
        ] {
            assert_eq!(text.parse::<RunId>().unwrap().is_uuid(), expected, "{text}");
        }
    }

    #[test]
    fn run_id_cannot_be_a_step_of_a_path() {
        for text in ["", ".", "..", "a\nb"] {
            assert!(text.parse::<RunId>().is_err(), "{text:?}");
        }
    }
}
