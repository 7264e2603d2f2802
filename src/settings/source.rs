//! The origin of the run: a registry, a file, or the command line.

use std::path::Path;

use super::reader::{Reader, absolute, existing, required};
use super::setting::{
    CONFIG, ENDPOINT, LOCAL, MODULE_DIR, OPERATION, RUN_ID, TF_VERSION, TOKEN, TOKEN_FILE, VAR_FILE,
};
use super::{Arguments, LocalRequest, RunSource, Setting, SettingsError, parse, token};
use butler_protocol::spec::{Assignment, LocalOptions, Operation, PlanningOptions};

/// The kind of run. Flags win over variables.
enum Mode {
    Registry,
    File,
    Local,
}

fn mode(reader: &Reader<'_>) -> Result<Mode, SettingsError> {
    let given = |setting: &'static Setting| reader.arguments.value(setting).is_some();
    let registry = [&ENDPOINT, &RUN_ID, &TOKEN, &TOKEN_FILE].into_iter().any(given);
    match (given(&LOCAL), given(&CONFIG)) {
        (true, true) => Err(SettingsError::Conflict { first: &LOCAL, second: &CONFIG }),
        (true, false) => Ok(Mode::Local),
        (false, true) => Ok(Mode::File),
        (false, false) if registry => Ok(Mode::Registry),
        (false, false) => match (reader.switch(&LOCAL)?, reader.variable(&CONFIG).is_some()) {
            (true, true) => Err(SettingsError::Conflict { first: &LOCAL, second: &CONFIG }),
            (true, false) => Ok(Mode::Local),
            (false, true) => Ok(Mode::File),
            (false, false) => Ok(Mode::Registry),
        },
    }
}

pub(super) fn source(
    reader: &Reader<'_>,
    warnings: &mut Vec<String>,
) -> Result<RunSource, SettingsError> {
    let mode = mode(reader)?;
    refuse_misplaced(reader.arguments, &mode)?;
    match mode {
        Mode::Registry => Ok(RunSource::Registry {
            endpoint: required(&ENDPOINT, reader.parsed(&ENDPOINT, parse::endpoint)?)?,
            run_id: required(&RUN_ID, reader.parsed(&RUN_ID, parse::run_id)?)?,
            token: token::token(reader.arguments, reader.environment, warnings)?,
        }),
        Mode::File => Ok(RunSource::File {
            config: required(&CONFIG, reader.existing(&CONFIG, Path::exists)?)?,
        }),
        Mode::Local => Ok(RunSource::Local {
            module_dir: match reader.existing(&MODULE_DIR, Path::is_dir)? {
                Some(directory) => directory,
                None => absolute(&MODULE_DIR, Path::new("."))?,
            },
            operation: reader.parsed(&OPERATION, parse::operation)?.unwrap_or(Operation::Plan),
            tool: reader.parsed(&TF_VERSION, parse::version)?,
            options: Box::new(LocalOptions {
                planning: PlanningOptions {
                    assignments: variable_files(reader)?,
                    ..PlanningOptions::default()
                },
                ..LocalOptions::default()
            }),
        }),
    }
}

/// A run whose directory and operation are known.
pub(super) fn local(
    request: LocalRequest,
    reader: &Reader<'_>,
) -> Result<RunSource, SettingsError> {
    let LocalRequest { directory, operation, tool, mut options } = request;
    let given = &mut options.planning.assignments;
    for file in given.iter_mut() {
        if let Assignment::File(path) = file {
            let found = absolute(&VAR_FILE, path)?;
            *path = existing(&VAR_FILE, found, Path::exists)?;
        }
    }
    if !given.iter().any(|assignment| matches!(assignment, Assignment::File(_))) {
        // Typed variables are later in the list and win.
        given.splice(0..0, variable_files(reader)?);
    }
    Ok(RunSource::Local {
        module_dir: directory,
        operation,
        tool: match tool {
            None => reader.parsed(&TF_VERSION, parse::version)?,
            Some(tool) => Some(tool.into()),
        },
        options: Box::new(options),
    })
}

/// The variable files, in their order.
fn variable_files(reader: &Reader<'_>) -> Result<Vec<Assignment>, SettingsError> {
    let existing = |file| existing(&VAR_FILE, file, Path::exists).map(Assignment::File);
    reader.paths(&VAR_FILE)?.into_iter().map(existing).collect()
}

