//! Disarms CI commands in the output of other programs.
//!
//! CI systems execute commands in a job's output: they set variables and masks, annotate, and fold. All output of
//! modules, provisioners and providers passes through here, and so does the runner's own log, which quotes them. A
//! space in the middle of a command makes it ineffective and keeps it readable. Each line is changed on its own.
//! A command that stops all others (`::stop-commands::`) would need an order between two streams, and a secret.

use std::borrow::Cow;

use super::System;
use super::description::LogCommands;

/// `text` without commands that `system` would execute.
#[must_use]
pub fn disarm(system: System, text: &str) -> Cow<'_, str> {
    let disarm_line = match system.description().commands {
        LogCommands::None => return Cow::Borrowed(text),
        LogCommands::AcrossLines(disarm_text) => return disarm_text(text),
        LogCommands::InLines(disarm_line) => disarm_line,
    };
    // Agents that are written in .NET also end a line at a carriage return.
    if !text.contains(['\n', '\r']) {
        return disarm_line(text);
    }
    Cow::Owned(text.split_inclusive(['\n', '\r']).map(disarm_line).collect())
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
            (GitLabCi, "section_end:1:a\r\u{1b}[0K", "section_end :1:a\r\u{1b}[0K"),
            (GitLabCi, "section_start: 5", "section_start: 5"),
            (System::Plain, "::error::##[error]", "::error::##[error]"),
        ] {
            assert_eq!(disarm(system, line), shown, "{}: {line:?}", system.id());
        }
    }
}
