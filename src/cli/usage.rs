//! Reports errors in the command line in one line. Words that could be a token are not printed.

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

/// The prefixes of tokens; a word that contains one is not printed.
const TOKEN_PREFIXES: [&str; 2] = ["brce_", "breg_"];

/// The groups whose commands users most often type without the group.
const GROUPS: [&str; 3] = ["tool", "generate", "self"];

/// Prints the requested help or version, or the error in `words`. Returns the exit code.
pub(super) fn report(error: &clap::Error, words: &[OsString]) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failed.code(),
            _ => Exit::Success.code(),
        };
    }
    let (message, hint) = describe(error, &TypedCommand::find(words));
    complain(&message, hint.as_deref());
    Exit::Usage.code()
}

/// The command that the user typed.
struct TypedCommand {
    /// The names of the command and its groups.
    names: Vec<String>,
    command: clap::Command,
}

impl TypedCommand {
    fn find(words: &[OsString]) -> Self {
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

    /// The hint with the subcommand that is most similar to `word`.
    fn similar_subcommand(&self, word: &str) -> Option<String> {
        let shown = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = shown.flat_map(clap::Command::get_name_and_visible_aliases);
        closest(word, names).map(|name| format!("did you mean `{name}`?"))
    }

    /// The hint with the flag that is most similar to `argument` (`--vra`, `--vra=x`).
    fn similar_flag(&self, argument: &str) -> Option<String> {
        let typed = argument.strip_prefix("--")?;
        let typed = typed.split_once('=').map_or(typed, |(name, _)| name);
        let shown = self.command.get_arguments().filter(|flag| !flag.is_hide_set());
        let names = shown.filter_map(clap::Arg::get_long_and_visible_aliases).flatten();
        closest(typed, names).map(|name| format!("did you mean `--{name}`?"))
    }

    /// The hint with the command of a group that is most similar to the top-level `word`.
    fn similar_in_group(&self, word: &str) -> Option<String> {
        GROUPS.iter().find_map(|group| {
            let command = self.command.find_subcommand(group)?;
            let names = command.get_subcommands().map(clap::Command::get_name);
            closest(word, names).map(|name| format!("did you mean `{group} {name}`?"))
        })
    }

    /// The hint for an unexpected `word`: usually the flag that is missing before it. `None` if the word matches no
    /// flag and the command has a token, because the word could be a token without a prefix.
    fn alternative_to(&self, word: &str) -> Option<String> {
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

/// The message and the hint for an error of clap.
fn describe(error: &clap::Error, typed: &TypedCommand) -> (String, Option<String>) {
    let help = || Some(typed.help());
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if !argument.starts_with('-') => {
            // The word may be a token whose flag is missing.
            let is_shown = masked(&argument) == argument;
            match typed.alternative_to(&argument).filter(|_| is_shown) {
                Some(hint) => (format!("unexpected argument `{argument}`"), Some(hint)),
                None => ("unexpected argument `***`".to_owned(), help()),
            }
        }
        ErrorKind::UnknownArgument => {
            let hint = typed.similar_flag(&argument).or_else(|| {
                let suggested = text(error, ContextKind::SuggestedArg)?;
                Some(format!("did you mean `{suggested}`?"))
            });
            (format!("unknown flag `{}`", masked(&argument)), hint.or_else(help))
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let hint =
                if typed.names.is_empty() { advice_on_terraform_command(&word) } else { None };
            let hint = hint.or_else(|| typed.similar_subcommand(&word));
            let hint = hint.or_else(|| typed.similar_in_group(&word)).or_else(help);
            (format!("unknown command `{}`", masked(&word)), hint)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            ("no command is given".to_owned(), help())
        }
        ErrorKind::InvalidValue if rejected_value(error).is_some() => {
            let value = masked(&rejected_value(error).unwrap_or_default());
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

/// Commands of Terraform that the runner does not have.
const TERRAFORM_COMMANDS: [&str; 18] = [
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

/// The hint for a `word` that is a tool or a command of Terraform.
fn advice_on_terraform_command(word: &str) -> Option<String> {
    if let Some(product) = Product::named(word) {
        let tool = product.executable();
        return Some(format!(
            "to install it, use `butler-runner tool install {tool}@latest`; \
             to run it, use `butler-runner tool exec {tool}@latest -- ARGUMENTS`"
        ));
    }
    let runs = format!("to run Terraform's `{word}`, use `butler-runner tool exec -- {word}`");
    TERRAFORM_COMMANDS.contains(&word).then_some(runs)
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

/// The value that the user typed, if the flag has a list of allowed values and the value is not empty.
fn rejected_value(error: &clap::Error) -> Option<String> {
    let is_list = !texts(error, ContextKind::ValidValue).is_empty();
    text(error, ContextKind::InvalidValue).filter(|value| is_list && !value.is_empty())
}

/// The flags and variables of the setting with the flag in `argument` (`--run-id <ID>`).
fn names(argument: &str) -> String {
    let flag = argument.split(' ').next().unwrap_or_default();
    let of = |setting: &&&'static Setting| setting.flags.contains(&flag);
    SETTINGS.iter().find(of).map(|setting| format!(" ({setting})")).unwrap_or_default()
}

/// `text` in one line. Words that contain a token or an address with a login are masked.
fn masked(text: &str) -> String {
    text.split(' ')
        .map(|word| {
            let has_login = word.contains("://") && word.contains('@');
            if has_login || TOKEN_PREFIXES.iter().any(|token| word.contains(token)) {
                "***".to_owned()
            } else {
                visible(word).collect()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = parser().try_get_matches_from(&words).unwrap_err();
        describe(&error, &TypedCommand::find(&words)).1.unwrap()
    }

    #[test]
    fn unknown_flag_is_answered_with_the_most_similar_flag() {
        for (line, flag) in [
            ("butler-runner plan --vra x=1", "--var"),
            ("butler-runner plan --vra=x=1", "--var"),
            ("butler-runner apply --tagret aws_vpc.a", "--target"),
            ("butler-runner execute --run_id 7", "--run-id"),
            ("butler-runner clean --dry-rnu", "--dry-run"),
        ] {
            assert_eq!(hint(line), format!("did you mean `{flag}`?"), "{line}");
        }
        assert_eq!(hint("butler-runner plan --quite-different"), "run `butler-runner plan --help`");
    }
}
