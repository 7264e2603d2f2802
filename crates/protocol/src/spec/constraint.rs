//! Terraform's version constraints: `= != > < >= <= ~>`, a comma means that both must hold.
//!
//! The rules are those of Terraform's own library: a version has any number of segments, which may begin with
//! zeros. Missing segments count as zero, `~>` allows a higher number only for the last written segment, and a
//! prerelease satisfies a comparison only if the constraint names a prerelease of the same version.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use semver::Version;

/// A text is not a constraint.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not a version constraint")]
pub struct ConstraintError {
    /// The part that is not valid.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Pessimistic,
}

/// Longer operators first: `>=` begins with `>`.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("~>", Operator::Pessimistic),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
];

/// One comparison.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// The segments behind the third one, which no version of a tool has.
    further: Vec<u64>,
    /// The number of written segments.
    segments: usize,
}

/// Comparisons that must all hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Constraint {
    text: String,
    comparisons: Vec<Comparison>,
}

impl Constraint {
    /// All of `constraints` at once.
    ///
    /// # Errors
    /// If one of them is not a constraint.
    pub fn all(constraints: &[String]) -> Result<Self, ConstraintError> {
        constraints.join(", ").parse()
    }

    /// The versions that begin with the one or more numbers in `text`, such as `1.9` or `^1\.9\.`.
    #[must_use]
    pub fn beginning_with(text: &str) -> Option<Self> {
        let text = text.strip_prefix('^').unwrap_or(text).replace('\\', "");
        let numbers = text.strip_suffix('.').unwrap_or(&text);
        let digits = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
        if !numbers.split('.').all(digits) {
            return None;
        }
        match numbers.split('.').count() {
            1 | 2 => format!("~> {numbers}.0").parse().ok(),
            _ => format!("= {numbers}").parse().ok(),
        }
    }

    /// Whether `version` satisfies every comparison.
    #[must_use]
    pub fn allows(&self, version: &Version) -> bool {
        self.comparisons.iter().all(|comparison| comparison.allows(version))
    }

    /// Whether `version` can be selected from a list. Prereleases only if the constraint names one.
    #[must_use]
    pub fn suggests(&self, version: &Version) -> bool {
        let named = |comparison: &Comparison| {
            !comparison.version.pre.is_empty() && same_segments(&comparison.version, version)
        };
        self.allows(version) && (version.pre.is_empty() || self.comparisons.iter().any(named))
    }
}

impl Comparison {
    fn allows(&self, version: &Version) -> bool {
        // Build metadata has no rank.
        let order = match version.cmp_precedence(&self.version) {
            Ordering::Equal if self.further.iter().any(|segment| *segment > 0) => Ordering::Less,
            order => order,
        };
        match self.operator {
            Operator::Equal => return order == Ordering::Equal,
            Operator::NotEqual => return order != Ordering::Equal,
            _ => {}
        }
        let names_prerelease = !self.version.pre.is_empty();
        let comparable =
            version.pre.is_empty() || (names_prerelease && same_segments(&self.version, version));
        if !comparable {
            return false;
        }
        match self.operator {
            Operator::Greater => order == Ordering::Greater,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater,
            Operator::Pessimistic => {
                order != Ordering::Less
                    && self.further.is_empty()
                    && (self.segments < 2 || version.major == self.version.major)
                    && (self.segments < 3 || version.minor == self.version.minor)
                    && !(names_prerelease && version.pre.is_empty())
            }
            Operator::GreaterOrEqual | Operator::Equal | Operator::NotEqual => {
                order != Ordering::Less
            }
        }
    }
}

fn same_segments(one: &Version, other: &Version) -> bool {
    (one.major, one.minor, one.patch) == (other.major, other.minor, other.patch)
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let comparisons = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { text: text.trim().to_owned(), comparisons })
    }
}

impl FromStr for Comparison {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let (operator, version) = OPERATORS
            .into_iter()
            .find_map(|(sign, operator)| Some((operator, trimmed.strip_prefix(sign)?)))
            .unwrap_or((Operator::Equal, trimmed));
        parse_version(operator, version.trim())
            .ok_or_else(|| ConstraintError { text: text.to_owned() })
    }
}

/// Parses the version of a comparison.
fn parse_version(operator: Operator, text: &str) -> Option<Comparison> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = numbers.split('.').map(|part| is_number(part).then(|| part.parse().ok()).flatten());
    let mut parts: Vec<u64> = parts.collect::<Option<_>>()?;
    let segments = parts.len();
    parts.resize(segments.max(3), 0);
    let further = parts.split_off(3);
    let [major, minor, patch] = parts[..] else { return None };
    let version = format!("{major}.{minor}.{patch}{rest}").parse().ok()?;
    Some(Comparison { operator, version, further, segments })
}

