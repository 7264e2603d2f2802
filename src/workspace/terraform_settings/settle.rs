//! What counts where several places speak about the same thing, and a warning for what does not.
//!
//! Run before settings file before environment; but where providers come from and who gets tokens
//! is for the file to say, if it does. `terraformrc` and `backend` count as a whole: two halves of
//! two places would be a third that nobody has written. What a run says elsewhere (`stateBackend`,
//! `envVars`) is said about this run alone, and counts before its `terraformSettings`.

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

/// How much Terraform logs.
const LOG_LEVEL: &str = "TF_LOG";

/// The setting that says so.
const LEVEL_SETTING: &str = "logging.level";

/// Which file its log goes to.
const LOG_PATH: &str = "TF_LOG_PATH";

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
    if run.after_plan.is_some() {
        // It is started on this machine: that is for those who own it to say.
        settling.warnings.push(format!(
            "`afterPlan` of {} is ignored: only a settings file or --after-plan may name a program",
            of_run.name()
        ));
    }
    if let Some(after_plan) = file.after_plan {
        settling.spec.setup.after_plan = Some(after_plan);
    }
    let configs = [(file.cli_config, of_file), (run.cli_config, of_run)];
    if let Some((config, origin)) = settling.choose("terraformrc", configs) {
        settling.cli_config(config, origin)?;
    }
    let Settling { warnings, unresolved, .. } = settling;
    if unresolved.is_empty() {
        Ok(first(warnings.into_iter()))
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
                self.ignored(&format!("`{setting}`"), origin, &winner);
                continue;
            }
            // Terraform would take these first.
            for name in ambient.get(&host).into_iter().flatten() {
                self.overruled(&format!("`{name}`"), origin);
                self.spec.setup.overruled.push(name.into());
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
        let named: Vec<_> = CLI_CONFIG_VARIABLES
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
            // Which of the two it will be is often not known yet.
            let files = [Product::Terraform, Product::OpenTofu].into_iter().flat_map(|product| {
                cli_config_files(product, |name| self.ambient().get(OsStr::new(name)).cloned())
            });
            for file in files.collect::<BTreeSet<_>>() {
                let shown = match file.strip_prefix(&home) {
                    Ok(inner) => format!("`~/{}`", inner.display()),
                    Err(_) => format!("`{}`", file.display()),
                };
                self.overruled(&shown, origin);
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
