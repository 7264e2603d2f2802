//! The files of a module for an attempt, as a tar archive.
//!
//! All files are looked up before the first one is sent. A file that cannot be sent fails the attempt
//! with a reason then. While the archive is sent, only the mirror and the connection can fail.

use std::io::{self, Write};
use std::path::Path;

use butler_base::error::FailureClass;
use butler_source::UnknownEncoding;
use butler_source::attributes::Conversion;
use git2::{ObjectType, Oid, Repository};
use tar::{Builder, EntryType, Header};

use super::attributes::{self, Attributes};
use crate::layers::{LayerSource, layer_files};
use crate::mirror::{
    Dependencies, GitTree, Kind, Tree as _, TreeError, below, check_depth, globs, matching, needs,
    submodule_tree,
};
use crate::model::Commit;

/// The largest archive that the runner takes, in bytes.
pub(super) const MOST: u64 = 256 * 1024 * 1024;

/// The unit of a tar, in bytes: each entry has one for its header, and its content fills whole ones.
pub(super) const BLOCK: u64 = 512;

/// Why an attempt cannot get its files.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    /// The layer has no files.
    #[error("commit {commit} does not have the path `{path}`")]
    PathMissing {
        /// The commit.
        commit: Commit,
        /// The path of the layer.
        path: String,
    },
    /// One file is too large.
    #[error("`{path}` has {size} bytes; the files of a module have at most {MOST}")]
    FileTooLarge {
        /// The file.
        path: String,
        /// Its size, in bytes.
        size: usize,
    },
    /// All files together are too large.
    #[error(
        "the files that the layer gets have more than {MOST} bytes; keep large files out of the \
         directories that it needs"
    )]
    TooLarge,
    /// A link cannot be created by the runner.
    #[error("the target of the link `{path}` is not UTF-8")]
    LinkTarget {
        /// The link.
        path: String,
    },
    /// A submodule that the module may read could not be fetched.
    #[error("the submodule `{path}`, which the module may read, could not be fetched")]
    Submodule {
        /// Its path in the commit.
        path: String,
    },
    /// A file cannot be converted as a checkout does.
    #[error("cannot check out `{path}`: {why}; keep the file in UTF-8")]
    Encoding {
        /// The file.
        path: String,
        /// The reason.
        why: UnknownEncoding,
    },
    /// An entry of the commit cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// An object of the mirror cannot be read.
    #[error("cannot read `{path}` in the mirror of the repository: {why}")]
    Mirror {
        /// The path in the commit.
        path: String,
        /// What failed.
        why: String,
    },
}

impl ArchiveError {
    /// Whether the attempt can succeed later.
    pub(super) const fn class(&self) -> FailureClass {
        match self {
            Self::PathMissing { .. } => FailureClass::Configuration,
            Self::FileTooLarge { .. }
            | Self::TooLarge
            | Self::LinkTarget { .. }
            | Self::Encoding { .. }
            | Self::Tree(TreeError::Content { .. }) => FailureClass::Module,
            Self::Submodule { .. } => FailureClass::Network,
            Self::Tree(TreeError::Read { .. }) | Self::Mirror { .. } => FailureClass::Platform,
        }
    }
}

/// The files of a layer at a commit.
pub(super) struct Archive {
    repository: Repository,
    files: Vec<ArchiveFile>,
    /// The size of the tar without its end, in bytes.
    pub(super) size: u64,
    /// The largest size of the tar, in bytes.
    most: u64,
    /// How many entries of directories were looked at.
    visited: u64,
    attributes: Attributes,
}

/// An entry of the archive.
struct ArchiveFile {
    path: String,
    content: Content,
    conversion: Conversion,
}

enum Content {
    File(Oid),
    Executable(Oid),
    Link(String),
    /// A submodule whose commit is missing. Git leaves an empty directory too.
    EmptyDirectory,
}

impl Archive {
    /// The files that a layer depends on at `commit`: those that its digest is made of. With
    /// `checkout: full`, all files; and for Terragrunt, because it looks for its parents itself.
    ///
    /// # Errors
    /// If the mirror cannot be read or does not have the commit, or if a file cannot be sent.
    pub(super) fn of(
        mirror: &Path,
        layer: &LayerSource,
        commit: &Commit,
    ) -> Result<Self, ArchiveError> {
        Self::limited(mirror, layer, commit, MOST)
    }

