//! State locks: who holds one, and whether it is the one that a killed tool has left.
//!
//! Who holds a lock is read from the tool's own error text. Not every backend tells: `http` gives
//! the holder's id and `pg` nothing, and both show the *asker's* own details as if they were the
//! holder's. Such details are not believed.
//!
//! A lock is surely a killed command's own only where the command was seen at work under its lock,
//! and where either the backend says that the holder is this user on this machine, with the same
//! operation, since a moment between the command's start and its first work; or the lock has the
//! id that was the holder's while the command, asked to stop, was still alive. A lock is
//! exclusive, so at these moments nobody else held it. No other lock is ever removed.

use std::time::SystemTime;

/// Who took a lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holder {
    /// `user@host`.
    pub who: String,
    /// What for, `OperationTypeApply` for example.
    pub operation: String,
    /// When, as the tool writes it.
    pub created: String,
}

/// A state that is locked, as far as its backend tells.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StateLock {
    /// What `force-unlock` wants to be told.
    pub id: Option<String>,
    /// Who holds it.
    pub holder: Option<Holder>,
}

impl std::fmt::Display for StateLock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.holder, &self.id) {
            (Some(holder), id) => {
                let Holder { who, operation, created } = holder;
                write!(formatter, "the state is locked by {who} since {created} ({operation}")?;
                id.as_ref().map_or(Ok(()), |id| write!(formatter, ", id {id}"))?;
                formatter.write_str(")")
            }
            (None, Some(id)) => {
                write!(formatter, "the state is locked (id {id}; its backend does not say by whom)")
            }
            (None, None) => {
                formatter.write_str("the state is locked; its backend does not say by whom")
            }
        }
    }
}

/// What became of the lock of a command that was killed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LeftLock {
    /// Nobody holds it.
    Free,
    /// It was left, and was removed.
    Removed {
        /// Its id.
        id: String,
    },
    /// It is left.
    Own {
        /// Its id.
        id: String,
        /// Why it could not be removed, where that was wanted.
        failure: Option<String>,
    },
    /// The state is locked, perhaps by somebody else.
    Unsure(StateLock),
    /// The backend could not be asked.
    Unknown,
}

impl std::fmt::Display for LeftLock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Free => formatter.write_str("the state lock is free"),
            Self::Removed { id } => {
                write!(formatter, "the state lock `{id}` that it left was removed")
            }
            Self::Own { id, failure: None } => write!(formatter, "it left the state lock `{id}`"),
            Self::Own { id, failure: Some(failure) } => {
                write!(
                    formatter,
                    "it left the state lock `{id}`, which cannot be removed: {failure}"
                )
            }
            Self::Unsure(lock) => write!(formatter, "{lock}, which may be its own lock"),
            Self::Unknown => formatter.write_str("its state lock may be left"),
        }
    }
}

impl LeftLock {
    /// What to do about it, with the executable `product`.
    #[must_use]
    pub fn advice(&self, product: &str) -> Option<String> {
        match self {
            Self::Free | Self::Removed { .. } => None,
            Self::Own { id, .. } => Some(format!(
                "run `{product} force-unlock {id}` in the module; --force-unlock-own (BUTLER_FORCE_UNLOCK_OWN) does it by itself"
            )),
            Self::Unsure(StateLock { id: Some(id), .. }) => Some(format!(
                "when no other run holds it, run `{product} force-unlock {id}` in the module"
            )),
            Self::Unsure(_) | Self::Unknown => Some(format!(
                "the next run names a lock that is left; `{product} force-unlock` removes it"
            )),
        }
    }
}

/// What is known of a command that was killed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Killed<'run> {
    /// The tool's word for what it did.
    pub(super) operation: &'run str,
    /// When it was started.
    pub(super) begun: SystemTime,
    /// When it was first seen at work under its lock.
    pub(super) working: Option<SystemTime>,
    /// The lock that was held while it was still alive, and at work.
    pub(super) observed: Option<&'run StateLock>,
    /// This process's `user@host`.
    pub(super) who: Option<&'run str>,
}

