//! The abilities of this process's terminal, by its type and the environment:
//! <https://no-color.org>, <https://bixense.com/clicolors> and <https://force-color.org>.

use std::io::IsTerminal;

use crate::ci::System;
use crate::screen::{Abilities, Screen, View};
use crate::settings::{Environment, LogFormat, Logging, Variable, variable};
use butler_base::platform::is_apart;

/// The names of terminals without colours, in addition to names that end in `-m` or `-mono`.
const COLOURLESS: [&str; 3] = ["vt100", "vt102", "vt220"];

/// The kind of output on standard output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Output {
    /// Lines during the work.
    Lines,
    /// One result at the end.
    Result,
}

/// The terminal of this process. Colours and the live line are not used in CI systems.
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
            && (output == Output::Result || is_apart(&stdout, &stderr))
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

/// Whether the terminal can move its cursor.
fn can_move(environment: &Environment) -> bool {
    environment.value(variable::TERM.name).is_some_and(|term| term != "dumb")
}

fn has_colours(environment: &Environment) -> bool {
    let term = environment.value(variable::TERM.name).and_then(|term| term.to_str());
    match term {
        Some("dumb") => false,
        // Some terminals with a generic TERM set only this.
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
    fn colours_follow_the_terminal_unless_a_variable_overrides_it() {
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
    fn a_pipe_is_read_by_another_program_and_a_file_is_not() {
        let (_reader, pipe) = std::io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(!is_apart(&pipe, &null));
        assert!(is_apart(&file, &null) && is_apart(&null, &file));
    }
}
