//! How many layers the sources of configuration may define that others than the administrator write.
//!
//! The limit is for the sum of all layers and members of layer sets of a source, because who writes a source can write
//! any number of sets, and the `max-layers` of each.

use std::collections::HashMap;

use crate::config::{Config, IncludedFrom};

/// The rest of the limits.
pub(super) struct Budget<'a> {
    config: &'a Config,
    /// By the index of the source.
    taken: HashMap<usize, usize>,
}

impl<'a> Budget<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        Self { config, taken: HashMap::new() }
    }

    /// Takes `count` layers of a layer or layer set.
    ///
    /// # Errors
    /// If its source has defined too many: a sentence.
    pub(super) fn take(&mut self, set: &str, count: usize) -> Result<(), String> {
        let mut sources = self.config.included.iter().enumerate();
        let Some((index, source)) = sources.find(|(_, source)| source.layers.contains(set)) else {
            return Ok(());
        };
        let taken = self.taken.entry(index).or_default();
        let most = usize::try_from(source.max_layers).unwrap_or(usize::MAX);
        if taken.saturating_add(count) > most {
            let (of, advice) = match &source.source {
                IncludedFrom::Repository(include) => (
                    format!("the include `{include}`"),
                    "use globs that match fewer, or raise `max-layers` of the include",
                ),
                IncludedFrom::Namespace(namespace) => (
                    format!("the custom resources of the namespace `{namespace}`"),
                    "use globs that match fewer",
                ),
            };
            return Err(format!(
                "`{set}` has {count} layers, and {of} may define {most}, of which {taken} are taken; it has no \
                 layers until you change that: {advice}"
            ));
        }
        *taken += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Included;

    #[test]
    fn limit_is_for_the_sum_of_a_source_and_not_for_own_files() {
        let of = |namespace: &str, max_layers, layers: &[&str]| Included {
            source: IncludedFrom::Namespace(namespace.to_owned()),
            max_layers,
            repositories: std::collections::BTreeSet::new(),
            layers: layers.iter().map(|name| (*name).to_owned()).collect(),
            windows: Vec::new(),
        };
        let included = vec![of("one", 10, &["a", "b", "c"]), of("two", 5, &["d"])];
        let config = Config { included, ..Config::default() };
        let mut budget = Budget::new(&config);
        for (set, count, is_allowed) in [
            ("own", 25_000, true),
            ("a", 6, true),
            ("b", 5, false),
            ("c", 4, true),
            ("b", 1, false),
            ("d", 6, false),
            ("d", 5, true),
        ] {
            let taken = budget.take(set, count);
            assert_eq!(taken.is_ok(), is_allowed, "{set} {count}: {taken:?}");
        }
        let problem = budget.take("b", 3).unwrap_err();
        assert!(problem.contains("`b` has 3 layers, and the custom resources of the namespace `one` may define 10, of which 10 are taken"), "{problem}");
    }
}
