//! Conditions: lists of checks that must all hold.

use serde_json::{Number, Value};

use super::path::JsonPath;

/// What the values at a path must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Each value equals this one.
    Equals(Value),
    /// Each value is one of these.
    In(Vec<Value>),
    /// Each value is a number that is not smaller.
    AtLeast(Number),
    /// There is a value, or there is not.
    Exists(bool),
    /// Each value equals the value at another path of the same object.
    EqualsPath(JsonPath),
    /// Each value is a number that is not smaller than the one at another path of the same object.
    AtLeastPath(JsonPath),
}

/// One check of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Where to look.
    pub path: JsonPath,
    /// What must be there.
    pub test: Test,
    /// The value if the path selects nothing. Kubernetes omits numbers that are zero.
    pub default: Option<Value>,
}

/// Checks that must all hold. There is at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Vec<Check>);

impl Condition {
    /// The condition of these checks. `None` without checks: it would hold for every object.
    #[must_use]
    pub fn new(checks: Vec<Check>) -> Option<Self> {
        (!checks.is_empty()).then_some(Self(checks))
    }

    /// Whether each check holds.
    #[must_use]
    pub fn holds(&self, object: &Value) -> bool {
        self.first_open(object).is_none()
    }

    /// The checks.
    pub(super) fn checks(&self) -> impl Iterator<Item = &Check> {
        self.0.iter()
    }

    /// The first check that does not hold.
    #[must_use]
    pub fn first_open(&self, object: &Value) -> Option<&Check> {
        self.0.iter().find(|check| !check.holds(object))
    }
}

impl Check {
    /// Whether the check holds. If a path selects several values, each of them must pass.
    #[must_use]
    pub fn holds(&self, object: &Value) -> bool {
        let mut values = self.path.select(object);
        if let Test::Exists(expected) = self.test {
            return values.is_empty() != expected;
        }
        if values.is_empty() {
            values.extend(&self.default);
        }
        !values.is_empty() && values.into_iter().all(|value| self.passes(value, object))
    }

    /// Whether one of the values at the path passes.
    pub(super) fn passes(&self, value: &Value, object: &Value) -> bool {
        match &self.test {
            Test::Equals(expected) => value == expected,
            Test::In(expected) => expected.contains(value),
            Test::AtLeast(least) => is_at_least(value, least.as_f64()),
            Test::Exists(expected) => *expected,
            Test::EqualsPath(other) => single(other, object) == Some(value),
            Test::AtLeastPath(other) => {
                is_at_least(value, single(other, object).and_then(Value::as_f64))
            }
        }
    }
}

fn is_at_least(value: &Value, least: Option<f64>) -> bool {
    value.as_f64().zip(least).is_some_and(|(value, least)| value >= least)
}

/// The value at a path that must be unambiguous.
fn single<'a>(path: &JsonPath, object: &'a Value) -> Option<&'a Value> {
    match path.select(object)[..] {
        [value] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(path: &str, test: Test) -> Check {
        Check { path: JsonPath::parse(path).unwrap(), test, default: None }
    }

    #[test]
    fn each_test_compares_values_and_not_texts() {
        let object = json!({"a": 2, "b": "2", "list": [2, 3], "on": true, "wanted": 2});
        let path = |path: &str| JsonPath::parse(path).unwrap();
        let holds = |at: &str, test: Test| check(at, test).holds(&object);
        assert!(holds("$.a", Test::Equals(json!(2))));
        assert!(!holds("$.b", Test::Equals(json!(2))));
        assert!(holds("$.b", Test::In(vec![json!("1"), json!("2")])));
        assert!(holds("$.a", Test::AtLeast(2.into())));
        assert!(!holds("$.b", Test::AtLeast(1.into())));
        assert!(holds("$.on", Test::Exists(true)) && holds("$.off", Test::Exists(false)));
        assert!(!holds("$.off", Test::Exists(true)) && !holds("$.on", Test::Exists(false)));
        assert!(holds("$.a", Test::EqualsPath(path("$.wanted"))));
        assert!(holds("$.a", Test::AtLeastPath(path("$.wanted"))));
        assert!(!holds("$.a", Test::AtLeastPath(path("$.missing"))));
        assert!(!holds("$.a", Test::EqualsPath(path("$.list[*]"))));
    }

    #[test]
    fn each_selected_value_must_pass_and_a_missing_value_fails() {
        let object = json!({"list": [2, 3]});
        assert!(!check("$.list[*]", Test::AtLeast(3.into())).holds(&object));
        assert!(check("$.list[*]", Test::AtLeast(2.into())).holds(&object));
        assert!(!check("$.missing", Test::AtLeast(0.into())).holds(&object));
        let default = Some(json!(0));
        assert!(Check { default, ..check("$.missing", Test::AtLeast(0.into())) }.holds(&object));
    }

    #[test]
    fn condition_holds_if_all_checks_hold() {
        let object = json!({"a": 1});
        let [yes, no] = [1, 2].map(|value| check("$.a", Test::Equals(json!(value))));
        assert!(Condition::new(Vec::new()).is_none());
        assert!(Condition::new(vec![yes.clone()]).unwrap().holds(&object));
        let condition = Condition::new(vec![yes, no.clone()]).unwrap();
        assert_eq!(condition.first_open(&object), Some(&no));
    }
}
