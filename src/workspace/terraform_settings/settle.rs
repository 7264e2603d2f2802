//! What counts where several places speak about the same thing, and a warning for what does not.
//!
//! Run before settings file before environment. A section counts as a whole: two halves of two
//! places would be a third that nobody has written. What a run says elsewhere (`stateBackend`,
//! `envVars`) is said about this run alone, and counts before its `terraformSettings`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::TerraformSettingsError;
use crate::spec::{
    Backend, BackendSettings, BackendValue, CliConfig, EnvironmentVariable, LoggingSettings,
    RegistryHost, RunSpec, SecretReference, Source, TerraformSettings,
};
use crate::workspace::references::SecretSources;
use crate::workspace::variables::Unresolved;

/// How much Terraform logs.
const LOG_LEVEL: &str = "TF_LOG";

/// Variables that name a CLI configuration file of the user's.
const CONFIG_VARIABLES: [&str; 2] = ["TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"];

/// Files in the user's home that Terraform or `OpenTofu` read without being told.
const CONFIG_FILES: [&str; 3] = [".terraformrc", ".tofurc", ".terraform.d/credentials.tfrc.json"];

/// What is around a run when its settings are settled.
pub struct Surroundings<'run> {
    /// Where references lead; its environment is the job's.
    pub sources: &'run SecretSources,
    /// What a relative path of Terraform's log starts from.
    pub report_dir: Option<&'run Path>,
}

/// Settles what of `file` and `run` counts and puts it into `spec`. Returns what to warn of.
///
/// # Errors
/// When a secret of what counts cannot be found.
pub fn settle(
    spec: &mut RunSpec,
    run: TerraformSettings,
    file: TerraformSettings,
    surroundings: &Surroundings<'_>,
) -> Result<Vec<String>, TerraformSettingsError> {
    let mut settling = Settling {
        spec,
        surroundings,
        warnings: Vec::new(),
        unresolved: Vec::new(),
        level_counts: false,
    };
    if let Some((backend, origin)) = settling.choose("backend", run.backend, file.backend) {
        settling.backend(backend, origin)?;
    }
    // Before `env`, which loses against it.
    if let Some((logging, origin)) = settling.choose("logging", run.logging, file.logging) {
        settling.logging(logging, origin)?;
    }
    if let Some((variables, origin)) = settling.choose("env", run.environment, file.environment) {
        settling.environment(variables, origin);
    }
    if let Some((config, origin)) = settling.choose("terraformrc", run.cli_config, file.cli_config)
    {
        settling.cli_config(config, origin)?;
    }
    let Settling { warnings, unresolved, .. } = settling;
    if unresolved.is_empty() {
        Ok(warnings)
    } else {
        Err(TerraformSettingsError::Unresolved(unresolved))
    }
}

/// Where a section was written.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Origin {
    Run,
    File,
}

impl Origin {
    const fn name(self) -> &'static str {
        match self {
            Self::Run => "the run's `terraformSettings`",
            Self::File => "the settings file",
        }
    }
}

struct Settling<'run> {
    spec: &'run mut RunSpec,
    surroundings: &'run Surroundings<'run>,
    warnings: Vec<String>,
    unresolved: Vec<Unresolved>,
    /// Whether it is `logging.level` that says how much Terraform logs.
    level_counts: bool,
}