/// A flag for another kind of run is an error. A variable is not, because it can be set for other runs.
fn refuse_misplaced(arguments: &Arguments, mode: &Mode) -> Result<(), SettingsError> {
    let registry: &[&'static Setting] = &[&ENDPOINT, &RUN_ID, &TOKEN, &TOKEN_FILE];
    let local: &[&'static Setting] = &[&MODULE_DIR, &OPERATION, &TF_VERSION, &VAR_FILE];
    let (misplaced, mode) = match mode {
        Mode::Registry => ([local, &[]], "a registry: add --local"),
        Mode::File => ([local, registry], "--config"),
        Mode::Local => ([registry, &[]], "--local"),
    };
    match misplaced.into_iter().flatten().find(|setting| arguments.value(setting).is_some()) {
        Some(setting) => Err(SettingsError::OutOfPlace { flag: setting.flags[0], mode }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::settings::Environment;

    const REGISTRY: [(&str, &str); 3] = [
        ("BUTLER_ENDPOINT", "https://portal.example.com/api/registry"),
        ("BUTLER_RUN_ID", "7"),
        ("BUTLER_TOKEN", "brce_hunter2"),
    ];

    fn resolve(
        arguments: &Arguments,
        variables: &[(&str, &str)],
    ) -> Result<RunSource, SettingsError> {
        let variables: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let environment = &Environment::new(variables, PathBuf::new());
        source(&Reader { arguments, environment }, &mut Vec::new())
    }

    fn message(arguments: &Arguments, variables: &[(&str, &str)]) -> String {
        resolve(arguments, variables).unwrap_err().to_string()
    }

    #[test]
    fn local_run_needs_neither_registry_nor_token() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one.tfvars"), directory.path().join("two.tfvars"));
        for file in [&one, &two] {
            std::fs::write(file, "").unwrap();
        }
        let arguments = Arguments::default()
            .with(&LOCAL, "true")
            .with(&MODULE_DIR, directory.path())
            .with(&OPERATION, "drift-check")
            .with(&TF_VERSION, "opentofu-1.8.3")
            .with(&VAR_FILE, &two)
            .with(&VAR_FILE, &one);
        let source = resolve(&arguments, &[]).unwrap();
        let RunSource::Local { module_dir, operation, tool, options } = source else {
            panic!("no local run")
        };
        assert_eq!(module_dir, directory.path());
        assert_eq!(operation, Operation::DriftCheck);
        assert_eq!(tool.unwrap().exact().unwrap().to_string(), "opentofu 1.8.3");
        assert_eq!(options.planning.files().collect::<Vec<_>>(), [&two, &one]);
    }

    #[test]
    fn local_run_plans_in_the_current_directory_by_default() {
        let source = resolve(&Arguments::default().with(&LOCAL, "true"), &[]).unwrap();
        let RunSource::Local { module_dir, operation, .. } = source else { panic!("no local run") };
        assert_eq!(module_dir.canonicalize().unwrap(), Path::new(".").canonicalize().unwrap());
        assert_eq!(operation, Operation::Plan);
    }

    #[test]
    fn flags_select_the_kind_of_run_before_variables() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = Arguments::default().with(&CONFIG, file.path());
        let variables = [&REGISTRY[..], &[("BUTLER_LOCAL", "true")]].concat();
        assert!(matches!(resolve(&config, &variables).unwrap(), RunSource::File { .. }));
        let registry = Arguments::default().with(&RUN_ID, "1");
        let source = resolve(&registry, &variables).unwrap();
        assert!(matches!(source, RunSource::Registry { .. }));
        let both = config.with(&LOCAL, "true");
        assert!(matches!(resolve(&both, &[]), Err(SettingsError::Conflict { .. })));
    }

    #[test]
    fn flag_for_another_kind_of_run_is_an_error_and_a_variable_is_not() {
        let misplaced = Arguments::default().with(&OPERATION, "plan");
        assert_eq!(
            message(&misplaced, &REGISTRY),
            "--operation cannot be used with a registry: add --local"
        );
        let variables = [&REGISTRY[..], &[("BUTLER_OPERATION", "plan")]].concat();
        assert!(resolve(&Arguments::default(), &variables).is_ok());
        let misplaced =
            Arguments::default().with(&LOCAL, "true").with(&TOKEN_FILE, "/proc/nonexistent/token");
        assert_eq!(message(&misplaced, &[]), "--token-file cannot be used with --local");
    }
}
