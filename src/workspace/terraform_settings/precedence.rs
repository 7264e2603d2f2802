//! The precedence of settings for Terraform that come from several sources, with a warning for each ignored one.
//!
//! The run wins over the settings file, and the file over the environment. `terraformrc` is an exception: the file wins
//! over the run, because it selects the sites of providers and the receivers of tokens. `terraformrc` and `backend` are
//! used as a whole, never merged. `stateBackend` and `envVars` of a run win over its `terraformSettings`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::TerraformSettingsError;
use super::error::first;
use crate::workspace::variables::Unresolved;
use butler_protocol::references::SecretSources;
use butler_protocol::spec::{
    Backend, BackendSettings, BackendValue, CLI_CONFIG_VARIABLES, CliConfig, EnvironmentVariable,
    LoggingSettings, Product, RegistryHost, RunSpec, SecretReference, Source, TerraformSettings,
    cli_config_files,
};

/// The level of Terraform's log.
const LOG_LEVEL: &str = "TF_LOG";

/// The setting for the level.
const LEVEL_SETTING: &str = "logging.level";

/// The file of Terraform's log.
const LOG_PATH: &str = "TF_LOG_PATH";

/// What settings for Terraform are applied with.
pub struct SettingsContext<'run> {
    /// The sources of secrets. Its environment is the job's.
    pub sources: &'run SecretSources,
    /// The base of a relative path of Terraform's log.
    pub report_dir: Option<&'run Path>,
}

/// Applies the settings of `run` and `file` to `spec` by their precedence. Returns the warnings.
///
/// # Errors
/// If a secret of a setting that is used cannot be found.
pub fn apply_terraform_settings(
    spec: &mut RunSpec,
    run: TerraformSettings,
    file: TerraformSettings,
    context: &SettingsContext<'_>,
) -> Result<Vec<String>, TerraformSettingsError> {
    let names = spec.environment.iter().enumerate();
    let given =
        names.map(|(place, (name, _))| (name.clone(), (place, "`envVars` of the run".to_owned())));
    let mut application = SettingsApplication {
        given: given.collect(),
        spec,
        context,
        warnings: Vec::new(),
        unresolved: Vec::new(),
    };
    let (of_run, of_file) = (Origin::Run, Origin::File);
    let backends = [(run.backend, of_run), (file.backend, of_file)];
    if let Some((backend, origin)) = application.choose("backend", backends) {
        application.backend(backend, origin)?;
    }
    let variables =
        [(run.environment, run.logging, of_run), (file.environment, file.logging, of_file)];
    for (variables, logging, origin) in variables {
        // Before `env`, because `logging` wins over it.
        application.logging(logging.unwrap_or_default(), origin)?;
        application.environment(variables.unwrap_or_default(), origin);
    }
    application.ambient_log();
    if run.after_plan.is_some() {
        // The program runs on this machine, so only the machine's owner may name it.
        application.warnings.push(format!(
            "`afterPlan` of {} is ignored: only a settings file or --after-plan may name a program",
            of_run.name()
        ));
    }
    if let Some(after_plan) = file.after_plan {
        application.spec.setup.after_plan = Some(after_plan);
    }
    let configs = [(file.cli_config, of_file), (run.cli_config, of_run)];
    if let Some((config, origin)) = application.choose("terraformrc", configs) {
        application.cli_config(config, origin)?;
    }
    let SettingsApplication { warnings, unresolved, .. } = application;
    if unresolved.is_empty() {
        Ok(first(warnings.into_iter()))
    } else {
        Err(TerraformSettingsError::Unresolved(unresolved))
    }
}

/// The source of a section.
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

struct SettingsApplication<'run> {
    spec: &'run mut RunSpec,
    context: &'run SettingsContext<'run>,
    warnings: Vec<String>,
    unresolved: Vec<Unresolved>,
    /// The index of each variable in the run's environment, and the name of its source.
    given: HashMap<String, (usize, String)>,
}

