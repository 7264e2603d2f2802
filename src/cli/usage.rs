//! Reports errors in the command line in one line, without printing words that could be a token.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::command_line::{command, parser};
use super::output::complain;
use crate::exit::Exit;
use crate::settings::{SETTINGS, Setting};
use butler_base::error::visible;
use butler_base::similar::closest;
use butler_protocol::spec::{Operation, Product, RunId};

/// What tokens start with; a word that holds one of these is not shown.
const TOKENS: [&str; 2] = ["brce_", "breg_"];

/// The groups whose commands users most often type without the group.
const GROUPS: [&str; 3] = ["tool", "generate", "self"];

/// Shows help or the version where these were asked for, else says what is wrong with `words`.
/// Returns the exit code.
pub(super) fn report(error: &clap::Error, words: &[OsString]) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failed.code(),
            _ => Exit::Success.code(),
        };
    }
    let (message, hint) = describe(error, &Typed::of(words));
    complain(&message, hint.as_deref());
    Exit::Usage.code()
}

/// The command that was typed in.
struct Typed {
    /// Its names, without flags between them.
    names: Vec<String>,
    /// What is known of it.
    command: clap::Command,
}

impl Typed {
    fn of(words: &[OsString]) -> Self {
        let mut command = command();
        let mut names = Vec::new();
        for word in words.iter().skip(1) {
            if let Some(found) = command.find_subcommand(word).cloned() {
                names.push(found.get_name().to_owned());
                command = found;
            }
        }
        Self { names, command }
    }

    fn help(&self) -> String {
        let words = ["butler-runner"].into_iter().chain(self.names.iter().map(String::as_str));
        let words: Vec<_> = words.chain(["--help"]).collect();
        format!("run `{}`", words.join(" "))
    }

    /// The command below this one that `word` was probably meant to be.
    fn near(&self, word: &str) -> Option<String> {
        let shown = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = shown.flat_map(clap::Command::get_name_and_visible_aliases);
        closest(word, names).map(|name| format!("did you mean `{name}`?"))
    }

    /// The command of a group that a top-level `word` was probably meant to be.
    fn near_in_group(&self, word: &str) -> Option<String> {
        GROUPS.iter().find_map(|group| {
            let command = self.command.find_subcommand(group)?;
            let names = command.get_subcommands().map(clap::Command::get_name);
            closest(word, names).map(|name| format!("did you mean `{group} {name}`?"))
        })
    }

    /// What does what `word` was probably to do here. None if it is nothing known and the command
    /// takes a token: not all tokens have a prefix, so the word could be one.
    fn instead_of(&self, word: &str) -> Option<String> {
        let has = |flag: &str| {
            let mut flags = self.command.get_arguments();
            flags.any(|known| {
                known.get_long_and_visible_aliases().is_some_and(|it| it.contains(&flag))
            })
        };
        if self.command.get_positionals().any(clap::Arg::is_last_set) {
            return Some(format!("use `-- {word}`"));
        }
        let is_url =
            (word.starts_with("http://") || word.starts_with("https://")) && !word.contains('?');
        let is_path = [".", "./", "../", "/"].iter().any(|it| word == *it || word.starts_with(it))
            || (word.contains('/') && Path::new(word).exists());
        let is_run_id = word.parse::<RunId>().is_ok_and(|id| id.is_uuid());
        let ends_in = |extension| Path::new(word).extension().is_some_and(|it| it == extension);
        let is_product = Product::named(word).is_some();
        let flag = if has(word) {
            return Some(format!("use `--{word}`"));
        } else if is_url && has("endpoint") {
            "endpoint"
        } else if has("operation") && word.parse::<Operation>().is_ok() {
            let command = if word == "drift-check" { "drift" } else { word };
            let is_command = parser().find_subcommand(command).is_some();
            return Some(if is_command {
                format!("use `butler-runner {command}`")
            } else {
                format!("use `--local --operation {word}`")
            });
        } else if has("config") && ends_in("json") {
            "config"
        } else if has("var-file") && ends_in("tfvars") {
            "var-file"
        } else if is_path && has("module-dir") {
            return Some(format!("use `--local --module-dir {word}`"));
        } else if is_product && has("product") {
            "product"
        } else if is_run_id && has("run-id") {
            "run-id"
        } else if has("token") {
            return None;
        } else if has("output") {
            "output"
        } else {
            let usage = self.command.clone().render_usage().to_string();
            let usage = usage.trim_start_matches("Usage: ").replace('\n', " ");
            return Some(format!("use `{usage}`"));
        };
        Some(format!("use `--{flag} {word}`"))
    }
}

/// What is wrong, and what to do.
fn describe(error: &clap::Error, typed: &Typed) -> (String, Option<String>) {
    let help = || Some(typed.help());
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if !argument.starts_with('-') => {
            // It may be a token that lost its flag.
            let is_shown = masked(&argument) == argument;
            match typed.instead_of(&argument).filter(|_| is_shown) {
                Some(hint) => (format!("unexpected argument `{argument}`"), Some(hint)),
                None => ("unexpected argument `***`".to_owned(), help()),
            }
        }
        ErrorKind::UnknownArgument => {
            let near = text(error, ContextKind::SuggestedArg);
            let hint = near.map(|name| format!("did you mean `{name}`?"));
            (format!("unknown flag `{}`", masked(&argument)), hint.or_else(help))
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let hint = if typed.names.is_empty() { of_terraform(&word) } else { None };
            let hint = hint.or_else(|| typed.near(&word));
            let hint = hint.or_else(|| typed.near_in_group(&word)).or_else(help);
            (format!("unknown command `{}`", masked(&word)), hint)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            ("no command is given".to_owned(), help())
        }
        ErrorKind::InvalidValue if given(error).is_some() => {
            let value = masked(&given(error).unwrap_or_default());
            let known = texts(error, ContextKind::ValidValue).join(", ");
            (
                format!("unknown value `{value}` for `{argument}`"),
                Some(format!("use one of: {known}")),
            )
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            (format!("`{argument}` needs a value{}", names(&argument)), None)
        }
        ErrorKind::TooManyValues => {
            (format!("`{argument}` does not take a value{}", names(&argument)), None)
        }
        ErrorKind::ArgumentConflict => match text(error, ContextKind::PriorArg) {
            Some(other) if other != argument => {
                (format!("`{argument}` cannot be used with `{other}`"), None)
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

/// Commands of Terraform that the runner has no command for.
const OF_TERRAFORM: [&str; 18] = [
    "init",
    "fmt",
    "output",
    "show",
    "state",
    "import",
    "console",
    "graph",
    "providers",
    "workspace",
    "taint",
    "untaint",
    "login",
    "logout",
    "get",
    "force-unlock",
    "metadata",
    "modules",
];

/// How to start the tool itself, where that is what `word` asks for.
fn of_terraform(word: &str) -> Option<String> {
    if let Some(product) = Product::named(word) {
        let tool = product.executable();
        return Some(format!(
            "to install it, use `butler-runner tool install {tool}@latest`; \
             to run it, use `butler-runner tool exec {tool}@latest -- ARGUMENTS`"
        ));
    }
    let runs = format!("to run Terraform's `{word}`, use `butler-runner tool exec -- {word}`");
    OF_TERRAFORM.contains(&word).then_some(runs)
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
