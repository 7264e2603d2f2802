//! Where paths of a commit lead. Symbolic links are followed as the operating system does: one after the
//! other, and `..` leads to the directory above the target.

use std::collections::VecDeque;

use super::tree::{Entry, Kind, Tree, TreeError};

/// The most links of one path, as in Linux.
const MOST: usize = 40;

/// Where a path leads.
#[derive(Debug, Eq, PartialEq)]
pub enum Located {
    /// To this entry, which is not a link.
    At(String, Entry),
    /// To nothing. Links that lead to each other lead to nothing.
    Missing,
    /// Into this submodule, which is not there.
    Absent(String),
    /// Above the root of the repository, without a link.
    Outside,
}

/// Finds the entry at `path`, which begins in `directory`. Adds the links on the way to `links`.
///
/// # Errors
/// If an object cannot be read, or a link leads out of the repository.
pub fn locate(
    tree: &impl Tree,
    directory: &str,
    path: &str,
    links: &mut Vec<(String, Entry)>,
) -> Result<Located, TreeError> {
    let mut at: Vec<String> = components(directory).collect();
    let mut rest: VecDeque<String> = components(path).collect();
    let (mut last_link, mut followed) = (None, 0);
    let mut found = tree.entry(&at.join("/"))?;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            if at.pop().is_none() {
                return last_link.map_or(Ok(Located::Outside), |link| Err(leads_out(link)));
            }
            found = tree.entry(&at.join("/"))?;
            continue;
        }
        at.push(name);
        let path = at.join("/");
        let Some(entry) = tree.entry(&path)? else {
            let is_absent = found.is_some_and(|found| found.kind == Kind::Submodule);
            at.pop();
            return Ok(if is_absent { Located::Absent(at.join("/")) } else { Located::Missing });
        };
        if entry.kind != Kind::Link {
            found = Some(entry);
            continue;
        }
        followed += 1;
        // An attempt cannot get a link whose target is not UTF-8, and says so.
        let Some(target) = tree.link(&path)? else { return Ok(Located::Missing) };
        if target.starts_with('/') {
            return Err(leads_out(path));
        }
        links.push((path.clone(), entry));
        if followed > MOST {
            return Ok(Located::Missing);
        }
        last_link = Some(path);
        at.pop();
        for name in components(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(name);
        }
        found = tree.entry(&at.join("/"))?;
    }
    Ok(found.map_or(Located::Missing, |entry| Located::At(at.join("/"), entry)))
}

fn components(path: &str) -> impl Iterator<Item = String> {
    path.split('/').filter(|name| !matches!(*name, "" | ".")).map(str::to_owned)
}

fn leads_out(path: String) -> TreeError {
    let why = "the link leads out of the repository; replace it by what it leads to".to_owned();
    TreeError::Content { path, why }
}
