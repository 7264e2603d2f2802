//! Configuration that the server reads from its repositories: by which rules, and how it joins its own.

use std::path::{Path, PathBuf};

use super::document::LayerEntry;
use super::entries::{Config, Included, IncludedFrom, Placed};
use super::error::ConfigError;
use super::load::{insert, parse_with, texts};
use super::trust::{RemoteLimits, Trust};

/// Reads the texts of files that the server has from its repository `from`. `defaults` are those of the
/// server's own files.
///
/// # Errors
/// All that is wrong, or is not allowed to who can write the files, in the order of files and lines.
pub fn parse_included(
    files: &[(PathBuf, String)],
    limits: &RemoteLimits,
    from: &str,
    defaults: Option<&LayerEntry>,
) -> Result<Config, Vec<ConfigError>> {
    let trust = Trust::Remote { limits: limits.clone(), from: from.to_owned() };
    let inherited = defaults.map(|defaults| inherited(defaults, &trust));
    parse_with(files, &trust, inherited.as_ref())
}

/// Reads the texts of the custom resources in a namespace, whose people have this trust. `defaults` are those of the
/// server's own files.
///
/// # Errors
/// All that is wrong, or is not allowed to who can write the resources.
pub fn parse_namespace(
    resources: &[(PathBuf, String)],
    trust: &Trust,
    defaults: Option<&LayerEntry>,
) -> Result<Config, Vec<ConfigError>> {
    let inherited = defaults.map(|defaults| inherited(defaults, trust));
    parse_with(resources, trust, inherited.as_ref())
}

/// Reads files of a machine without the server, by the rules of configuration that a server includes from its repository `from`.
///
/// # Errors
/// All that is wrong, or is not allowed, in the order of files and lines.
pub fn load_included(
    path: &Path,
    limits: &RemoteLimits,
    from: &str,
) -> Result<Config, Vec<ConfigError>> {
    parse_included(&texts(path)?, limits, from, None)
}

/// What included layers take from the defaults of the server's own files: what their authors could write
/// too. A module of theirs could read everything else.
fn inherited(defaults: &LayerEntry, trust: &Trust) -> LayerEntry {
    let is_allowed = |entry: LayerEntry| {
        trust.layer(&Placed { file: PathBuf::new(), at: (0, 0), entry }, None).is_empty()
    };
    let only = LayerEntry::default;
    let mut entry = defaults.clone();
    // Their repositories are others.
    entry.repository = None;
    entry.secrets.retain(|name, secret| {
        is_allowed(LayerEntry { secrets: [(name.clone(), secret.clone())].into(), ..only() })
    });
    entry.env.retain(|name, value| {
        is_allowed(LayerEntry { env: [(name.clone(), value.clone())].into(), ..only() })
    });
    entry.pass_env.retain(|name| is_allowed(LayerEntry { pass_env: vec![name.clone()], ..only() }));
    entry.isolation.take_if(|isolation| {
        !is_allowed(LayerEntry { isolation: Some(isolation.clone()), ..only() })
    });
    // Their pods run where all others do, without what the others may use.
    if let Some(job) = &mut entry.job {
        (job.service_account, job.cache_claim) = (None, None);
        job.env_from.clear();
    }
    entry.module_credentials.take_if(|credentials| {
        !is_allowed(LayerEntry { module_credentials: Some(credentials.clone()), ..only() })
    });
    entry
        .backend
        .take_if(|backend| !is_allowed(LayerEntry { backend: Some(backend.clone()), ..only() }));
    entry
}

/// Adds what includes and custom resources contain to the server's own configuration.
///
/// # Errors
/// If a name is given twice. The error is at the later one.
pub fn merge<'a>(
    own: &Config,
    includes: impl IntoIterator<Item = (impl Into<IncludedFrom>, &'a Config)>,
) -> Result<Config, Vec<ConfigError>> {
    let mut merged = own.clone();
    let mut errors = Vec::new();
    for (source, content) in includes {
        let source = source.into();
        let max_layers = own.most_layers(&source);
        if let Some(error) = too_many(content, &source, max_layers) {
            errors.push(error);
            continue;
        }
        merged.included.push(Included {
            source,
            max_layers,
            repositories: content.repositories.keys().cloned().collect(),
            layers: content.layers.keys().cloned().collect(),
            windows: content.windows.clone(),
        });
        for (name, entry) in content.repositories.clone() {
            insert(&mut merged.repositories, "repository", name, entry, &mut errors);
        }
        for (name, entry) in content.layers.clone() {
            insert(&mut merged.layers, "layer", name, entry, &mut errors);
        }
    }
    if errors.is_empty() { Ok(merged) } else { Err(errors) }
}

/// The error about a source with more entries than it may have layers. Members of layer sets are counted when their
/// repository is read.
fn too_many(content: &Config, from: &IncludedFrom, most: u32) -> Option<ConfigError> {
    let (count, last) = (content.layers.len(), content.layers.values().next_back()?);
    let is_allowed = u32::try_from(count).is_ok_and(|count| count <= most);
    let advice = match from {
        IncludedFrom::Repository(_) => "define fewer, or raise `max-layers` of the include",
        IncludedFrom::Namespace(_) => "define fewer",
    };
    (!is_allowed).then(|| {
        last.error(format!("{count} layers are defined, and at most {most} are allowed; {advice}"))
    })
}
