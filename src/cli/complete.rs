//! Completion: the script for a shell, and the values that it offers.
//!
//! The script starts `butler-runner` with [`variable::COMPLETE`] at each press of Tab, so that it offers the
//! commands, flags, values, paths and installed versions of this version and this machine.

use clap::Args;
use clap::builder::ValueHint;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};

use super::output::{complain, print};
use crate::exit::Exit;
use crate::settings::setting::{DEFAULT_TOOL_VERSION, TF_VERSION};
use crate::settings::{Arguments, Environment, Kind, Setting, ToolSettings, choices, variable};
use crate::tool::installed_versions;
use butler_protocol::spec::Product;

const NAME: &str = "butler-runner";

/// Print the completion script for a shell
///
/// bash: butler-runner completions bash > ~/.local/share/bash-completion/completions/butler-runner
#[derive(Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> u8 {
        let mut script = Vec::new();
        let Some(shell) = completer(&self.shell.to_string()) else {
            return failed(&format!("completions are not available for {}", self.shell));
        };
        let variable = variable::COMPLETE.name;
        match shell.write_registration(variable, NAME, NAME, NAME, &mut script) {
            Ok(()) => print(&script),
            Err(error) => failed(&format!("cannot generate the script: {error}")),
        }
    }
}

pub(super) fn completer(shell: &str) -> Option<&'static dyn EnvCompleter> {
    Shells::builtins().0.iter().copied().find(|known| known.is(shell))
}

pub(super) fn failed(message: &str) -> u8 {
    complain(message, None);
    Exit::Failed.code()
}

/// Adds the possible values of a setting to its flag.
pub(super) fn values(flag: clap::Arg, setting: &'static Setting) -> clap::Arg {
    if [&TF_VERSION, &DEFAULT_TOOL_VERSION].contains(&setting) {
        return flag.add(versions());
    }
    let flag = match setting.kind {
        Kind::Value("DIR") => flag.value_hint(ValueHint::DirPath),
        Kind::Value("FILE") | Kind::Paths(_) => flag.value_hint(ValueHint::FilePath),
        Kind::Value(_) | Kind::Values(_) | Kind::Switch => flag,
    };
    let choices = choices(setting);
    if choices.is_empty() {
        return flag;
    }
    flag.add(ArgValueCandidates::new(move || {
        choices.iter().map(CompletionCandidate::new).collect()
    }))
}

/// The installed versions, in the syntax of the command line.
pub(super) fn versions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let settings = ToolSettings::resolve(&Arguments::default(), &Environment::capture());
        let Ok(settings) = settings else { return Vec::new() };
        let installed = installed_versions(&settings.cache_dir).into_iter().map(|request| {
            let text = request.product.spelled(&request.version.to_string());
            CompletionCandidate::new(text).help(Some("installed".into()))
        });
        let newest = Product::ALL.map(|product| {
            let help = format!("the newest release of {product}");
            CompletionCandidate::new(product.spelled("latest")).help(Some(help.into()))
        });
        installed.chain(newest).collect()
    })
}

/// The products.
pub(super) fn products() -> ArgValueCandidates {
    ArgValueCandidates::new(|| Product::ALL.map(|it| CompletionCandidate::new(it.name())).into())
}
