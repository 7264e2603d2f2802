//! The server's own configuration, and what its includes and custom resources contain: which content is in
//! force, and what is wrong with newer content. It reads and writes nothing.

use std::collections::BTreeMap;

use butler_cluster::{KnownResources, ResourceKey};

use crate::config::{
    Config, ConfigError, IncludeSource, IncludedFrom, RemoteLimits, merge, parse_included,
};
use crate::layers::IncludedFiles;
use crate::model::Commit;
use crate::resources::Resources;

/// The own configuration, its includes, and custom resources.
#[derive(Debug)]
pub(super) struct Includes {
    limits: RemoteLimits,
    own: Config,
    /// The content that is in force.
    contents: BTreeMap<IncludeSource, Content>,
    /// The last valid commit, also if its content is refused since: the limits can be others after a
    /// restart.
    valid: BTreeMap<IncludeSource, Commit>,
    /// What is wrong with the newest content, if it is not in force because of that.
    errors: BTreeMap<IncludeSource, Vec<String>>,
    /// Those of them that are not in the log yet.
    unlogged: Vec<String>,
    resources: Resources,
    /// The newest own configuration, if it has the names of resources.
    refused: Option<Config>,
}

/// The place of the own configuration among those that have the names of resources.
const OWN: &str = "";

/// The content of an include.
#[derive(Clone, Debug)]
struct Content {
    commit: Commit,
    files: IncludedFiles,
    config: Config,
}

impl Includes {
    pub(super) fn new(own: Config, limits: RemoteLimits) -> Self {
        let (contents, valid, errors, unlogged) = Default::default();
        let resources = Resources::default();
        Self { limits, own, contents, valid, errors, unlogged, resources, refused: None }
    }

    /// Replaces the own configuration. Returns the configuration with what is included.
    ///
    /// # Errors
    /// If what is in force does not go with it. Everything stays as it is then.
    pub(super) fn configure(&mut self, own: Config) -> Result<Config, Vec<ConfigError>> {
        let sources = own.include_sources();
        let mut contents = BTreeMap::new();
        for source in &sources {
            let Some(content) = self.contents.get(source).cloned() else { continue };
            // They can have other defaults.
            let config = self.parse(&own, source, &content.files)?;
            contents.insert(source.clone(), Content { config, ..content });
        }
        let beside = merge(&own, contents.iter().map(|(source, it)| (source, &it.config)))?;
        self.refused = Some(own.clone());
        let config = self.with_resources(OWN, &beside)?;
        self.refused = None;
        self.valid.retain(|source, _| sources.contains(source));
        self.errors.retain(|source, _| sources.contains(source));
        let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
        self.resources.retain_notes(|place| place == OWN || sources.iter().any(|it| it == place));
        (self.own, self.contents) = (own, contents);
        Ok(config)
    }

