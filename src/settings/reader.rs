//! Looks settings up: a flag wins over its variables, an earlier variable over a later one.

use std::ffi::OsStr;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use super::setting::REPORT_DIR;
use super::{Arguments, Environment, Setting, SettingsError, parse};
use crate::report::{PICKED_UP, REPORTS};

/// Looks settings up in arguments and environment.
pub(super) struct Reader<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) environment: &'a Environment,
}

impl Reader<'_> {
    fn raw(&self, setting: &'static Setting) -> Option<&OsStr> {
        self.arguments.value(setting).or_else(|| self.variable(setting))
    }

    /// Whether a flag or a variable has a value for it.
    pub(super) fn is_given(&self, setting: &'static Setting) -> bool {
        self.raw(setting).is_some()
    }

    pub(super) fn variable(&self, setting: &'static Setting) -> Option<&OsStr> {
        setting.variables.iter().find_map(|name| self.environment.value(name))
    }

    pub(super) fn parsed<T>(
        &self,
        setting: &'static Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SettingsError> {
        let unusable = |problem| SettingsError::Unusable { setting, problem };
        let Some(raw) = self.raw(setting) else { return Ok(None) };
        let text = raw
            .to_str()
            .ok_or_else(|| unusable(format!("the {} is not valid UTF-8", setting.noun)))?;
        parse(text).map(Some).map_err(unusable)
    }

    /// All values of a setting: flags, else its variable with commas.
    pub(super) fn values<T>(
        &self,
        setting: &'static Setting,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, SettingsError> {
        let unusable = |problem| SettingsError::Unusable { setting, problem };
        let text = |raw: &OsStr| {
            let problem = || unusable(format!("the {} is not valid UTF-8", setting.noun));
            raw.to_str().map(str::to_owned).ok_or_else(problem)
        };
        let given: Vec<String> = match self.arguments.values(setting) {
            [] => {
                let variable = self.variable(setting).map(text).transpose()?.unwrap_or_default();
                let parts = variable.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(str::to_owned).collect()
            }
            flags => flags.iter().map(|raw| text(raw)).collect::<Result<_, _>>()?,
        };
        given.iter().map(|text| parse(text).map_err(unusable)).collect()
    }

    pub(super) fn path(&self, setting: &'static Setting) -> Result<Option<PathBuf>, SettingsError> {
        self.raw(setting).map(|raw| absolute(setting, Path::new(raw))).transpose()
    }

    pub(super) fn paths(&self, setting: &'static Setting) -> Result<Vec<PathBuf>, SettingsError> {
        let given: Vec<PathBuf> = match self.arguments.values(setting) {
            [] => self.variable(setting).into_iter().flat_map(std::env::split_paths).collect(),
            flags => flags.iter().map(PathBuf::from).collect(),
        };
        given.iter().map(|path| absolute(setting, path)).collect()
    }

    pub(super) fn existing_paths(
        &self,
        setting: &'static Setting,
        is_right: fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>, SettingsError> {
        let paths = self.paths(setting)?.into_iter();
        paths.map(|path| existing(setting, path, is_right)).collect()
    }

    pub(super) fn existing(
        &self,
        setting: &'static Setting,
        is_right: fn(&Path) -> bool,
    ) -> Result<Option<PathBuf>, SettingsError> {
        self.path(setting)?.map(|path| existing(setting, path, is_right)).transpose()
    }

    /// The path of a file that the run writes. Links are followed. It may be in the report directory, which does not
    /// have to exist yet. A directory, a device such as `/dev/stdout`, and the run's own reports are refused.
    pub(super) fn output_file(
        &self,
        setting: &'static Setting,
        reports: Option<&Path>,
    ) -> Result<Option<PathBuf>, SettingsError> {
        let Some(path) = self.path(setting)? else { return Ok(None) };
        let wrong = |source| SettingsError::Path { setting, path: path.clone(), source };
        let refused = |why| wrong(Error::new(ErrorKind::InvalidInput, why));
        let target = link_target(&path).map_err(wrong)?;
        let directory = target.parent().unwrap_or(&target);
        let is_report_dir =
            self.path(&REPORT_DIR)?.is_some_and(|report_dir| report_dir.starts_with(directory));
        match (std::fs::metadata(&target), std::fs::metadata(directory)) {
            (Ok(found), _) if found.is_dir() => Err(wrong(ErrorKind::IsADirectory.into())),
            (Ok(found), _) if !found.is_file() => Err(refused("it is not a regular file")),
            (Err(_), Ok(found)) if !found.is_dir() => Err(wrong(ErrorKind::NotADirectory.into())),
            (Err(_), Err(source)) if !is_report_dir => Err(wrong(source)),
            _ if reports.is_some_and(|reports| is_report(&target, reports)) => {
                Err(refused("the run writes one of its own reports to this path"))
            }
            _ => Ok(Some(target)),
        }
    }

    pub(super) fn switch(&self, setting: &'static Setting) -> Result<bool, SettingsError> {
        Ok(self.parsed(setting, parse::switch)?.unwrap_or(false))
    }
}

/// The limit of the kernel.
const MAX_LINKS: usize = 40;

/// The file that writing to `path` replaces, with links resolved.
fn link_target(path: &Path) -> Result<PathBuf, Error> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let directory = path.parent().unwrap_or(Path::new("/"));
        // Entries of these directories lead to open files of this process or another one.
        let found = std::fs::canonicalize(directory);
        if found.is_ok_and(|it| it == Path::new("/dev") || it.starts_with("/proc")) {
            return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
        }
        match std::fs::read_link(&path) {
            Ok(link) => path = directory.join(link),
            Err(_) => return Ok(path),
        }
    }
    Err(Error::new(ErrorKind::InvalidInput, "too many links"))
}

/// Whether `path` is one of the files that a run writes into `reports`.
fn is_report(path: &Path, reports: &Path) -> bool {
    let mut names = PICKED_UP.iter().chain(&REPORTS);
    names.any(|name| is_same_file(path, &reports.join(name)))
}

/// Whether two paths lead to the same name in the same directory.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    let directory = |path: &Path| {
        let directory = path.parent().unwrap_or(path);
        std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned())
    };
    one.file_name() == other.file_name() && directory(one) == directory(other)
}

pub(super) fn required<T>(setting: &'static Setting, value: Option<T>) -> Result<T, SettingsError> {
    value.ok_or(SettingsError::Missing { setting })
}

pub(super) fn absolute(setting: &'static Setting, path: &Path) -> Result<PathBuf, SettingsError> {
    std::path::absolute(path).map_err(|source| SettingsError::Path {
        setting,
        path: path.to_owned(),
        source,
    })
}

/// `path`, if `is_right` accepts it.
pub(super) fn existing(
    setting: &'static Setting,
    path: PathBuf,
    is_right: fn(&Path) -> bool,
) -> Result<PathBuf, SettingsError> {
    if is_right(&path) {
        return Ok(path);
    }
    let source = match std::fs::metadata(&path) {
        Err(source) => source,
        Ok(found) if found.is_dir() => std::io::ErrorKind::IsADirectory.into(),
        Ok(_) => std::io::ErrorKind::NotADirectory.into(),
    };
    Err(SettingsError::Path { setting, path, source })
}
