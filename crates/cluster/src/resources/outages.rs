//! Outages of custom resources, each told once, and once when it is over.
//!
//! A refusal concerns one namespace, for example after its `RoleBinding` was deleted. Everything else, such as an API
//! server that is away or a kind that is not installed, concerns all of them, and is told once for all.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::kinds::ResourceKind;
use crate::unreadable::Unreadable;

/// A place of objects: the namespace and the kind.
pub(super) type Place = (String, ResourceKind);

/// The scope of an outage.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Scope {
    Cluster,
    Namespace(String),
}

/// A place that cannot be read.
#[derive(Clone, Debug)]
struct Failure {
    scope: Scope,
    sentence: String,
    again: Instant,
}

/// The places that cannot be read, and why.
#[derive(Debug, Default)]
pub(super) struct Outages(BTreeMap<Place, Failure>);

impl Outages {
    /// Notes that a place cannot be read, and that it is tried again at `again`. Returns what a user is to be told, if
    /// the outage is new.
    pub(super) fn fails(
        &mut self,
        place: &Place,
        error: &Unreadable,
        again: Instant,
    ) -> Option<String> {
        let (namespace, kind) = place;
        let scope = match error.code {
            Some(403) => Scope::Namespace(namespace.clone()),
            _ => Scope::Cluster,
        };
        let is_told = self.has(&scope);
        let advice = match error.code {
            Some(403 | 404) => format!(
                "; the cluster must have the kinds of this server, and must allow it to list and watch them \
                 (`butler-runner generate server --resources {namespace}` prints both)"
            ),
            _ => String::new(),
        };
        let kind = kind.plural();
        let sentence =
            format!("cannot list {kind} in the namespace `{namespace}`: {}{advice}", error.why);
        let told = (!is_told).then(|| format!("{sentence}; it is tried again"));
        self.0.insert(place.clone(), Failure { scope, sentence, again });
        told
    }

    /// Notes that a place can be read. Returns what a user is to be told, if an outage has ended with it.
    pub(super) fn works(&mut self, place: &Place) -> Option<String> {
        let scope = self.0.remove(place)?.scope;
        if self.has(&scope) {
            return None;
        }
        Some(match scope {
            Scope::Cluster => "the custom resources can be read again".to_owned(),
            Scope::Namespace(name) => {
                format!("the custom resources in the namespace `{name}` can be read again")
            }
        })
    }

    fn has(&self, scope: &Scope) -> bool {
        self.0.values().any(|failure| failure.scope == *scope)
    }

    /// When a place that cannot be read is tried again.
    pub(super) fn again(&self, place: &Place) -> Option<Instant> {
        self.0.get(place).map(|failure| failure.again)
    }

    /// The problems: a sentence for each namespace.
    pub(super) fn sentences(&self) -> BTreeMap<&str, &str> {
        let mut sentences = BTreeMap::new();
        for ((namespace, _), failure) in &self.0 {
            sentences.entry(namespace.as_str()).or_insert(failure.sentence.as_str());
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(namespace: &str, kind: ResourceKind) -> Place {
        (namespace.to_owned(), kind)
    }

    fn unreadable(code: Option<u16>) -> Unreadable {
        Unreadable { code, why: "no".to_owned(), retry_after: None }
    }

    /// Whether each step of an outage is told: a place that fails with a code, or works (200).
    fn told(steps: &[(&str, ResourceKind, u16)]) -> Vec<bool> {
        let mut outages = Outages::default();
        let step = |(namespace, kind, code): &(&str, ResourceKind, u16)| {
            let place = place(namespace, *kind);
            let told = match code {
                200 => outages.works(&place),
                code => {
                    let code = Some(*code).filter(|code| *code > 0);
                    outages.fails(&place, &unreadable(code), Instant::now())
                }
            };
            told.is_some()
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn outage_is_told_once_and_once_when_it_is_over() {
        use ResourceKind::{Layer, Repository};
        for (what, steps, expected) in [
            (
                "a namespace",
                &[
                    ("a", Repository, 403),
                    ("a", Layer, 403),
                    ("a", Repository, 200),
                    ("a", Layer, 200),
                ][..],
                &[true, false, false, true][..],
            ),
            (
                "two namespaces",
                &[("a", Layer, 403), ("b", Layer, 403), ("a", Layer, 200), ("b", Layer, 200)],
                &[true, true, true, true],
            ),
            (
                "the API server",
                &[
                    ("a", Layer, 0),
                    ("b", Layer, 0),
                    ("a", Layer, 0),
                    ("a", Layer, 200),
                    ("b", Layer, 200),
                ],
                &[true, false, false, false, true],
            ),
            (
                "a kind",
                &[("a", Layer, 404), ("b", Layer, 404), ("a", Layer, 404)],
                &[true, false, false],
            ),
            (
                "an API server that comes back and refuses",
                &[("a", Layer, 0), ("a", Layer, 403), ("a", Layer, 200)],
                &[true, true, true],
            ),
            ("what works", &[("a", Layer, 200)], &[false]),
        ] {
            assert_eq!(told(steps), expected, "{what}");
        }
    }

    #[test]
    fn sentence_names_the_namespace_and_what_to_do() {
        let mut outages = Outages::default();
        let again = Instant::now();
        outages.fails(&place("a", ResourceKind::Layer), &unreadable(Some(403)), again);
        outages.fails(&place("b", ResourceKind::Layer), &unreadable(None), again);
        let sentences = outages.sentences();
        assert!(sentences["a"].starts_with("cannot list layers in the namespace `a`: no; "));
        assert!(sentences["a"].contains("generate server --resources a"));
        assert_eq!(sentences["b"], "cannot list layers in the namespace `b`: no");
    }
}