impl SettingsApplication<'_> {
    /// The first of two sections that is given. Warns about the other one.
    fn choose<T>(
        &mut self,
        section: &str,
        [(first, winner), (second, loser)]: [(Option<T>, Origin); 2],
    ) -> Option<(T, Origin)> {
        if first.is_some() && second.is_some() {
            self.warn_of_ignored(&format!("`{section}`"), loser, winner.name());
        }
        first.map(|it| (it, winner)).or(second.map(|it| (it, loser)))
    }

    fn warn_of_ignored(&mut self, what: &str, origin: Origin, winner: &str) {
        self.warnings.push(format!("{what} of {} is ignored: {winner} counts", origin.name()));
    }

    fn warn_of_overruled(&mut self, what: &str, origin: Origin) {
        self.warnings
            .push(format!("{what} of the environment is ignored: {} counts", origin.name()));
    }

    fn ambient(&self) -> &BTreeMap<OsString, OsString> {
        &self.context.sources.environment
    }

    fn backend(
        &mut self,
        backend: BackendSettings,
        origin: Origin,
    ) -> Result<(), TerraformSettingsError> {
        if self.spec.backend.is_some() {
            self.warn_of_ignored("`backend`", origin, "the run's `stateBackend`");
            return Ok(());
        }
        if let Source::Directory(_) = self.spec.source {
            self.warn_of_ignored("`backend`", origin, "the module's own backend, in a local run,");
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
            // Traces are not masked, and authors of a run must not write files on this machine.
            Some(_) if origin == Origin::Run => self.warnings.push(format!(
                "`logging.path` of {} is ignored: only a settings file may say where traces go",
                origin.name()
            )),
            Some(path) => {
                let path = self.log_path(path)?;
                if self.ambient().contains_key(OsStr::new(LOG_PATH)) {
                    self.warn_of_overruled(&format!("`{LOG_PATH}`"), origin);
                }
                self.warn_of_log(&path);
                self.spec.setup.log_path = Some(path);
            }
            None => {}
        }
        Ok(())
    }

    /// Warns about a log file that only the environment names.
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
        let directory = self.context.report_dir.ok_or(TerraformSettingsError::LogPath)?;
        Ok(directory.join(path))
    }

    fn environment(&mut self, variables: Vec<(String, String)>, origin: Origin) {
        for (name, value) in variables {
            self.variable(&name, value, &format!("env.{name}"), origin);
        }
    }

    /// Adds a variable to Terraform's environment, unless the run sets it. `setting` is its name in warnings.
    fn variable(&mut self, name: &str, value: String, setting: &str, origin: Origin) {
        if let Some((place, winner)) = self.given.get(name).cloned() {
            if self.spec.environment[place].1.value.expose_secret() != value {
                self.warn_of_ignored(&format!("`{setting}`"), origin, &winner);
            }
            return;
        }
        if self.ambient().get(OsStr::new(name)).is_some_and(|ambient| *ambient != *value) {
            self.warn_of_overruled(&format!("`{name}`"), origin);
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
        let hosts = |names: &mut dyn Iterator<Item = &str>| {
            let mut hosts: HashMap<RegistryHost, Vec<String>> = HashMap::new();
            for (host, name) in names.filter_map(|it| Some((RegistryHost::of_variable(it)?, it))) {
                hosts.entry(host).or_default().push(name.to_owned());
            }
            hosts
        };
        let of_run = hosts(&mut self.spec.environment.iter().map(|(name, _)| name.as_str()));
        let ambient = hosts(&mut self.ambient().keys().filter_map(|name| name.to_str()));
        let mut credentials = Vec::new();
        for (host, reference) in config.credentials {
            let setting = format!("terraformrc.credentials.{}", host.as_str());
            if let Some(name) = of_run.get(&host).and_then(|names| names.first()) {
                let winner = format!("the run's `{name}`");
                self.warn_of_ignored(&format!("`{setting}`"), origin, &winner);
                continue;
            }
            // For Terraform, these variables would win.
            for name in ambient.get(&host).into_iter().flatten() {
                self.warn_of_overruled(&format!("`{name}`"), origin);
                self.spec.setup.overruled.push(name.into());
            }
            if let Some(token) = self.secret(&setting, &reference)? {
                credentials.push((host, token));
            }
        }
        self.warn_of_replaced_config(origin);
        let installation = config.installation;
        self.spec.setup.cli_config = Some(CliConfig { installation, credentials });
        Ok(())
    }

    /// Warns about configuration files of the user that Terraform does not read.
    fn warn_of_replaced_config(&mut self, origin: Origin) {
        let named: Vec<_> = CLI_CONFIG_VARIABLES
            .into_iter()
            .filter(|name| self.ambient().get(OsStr::new(name)).is_some_and(|it| !it.is_empty()))
            .collect();
        for name in &named {
            self.warn_of_overruled(&format!("`{name}`"), origin);
            self.spec.setup.overruled.push(name.into());
        }
        if named.is_empty()
            && let Some(home) = self.ambient().get(OsStr::new("HOME")).map(PathBuf::from)
        {
            // The product is often not known yet.
            let files = [Product::Terraform, Product::OpenTofu].into_iter().flat_map(|product| {
                cli_config_files(product, |name| self.ambient().get(OsStr::new(name)).cloned())
            });
            for file in files.collect::<BTreeSet<_>>() {
                let shown = match file.strip_prefix(&home) {
                    Ok(inner) => format!("`~/{}`", inner.display()),
                    Err(_) => format!("`{}`", file.display()),
                };
                self.warn_of_overruled(&shown, origin);
            }
        }
    }

    /// The secret of `reference`. Records it as unresolved if it does not exist.
    fn secret(
        &mut self,
        setting: &str,
        reference: &SecretReference,
    ) -> Result<Option<SecretString>, TerraformSettingsError> {
        let sources = self.context.sources;
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
