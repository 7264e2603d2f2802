//! Disarms CI commands in the output of other programs.
//!
//! CI systems read commands from a job's output: to set variables and masks, to annotate, to fold.
//! All output of modules, provisioners and providers passes through here, and so does the runner's
//! own log, which quotes them. A space in the middle of a command ends it for the system and leaves
//! it readable. That holds line by line: unlike a command that stops all others (`::stop-commands::`)
//! it needs no order among two streams, no state and no secret.

use std::borrow::Cow;

use super::System;

/// What begins a command, wherever in a line it stands: GitHub's old form and those of Azure,
/// Azure's commands, `TeamCity`'s service messages.
const COMMANDS: [&str; 3] = ["[", "vso[", "teamcity["];

/// What begins a group in Buildkite at the beginning of a line.
const HEADERS: [&str; 4] = ["---", "+++", "~~~", "^^^"];

/// `text` without commands that `system` would execute.
#[must_use]
pub fn disarm(system: System, text: &str) -> Cow<'_, str> {
    let disarm = match system {
        System::GitHubActions => at_the_beginning,
        System::AzurePipelines | System::TeamCity => anywhere,
        System::Buildkite => headers,
        System::GitLabCi => return sections(text),
        System::Jenkins
        | System::BitbucketPipelines
        | System::CircleCi
        | System::Tekton
        | System::Plain
        | System::None => return Cow::Borrowed(text),
    };
    // Agents that are written in .NET take a carriage return for the end of a line.
    if !text.contains(['\n', '\r']) {
        return disarm(text);
    }
    Cow::Owned(text.split_inclusive(['\n', '\r']).map(disarm).collect())
}

/// `::command::` at the beginning of a line, behind white space; and `##[command]`.
fn at_the_beginning(line: &str) -> Cow<'_, str> {
    let blank = line.find(|c: char| c.is_ascii_graphic()).unwrap_or(line.len());
    let Some(rest) = line[blank..].strip_prefix("::") else { return anywhere(line) };
    Cow::Owned(format!("{}: :{}", &line[..blank], anywhere(rest)))
}

/// `##[command]`, `##vso[command]` and `##teamcity[message]`, wherever they stand.
fn anywhere(line: &str) -> Cow<'_, str> {
    let begins = |at: usize| {
        line[at..].strip_prefix("##").is_some_and(|rest| {
            let rest = rest.as_bytes();
            let is = |word: &&str| {
                rest.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()))
            };
            COMMANDS.iter().any(is)
        })
    };
    let found: Vec<usize> =
        memchr::memchr_iter(b'#', line.as_bytes()).filter(|at| begins(*at)).collect();
    if found.is_empty() {
        return Cow::Borrowed(line);
    }
    let mut disarmed = String::with_capacity(line.len() + found.len());
    let mut written = 0;
    for at in found {
        disarmed.push_str(&line[written..=at]);
        disarmed.push(' ');
        written = at + 1;
    }
    disarmed.push_str(&line[written..]);
    Cow::Owned(disarmed)
}

/// The marks of sections are followed by control characters; without any, the words are words.
fn sections(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let text = text.replace("section_start:", "section_start :");
    Cow::Owned(text.replace("section_end:", "section_end :"))
}

/// `--- title`, behind colours at most; and the sequences for pictures, links and times.
fn headers(line: &str) -> Cow<'_, str> {
    let mut rest = line;
    loop {
        let next = rest.trim_start_matches(|c: char| !c.is_ascii_graphic());
        let colour = next.strip_prefix('[').filter(|_| rest.len() > next.len());
        match colour.and_then(|it| it.split_once(|c: char| c.is_ascii_alphabetic())) {
            Some((_, behind)) if rest[..rest.len() - next.len()].ends_with('\u{1b}') => {
                rest = behind;
            }
            _ => {
                rest = next;
                break;
            }
        }
    }
    let mut disarmed = Cow::Borrowed(line);
    if HEADERS.iter().any(|header| rest.starts_with(header)) {
        let at = line.len() - rest.len() + 1;
        disarmed = Cow::Owned(format!("{} {}", &line[..at], &line[at..]));
    }
    if disarmed.contains('\u{1b}') {
        let colours = disarmed.replace("\u{1b}[", "\u{0}").replace('\u{1b}', "\u{241b}");
        disarmed = Cow::Owned(colours.replace('\u{0}', "\u{1b}["));
    }
    disarmed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_disarmed_after_any_prefix() {
        use System::{AzurePipelines, Buildkite, GitHubActions, GitLabCi, TeamCity};
        for (system, line, shown) in [
            (GitHubActions, "::error file=a,line=1::text", ": :error file=a,line=1::text"),
            (GitHubActions, " \t\u{a0}\u{feff}::add-mask::a", " \t\u{a0}\u{feff}: :add-mask::a"),
            (GitHubActions, "10%\r::error::a\r::b::c\n::d::", "10%\r: :error::a\r: :b::c\n: :d::"),
            (GitHubActions, "text ##[error]a ###[group]b", "text # #[error]a ## #[group]b"),
            (GitHubActions, "::error::##[add-mask]e", ": :error::# #[add-mask]e"),
            (GitHubActions, ":::error::a", ": ::error::a"),
            (GitHubActions, "arn:aws:iam::12:role/a", "arn:aws:iam::12:role/a"),
            (
                AzurePipelines,
                "a ##VSO[task.setvariable variable=a]b",
                "a # #VSO[task.setvariable variable=a]b",
            ),
            (
                AzurePipelines,
                "##[group]a ##vso[x.y]\r##vso[z.z]",
                "# #[group]a # #vso[x.y]\r# #vso[z.z]",
            ),
            (AzurePipelines, "::error::a", "::error::a"),
            (TeamCity, "##teamcity[buildStop comment='a']", "# #teamcity[buildStop comment='a']"),
            (Buildkite, "--- title", "- -- title"),
            (Buildkite, "a\r\u{1b}[1;31m +++ title", "a\r\u{1b}[1;31m + ++ title"),
            (
                Buildkite,
                "\u{1b}_bk;t=1\u{7}~~~ \u{1b}]1338;url=x\u{7}",
                "\u{241b}_bk;t=1\u{7}~~~ \u{241b}]1338;url=x\u{7}",
            ),
            (
                GitLabCi,
                "\u{1b}[0Ksection_end:1:a\r\u{1b}[0K",
                "\u{1b}[0Ksection_end :1:a\r\u{1b}[0K",
            ),
            (GitLabCi, "section_start: 5", "section_start: 5"),
            (System::Plain, "::error::##[error]", "::error::##[error]"),
        ] {
            assert_eq!(disarm(system, line), shown, "{}: {line:?}", system.id());
        }
    }
}
