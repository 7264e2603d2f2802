//! What a module names.

/// The directory in which a path begins.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::reach) enum Start {
    /// The directory of the file that has the path.
    Module,
    /// The directory of the layer, in which its tool runs.
    Root,
    /// The root of the repository.
    Repository,
    /// The nearest directory above the layer that has a file of this name, or one of the usual names.
    Parent(Option<String>),
}

/// What is done with a path.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::reach) enum Role {
    /// It is read, with everything below it.
    Read,
    /// It is rendered, so it can read files itself.
    Template,
    /// It is the directory of a module, whose files name further paths.
    Module,
}

/// A path of a module.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::reach) struct Reference {
    /// Where it begins.
    pub(in crate::reach) start: Start,
    /// The path, with `/`. It can contain `..`.
    pub(in crate::reach) path: String,
    /// What it is for.
    pub(in crate::reach) role: Role,
}

/// Why it is not known what a module reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::reach) struct Cause {
    /// The name of the file in its directory.
    pub(in crate::reach) file: String,
    /// The line, from 1, if it is known.
    pub(in crate::reach) line: Option<usize>,
    /// What is not understood, for the middle of a sentence.
    pub(in crate::reach) what: String,
}

/// What the files of a directory read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::reach) struct Findings {
    /// The paths that are understood.
    pub(in crate::reach) references: Vec<Reference>,
    /// The first path that is not.
    pub(in crate::reach) unknown: Option<Cause>,
    /// The first program that runs only while changes are applied. It can read any file, but no plan
    /// depends on that.
    pub(in crate::reach) program: Option<Cause>,
}

impl Findings {
    /// Adds what another file reads.
    pub(in crate::reach) fn extend(&mut self, other: Self) {
        self.references.extend(other.references);
        self.unknown = self.unknown.take().or(other.unknown);
        self.program = self.program.take().or(other.program);
    }

    pub(super) fn sort(&mut self) {
        self.references.sort();
        self.references.dedup();
    }
}