impl fmt::Display for Constraint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_hold_as_in_terraform() {
        for (constraint, allowed, refused) in [
            ("1.9.0", "1.9.0", "1.9.1"),
            ("= v1.9", "1.9.0", "1.9.1"),
            ("!= 1.9.0", "1.9.1", "1.9.0"),
            ("> 1.9", "1.9.1", "1.9.0"),
            ("< 1.9", "1.8.5", "1.9.0"),
            (">= 1.5.0", "1.5.0", "1.4.7"),
            ("<= 1.5.0", "1.5.0", "1.5.1"),
            ("~> 1.9", "1.14.9", "2.0.0"),
            ("~> 1.9", "1.9.0", "1.8.5"),
            ("~> 1.9.0", "1.9.8", "1.10.0"),
            ("~> 1", "2.0.0", "0.15.5"),
            (">= 1.5.0, < 1.9", "1.8.5", "1.9.0"),
            (">=1.5.0,!=1.8.5", "1.8.4", "1.8.5"),
            // Zeros in front, and more than three segments.
            (">= 1.05", "1.5.0", "1.4.7"),
            (">= 0.12.06", "0.12.6", "0.12.5"),
            ("~> 1.011", "1.11.4", "1.10.5"),
            ("= 001.011.004", "1.11.4", "1.11.3"),
            (">= 1.0.0.0", "1.0.0", "0.15.5"),
            ("= 1.9.0.0", "1.9.0", "1.9.1"),
            (">= 1.9.0.1", "1.9.1", "1.9.0"),
            ("< 1.9.0.1", "1.9.0", "1.9.1"),
            ("> 1.9.0.0.0", "1.9.1", "1.9.0"),
            ("!= 1.9.0.0", "1.9.1", "1.9.0"),
            ("!= 1.9.0.1, < 1.9.1", "1.9.0", "1.9.1"),
            ("~> 1.9.0.0, >= 1 , != 2", "", "1.9.0"),
            // Prereleases: only if a prerelease of the same version is named.
            ("= 1.10.0-rc1", "1.10.0-rc1", "1.10.0"),
            ("!= 1.9.0", "1.10.0-rc1", "1.9.0"),
            (">= 1.10.0-beta1", "1.10.0-rc1", "1.11.0-rc1"),
            (">= 1.10.0-beta1", "1.11.0", "1.10.0-alpha1"),
            (">= 1.9.0", "1.10.0", "1.10.0-rc1"),
            ("~> 1.10.0-beta1", "1.10.0-rc1", "1.10.0"),
            ("= 1.9.0", "1.9.0+build", "1.9.0-rc1"),
        ] {
            let parsed: Constraint = constraint.parse().unwrap();
            let allowed = allowed.parse();
            assert!(allowed.is_err() || parsed.allows(&allowed.unwrap()), "{constraint}");
            assert!(!parsed.allows(&refused.parse().unwrap()), "{constraint} {refused}");
        }
    }

    #[test]
    fn prerelease_is_suggested_only_if_one_is_named() {
        let prerelease = "1.10.0-rc1".parse().unwrap();
        let other: Constraint = "!= 1.9.0".parse().unwrap();
        assert!(other.allows(&prerelease) && !other.suggests(&prerelease));
        let named: Constraint = ">= 1.10.0-beta1".parse().unwrap();
        assert!(named.suggests(&prerelease));
    }

    #[test]
    fn several_constraints_hold_at_once() {
        let all = Constraint::all(&[">= 1.5".to_owned(), "< 1.9".to_owned()]).unwrap();
        assert_eq!(all.to_string(), ">= 1.5, < 1.9");
        assert!(all.allows(&"1.8.5".parse().unwrap()));
        assert!(!all.allows(&"1.9.0".parse().unwrap()));
    }

    #[test]
    fn text_that_is_not_a_constraint_is_refused() {
        for text in [
            "",
            "latest",
            "=> 1.0",
            ">= 1.0,",
            ">= 1.x",
            "~>",
            ">= 1.0 < 2.0",
            ">= 1..0",
            ">= 1.",
            ">= +1",
            ">= 99999999999999999999",
        ] {
            assert!(text.parse::<Constraint>().is_err(), "{text}");
        }
        let error = ">= 1.5, foo".parse::<Constraint>().unwrap_err();
        assert_eq!(error.to_string(), "` foo` is not a version constraint");
    }
}
