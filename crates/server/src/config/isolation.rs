//! The paths of `isolation` that no attempt can use.

use std::path::{Path, PathBuf};

use super::document::LayerEntry;
use super::entries::Placed;
use super::error::ConfigError;

/// What is wrong with the paths of a layer, or of the defaults, if `data` is the data directory.
pub(super) fn layer(layer: &Placed<LayerEntry>, data: &Path) -> Vec<ConfigError> {
    let paths = layer.entry.isolation.iter().flat_map(|it| it.read.iter().chain(&it.write));
    let refused = paths.filter(|path| leads_to(&path.value, data));
    let error = |path: &serde_saphyr::Spanned<PathBuf>| {
        let message = format!(
            "`{}` is in the data directory or contains it, whose files no module can use",
            path.value.display()
        );
        layer.error_in(path, message)
    };
    refused.map(error).collect()
}

/// Whether `path` is in the directory `data`, or contains it. Links are followed.
pub(crate) fn leads_to(path: &Path, data: &Path) -> bool {
    let (path, data) = (real(path), real(data));
    path.starts_with(&data) || data.starts_with(&path)
}

/// `path` without links in the part that exists.
fn real(path: &Path) -> PathBuf {
    let resolved = |existing: &Path| {
        Some(existing.canonicalize().ok()?.join(path.strip_prefix(existing).ok()?))
    };
    path.ancestors().find_map(resolved).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::load::parse_from;
    use super::super::trust::Trust;
    use super::*;

    #[test]
    fn paths_that_lead_to_the_data_directory_are_refused_where_they_stand() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let shown = base.display();
        std::fs::create_dir_all(base.join("real/data")).unwrap();
        std::fs::write(base.join("file"), "").unwrap();
        std::os::unix::fs::symlink(base.join("real"), base.join("link")).unwrap();
        let errors = |text: &str, data: Option<PathBuf>| {
            let files = [(PathBuf::from("a.yaml"), text.to_owned())];
            let parsed = parse_from(&files, &Trust::Local { data });
            let errors = parsed.err().unwrap_or_default();
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let repository = "repositories: {r: {url: 'https://example.com/a'}}\n";
        // The second one does not exist yet.
        for data in ["link/data", "link/later"] {
            for (path, is_refused) in [
                ("/", true),
                (&*format!("{shown}"), true),
                (&*format!("{shown}/real"), true),
                (&*format!("{shown}/{data}"), true),
                (&*format!("{shown}/{data}/x"), true),
                (&*format!("{shown}/{}/x", data.replace("link", "real")), true),
                (&*format!("{shown}/{data}-other"), false),
                (&*format!("{shown}/file"), false),
                (&*format!("{shown}/missing/data"), false),
            ] {
                for key in ["read", "write"] {
                    let keys = format!("isolation: {{{key}: [/usr, '{path}']}}");
                    let text = format!(
                        "{repository}layers:\n  l: {{repository: r, path: b,\n    {keys}}}\n"
                    );
                    let line = format!("a.yaml:4:{}: `{path}` is in the data", 26 + key.len());
                    let found = errors(&text, Some(base.join(data)));
                    assert_eq!(found.len(), usize::from(is_refused), "{text}: {found:?}");
                    assert!(found.iter().all(|error| error.starts_with(&line)), "{found:?}");
                    assert_eq!(errors(&text, None), Vec::<String>::new());
                    // Not at each layer that takes the default.
                    let text = format!(
                        "defaults: {{{keys}}}\n{repository}layers: {{l: {{repository: r, path: b}}, m: {{repository: r, \
                         path: c}}}}\n"
                    );
                    let found = errors(&text, Some(base.join(data)));
                    assert_eq!(found.len(), usize::from(is_refused), "{text}: {found:?}");
                    assert!(found.iter().all(|error| error.starts_with("a.yaml:1:")), "{found:?}");
                }
            }
        }
    }
}
