//! The types of the table of settings.

/// A setting with its flags and variables.
#[derive(Debug, Eq, PartialEq)]
pub struct Setting {
    /// The name in a sentence: `no run id is given`.
    pub noun: &'static str,
    /// The flags. The first one is the name; the others are aliases.
    pub flags: &'static [&'static str],
    /// The variables. An earlier one wins over a later one, a flag over all of them.
    pub variables: &'static [&'static str],
    /// The form of the value.
    pub kind: Kind,
    /// The default, in words.
    pub default: &'static str,
    /// The effect, in one line.
    pub help: &'static str,
    /// A valid value.
    pub example: &'static str,
    /// The topic, which is the heading in `--help`.
    pub section: Section,
}

/// The form of a setting's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// One value, with its name in `--help`.
    Value(&'static str),
    /// Several paths: a flag that can be repeated, a variable with separators as in `PATH`.
    Paths(&'static str),
    /// Several values: a flag that can be repeated, a variable with commas.
    Values(&'static str),
    /// A flag without a value, a variable with `true` or `false`.
    Switch,
}

/// The topic of a setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Section {
    /// A run that a registry describes.
    Registry,
    /// A run without a registry.
    Alone,
    /// The execution of a run.
    Run,
    /// Output files in addition to the log.
    Output,
    /// The origin of tools.
    Tool,
    /// The lifecycle of installed versions; only the commands of `tool` have these flags.
    Lifecycle,
    /// The runner's own log.
    Log,
    /// The server.
    Server,
    /// How a command reaches a server.
    Client,
    /// The differences between installations of a server in a cluster.
    Installation,
}

impl Section {
    /// The heading in `--help`.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Registry => "Registry",
            Self::Alone => "Without a registry",
            Self::Run => "Run",
            Self::Output => "Output",
            Self::Tool => "Terraform and OpenTofu",
            Self::Lifecycle => "Installed versions",
            Self::Log => "Log",
            Self::Server => "Server",
            Self::Client => "Server to ask",
            Self::Installation => "Installation",
        }
    }
}

impl Setting {
    /// The setting's row in the table of docs/settings.md.
    #[must_use]
    pub fn row(&self) -> String {
        let code = |names: &[&str]| format!("`{}`", names.join("`, `"));
        let Self { flags, variables, default, help, .. } = self;
        format!("| {} | {} | {default} | {help} |", code(flags), code(variables))
    }

    /// The first flag without its dashes.
    #[must_use]
    pub fn id(&self) -> &'static str {
        self.flags[0].trim_start_matches('-')
    }
}

/// The flags and variables, for error messages.
impl std::fmt::Display for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, {}", self.flags[0], self.variables.join(", "))
    }
}

/// A variable without a flag: a secret, or a variable of another program.
#[derive(Debug, Eq, PartialEq)]
pub struct Variable {
    /// The name.
    pub name: &'static str,
    /// The purpose.
    pub help: &'static str,
}

impl Variable {
    /// The variable's row in the table of docs/settings.md.
    #[must_use]
    pub fn row(&self) -> String {
        format!("| `{}` | {} |", self.name, self.help)
    }
}