impl StateLock {
    /// Whether this is surely the lock of the command that was `killed`; see the module's head.
    pub(super) fn is_left_by(&self, killed: &Killed<'_>) -> bool {
        let (Some(working), Some(id)) = (killed.working, &self.id) else { return false };
        if killed.observed.is_some_and(|observed| observed.id.as_ref() == Some(id)) {
            return true;
        }
        self.holder.as_ref().is_some_and(|holder| {
            killed.who == Some(&holder.who)
                && killed.operation == holder.operation
                && parse_time(&holder.created)
                    .is_some_and(|created| created >= killed.begun && created <= working)
        })
    }
}

/// Reads Go's `2026-01-02 03:04:05.678 +0000 UTC`.
fn parse_time(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.split_once(' ')?;
    let (time, zone) = rest.split_once(' ')?;
    zone.starts_with("+0000").then_some(())?;
    humantime::parse_rfc3339(&format!("{date}T{time}Z")).ok()
}

/// This process's `user@host`, as the tool writes it.
pub(super) fn own_name() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()??;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(format!("{}@{}", user.name, host.trim_end()))
}

/// Whether a command that prints `line` is at work under its lock.
pub(super) fn shows_work(line: &[u8]) -> bool {
    const WORK: [&str; 9] = [
        ": Creating...",
        ": Destroying...",
        ": Modifying...",
        ": Refreshing state...",
        ": Reading...",
        ": Importing...",
        ": Provisioning with ",
        ": Still ",
        " (local-exec): ",
    ];
    WORK.iter().any(|work| memchr::memmem::find(line, work.as_bytes()).is_some())
}

/// Whether a command that prints `line` has got to its end and gives its lock back.
pub(super) fn shows_end(line: &[u8]) -> bool {
    line.starts_with(b"Apply complete!") || line.starts_with(b"Releasing state lock.")
}

/// Picks the holder of a lock out of the tool's standard error.
#[derive(Debug, Default)]
pub(super) struct LockMessage {
    /// Whether the lines are those of the error.
    within: bool,
    /// Whether the state is locked, and not only impossible to lock.
    locked: bool,
    /// Whether the details are the asker's own.
    not_the_holders: bool,
    /// The holder's id, apart from the details.
    named: Option<String>,
    id: Option<String>,
    who: Option<String>,
    operation: Option<String>,
    created: Option<String>,
}

impl LockMessage {
    pub(super) fn read(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        // With colours the tool frames its errors.
        let text = text.trim_matches(|character: char| {
            character.is_whitespace() || matches!(character, '│' | '╷' | '╵')
        });
        if text.ends_with("Error acquiring the state lock") {
            *self = Self { within: true, ..Self::default() };
        } else if !self.within {
            return;
        }
        if text.ends_with("acquires a state lock to protect the state from being written") {
            self.within = false;
            return;
        }
        self.not_the_holders |= text.contains("Workspace is already locked")
            || text.contains("Already locked for workspace creation");
        self.locked |= text == "Lock Info:";
        let word = text.split_whitespace().find_map(|word| word.strip_prefix("ID="));
        if let Some(id) = word {
            self.named = Some(id.to_owned());
        }
        let Some((name, value)) = text.split_once(':') else { return };
        let value = value.trim();
        let field = match name {
            "ID" => &mut self.id,
            "Who" => &mut self.who,
            "Operation" => &mut self.operation,
            "Created" => &mut self.created,
            _ => return,
        };
        *field = (!value.is_empty()).then(|| value.to_owned());
    }