impl Settling<'_> {
    fn choose<T>(&mut self, section: &str, run: Option<T>, file: Option<T>) -> Option<(T, Origin)> {
        match (run, file) {
            (Some(run), file) => {
                if file.is_some() {
                    self.ignored(&format!("`{section}`"), Origin::File, Origin::Run.name());
                }
                Some((run, Origin::Run))
            }
            (None, Some(file)) => Some((file, Origin::File)),
            (None, None) => None,
        }
    }

    fn ignored(&mut self, what: &str, origin: Origin, winner: &str) {
        self.warnings.push(format!("{what} of {} is ignored: {winner} counts", origin.name()));
    }

    fn overruled(&mut self, what: &str, origin: Origin) {
        self.warnings
            .push(format!("{what} of the environment is ignored: {} counts", origin.name()));
    }

    fn ambient(&self) -> &BTreeMap<OsString, OsString> {
        &self.surroundings.sources.environment
    }

    fn backend(
        &mut self,
        backend: BackendSettings,
        origin: Origin,
    ) -> Result<(), TerraformSettingsError> {
        if self.spec.backend.is_some() {
            self.ignored("`backend`", origin, "the run's `stateBackend`");
            return Ok(());
        }
        if let Source::Directory(_) = self.spec.source {
            self.ignored("`backend`", origin, "the module's own backend, in a local run,");
            return Ok(());
        }
        let mut config = Vec::new();
        for (name, value) in backend.config {
            let json = match value {
                BackendValue::Json(json) => Some(json),
                BackendValue::Reference(reference) => self
                    .secret(&format!("backend.config.{name}"), &reference)?
                    .map(|secret| json_text(&secret)),
            };
            config.extend(json.map(|json| (name, json)));
        }
        self.spec.backend = Some(Backend { kind: backend.kind, config });
        Ok(())
    }

    fn logging(
        &mut self,
        logging: LoggingSettings,
        origin: Origin,
    ) -> Result<(), TerraformSettingsError> {
        if let Some(level) = logging.level {
            self.level_counts = self.variable(LOG_LEVEL, level, "`logging.level`", origin);
        }
        match logging.path {
            // Traces are not masked, and whoever writes the run does not own this machine's files.
            Some(_) if origin == Origin::Run => self.warnings.push(format!(
                "`logging.path` of {} is ignored: only a settings file may say where traces go",
                origin.name()
            )),
            Some(path) => {
                let path = self.log_path(path)?;
                if self.ambient().contains_key(OsStr::new("TF_LOG_PATH")) {
                    self.overruled("`TF_LOG_PATH`", origin);
                }
                self.warnings.push(format!(
                    "Terraform writes its log to `{}`: what it says there is not masked",
                    path.display()
                ));
                self.spec.setup.log_path = Some(path);
            }
            None => {}
        }
        Ok(())
    }

    fn log_path(&self, path: PathBuf) -> Result<PathBuf, TerraformSettingsError> {
        if path.is_absolute() {
            return Ok(path);
        }
        let directory = self.surroundings.report_dir.ok_or(TerraformSettingsError::LogPath)?;
        Ok(directory.join(path))
    }

    fn environment(&mut self, variables: Vec<(String, String)>, origin: Origin) {
        for (name, value) in variables {
            let what = format!("`env.{name}`");
            self.variable(&name, value, &what, origin);
        }
    }

    /// Gives Terraform a variable, unless the run has it already. Says whether it does.
    fn variable(&mut self, name: &str, value: String, what: &str, origin: Origin) -> bool {
        let given = self.spec.environment.iter().find(|(given, _)| given == name);
        if let Some((_, variable)) = given {
            if variable.value.expose_secret() != value {
                let of_level = self.level_counts && name == LOG_LEVEL;
                let winner = if of_level { "`logging.level`" } else { "`envVars` of the run" };
                self.ignored(what, origin, winner);
            }
            return false;
        }
        if self.ambient().get(OsStr::new(name)).is_some_and(|ambient| *ambient != *value) {
            self.overruled(&format!("`{name}`"), origin);
        }
        let variable = EnvironmentVariable { value: value.into(), sensitive: false };
        self.spec.environment.push((name.to_owned(), variable));
        true
    }

    fn cli_config(
        &mut self,
        config: CliConfig<SecretReference>,
        origin: Origin,
    ) -> Result<(), TerraformSettingsError> {
        let mut credentials = Vec::new();
        for (host, reference) in config.credentials {
            let of_host = |name: &str| RegistryHost::of_variable(name).as_ref() == Some(&host);
            let setting = format!("terraformrc.credentials.{}", host.as_str());
            let of_run = self.spec.environment.iter().find(|(name, _)| of_host(name));
            if let Some((name, _)) = of_run {
                let winner = format!("the run's `{name}`");
                self.ignored(&format!("`{setting}`"), origin, &winner);
                continue;
            }
            // Terraform would take these first.
            let overruled: Vec<_> = self
                .ambient()
                .keys()
                .filter(|name| name.to_str().is_some_and(of_host))
                .cloned()
                .collect();
            for name in overruled {
                self.overruled(&format!("`{}`", name.to_string_lossy()), origin);
                self.spec.setup.overruled.push(name);
            }
            if let Some(token) = self.secret(&setting, &reference)? {
                credentials.push((host, token));
            }
        }
        self.replace_config(origin);
        let installation = config.installation;
        self.spec.setup.cli_config = Some(CliConfig { installation, credentials });
        Ok(())
    }

    /// Says which configuration of the user's Terraform does not read.
    fn replace_config(&mut self, origin: Origin) {
        let named: Vec<_> = CONFIG_VARIABLES
            .into_iter()
            .filter(|name| self.ambient().get(OsStr::new(name)).is_some_and(|it| !it.is_empty()))
            .collect();
        for name in &named {
            self.overruled(&format!("`{name}`"), origin);
            self.spec.setup.overruled.push(name.into());
        }
        if named.is_empty()
            && let Some(home) = self.ambient().get(OsStr::new("HOME")).map(PathBuf::from)
        {
            for file in CONFIG_FILES {
                if home.join(file).is_file() {
                    self.overruled(&format!("`~/{file}`"), origin);
                }
            }
        }
    }

    /// What `reference` leads to; none where it leads nowhere, which is noted.
    fn secret(
        &mut self,
        setting: &str,
        reference: &SecretReference,
    ) -> Result<Option<SecretString>, TerraformSettingsError> {
        let sources = self.surroundings.sources;
        let secret = sources.find_referred(reference).map_err(|source| {
            TerraformSettingsError::Reference { name: setting.to_owned(), source }
        })?;
        match &secret {
            Some(secret) => self.spec.setup.secrets.push((setting.to_owned(), secret.clone())),
            None => self.unresolved.push(Unresolved {
                name: setting.to_owned(),
                ways: sources.advice_on_referred(reference),
            }),
        }
        Ok(secret)
    }
}

fn json_text(secret: &SecretString) -> SecretString {
    serde_json::Value::from(secret.expose_secret()).to_string().into()
}
