//! `doctor`: checks whether this machine can execute runs.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use clap::Args;

use super::columns::columns;
use super::flags::{Flags, Selection, merge_arguments};
use super::logging;
use super::output::refuse;
use super::runtime::block_on;
use crate::doctor::{Finding, FindingState, examine};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::{
    Arguments, DoctorSettings, Environment, Logging, Section, Setting, variable,
};
use butler_base::secret::Redactor;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Doctor {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<DoctorFlags>,
}

/// The exit codes, for `--help`.
const EXIT_CODES: &str =
    "Exit codes: 0 this machine can execute runs, 1 a requirement is missing, 2 usage";

/// The settings of `execute`, without those of a single run.
struct DoctorFlags;

impl Selection for DoctorFlags {
    fn has(setting: &Setting) -> bool {
        matches!(setting.section, Section::Registry | Section::Run | Section::Tool)
    }
}

impl Doctor {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let logging = match Logging::resolve(&arguments, environment) {
            Ok(logging) => logging,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        // Errors of settings are findings here, so that the report contains all problems.
        let settings = DoctorSettings::resolve(&arguments, environment);
        let Some(findings) = block_on(examine(&settings, &redactor)) else {
            return Exit::Failed.code();
        };
        let signs =
            std::io::stdout().is_terminal() && environment.value(variable::NO_COLOR.name).is_none();
        let text = if self.json { json(&findings) } else { page(&findings, signs) };
        let is_bad = findings.iter().any(|finding| finding.state == FindingState::Failed);
        match writeln!(std::io::stdout(), "{text}") {
            Ok(()) if !is_bad => Exit::Success.code(),
            _ => Exit::Failed.code(),
        }
    }
}

fn json(findings: &[Finding]) -> String {
    serde_json::to_string_pretty(findings).unwrap_or_default()
}

fn page(findings: &[Finding], signs: bool) -> String {
    let rows = findings.iter().flat_map(|finding| {
        let check = finding.check.to_owned();
        let line = vec![mark(finding.state, signs).to_owned(), check, finding.message.clone()];
        let hint = finding.hint.as_ref();
        let hint = hint.map(|hint| vec![String::new(), String::new(), format!("hint: {hint}")]);
        [Some(line), hint].into_iter().flatten()
    });
    columns(&rows.collect::<Vec<_>>())
}

const fn mark(state: FindingState, signs: bool) -> &'static str {
    match (state, signs) {
        (FindingState::Ok, true) => "✓",
        (FindingState::Note, true) => "·",
        (FindingState::Warning, true) => "!",
        (FindingState::Failed, true) => "✗",
        (FindingState::Ok, false) => "ok",
        (FindingState::Note, false) => "note",
        (FindingState::Warning, false) => "warning",
        (FindingState::Failed, false) => "FAILED",
    }
}