    /// The lock, if the state was locked.
    pub(super) fn lock(self) -> Option<StateLock> {
        self.locked.then_some(())?;
        let believed = !self.not_the_holders && (self.named.is_none() || self.named == self.id);
        if !believed {
            return Some(StateLock { id: self.named, holder: None });
        }
        let holder = match (self.who, self.operation, self.created) {
            (Some(who), Some(operation), Some(created)) => Some(Holder { who, operation, created }),
            _ => None,
        };
        Some(StateLock { id: self.id, holder })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What Terraform 1.11.4 prints, with and without its frame.
    fn message(kind: &str, id: &str) -> String {
        format!(
            "╷\n│ Error: Error acquiring the state lock\n│ \n│ Error message: {kind}\n│ Lock Info:\n\
             │   ID:        {id}\n│   Path:      a: b\n│   Operation: OperationTypeApply\n│   Who:       \
             alice@host\n│   Version:   1.11.4\n│   Created:   2026-01-01 10:00:00.5 +0000 UTC\n│   Info: \n│\n\
             │ Terraform acquires a state lock to protect the state from being written\n│ by multiple users\n╵"
        )
    }

    fn read(text: &str) -> Option<StateLock> {
        let mut message = LockMessage::default();
        text.lines().for_each(|line| message.read(line.as_bytes()));
        message.lock()
    }

    #[test]
    fn holder_is_read_with_and_without_a_frame() {
        let framed = message("resource temporarily unavailable", "x-1");
        for text in [framed.clone(), framed.replace("│ ", "").replace(['│', '╷', '╵'], "")]
        {
            assert_eq!(
                read(&text).unwrap().to_string(),
                "the state is locked by alice@host since 2026-01-01 10:00:00.5 +0000 UTC \
                 (OperationTypeApply, id x-1)"
            );
        }
        let unreachable =
            "Error: Error acquiring the state lock\n\nError message: connection refused";
        assert_eq!(read(unreachable), None);
        assert_eq!(read("Lock Info:\n  ID: x"), None);
    }

    #[test]
    fn details_of_the_asker_are_not_taken_for_the_holders() {
        let id = |id: &str| StateLock { id: Some(id.to_owned()), holder: None };
        let http = message("HTTP remote state already locked:\n│ ID=theirs", "mine");
        assert_eq!(read(&http), Some(id("theirs")));
        let repaired = message("HTTP remote state already locked:\n│ ID=theirs", "theirs");
        assert!(read(&repaired).unwrap().holder.is_some());
        let pg = message("Workspace is already locked: default", "mine");
        assert_eq!(read(&pg), Some(StateLock::default()));
    }

    #[test]
    fn only_a_lock_that_is_surely_the_commands_own_is_its_own() {
        let lock = read(&message("412", "x-1")).unwrap();
        let created = humantime::parse_rfc3339("2026-01-01T10:00:00.5Z").unwrap();
        let second = Duration::from_secs(1);
        let own = Killed {
            operation: "OperationTypeApply",
            begun: created - second,
            working: Some(created + second),
            observed: None,
            who: Some("alice@host"),
        };
        assert!(lock.is_left_by(&own));
        for other in [
            // Somebody else's; another command's; one that was held before; one that was taken
            // after the command had given its own back; and one that it only waited for.
            Killed { who: Some("bob@host"), ..own },
            Killed { who: None, ..own },
            Killed { operation: "OperationTypePlan", ..own },
            Killed { begun: created + second, ..own },
            Killed { working: Some(created - second), ..own },
            Killed { working: None, ..own },
        ] {
            assert!(!lock.is_left_by(&other), "{other:?}");
        }
        let silent = StateLock { id: Some("x-1".to_owned()), holder: None };
        assert!(!silent.is_left_by(&own));
        assert!(silent.is_left_by(&Killed { observed: Some(&silent), ..own }));
        let another = StateLock { id: Some("x-2".to_owned()), holder: None };
        assert!(!silent.is_left_by(&Killed { observed: Some(&another), ..own }));
        assert!(!silent.is_left_by(&Killed { observed: Some(&silent), working: None, ..own }));
    }

    #[test]
    fn work_is_told_from_waiting() {
        for line in ["a.b[0]: Creating...", "a: Refreshing state... [id=1]", "a (local-exec): hi"] {
            assert!(shows_work(line.as_bytes()), "{line}");
        }
        let waiting = b"Acquiring state lock. This may take a few moments...";
        assert!(!shows_work(waiting) && !shows_end(waiting));
        assert!(shows_end(b"Apply complete! Resources: 1 added, 0 changed, 0 destroyed."));
    }
}
