//! Says what is wrong with a command line in one line, without showing what could be a token.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::complain;
use crate::error::visible;
use crate::run::Exit;
use crate::settings::{SETTINGS, Setting};

/// What tokens start with; a word that holds one of these is not shown.
const TOKENS: [&str; 2] = ["brce_", "breg_"];

/// Shows help or the version where these were asked for, else says what is wrong with `words`.
/// Returns the exit code.
pub(super) fn report(error: &clap::Error, words: &[OsString]) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failed.code(),
            _ => Exit::Success.code(),
        };
    }
    let (message, hint) = describe(error, &typed(words));
    complain(&message, hint.as_deref());
    Exit::Usage.code()
}

/// The names of the commands that `words` begin with, without those of flags between them.
fn typed(words: &[OsString]) -> Vec<String> {
    let mut command = super::command();
    let mut names = Vec::new();
    for word in words.iter().skip(1) {
        if let Some(found) = command.find_subcommand(word).cloned() {
            names.push(found.get_name().to_owned());
            command = found;
        }
    }
    names
}

/// What is wrong, and what to do. `command` is what was typed in without its flags and values.
fn describe(error: &clap::Error, command: &[String]) -> (String, Option<String>) {
    let help = || {
        Some(if command.is_empty() {
            "`butler-runner --help` and `butler-runner execute --help` show what there is"
                .to_owned()
        } else {
            format!("`butler-runner {} --help` shows what there is", command.join(" "))
        })
    };
    let suggested = |kind| text(error, kind).map(|name| format!("did you mean `{name}`?"));
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    match error.kind() {
        // A stray word may be a token that lost its flag.
        ErrorKind::UnknownArgument if !argument.starts_with('-') => {
            let takes_words = command.len() > 1;
            let text = if takes_words { "too many" } else { "without a flag before it" };
            (format!("there is a word {text}"), help())
        }
        ErrorKind::UnknownArgument => (
            format!("there is no flag `{}`", masked(&argument)),
            suggested(ContextKind::SuggestedArg).or_else(help),
        ),
        ErrorKind::InvalidSubcommand => {
            let command = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let hint = suggested(ContextKind::SuggestedSubcommand).or_else(help);
            (format!("there is no command `{}`", masked(&command)), hint)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            ("no command is given".to_owned(), help())
        }
        ErrorKind::InvalidValue if given(error).is_some() => {
            let value = masked(&given(error).unwrap_or_default());
            let known = texts(error, ContextKind::ValidValue).join(", ");
            (format!("`{argument}` does not know `{value}`"), Some(format!("it knows {known}")))
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            (format!("`{argument}` needs a value{}", names(&argument)), None)
        }
        ErrorKind::TooManyValues => {
            (format!("`{argument}` takes no value{}", names(&argument)), None)
        }
        ErrorKind::ArgumentConflict => match text(error, ContextKind::PriorArg) {
            Some(other) if other != argument => {
                (format!("`{argument}` does not go with `{other}`"), None)
            }
            _ => (format!("`{argument}` is given more than once{}", names(&argument)), None),
        },
        ErrorKind::MissingRequiredArgument => (format!("`{argument}` is missing"), help()),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            (masked(line.strip_prefix("error: ").unwrap_or(line)), help())
        }
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

fn texts(error: &clap::Error, kind: ContextKind) -> &[String] {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts,
        _ => &[],
    }
}

/// What was typed in where only some values are known; none where nothing was.
fn given(error: &clap::Error) -> Option<String> {
    let is_list = !texts(error, ContextKind::ValidValue).is_empty();
    text(error, ContextKind::InvalidValue).filter(|value| is_list && !value.is_empty())
}

/// Flags and variables of the setting that `argument` (`--run-id <ID>`) belongs to.
fn names(argument: &str) -> String {
    let flag = argument.split(' ').next().unwrap_or_default();
    let of = |setting: &&&'static Setting| setting.flags.contains(&flag);
    SETTINGS.iter().find(of).map(|setting| format!(" ({setting})")).unwrap_or_default()
}

/// `text` on one line and with every word masked that holds a token, or an address with a login.
fn masked(text: &str) -> String {
    text.split(' ')
        .map(|word| {
            let has_login = word.contains("://") && word.contains('@');
            if has_login || TOKENS.iter().any(|token| word.contains(token)) {
                "***".to_owned()
            } else {
                visible(word).collect()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}