    /// The same with an archive of at most `most` bytes.
    pub(super) fn limited(
        mirror: &Path,
        layer: &LayerSource,
        commit: &Commit,
        most: u64,
    ) -> Result<Self, ArchiveError> {
        let repository = Repository::open_bare(mirror).map_err(|error| failed("", &error))?;
        let found = entries(&repository, layer, commit)?;
        let mut places = Vec::new();
        let mut attributes = Attributes::new(mirror);
        let tree = GitTree::of(&repository, commit.as_str())?;
        // A directory stands for everything below it.
        for (path, entry) in found.iter().filter(|(path, _)| !has_parent(&found, path)) {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            // The files in a directory are looked at with its other files.
            let (root, files) = tree.on_the_way(parent, attributes::FILE)?;
            for (directory, id) in files {
                let added = attributes.add(&root, &directory, id);
                added.map_err(|error| failed(&directory, &error))?;
            }
            let id = Oid::from_str(&entry.id).map_err(|error| failed(path, &error))?;
            let root = if tree.is_submodule(path)? { path.clone() } else { root };
            places.push((root, path, entry.kind, id));
        }
        drop(tree);
        let (files, size, visited) = (Vec::new(), 0, 0);
        let mut archive = Self { repository, files, size, most, visited, attributes };
        for (root, path, kind, id) in places {
            archive.add(&root, path, kind, id)?;
        }
        Ok(archive)
    }

    /// Whether the archive has a file at `path`, or below it.
    pub(super) fn contains(&self, path: &str) -> bool {
        let is_at = |file: &ArchiveFile| {
            let rest = file.path.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.files.iter().any(is_at)
    }

    /// Writes the archive to `output`.
    ///
    /// # Errors
    /// If the mirror cannot be read, or `output` cannot be written.
    pub(super) fn write(&self, output: impl Write) -> io::Result<()> {
        let mut archive = Builder::new(output);
        for file in &self.files {
            let path = &file.path;
            match &file.content {
                Content::File(id) => self.append(&mut archive, file, *id, 0o644)?,
                Content::Executable(id) => self.append(&mut archive, file, *id, 0o755)?,
                Content::Link(target) => {
                    archive.append_link(&mut header(EntryType::Symlink, 0o777), path, target)?;
                }
                Content::EmptyDirectory => {
                    let mut header = header(EntryType::Directory, 0o755);
                    archive.append_data(&mut header, path, io::empty())?;
                }
            }
        }
        archive.into_inner()?.flush()
    }

    fn append(
        &self,
        archive: &mut Builder<impl Write>,
        file: &ArchiveFile,
        id: Oid,
        mode: u32,
    ) -> io::Result<()> {
        let blob = self.repository.find_blob(id).map_err(io::Error::other)?;
        let content = file.conversion.apply(blob.content(), id);
        let mut header = header(EntryType::Regular, mode);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, &file.path, &*content)
    }

    /// Adds an entry, which is in the repository at `root`.
    fn add(&mut self, root: &str, path: &str, kind: Kind, id: Oid) -> Result<(), ArchiveError> {
        let failed = |error: git2::Error| failed(path, &error);
        let content = match kind {
            Kind::Directory => return self.add_tree(root, path, id),
            Kind::Submodule => {
                let tree = submodule_tree(&self.repository, id).map_err(failed)?;
                match tree.map(|tree| tree.id()) {
                    Some(tree) => return self.add_tree(path, path, tree),
                    None => Content::EmptyDirectory,
                }
            }
            Kind::File => Content::File(id),
            Kind::Executable => Content::Executable(id),
            Kind::Link => {
                let blob = self.repository.find_blob(id).map_err(failed)?;
                let target = std::str::from_utf8(blob.content());
                let target =
                    target.map_err(|_| ArchiveError::LinkTarget { path: path.to_owned() })?;
                Content::Link(target.to_owned())
            }
        };
        let mut conversion = Conversion::default();
        if let Content::File(id) | Content::Executable(id) = content {
            // The size is known before the content is in memory.
            let header = self.repository.odb().and_then(|odb| odb.read_header(id));
            let (size, _) = header.map_err(failed)?;
            if size as u64 > self.most {
                return Err(ArchiveError::FileTooLarge { path: path.to_owned(), size });
            }
            conversion = self
                .attributes
                .conversion(root, path)
                .map_err(|why| ArchiveError::Encoding { path: path.to_owned(), why })?;
            let size = if conversion.is_none() {
                size
            } else {
                let blob = self.repository.find_blob(id).map_err(failed)?;
                conversion.apply(blob.content(), id).len()
            };
            self.size += (size as u64).next_multiple_of(BLOCK);
        }
        self.size += BLOCK;
        // This also bounds the number of files.
        if self.size > self.most {
            return Err(ArchiveError::TooLarge);
        }
        self.files.push(ArchiveFile { path: path.to_owned(), content, conversion });
        Ok(())
    }

