//! The files of a module for an attempt, as a tar archive.

use std::io::{self, Write};
use std::path::Path;

use git2::{ObjectType, Repository, TreeWalkMode, TreeWalkResult};
use tar::{Builder, EntryType, Header};

use crate::layers::LayerSource;
use crate::mirror::{GitTree, Kind, Tree as _, dependencies, globs, matching};
use crate::model::Commit;

/// The largest file, in bytes: as much as the runner takes altogether.
const MOST: usize = 256 * 1024 * 1024;

/// Writes the files that a layer depends on at `commit` to `output`: those that its digest is made
/// of. Layers of Terragrunt get all files, because it looks for its parents itself.
///
/// # Errors
/// If the mirror cannot be read, does not have the commit, or `output` cannot be written.
pub(super) fn write_archive(
    mirror: &Path,
    layer: &LayerSource,
    commit: &Commit,
    output: impl Write,
) -> io::Result<()> {
    let repository = Repository::open_bare(mirror).map_err(io::Error::other)?;
    let tree = GitTree::of(&repository, commit).map_err(io::Error::other)?;
    let is_terragrunt =
        layer.entry.tool.as_ref().is_some_and(|tool| tool.value.starts_with("terragrunt"));
    let mut archive = Builder::new(output);
    if is_terragrunt {
        if let Some(entry) = tree.entry("").map_err(io::Error::other)? {
            append(&repository, &mut archive, "", entry.kind, &entry.id)?;
        }
        return archive.into_inner()?.flush();
    }
    let triggers = layer.entry.triggers.iter().map(|glob| glob.value.as_str());
    let triggers = globs(triggers).unwrap_or_default();
    let (mut parents, mut references) = Default::default();
    let found = matching(&tree, &triggers)
        .and_then(|triggers| {
            dependencies(&tree, &layer.path, &triggers, &mut parents, &mut references)
        })
        .map_err(io::Error::other)?
        .ok_or_else(|| {
            io::Error::other(format!("commit {commit} does not have the path `{}`", layer.path))
        })?;
    for (path, entry) in &found {
        // A directory stands for everything below it.
        if !has_parent(&found, path) {
            append(&repository, &mut archive, path, entry.kind, &entry.id)?;
        }
    }
    archive.into_inner()?.flush()
}

/// Whether a directory above `path` is in `found` too.
fn has_parent(found: &crate::mirror::Dependencies, path: &str) -> bool {
    let mut parents = path.match_indices('/').map(|(end, _)| &path[..end]);
    (found.contains_key("") && !path.is_empty())
        || parents.any(|parent| found.get(parent).is_some_and(|it| it.kind == Kind::Directory))
}

fn append<W: Write>(
    repository: &Repository,
    archive: &mut Builder<W>,
    path: &str,
    kind: Kind,
    id: &str,
) -> io::Result<()> {
    let id = git2::Oid::from_str(id).map_err(io::Error::other)?;
    match kind {
        Kind::File => append_blob(repository, archive, path, id, 0o644),
        Kind::Executable => append_blob(repository, archive, path, id, 0o755),
        Kind::Link => append_link(repository, archive, path, id),
        Kind::Submodule => append_directory(
            repository,
            archive,
            path,
            &repository
                .find_commit(id)
                .and_then(|commit| commit.tree())
                .map_err(io::Error::other)?,
        ),
        Kind::Directory => append_directory(
            repository,
            archive,
            path,
            &repository.find_tree(id).map_err(io::Error::other)?,
        ),
    }
}

fn append_directory<W: Write>(
    repository: &Repository,
    archive: &mut Builder<W>,
    path: &str,
    tree: &git2::Tree<'_>,
) -> io::Result<()> {
    let mut failed = None;
    let walked = tree.walk(TreeWalkMode::PreOrder, |directory, entry| {
        let Ok(name) = entry.name() else { return TreeWalkResult::Ok };
        let inner = format!("{directory}{name}");
        let full = if path.is_empty() { inner } else { format!("{path}/{inner}") };
        let kind = match (entry.kind(), entry.filemode()) {
            (Some(ObjectType::Blob), 0o120_000) => Kind::Link,
            (Some(ObjectType::Blob), 0o100_755) => Kind::Executable,
            (Some(ObjectType::Blob), _) => Kind::File,
            (Some(ObjectType::Commit), _) => Kind::Submodule,
            // The walk goes into directories itself.
            _ => return TreeWalkResult::Ok,
        };
        match append(repository, archive, &full, kind, &entry.id().to_string()) {
            Ok(()) => TreeWalkResult::Ok,
            Err(error) => {
                failed = Some(error);
                TreeWalkResult::Abort
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => walked.map_err(io::Error::other),
    }
}

fn append_blob<W: Write>(
    repository: &Repository,
    archive: &mut Builder<W>,
    path: &str,
    id: git2::Oid,
    mode: u32,
) -> io::Result<()> {
    // The size is known before the content is in memory.
    let odb = repository.odb().map_err(io::Error::other)?;
    let (size, _) = odb.read_header(id).map_err(io::Error::other)?;
    if size > MOST {
        return Err(io::Error::other(format!(
            "`{path}` has {size} bytes; a file of a module has at most {MOST}"
        )));
    }
    let blob = repository.find_blob(id).map_err(io::Error::other)?;
    let mut header = header(EntryType::Regular, mode);
    header.set_size(blob.content().len() as u64);
    archive.append_data(&mut header, path, blob.content())
}

fn append_link<W: Write>(
    repository: &Repository,
    archive: &mut Builder<W>,
    path: &str,
    id: git2::Oid,
) -> io::Result<()> {
    let blob = repository.find_blob(id).map_err(io::Error::other)?;
    let target = std::str::from_utf8(blob.content())
        .map_err(|_| io::Error::other(format!("the link `{path}` does not lead to UTF-8")))?;
    let mut header = header(EntryType::Symlink, 0o777);
    header.set_size(0);
    archive.append_link(&mut header, path, target)
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header
}
