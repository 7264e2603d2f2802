//! What may be done with the terminal of this process, by what it is and by what the environment
//! says: <https://no-color.org>, <https://bixense.com/clicolors> and <https://force-color.org>.

use std::io::IsTerminal;

use crate::ci::System;
use crate::screen::{Abilities, Screen, View};
use crate::settings::{Environment, LogFormat, Logging, Variable, variable};
use butler_base::platform::is_apart;

/// What terminals are called that have no colours, beside those whose name ends in `-m` or `-mono`.
const COLOURLESS: [&str; 3] = ["vt100", "vt102", "vt220"];

/// What standard output gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Output {
    /// Lines while the work goes on.
    Lines,
    /// One answer when it is done.
    Answer,
}

/// The terminal of this process. What is for people is shown where no CI system looks on.
pub(super) fn open(logging: &Logging, environment: &Environment, output: Output) -> Screen {
    let ci = logging.reader;
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let tool = |is_terminal: bool| colours(environment, is_terminal && ci == System::None);
    Screen::of_process(Abilities {
        colours_on_stdout: tool(stdout.is_terminal()),
        colours_on_stderr: tool(stderr.is_terminal()),
        view: if ci == System::None
            && logging.format == LogFormat::Text
            && can_move(environment)
            && stderr.is_terminal()
            && (output == Output::Answer || is_apart(&stdout, &stderr))
        {
            View::Live
        } else {
            View::Lines
        },
    })
}

/// Whether colours are used on an output.
pub(super) fn colours(environment: &Environment, is_terminal: bool) -> bool {
    let is_set = |variable: &Variable| environment.value(variable.name).is_some();
    let forces = |variable: &Variable| {
        environment.value(variable.name).is_some_and(|value| value != "0" && value != "false")
    };
    let is_forced = forces(&variable::CLICOLOR_FORCE) || forces(&variable::FORCE_COLOR);
    !is_set(&variable::NO_COLOR) && (is_forced || (is_terminal && has_colours(environment)))
}

/// Whether the terminal is one that can move its cursor.
fn can_move(environment: &Environment) -> bool {
    environment.value(variable::TERM.name).is_some_and(|term| term != "dumb")
}

fn has_colours(environment: &Environment) -> bool {
    let term = environment.value(variable::TERM.name).and_then(|term| term.to_str());
    match term {
        Some("dumb") => false,
        // Some that do not say what they are say at least this.
        _ if environment.value(variable::COLORTERM.name).is_some() => true,
        Some(term) => {
            !COLOURLESS.contains(&term) && !term.ends_with("-m") && !term.ends_with("-mono")
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::new(variables.collect::<BTreeMap<_, _>>(), "butler-runner".into())
    }

    #[test]
    fn colours_follow_the_terminal_unless_somebody_says_otherwise() {
        for (variables, on_terminal, elsewhere) in [
            (&[("TERM", "xterm-256color")][..], true, false),
            (&[("TERM", "dumb")], false, false),
            (&[("TERM", "vt100")], false, false),
            (&[("TERM", "linux-m")], false, false),
            (&[("TERM", "vt100"), ("COLORTERM", "truecolor")], true, false),
            (&[("COLORTERM", "1")], true, false),
            (&[], false, false),
            (&[("TERM", "xterm"), ("NO_COLOR", "1")], false, false),
            (&[("TERM", "xterm"), ("NO_COLOR", "")], true, false),
            (&[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")], true, true),
            (&[("FORCE_COLOR", "3")], true, true),
            (&[("TERM", "xterm"), ("FORCE_COLOR", "0")], true, false),
            (&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], false, false),
        ] {
            let environment = environment(variables);
            let both = [true, false].map(|is_terminal| colours(&environment, is_terminal));
            assert_eq!(both, [on_terminal, elsewhere], "{variables:?}");
        }
    }

    #[test]
    fn a_pipe_is_somebody_elses_and_a_file_is_not() {
        let (_reader, pipe) = std::io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(!is_apart(&pipe, &null));
        assert!(is_apart(&file, &null) && is_apart(&null, &file));
    }
}
