//! What counts where several places speak about the same thing, and a warning for what does not.
//!
//! Run before settings file before environment; but where providers come from and who gets tokens
//! is for the file to say, if it does. `terraformrc` and `backend` count as a whole: two halves of
//! two places would be a third that nobody has written. What a run says elsewhere (`stateBackend`,
//! `envVars`) is said about this run alone, and counts before its `terraformSettings`.

use std::collections::{BTreeMap, HashMap};
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

/// The setting that says so.
const LEVEL_SETTING: &str = "logging.level";

/// Which file its log goes to.
const LOG_PATH: &str = "TF_LOG_PATH";

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
    let names = spec.environment.iter().enumerate();
    let given =
        names.map(|(place, (name, _))| (name.clone(), (place, "`envVars` of the run".to_owned())));
    let mut settling = Settling {
        given: given.collect(),
        spec,
        surroundings,
        warnings: Vec::new(),
        unresolved: Vec::new(),
    };
    let (of_run, of_file) = (Origin::Run, Origin::File);
    let backends = [(run.backend, of_run), (file.backend, of_file)];
    if let Some((backend, origin)) = settling.choose("backend", backends) {
        settling.backend(backend, origin)?;
    }
    let variables =
        [(run.environment, run.logging, of_run), (file.environment, file.logging, of_file)];
    for (variables, logging, origin) in variables {
        // Before `env`, which loses against it.
        settling.logging(logging.unwrap_or_default(), origin)?;
        settling.environment(variables.unwrap_or_default(), origin);
    }
    settling.ambient_log();
    let configs = [(file.cli_config, of_file), (run.cli_config, of_run)];
    if let Some((config, origin)) = settling.choose("terraformrc", configs) {
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
    /// Where each variable stands in the run's environment, and who has given it.
    given: HashMap<String, (usize, String)>,
}

impl Settling<'_> {
    /// The first of two sections that is there.
    fn choose<T>(
        &mut self,
        section: &str,
        [(first, winner), (second, loser)]: [(Option<T>, Origin); 2],
    ) -> Option<(T, Origin)> {
        if first.is_some() && second.is_some() {
            self.ignored(&format!("`{section}`"), loser, winner.name());
        }
        first.map(|it| (it, winner)).or(second.map(|it| (it, loser)))
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
            self.variable(LOG_LEVEL, level, LEVEL_SETTING, origin);
        }
        match logging.path {
            // Traces are not masked, and whoever writes the run does not own this machine's files.
            Some(_) if origin == Origin::Run => self.warnings.push(format!(
                "`logging.path` of {} is ignored: only a settings file may say where traces go",
                origin.name()
            )),
            Some(path) => {
                let path = self.log_path(path)?;
                if self.ambient().contains_key(OsStr::new(LOG_PATH)) {
                    self.overruled(&format!("`{LOG_PATH}`"), origin);
                }
                self.warn_of_log(&path);
                self.spec.setup.log_path = Some(path);
            }
            None => {}
        }
        Ok(())
    }

    /// Says where the environment alone sends Terraform's log.
    fn ambient_log(&mut self) {
        if self.spec.setup.log_path.is_none()
            && let Some(path) = self.ambient().get(OsStr::new(LOG_PATH)).filter(|it| !it.is_empty())
        {
            self.warn_of_log(&PathBuf::from(path));
        }
    }

    fn warn_of_log(&mut self, path: &Path) {
        let path = path.display();
        self.warnings.push(format!(
            "Terraform writes its log to `{path}`: what it says there is not masked"
        ));
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
            self.variable(&name, value, &format!("env.{name}"), origin);
        }
    }

    /// Gives Terraform a variable, unless the run has it already; `setting` is what says so.
    fn variable(&mut self, name: &str, value: String, setting: &str, origin: Origin) {
        if let Some((place, winner)) = self.given.get(name).cloned() {
            if self.spec.environment[place].1.value.expose_secret() != value {
                self.ignored(&format!("`{setting}`"), origin, &winner);
            }
            return;
        }
        if self.ambient().get(OsStr::new(name)).is_some_and(|ambient| *ambient != *value) {
            self.overruled(&format!("`{name}`"), origin);
        }
        let winner = format!("`{setting}` of {}", origin.name());
        self.given.insert(name.to_owned(), (self.spec.environment.len(), winner));
        let variable = EnvironmentVariable { value: value.into(), sensitive: false };
        self.spec.environment.push((name.to_owned(), variable));
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
