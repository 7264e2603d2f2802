//! The order of changes: what is destroyed first, then module by module, then by type.

use super::view::Change;
use crate::address::module_and_type;
use crate::{Action, PlannedChange};

/// Changes below one heading.
pub(super) struct Group<'a> {
    /// May be empty, if there is only one group.
    pub(super) title: String,
    pub(super) changes: Vec<Change<'a>>,
}

impl<'a> Group<'a> {
    /// All changes; `open` says whether they are expanded.
    pub(super) fn all(changes: &'a [PlannedChange], open: bool) -> Vec<Self> {
        let mut sorted: Vec<(Key<'a>, &PlannedChange)> =
            changes.iter().map(|change| (Key::of(change), change)).collect();
        // Stable: the plan's order remains within a type.
        sorted.sort_by_key(|(key, _)| *key);
        let mut groups: Vec<Self> = Vec::new();
        let mut last = None;
        for (key, change) in sorted {
            if last != Some((key.is_harmless, key.module)) {
                last = Some((key.is_harmless, key.module));
                groups.push(Self { title: key.title(), changes: Vec::new() });
            }
            if let Some(group) = groups.last_mut() {
                group.changes.push(Change::of(change, open));
            }
        }
        if let [only] = &mut groups[..]
            && last == Some((true, ""))
        {
            only.title.clear();
        }
        groups
    }
}

/// What changes are sorted by.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Key<'a> {
    /// What is destroyed or replaced comes first, in any module.
    is_harmless: bool,
    module: &'a str,
    kind: &'a str,
}

impl<'a> Key<'a> {
    fn of(change: &'a PlannedChange) -> Self {
        let (module, kind) = module_and_type(&change.address);
        let is_harmless = !matches!(change.action, Action::Delete | Action::Replace);
        Self { is_harmless, module: if is_harmless { module } else { "" }, kind }
    }

    fn title(&self) -> String {
        match (self.is_harmless, self.module) {
            (false, _) => "Destroyed or replaced".to_owned(),
            (true, "") => "Root module".to_owned(),
            (true, module) => super::view::text(module).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(changes: &[(&str, Action)]) -> Vec<(String, Vec<String>)> {
        let changes: Vec<PlannedChange> = changes
            .iter()
            .map(|(address, action)| PlannedChange::new(*action, (*address).to_owned()))
            .collect();
        let groups = Group::all(&changes, false).into_iter();
        let addresses = |group: &Group<'_>| {
            group.changes.iter().map(|change| change.address.clone().into_owned()).collect()
        };
        groups.map(|group| (group.title.clone(), addresses(&group))).collect()
    }

    #[test]
    fn what_is_destroyed_comes_first_and_then_modules_by_name_and_types() {
        let (create, update) = (Action::Create, Action::Update);
        let all = titles(&[
            ("b.one", create),
            ("module.z.a.one", update),
            ("a.two", create),
            ("a.one", update),
            ("module.c.a.one", Action::Delete),
            ("module.b.a.one", create),
            ("a.three", Action::Replace),
        ]);
        let expected = [
            ("Destroyed or replaced", &["module.c.a.one", "a.three"][..]),
            ("Root module", &["a.two", "a.one", "b.one"]),
            ("module.b", &["module.b.a.one"]),
            ("module.z", &["module.z.a.one"]),
        ];
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let expected: Vec<(String, Vec<String>)> =
            expected.iter().map(|(title, all)| ((*title).to_owned(), owned(all))).collect();
        assert_eq!(all, expected);
        // One group needs no heading, unless it says something.
        assert_eq!(titles(&[("a.one", create)])[0].0, "");
        assert_eq!(titles(&[("a.one", Action::Delete)])[0].0, "Destroyed or replaced");
        assert_eq!(titles(&[("module.b.a.one", create)])[0].0, "module.b");
        assert!(titles(&[]).is_empty());
    }
}
