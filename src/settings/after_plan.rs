//! The program that judges each plan (`--after-plan`). The command is split into words, and the program is searched
//! before the run starts.
//!
//! No shell is involved. The program comes from `PATH` or from a path that the user gives, never from the module.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::parse::shown;
use super::setting::AFTER_PLAN;
use super::{Environment, SettingsError};
use butler_base::platform::fs::{AccessFlags, access};
use butler_protocol::spec::AfterPlan;

/// The command in `text`: words separated by white space.
///
/// # Errors
/// If it has quotes, which have no meaning without a shell, or if the program does not exist.
pub(super) fn parse(text: &str, environment: &Environment) -> Result<AfterPlan, String> {
    if text.contains(['"', '\'', '`']) {
        return Err(format!(
            "{} has quotes, and no shell reads them: give arguments with spaces as a list, in `afterPlan` of \
the settings file",
            shown(text)
        ));
    }
    let mut words = text.split_whitespace();
    let program = Path::new(words.next().unwrap_or_default());
    let program = find_program(program, environment.value("PATH"))?;
    let arguments = words.map(str::to_owned).collect();
    Ok(AfterPlan { program, arguments, environment: Vec::new() })
}

/// The absolute path of a program: one with a slash is a path below the current directory, any other is a
/// name in `path`, a list as in `PATH`.
///
/// # Errors
/// If no executable program is found; the message names the searched directories.
pub fn find_program(program: &Path, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let is_executable = |path: &Path| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    let name = shown(&program.to_string_lossy());
    if program.components().count() > 1 || program.is_absolute() {
        let found = std::path::absolute(program).map_err(|error| format!("{name}: {error}"))?;
        return if is_executable(&found) {
            Ok(found)
        } else {
            Err(format!("{name} is not an executable file"))
        };
    }
    // A relative directory in `PATH` depends on the working directory.
    let directories = std::env::split_paths(path.unwrap_or_default());
    directories
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|path| is_executable(path))
        .ok_or_else(|| format!("cannot find the program {name} in PATH"))
}

impl super::reader::Reader<'_> {
    /// The command of `--after-plan`, if one is given.
    pub(super) fn after_plan(&self) -> Result<Option<AfterPlan>, SettingsError> {
        self.parsed(&AFTER_PLAN, |text| parse(text, self.environment))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn command_is_split_at_white_space_and_program_is_found_in_path() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("judge");
        std::fs::write(&program, "").unwrap();
        let path = format!("relative::{}", directory.path().display());
        let variables = BTreeMap::from([("PATH".into(), path.into())]);
        let environment = Environment::new(variables, "butler-runner".into());
        let parse = |text: &str| parse(text, &environment);
        assert!(parse("judge").unwrap_err().contains("cannot find the program `judge` in PATH"));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let expected = AfterPlan {
            program: program.clone(),
            arguments: ["--policy", "$HOME", "-"].map(str::to_owned).to_vec(),
            environment: Vec::new(),
        };
        assert_eq!(parse(" judge  --policy\t$HOME - ").unwrap(), expected);
        assert_eq!(parse(program.to_str().unwrap()).unwrap().program, program);
        assert!(parse("judge 'a b'").unwrap_err().contains("has quotes"));
        assert!(parse("/missing/judge").unwrap_err().contains("is not an executable file"));
        assert!(parse("relative/judge").unwrap_err().contains("is not an executable file"));
    }
}