    /// Takes the files of an include at a commit, or what is wrong with them. Returns the configuration if it
    /// has changed.
    pub(super) fn take(
        &mut self,
        source: &IncludeSource,
        commit: Option<&Commit>,
        read: Result<IncludedFiles, Vec<ConfigError>>,
    ) -> Option<Config> {
        if !self.own.include_sources().contains(source) {
            return None;
        }
        // Conflicts are those of the newest content.
        self.resources.note(&source.to_string(), &[]);
        let together = read.and_then(|files| {
            let config = self.parse(&self.own, source, &files)?;
            let others = self.contents.iter().filter(|(other, _)| *other != source);
            let others = others.map(|(other, content)| (other, &content.config));
            // The last one has the error if a name is given twice.
            let beside = merge(&self.own, others.chain([(source, &config)]))?;
            Ok((files, config, self.with_resources(&source.to_string(), &beside)?))
        });
        match (together, commit) {
            (Ok((files, config, merged)), Some(commit)) => {
                self.errors.remove(source);
                self.valid.insert(source.clone(), commit.clone());
                let commit = commit.clone();
                self.contents.insert(source.clone(), Content { commit, files, config });
                Some(merged)
            }
            (Ok(_), None) => None,
            (Err(errors), _) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                let before = self.errors.insert(source.clone(), errors.clone());
                if before.as_ref() != Some(&errors) {
                    self.unlogged.extend(errors);
                }
                None
            }
        }
    }

    /// Takes the custom resources of the cluster. Returns the configuration if repositories or layers have changed, or
    /// other ones are unknown.
    pub(super) fn take_resources(&mut self, known: KnownResources) -> Option<Config> {
        let is_listed_anew = *self.resources.unlisted() != known.unlisted;
        if !self.resources.replace(known) && !self.resources.has_refusals() {
            return None;
        }
        let contents = self.contents.iter().map(|(source, it)| (source, &it.config));
        let beside = merge(&self.own, contents).ok()?;
        let is_other = self.resources.resolve_changed(&beside, &self.limits);
        if is_other || is_listed_anew { self.merged(&beside).ok() } else { None }
    }

    /// The newest own configuration is another one now.
    pub(super) fn forget_refused(&mut self) {
        self.refused = None;
        self.resources.note(OWN, &[]);
    }

    /// The newest own configuration, if resources had its names and have them no more.
    pub(super) fn retry_own(&mut self) -> Option<Config> {
        let refused = self.refused.clone()?;
        self.configure(refused).ok()
    }

    /// The custom resources.
    pub(super) const fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The resources that have changed since the repositories with these names were read. They are returned once.
    pub(super) fn take_unread(&mut self) -> Vec<(ResourceKey, String)> {
        self.resources.take_unread()
    }

    /// Adds the custom resources to a newer configuration at `place`.
    ///
    /// # Errors
    /// If the configuration has the name of a resource that is in force.
    fn with_resources(&mut self, place: &str, beside: &Config) -> Result<Config, Vec<ConfigError>> {
        let clashes = self.resources.clashes(beside);
        self.resources.note(place, &clashes);
        if !clashes.is_empty() {
            return Err(clashes.into_iter().map(|clash| clash.error).collect());
        }
        self.resources.resolve(beside, &self.limits);
        self.merged(beside)
    }

    fn merged(&self, beside: &Config) -> Result<Config, Vec<ConfigError>> {
        let all = self.resources.configs().iter();
        let all = all.map(|(name, config)| (IncludedFrom::Namespace(name.clone()), config));
        Ok(Config { unlisted: self.resources.unlisted().clone(), ..merge(beside, all)? })
    }

    fn parse(
        &self,
        own: &Config,
        source: &IncludeSource,
        files: &IncludedFiles,
    ) -> Result<Config, Vec<ConfigError>> {
        parse_included(files, &self.limits, &source.repository, own.defaults.as_ref())
    }

    /// The includes of a repository.
    pub(super) fn of(&self, repository: &str) -> Vec<IncludeSource> {
        let all = self.own.include_sources().into_iter();
        all.filter(|source| source.repository == repository).collect()
    }

    /// Whether the content at `commit` is in force, so that it needs not be read again. What was refused
    /// is read again: the cause can be gone without a commit.
    pub(super) fn is_current(&self, source: &IncludeSource, commit: Option<&Commit>) -> bool {
        let content = self.contents.get(source);
        content.is_some_and(|content| Some(&content.commit) == commit)
            && !self.errors.contains_key(source)
    }

    /// The last valid commit of an include.
    pub(super) fn valid_commit(&self, source: &IncludeSource) -> Option<&Commit> {
        self.valid.get(source)
    }

    /// Keeps the last valid commit that an earlier server has known.
    pub(super) fn was_valid(&mut self, source: &IncludeSource, commit: &Commit) {
        self.valid.insert(source.clone(), commit.clone());
    }

    /// The errors that were not in the log yet. They are in it from now on.
    pub(super) fn take_unlogged(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unlogged)
    }

    /// What is wrong with newest contents.
    pub(super) fn errors(&self) -> Vec<String> {
        self.errors.values().flatten().cloned().collect()
    }
}
