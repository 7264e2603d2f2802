//! Parses the command line of this process, and runs the command.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

use super::command_line::{Command, CommandLine, parser, public};
use super::deferred::Deferred;
use super::output::complain;
use super::{commands, complete_request, single_dash, usage};
use crate::exit::Exit;
use crate::settings::setting::TOKEN;
use crate::settings::{Environment, variable};
use butler_base::platform;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    // Before any secret is read: other processes of the user must not be able to read this one's memory.
    platform::shield_process();
    platform::pin_name_lookups();
    // Secrets are erased after the environment is copied, so that neither children nor /proc show them.
    let environment = Environment::capture();
    platform::erase_variables(TOKEN.variables);
    platform::erase_variables(&[variable::CI_TOKEN.name, variable::CI_API_TOKEN.name]);
    ExitCode::from(run(std::env::args_os(), &environment))
}

fn run(words: impl IntoIterator<Item = OsString>, environment: &Environment) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    // Completion comes first: its words are incomplete, so the parser would reject them.
    if let Some(code) = complete_request::complete_if_requested(&words, environment) {
        return code;
    }
    // Terraform's spelling of flags is translated before clap parses the words, because `-var` means `-v -a -r` there.
    let translated = match single_dash::translate(words) {
        Ok(translated) => translated,
        Err(refused) => {
            let single_dash::NoSuchFlag { flag, instead, command } = refused;
            complain(&format!("`{command}` has no flag `{flag}`"), Some(instead));
            return commands::usage_code(Some(command), &[]);
        }
    };
    // `-chdir` applies before any path is read from the command line.
    let single_dash::Translated { words, directory, command } = translated;
    if let Some(directory) = directory
        && let Err(error) = std::env::set_current_dir(&directory)
    {
        let shown = directory.display();
        complain(&format!("cannot change to the directory `{shown}` (-chdir): {error}"), None);
        return commands::usage_code(command, &words);
    }
    let parsed = parser()
        .try_get_matches_from(&words)
        .and_then(|matches| CommandLine::from_arg_matches(&matches));
    let CommandLine { log, command } = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            return match usage::report(&error, &words) {
                code if code == Exit::Usage.code() => commands::usage_code(command, &words),
                code => code,
            };
        }
    };
    let log = log.into_arguments();
    match command {
        Command::Execute(Deferred(execute)) => execute.run(log, environment),
        Command::Plan(Deferred(plan)) => plan.run(log, environment),
        Command::Apply(Deferred(apply)) => apply.run(log, environment),
        Command::Destroy(Deferred(destroy)) => destroy.run(log, environment),
        Command::Drift(Deferred(drift)) => drift.run(log, environment),
        Command::Validate(Deferred(validate)) => validate.run(log, environment),
        Command::Test(Deferred(test)) => test.run(log, environment),
        Command::Demo(Deferred(demo)) => demo.run(log, environment),
        Command::Clean(Deferred(clean)) => clean.run(log, environment),
        Command::Doctor(Deferred(doctor)) => doctor.run(log, environment),
        Command::Trigger(Deferred(trigger)) => trigger.run(log, environment),
        Command::CiStatus(Deferred(status)) => status.run(log, environment),
        Command::Serve(Deferred(serve)) => serve.run(log, environment),
        Command::Layer(Deferred(layer)) => layer.run(log, environment),
        Command::Breaker(Deferred(command)) => command.run(log, environment),
        Command::Follower(Deferred(command)) => command.run(log, environment),
        Command::Run(Deferred(command)) => command.run(log, environment),
        Command::Access(Deferred(access)) => access.run(),
        Command::Config(Deferred(command)) => command.run(log, environment),
        Command::Store(Deferred(store)) => store.run(log, environment),
        Command::Tool(Deferred(tool)) => tool.run(log, environment),
        Command::Generate(Deferred(generate)) => generate.run(log, environment),
        Command::Oneself(Deferred(command)) => command.run(log, environment),
        Command::Schema(schema) => schema.run(),
        Command::Completions(completions) => completions.run(),
        Command::Manual(manual) => manual.run(public()),
        Command::Version(version) => version.run(),
        Command::Help { command } => {
            let program = words.into_iter().take(1);
            let subcommand = command.into_iter().map(OsString::from).chain(["--help".into()]);
            run(program.chain(subcommand), environment)
        }
        Command::Internal(internal) => internal.run(environment),
    }
}
