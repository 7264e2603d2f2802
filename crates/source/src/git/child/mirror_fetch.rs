//! Fetches commits into a mirror: several with one request, and with as little of their history as the server allows.

use git2::Oid;

use super::super::failure::FetchError;
use super::super::fetch::check_reference;
use super::depth::Depth;
use super::local;
use super::reference::{FULL_ID, ResolvedReference, hidden_sentence, resolve_reference};
use super::transfer::{ALL_REFERENCES, Server, Transfer};

/// Where fetched references are until their commits are known.
pub(super) const INCOMING: &str = "refs/incoming";

/// The default branch of a repository.
pub(super) const DEFAULT_BRANCH: &str = "HEAD";

/// A commit of the server.
pub(super) struct Wanted {
    /// The reference that is fetched, by its full name; `None` if the commit is fetched by its id.
    name: Option<String>,
    /// The commit, as the server listed it.
    pub(super) commit: Oid,
    /// Whether a newer commit of the reference is another one than the wanted.
    is_pinned: bool,
    /// What people should know if a branch and a tag have its name.
    pub(super) note: Option<String>,
}

/// The commit that `reference` leads to, by the rules of a clone. `None` if there is no such branch or
/// tag.
pub(super) fn find(reference: &str, heads: &[(String, Oid)]) -> Option<Wanted> {
    check_reference(reference).ok()?;
    let target = |name: &str| heads.iter().find(|(head, _)| head == name).map(|(_, id)| *id);
    // `^{}` marks the commit below an annotated tag.
    let commit = |name: &str| target(&format!("{name}^{{}}")).or_else(|| target(name));
    if reference == DEFAULT_BRANCH {
        let name = Some(reference.to_owned());
        return Some(Wanted { commit: target(reference)?, name, is_pinned: false, note: None });
    }
    match resolve_reference(reference, heads) {
        ResolvedReference::Reference { name, hides } => {
            let note = hides.map(|hidden| hidden_sentence(&name, &hidden));
            Some(Wanted { commit: commit(&name)?, name: Some(name), is_pinned: false, note })
        }
        ResolvedReference::Tip { name, id } if reference.len() == FULL_ID => {
            let is_tag = target(&name) == Some(id);
            let commit = if is_tag { commit(&name)? } else { id };
            Some(Wanted { commit, name: Some(name), is_pinned: true, note: None })
        }
        ResolvedReference::Commit(commit) => Some(Wanted::by_id(commit)),
        // An abbreviation needs the whole history.
        _ => None,
    }
}

impl Wanted {
    /// The commit `id` of a server that lists `heads`.
    pub(super) fn commit(id: Oid, heads: &[(String, Oid)]) -> Self {
        find(&id.to_string(), heads).unwrap_or_else(|| Self::by_id(id))
    }

    const fn by_id(commit: Oid) -> Self {
        Self { name: None, commit, is_pinned: true, note: None }
    }
}

/// Gets the commits into the mirror, with this much history if the server allows that. Returns the commit of each;
/// `None` if the server does not have it. A reference that was moved since the server listed it leads to the newer
/// commit.
///
/// # Errors
/// When the server refuses, or the mirror cannot be written.
pub(super) fn obtain(
    transfer: &Transfer<'_>,
    server: &Server<'_, '_>,
    wanted: &[Wanted],
    depth: Depth,
) -> Result<Vec<Option<Oid>>, FetchError> {
    let repository = server.repository;
    if let Some(source) = local::open(&server.address)? {
        let found = |wanted: &Wanted| source.find_commit(wanted.commit).ok().map(|it| it.id());
        let commits: Vec<Option<Oid>> = wanted.iter().map(found).collect();
        let present: Vec<Oid> = commits.iter().flatten().copied().collect();
        local::copy(&source, repository, &present, depth)
            .map_err(|error| FetchError::git("copy the commits", &error))?;
        return Ok(commits);
    }
    let place = |number: usize| format!("{INCOMING}/{number}");
    let (mut named, mut ids) = (Vec::new(), Vec::new());
    for (number, wanted) in wanted.iter().enumerate() {
        match &wanted.name {
            Some(name) => named.push(format!("+{name}:{}", place(number))),
            None => ids.push(format!("+{}:{}", wanted.commit, place(number))),
        }
    }
    if !named.is_empty() && transfer.is_refused(server, &texts(&named), depth)? {
        transfer.progress.print("The server refuses a shallow fetch: fetching the whole history");
        transfer.fetch(server, &texts(&named), Depth::All)?;
    }
    if !ids.is_empty() && transfer.is_refused(server, &texts(&ids), depth)? {
        transfer
            .progress
            .print("The server does not give out single commits: fetching the whole history");
        transfer.fetch(server, &ALL_REFERENCES, Depth::All)?;
    }
    let mut commits = Vec::new();
    for (number, wanted) in wanted.iter().enumerate() {
        let incoming = repository.find_reference(&place(number)).ok();
        let found = match &incoming {
            Some(incoming) if !wanted.is_pinned => incoming.peel_to_commit(),
            _ => repository.find_commit(wanted.commit),
        };
        commits.push(found.ok().map(|commit| commit.id()));
        if let Some(mut incoming) = incoming {
            incoming.delete().map_err(|error| FetchError::git("write the mirror", &error))?;
        }
    }
    Ok(commits)
}

fn texts(specs: &[String]) -> Vec<&str> {
    specs.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_is_found_before_a_tag_of_its_name_and_that_is_noted() {
        let id = |digit: &str| Oid::from_str(&digit.repeat(40)).unwrap();
        let heads = [
            ("refs/heads/main", "1"),
            ("refs/tags/main", "2"),
            ("refs/tags/main^{}", "3"),
            ("refs/heads/dev", "4"),
        ];
        let heads = heads.map(|(name, digit)| (name.to_owned(), id(digit)));
        let note = "`refs/heads/main` is used; `refs/tags/main` has the same name";
        for (reference, commit, expected) in [
            ("main", "1", Some(note)),
            ("refs/heads/main", "1", None),
            ("refs/tags/main", "3", None),
            ("dev", "4", None),
        ] {
            let found = find(reference, &heads).unwrap();
            assert_eq!(
                (found.commit, found.note.as_deref()),
                (id(commit), expected),
                "{reference}"
            );
        }
    }
}
