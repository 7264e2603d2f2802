//! The name of a run: opaque here, one path segment in a URL.

/// The name of a run. Its form is the registry's business; in a URL it is one percent-encoded
/// path segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunId(String);

/// A name that no run can have.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidRunId {
    /// Nothing at all.
    #[error("the run id is empty")]
    Empty,
    /// `.` and `..` are steps of a path, however they are encoded.
    #[error("`{0}` is no run id")]
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
    fn run_id_is_one_segment_of_a_path_whatever_it_holds() {
        let id: RunId = "a/../b?c#d %é".parse().unwrap();
        assert_eq!(id.as_str(), "a/../b?c#d %é");
        assert_eq!(id.path_segment(), "a%2F..%2Fb%3Fc%23d%20%25%C3%A9");
    }

    #[test]
    fn run_id_cannot_be_a_step_of_a_path() {
        for text in ["", ".", "..", "a\nb"] {
            assert!(text.parse::<RunId>().is_err(), "{text:?}");
        }
    }
}
