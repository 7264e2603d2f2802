//! The types of the table of settings.

/// A setting with its flags and variables.
#[derive(Debug, Eq, PartialEq)]
pub struct Setting {
    /// Its name in a sentence: `no run id is given`.
    pub noun: &'static str,
    /// Its flags; the first is its name, the others mean the same.
    pub flags: &'static [&'static str],
    /// Its variables; an earlier one wins over a later one, a flag over all of them.
    pub variables: &'static [&'static str],
    /// What its value is.
    pub kind: Kind,
    /// The default, in words.
    pub default: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// A valid value.
    pub example: &'static str,
    /// The topic, which is the heading in `--help`.
    pub section: Section,
}

/// What a setting's value is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// One value, called so in `--help`.
    Value(&'static str),
    /// Any number of paths: a flag that can be repeated, a variable that is separated like `PATH`.
    Paths(&'static str),
    /// Yes or no: a flag without a value, a variable with `true` or `false`.
    Switch,
}

/// What a setting is about; a heading in `--help`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Section {
    /// A run that a registry describes.
    Registry,
    /// A run without a registry.
    Alone,
    /// How a run goes.
    Run,
    /// Output files in addition to the log.
    Output,
    /// Where the tool comes from.
    Tool,
    /// The lifecycle of installed versions; only the commands of `tool` have these flags.
    Lifecycle,
    /// The runner's own log.
    Log,
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

/// Its flags and its variables, as errors name them.
impl std::fmt::Display for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, {}", self.flags[0], self.variables.join(", "))
    }
}

/// A variable that has no flag: a secret, or not the runner's own.
#[derive(Debug, Eq, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub help: &'static str,
}

impl Variable {
    /// The variable's row in the table of docs/settings.md.
    #[must_use]
    pub fn row(&self) -> String {
        format!("| `{}` | {} |", self.name, self.help)
    }
}
