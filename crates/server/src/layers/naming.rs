//! The names of the members of layer sets.
//!
//! Names are made from paths, and two paths can make one name: `envs/prod.eu` and `envs/prod/eu`. A name has the
//! history and the state of one directory, so no other directory may ever get it.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::resolve::reference;
use crate::config::{Config, LayerEntry, generated_name};
use crate::mirror::join;
use crate::model::LayerName;

/// The name of the layer in the repository's root.
const ROOT: &str = "root";

/// The directories that names belong to.
pub(super) type Homes = BTreeMap<LayerName, String>;

/// A member of a layer set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Member {
    pub(super) name: LayerName,
    pub(super) path: String,
    /// Why it cannot be used beside another member, in one sentence.
    pub(super) conflict: Option<String>,
}

/// The members of a layer set, and what is wrong with the names of others.
pub(super) fn members_of(
    config: &Config,
    set: &str,
    entry: &LayerEntry,
    directories: &[String],
    homes: &Homes,
) -> (Vec<Member>, Vec<String>) {
    let (mut by_name, mut problems) = (BTreeMap::<LayerName, Vec<&String>>::new(), Vec::new());
    for path in directories {
        match base_name(set, path) {
            Ok(name) => by_name.entry(name).or_default().push(path),
            Err(problem) => problems.push(problem),
        }
    }
    let mut members = Vec::new();
    for (name, mut paths) in by_name {
        if paths.len() > 1 {
            paths.retain(|path| !is_named(config, entry, path));
        }
        let home = homes.get(&name);
        let owner = paths.iter().position(|path| Some(*path) == home);
        let is_contested = paths.len() > 1;
        for (index, path) in paths.iter().enumerate() {
            // Without a known owner, the first one has the name, and nothing happens to it.
            let has_name = home.is_none() && index == 0 || owner == Some(index);
            let name_of = if has_name { Ok(name.clone()) } else { own_name(&name, path) };
            let others = paths.iter().filter(|other| *other != path).map(|other| other.as_str());
            let others = others.collect::<Vec<_>>().join("`, `");
            let conflict = (is_contested && owner != Some(index)).then(|| {
                format!(
                    "the directories `{path}` and `{others}` make the same name `{name}`; give one of them a \
                     layer of its own with `path`, or use globs that match only one of them"
                )
            });
            match name_of {
                Ok(name) => members.push(Member { name, path: (*path).clone(), conflict }),
                Err(problem) => problems.push(problem),
            }
        }
    }
    members.sort_by(|one, other| one.path.cmp(&other.path));
    (members, problems)
}

/// The directories that names belong to from now on. A name stays with its directory, also when that is gone.
pub(super) fn settle(homes: &mut Homes, members: &[Member]) {
    for member in members.iter().filter(|member| member.conflict.is_none()) {
        homes.entry(member.name.clone()).or_insert_with(|| member.path.clone());
    }
}

/// The name that the path makes. Only the set of a quick start has no name.
fn base_name(set: &str, directory: &str) -> Result<LayerName, String> {
    let set = (!set.is_empty()).then_some(set);
    let directory = if directory.is_empty() { ROOT } else { directory };
    generated_name(set, directory).map_err(|error| error.to_string())
}

/// The name of a directory whose name belongs to another one.
fn own_name(name: &LayerName, path: &str) -> Result<LayerName, String> {
    let hash = hex::encode(&Sha256::digest(path)[..4]);
    LayerName::try_from(format!("{name}-{hash}")).map_err(|error| error.to_string())
}

/// Whether the configuration has a layer for just this directory.
fn is_named(config: &Config, set: &LayerEntry, directory: &str) -> bool {
    let repository = |entry: &LayerEntry| entry.repository.as_ref().map(|it| it.value.clone());
    config.layers.values().map(|placed| &placed.entry).any(|entry| {
        let path = entry.path.as_ref().and_then(|path| join("", &path.value));
        path.as_deref() == Some(directory)
            && repository(entry) == repository(set)
            && reference(entry) == reference(set)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    /// The names of directories, with `!` in front of those that are in conflict.
    fn named(layers: &str, directories: &[&str], homes: &Homes) -> Vec<String> {
        let text = format!(
            "repositories: {{r: {{url: 'file:///r'}}}}\nlayers:\n  s: {{repository: r, paths: ['**']}}\n{layers}"
        );
        let config = parse(&[("a.yaml".into(), text)]).unwrap();
        let directories: Vec<String> = directories.iter().map(|it| (*it).to_owned()).collect();
        let entry = &config.layers["s"].entry;
        let (members, problems) = members_of(&config, "s", entry, &directories, homes);
        assert!(problems.is_empty());
        let shown = |member: &Member| {
            let conflict = if member.conflict.is_some() { "!" } else { "" };
            format!("{conflict}{} {}", member.name, member.path)
        };
        members.iter().map(shown).collect()
    }

    fn homes(names: &[(&str, &str)]) -> Homes {
        names.iter().map(|(name, path)| (name.parse().unwrap(), (*path).to_owned())).collect()
    }

    #[test]
    fn two_paths_with_one_name_are_in_conflict_until_one_is_named() {
        let paths = ["a", "e/p.eu", "e/p/eu"];
        let expected = ["s.a a", "!s.e.p.eu e/p.eu", "!s.e.p.eu-9cbd4ae5 e/p/eu"];
        let found = named("", &paths, &Homes::new());
        let hash = |text: &str| text.split(' ').next().unwrap().len();
        assert_eq!(found[..2], expected[..2]);
        assert!(
            found[2].starts_with("!s.e.p.eu-") && hash(&found[2]) == hash(expected[2]),
            "{found:?}"
        );
        let named_one = "  x: {repository: r, path: e/p/eu}\n";
        assert_eq!(named(named_one, &paths, &Homes::new()), ["s.a a", "s.e.p.eu e/p.eu"]);
        let elsewhere = "  x: {repository: r, path: e/p/eu, ref: other}\n";
        assert!(named(elsewhere, &paths, &Homes::new())[1].starts_with('!'));
        assert_eq!(named("", &["", "x"], &Homes::new()), ["s.root ", "s.x x"]);
        assert!(named("", &["", "root"], &Homes::new()).iter().all(|name| name.starts_with('!')));
    }

    #[test]
    fn name_with_a_history_stays_with_its_path() {
        for home in ["e/p.eu", "e/p/eu"] {
            let homes = homes(&[("s.e.p.eu", home)]);
            for name in named("", &["e/p.eu", "e/p/eu"], &homes) {
                let is_home = name == format!("s.e.p.eu {home}");
                assert!(is_home || name.starts_with("!s.e.p.eu-"), "{name}");
            }
        }
        // The directory that had the name is gone.
        let known = homes(&[("s.e.p.eu", "e/p.eu")]);
        let found = named("", &["e/p/eu"], &known);
        assert!(found[0].starts_with("s.e.p.eu-") && found[0].ends_with(" e/p/eu"), "{found:?}");
    }

    #[test]
    fn contested_name_belongs_to_no_path() {
        let member = |name: &str, path: &str, conflict: Option<&str>| Member {
            name: name.parse().unwrap(),
            path: path.to_owned(),
            conflict: conflict.map(str::to_owned),
        };
        let mut known = homes(&[("a", "a")]);
        settle(
            &mut known,
            &[member("a", "b", None), member("c", "c", None), member("d", "d", Some("x"))],
        );
        assert_eq!(known, homes(&[("a", "a"), ("c", "c")]));
    }
}
