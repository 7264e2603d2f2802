//! The paths of a layer that would let its attempts use the data directory of the server.

use std::path::{Path, PathBuf};

use butler_base::paths::{is_in, leads_to};

use super::document::{BackendEntry, LayerEntry};
use super::entries::Placed;
use super::error::ConfigError;

/// The directory of the states in the data directory.
pub(crate) const STATES: &str = "states";

/// What is wrong with the paths of a layer, or of the defaults, if `data` is the data directory. `name` is
/// that of the layer.
pub(super) fn layer(
    layer: &Placed<LayerEntry>,
    name: Option<&str>,
    data: &Path,
) -> Vec<ConfigError> {
    let paths = layer.entry.isolation.iter().flat_map(|it| it.read.iter().chain(&it.write));
    let refused = paths.filter(|path| leads_to(&path.value, data));
    let error = |path: &serde_saphyr::Spanned<PathBuf>| {
        let message = format!(
            "`{}` is in the data directory or contains it, whose files no module can use",
            path.value.display()
        );
        layer.error_in(path, message)
    };
    let mut errors: Vec<_> = refused.map(error).collect();
    if let Some(backend) = &layer.entry.backend {
        // The layers of a set have other names.
        let name = name.filter(|_| layer.entry.paths.is_empty());
        let states = name.map(|name| data.join(STATES).join(name));
        let problem = local_backend_problem(backend, states.as_deref(), data);
        errors.extend(problem.map(|problem| layer.error_in(&backend.kind, problem)));
    }
    errors
}

/// Why attempts cannot use a `local` backend: they can write in the directories of its states. In the
/// directory `data`, only `states` is for them.
pub(crate) fn local_backend_problem(
    backend: &BackendEntry,
    states: Option<&Path>,
    data: &Path,
) -> Option<String> {
    if backend.kind.value != "local" {
        return None;
    }
    ["path", "workspace_dir"].into_iter().find_map(|key| {
        let value = backend.config.get(key)?;
        // A secret is not known yet.
        let Some(path) = value.as_str().map(Path::new) else {
            return Some(format!("`backend.config.{key}` of a `local` backend must be a text"));
        };
        let directory = if key == "path" { path.parent()? } else { path };
        // A relative path is in the files of the layer.
        // A module can have replaced a directory of its states by a link to any other one.
        let is_refused = path.is_absolute()
            && (leads_to(directory, data) || directory.starts_with(data))
            && states.is_none_or(|states| !is_in(directory, states));
        is_refused.then(|| {
            format!(
                "`backend.config.{key}` leads to the data directory, in which modules could write then; leave \
                 it out to keep the state in `{STATES}/NAME` of the data directory, or name another \
                 directory"
            )
        })
    })
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

    #[test]
    fn local_backend_in_the_data_directory_is_refused_except_for_the_states_of_its_own_layer() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let data = base.join("data");
        std::fs::create_dir_all(data.join("states/l")).unwrap();
        // A module of the layer can have made it.
        std::os::unix::fs::symlink(&data, data.join("states/l/link")).unwrap();
        std::os::unix::fs::symlink("/etc", data.join("states/l/outside")).unwrap();
        let shown = data.display();
        let errors = |layers: &str| {
            let text = format!("repositories: {{r: {{url: 'https://example.com/a'}}}}\n{layers}\n");
            let trust = Trust::Local { data: Some(data.clone()) };
            let parsed = parse_from(&[(PathBuf::from("a.yaml"), text)], &trust);
            let errors = parsed.err().unwrap_or_default();
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let backend = |config: &str| format!("backend: {{type: local, config: {{{config}}}}}");
        let layer = |keys: &str| format!("layers: {{l: {{repository: r, {keys}}}}}");
        for (config, is_refused) in [
            (format!("path: '{shown}/store.sqlite'"), true),
            (format!("path: '{shown}/states/x.tfstate'"), true),
            (format!("path: '{shown}/states/other/x.tfstate'"), true),
            (format!("path: '{shown}/states/l/link/x.tfstate'"), true),
            (format!("path: '{shown}/states/l/outside/x.tfstate'"), true),
            (format!("workspace_dir: '{shown}/states/l/outside'"), true),
            (format!("path: '{shown}/states/l/../other/x.tfstate'"), true),
            (format!("path: '{}/x.tfstate'", base.display()), true),
            ("path: /x.tfstate".to_owned(), true),
            (format!("workspace_dir: '{shown}/mirrors'"), true),
            ("path: {env: A}".to_owned(), true),
            (format!("path: '{shown}/states/l/x.tfstate'"), false),
            (
                format!("path: '{shown}/states/l/a/x.tfstate', workspace_dir: '{shown}/states/l'"),
                false,
            ),
            (format!("path: '{}/other/x.tfstate'", base.display()), false),
            ("path: x.tfstate".to_owned(), false),
            (String::new(), false),
        ] {
            let found = errors(&layer(&format!("path: a, {}", backend(&config))));
            assert_eq!(found.len(), usize::from(is_refused), "{config}: {found:?}");
            assert!(found.iter().all(|error| error.contains("`backend.config.")), "{found:?}");
        }
        // Only a layer has states of its own.
        let own = backend(&format!("path: '{shown}/states/l/x.tfstate'"));
        assert_eq!(errors(&layer(&format!("paths: ['a/*'], {own}"))).len(), 1);
        let defaults = format!("defaults: {{{own}}}\n{}", layer("path: a"));
        assert_eq!(errors(&defaults).len(), 1);
        // Another backend has no directory.
        let other = own.replace("local", "s3");
        assert_eq!(errors(&layer(&format!("path: a, {other}"))), Vec::<String>::new());
    }
}