    /// Adds what is below a directory. The recursion ends, because the depth is limited.
    fn add_tree(&mut self, root: &str, path: &str, id: Oid) -> Result<(), ArchiveError> {
        check_depth(path)?;
        let tree = self.repository.find_tree(id).map_err(|error| failed(path, &error))?;
        let mut found = Vec::new();
        for entry in &tree {
            self.visited += 1;
            // A small repository can contain directories without end.
            if self.visited > self.most / BLOCK {
                return Err(ArchiveError::TooLarge);
            }
            let Ok(name) = entry.name() else { continue };
            // Git never makes such names, but a repository can contain them.
            if matches!(name, "." | "..") || name.contains(['/', '\0']) {
                continue;
            }
            let kind = match (entry.kind(), entry.filemode()) {
                (Some(ObjectType::Tree), _) => Kind::Directory,
                (Some(ObjectType::Blob), 0o120_000) => Kind::Link,
                (Some(ObjectType::Blob), 0o100_755) => Kind::Executable,
                (Some(ObjectType::Blob), _) => Kind::File,
                (Some(ObjectType::Commit), _) => Kind::Submodule,
                _ => continue,
            };
            if name == attributes::FILE && matches!(kind, Kind::File | Kind::Executable) {
                let added = self.attributes.add(root, path, entry.id());
                added.map_err(|error| failed(path, &error))?;
            }
            found.push((below(path, name), kind, entry.id()));
        }
        drop(tree);
        for (path, kind, id) in found {
            self.add(root, &path, kind, id)?;
        }
        Ok(())
    }
}

/// The entries of the commit that the layer gets.
fn entries(
    repository: &Repository,
    layer: &LayerSource,
    commit: &Commit,
) -> Result<Dependencies, ArchiveError> {
    let tree = GitTree::of(repository, commit.as_str())?;
    let triggers = layer.entry.triggers.iter().map(|glob| glob.value.as_str());
    let triggers = matching(&tree, &globs(triggers).unwrap_or_default())?;
    let files = layer_files(&layer.entry, &layer.path, &triggers);
    let (mut parents, mut references) = Default::default();
    let found = needs(&tree, &files, &mut parents, &mut references)?;
    let found = found.ok_or_else(|| ArchiveError::PathMissing {
        commit: commit.clone(),
        path: layer.path.clone(),
    })?;
    let required = found.absent.iter().find(|it| it.is_required && !layer.is_without_submodules);
    if let Some(submodule) = required {
        return Err(ArchiveError::Submodule { path: submodule.path.clone() });
    }
    if !found.is_full {
        return Ok(found.entries);
    }
    Ok(tree.entry("")?.map(|root| (String::new(), root)).into_iter().collect())
}

/// Whether a directory above `path` is in `found` too.
fn has_parent(found: &Dependencies, path: &str) -> bool {
    let mut parents = path.match_indices('/').map(|(end, _)| &path[..end]);
    (found.contains_key("") && !path.is_empty())
        || parents.any(|parent| found.get(parent).is_some_and(|it| it.kind == Kind::Directory))
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header
}

fn failed(path: &str, error: &git2::Error) -> ArchiveError {
    ArchiveError::Mirror { path: path.to_owned(), why: error.message().to_owned() }
}
