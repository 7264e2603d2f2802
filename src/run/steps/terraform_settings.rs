//! Applies the settings for Terraform to a run: reads the settings file first, merges it with the run's own
//! settings when the run is known, and writes the files that Terraform reads.

use std::fs::Permissions;
use std::io;
use std::path::Path;

use secrecy::SecretString;

use crate::run::context::Context;
use crate::run::failure::Failure;
use crate::run::masking::secret_names::{can_be_secret, is_secret_name};
use crate::settings::{Settings, find_program};
use crate::workspace::{
    self, SettingsContext, TerraformSettingsError, parse_run_settings, read_settings_file,
};
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_base::platform::fs::{OFlag, OpenOptionsExt, PermissionsExt};
use butler_base::process::Environment;
use butler_protocol::references::SecretSources;
use butler_protocol::spec::{RunSpec, TerraformSettings};

/// Reads the settings file, if one is named.
pub(in crate::run) fn read(
    settings: &Settings,
) -> Result<TerraformSettings, TerraformSettingsError> {
    let Some(path) = &settings.settings_file else { return Ok(TerraformSettings::default()) };
    let mut file = read_settings_file(path)?;
    if let Some(after_plan) = &mut file.after_plan {
        let search_path = settings.environment.get(std::ffi::OsStr::new("PATH"));
        after_plan.program = find_program(&after_plan.program, search_path.map(AsRef::as_ref))
            .map_err(TerraformSettingsError::AfterPlan)?;
    }
    let log = file.logging.as_ref().and_then(|logging| logging.path.as_ref());
    if log.is_some_and(|path| path.is_relative()) && settings.report_dir.is_none() {
        return Err(TerraformSettingsError::LogPath);
    }
    Ok(file)
}

/// Merges the run's own settings (`own`, JSON text) with those of the settings file into `spec`. Returns
/// warnings.
///
/// # Errors
/// If the run's own settings are malformed, or a secret cannot be resolved.
pub(in crate::run) fn merge(
    settings: &Settings,
    spec: &mut RunSpec,
    own: Option<SecretString>,
    file: TerraformSettings,
) -> Result<Vec<String>, Failure> {
    let (own, mut warnings) = own
        .map_or_else(|| Ok(Default::default()), |json| parse_run_settings(&json))
        .map_err(|error| Failure::new(Phase::Config, &error))?;
    let origins = [("the run's `terraformSettings`", &own), ("the settings file", &file)];
    for (origin, settings) in origins {
        for (name, value) in settings.environment.iter().flatten() {
            if is_secret_name(name) && can_be_secret(value) {
                warnings.push(format!(
                    "`env.{name}` of {origin} looks like a secret: `env` is only for public values"
                ));
            }
        }
    }
    let sources = secret_sources(settings);
    let context = SettingsContext { sources: &sources, report_dir: settings.report_dir.as_deref() };
    warnings.extend(
        workspace::apply_terraform_settings(spec, own, file, &context)
            .map_err(|error| Failure::new(Phase::Variables, &error))?,
    );
    if let Some(after_plan) = &settings.after_plan
        && spec.setup.after_plan.replace(after_plan.clone()).is_some()
    {
        warnings
            .push("`afterPlan` of the settings file is ignored: --after-plan counts".to_owned());
    }
    Ok(warnings)
}

/// The sources of secrets to which a configuration can refer.
pub(in crate::run) fn secret_sources(settings: &Settings) -> SecretSources {
    SecretSources {
        environment: settings.environment.clone(),
        directory: settings.secrets_dir.clone(),
        values: settings.sensitive_values,
    }
}

/// Writes Terraform's CLI configuration, creates its log file, and sets the variables that name them.
///
/// # Errors
/// If a file cannot be written.
pub(in crate::run) fn configure_terraform(
    context: &Context<'_>,
    spec: &RunSpec,
    environment: &mut Environment,
) -> Result<(), Failure> {
    if let Some(config) = &spec.setup.cli_config {
        let path = workspace::write_cli_config(config, context.directory.secrets())
            .map_err(|error| Failure::because(Phase::Variables, chain(&error)))?;
        environment.set("TF_CLI_CONFIG_FILE", path);
    }
    if let Some(path) = &spec.setup.log_path {
        create_log_file(path).map_err(|error| {
            let text = format!("cannot write Terraform's log `{}`: {error}", path.display());
            Failure::because(Phase::Variables, text)
        })?;
        environment.set("TF_LOG_PATH", path);
    }
    Ok(())
}

/// Creates the file of Terraform's log, or uses an existing one, with permissions for this user only:
/// Terraform would create it readable for all users. A named pipe without a reader would block the run, so
/// only a regular file is accepted.
fn create_log_file(path: &Path) -> io::Result<()> {
    let not_a_file = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(not_a_file());
    }
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(not_a_file());
    }
    if found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}
