//! Gives the files of a run to the user that its tools run as.
//!
//! The tools own what they write. They can read the other files of the run, which stay those of the runner, through
//! the group of their user. The runner writes files for the tools until `init` begins, so it does this just before:
//! after that, it must not write in a directory that the tools own, where a module can have made links.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use secrecy::ExposeSecret;

use crate::run::context::Context;
use crate::run::directory::run_directory::TEMPORARY;
use crate::run::failure::Failure;
use butler_base::event::Phase;
use butler_base::platform::fs::user;
use butler_base::platform::{give_directory, let_users_enter, share_with_group};
use butler_protocol::backend::LOCAL;
use butler_protocol::spec::RunSpec;

/// The suffix of the files whose locks show that the run is alive. A module could lock a file that it can read.
const LOCK: &str = "lock";

/// The files that the tools of a run get.
#[derive(Clone, Debug)]
pub(in crate::run) struct Handover {
    user: u32,
    /// Terraform's data directory, one of those that the tools write.
    data: PathBuf,
    /// The directories that the tools write.
    given: Vec<PathBuf>,
    /// The directories of the run, with files that the tools read.
    shared: Vec<PathBuf>,
    /// The directories of the cache with the executables of the tools.
    entered: Vec<PathBuf>,
}

impl Handover {
    /// The files that `user` gets. `tools` are the executables, and `states` the directories of local backends.
    pub(in crate::run) fn new(
        context: &Context<'_>,
        user: u32,
        tools: &[&Path],
        states: &[PathBuf],
    ) -> Self {
        let directory = context.directory;
        let private = directory.private().path();
        let given = ["data", "home", TEMPORARY].map(|name| private.join(name)).into_iter();
        let given =
            given.chain([directory.tool_files(), directory.source(), directory.downloads()]);
        let states = layers_states(context.settings.isolation.states.as_deref(), states);
        let given = given.chain(directory.temporary()).chain(states);
        let temporary = directory.temporary().and_then(|it| it.parent().map(Path::to_owned));
        let shared = [private.to_owned(), directory.secrets().path().to_owned()];
        let cache = &context.settings.tool.cache_dir;
        let above = |tool: &&Path| -> Vec<PathBuf> {
            let above = tool.ancestors().skip(1);
            above.take_while(|path| path.starts_with(cache)).map(Path::to_owned).collect()
        };
        Self {
            user,
            data: private.join("data"),
            given: given.filter(|path| path.exists()).collect(),
            shared: shared.into_iter().chain(temporary).collect(),
            entered: tools.iter().flat_map(above).collect(),
        }
    }

    /// The user of the tools.
    pub(in crate::run) const fn user(&self) -> u32 {
        self.user
    }

    /// The directories that the tools write.
    pub(in crate::run) fn given(&self) -> &[PathBuf] {
        &self.given
    }

    /// Takes Terraform's data directory back for as long as the runner adds packages in it to the cache, which takes
    /// only those that no other user can change. No tool may run meanwhile.
    ///
    /// # Errors
    /// If an owner cannot be changed.
    pub(in crate::run) fn take_data(&self) -> Result<(), Failure> {
        give_directory(&self.data, user()).map_err(not_given(&self.data, user()))
    }

    /// Gives Terraform's data directory to the user again.
    ///
    /// # Errors
    /// If an owner cannot be changed.
    pub(in crate::run) fn give_data(&self) -> Result<(), Failure> {
        give_directory(&self.data, self.user).map_err(not_given(&self.data, self.user))
    }

    /// Changes the owners, groups and modes.
    ///
    /// # Errors
    /// If one of them cannot be changed.
    pub(in crate::run) fn apply(&self) -> Result<(), Failure> {
        let user = self.user;
        let failed = |path: &Path| not_given(path, user);
        for path in &self.entered {
            // The tool cannot be started then, and says so.
            if let Err(error) = let_users_enter(path) {
                tracing::warn!(path = %path.display(), %error, "users of runs cannot use the tool cache");
            }
        }
        for path in &self.given {
            give_directory(path, user).map_err(failed(path))?;
        }
        for directory in &self.shared {
            for entry in std::fs::read_dir(directory).map_err(failed(directory))? {
                let entry = entry.map_err(failed(directory))?;
                let path = entry.path();
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                if is_file && path.extension() != Some(OsStr::new(LOCK)) {
                    share_with_group(&path, user).map_err(failed(&path))?;
                }
            }
            share_with_group(directory, user).map_err(failed(directory))?;
        }
        Ok(())
    }
}

fn not_given(path: &Path, user: u32) -> impl FnOnce(std::io::Error) -> Failure + use<> {
    let text = format!("cannot give `{}` to the user {user} of the run", path.display());
    move |error| Failure::because(Phase::Init, format!("{text}: {error}"))
}

/// The directories in which the backend of the run stores states in files. A relative path is in the clone.
pub(in crate::run) fn state_directories(spec: &RunSpec) -> Vec<PathBuf> {
    let Some(backend) = spec.backend.as_ref().filter(|it| it.kind == LOCAL.name) else {
        return Vec::new();
    };
    let settings = backend.config.iter().filter_map(|(name, json)| {
        let path: PathBuf = serde_json::from_str(json.expose_secret()).ok()?;
        match name.as_str() {
            "path" => path.parent().map(Path::to_owned),
            "workspace_dir" => Some(path),
            _ => None,
        }
    });
    settings.filter(|path| path.is_absolute()).collect()
}

/// The directory of a layer in `states`, if one of `directories` is in it. Only there does the server create
/// directories for modules, and it has checked that the run is one of that layer.
pub(in crate::run) fn layers_states(
    states: Option<&Path>,
    directories: &[PathBuf],
) -> Option<PathBuf> {
    let states = states?;
    directories.iter().find_map(|directory| {
        match directory.strip_prefix(states).ok()?.components().next()? {
            Component::Normal(layer) => Some(states.join(layer)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_directory_of_a_layer_is_given() {
        let found =
            |directory: &str| layers_states(Some("/data/states".as_ref()), &[directory.into()]);
        for directory in ["/data/states/l", "/data/states/l/a/b"] {
            assert_eq!(found(directory), Some("/data/states/l".into()), "{directory}");
        }
        for directory in ["/data/states", "/data/states/..", "/data", "/etc", "/data/states-of/l"] {
            assert_eq!(found(directory), None, "{directory}");
        }
    }
}
