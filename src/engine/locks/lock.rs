//! State locks: who holds one, and whether it is the one that a killed tool has left.
//!
//! Who holds a lock is read from the tool's own error text. Not every backend tells: `http` gives
//! the holder's id and `pg` nothing, and both show the *asker's* own details as if they were the
//! holder's. Such details are not believed.
//!
//! A lock is surely a command's own only where the command itself named it when it failed to store
//! its state; or where the command was seen at work under its lock, and either the backend says that
//! the holder is this user on this machine, with the same operation, since a moment between the
//! command's start and its first work, or the lock has the id that was the holder's while the
//! command, asked to stop, was still alive. A lock is exclusive, so at these moments nobody else held
//! it, unless the command was told to take none. No other lock is ever removed.

use std::time::SystemTime;

use butler_base::platform::{host_name, user_name};

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
    /// It ended with the command's process.
    Ended,
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
            Self::Ended => formatter.write_str("its state lock has ended with it"),
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
        let removal = self.removal(product)?;
        Some(match self {
            Self::Own { failure: None, .. } => {
                format!("{removal}; --force-unlock-own (BUTLER_FORCE_UNLOCK_OWN) does it by itself")
            }
            _ => removal,
        })
    }

    /// How it is removed by hand, with the executable `product`.
    #[must_use]
    pub fn removal(&self, product: &str) -> Option<String> {
        match self {
            Self::Ended | Self::Free | Self::Removed { .. } => None,
            Self::Own { id, .. } => {
                Some(format!("run `{product} force-unlock {id}` in the module"))
            }
            Self::Unsure(StateLock { id: Some(id), .. }) => Some(format!(
                "when no other run holds it, run `{product} force-unlock {id}` in the module"
            )),
            Self::Unsure(_) | Self::Unknown => Some(format!(
                "the next run names a lock that is left; `{product} force-unlock` removes it"
            )),
        }
    }
}

/// What is known of a command that has ended and may have left its lock.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Trace {
    /// The tool's word for what it did.
    pub(in crate::engine) operation: &'static str,
    /// Whether it took a lock at all: `-lock=false` in its environment makes every lock somebody
    /// else's.
    pub(in crate::engine) locks: bool,
    /// When it was started.
    pub(in crate::engine) begun: SystemTime,
    /// When it was first seen at work under its lock.
    pub(in crate::engine) working: Option<SystemTime>,
    /// The id of the lock that was held while it was still alive, and at work.
    pub(in crate::engine) observed: Option<String>,
    /// The id that it gave when it failed to store its state.
    pub(in crate::engine) named: Option<String>,
    /// This process's `user@host`.
    pub(in crate::engine) who: Option<String>,
}

impl StateLock {
    /// Whether this is surely the lock of the command that left this trace; see the module's head.
    pub(in crate::engine) fn is_left_by(&self, trace: &Trace) -> bool {
        if !trace.locks || self.id.is_none() {
            return false;
        }
        if trace.named == self.id {
            return true;
        }
        let Some(working) = trace.working else { return false };
        if trace.observed == self.id {
            return true;
        }
        self.holder.as_ref().is_some_and(|holder| {
            trace.who.as_ref() == Some(&holder.who)
                && trace.operation == holder.operation
                && parse_time(&holder.created)
                    .is_some_and(|created| created >= trace.begun && created <= working)
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
pub(in crate::engine) fn own_name() -> Option<String> {
    Some(format!("{}@{}", user_name()?, host_name()?))
}

/// Whether a command that prints `line` is at work under its lock.
pub(in crate::engine) fn shows_work(line: &[u8]) -> bool {
    const WORK: [&str; 8] = [
        ": Creating...",
        ": Destroying...",
        ": Modifying...",
        ": Refreshing state...",
        ": Reading...",
        ": Importing...",
        ": Provisioning with ",
        ": Still ",
    ];
    // Most lines of a plan have no colon, and there are many.
    memchr::memchr_iter(b':', line).any(|colon| {
        let (before, behind) = line.split_at(colon);
        WORK.iter().any(|work| behind.starts_with(work.as_bytes()))
            || (before.ends_with(b" (local-exec)") && behind.starts_with(b": "))
    })
}

/// Whether a command that prints `line` has got to its end and gives its lock back.
pub(in crate::engine) fn shows_end(line: &[u8]) -> bool {
    line.starts_with(b"Apply complete!") || line.starts_with(b"Releasing state lock.")
}

/// The id of the command's own lock in a line of the error that its state cannot be stored: the
/// `http` backend has it in its address, as `?ID=` and a UUID.
pub(in crate::engine) fn named_id(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let (_, behind) = text.split_once("?ID=").or_else(|| text.split_once("&ID="))?;
    let end = behind.find(|c: char| !(c.is_ascii_hexdigit() || c == '-')).unwrap_or(behind.len());
    let id = &behind[..end];
    let parts = id.split('-').map(str::len);
    parts.eq([8, 4, 4, 4, 12]).then(|| id.to_owned())
}

/// Picks the holder of a lock out of the tool's standard error.
#[derive(Debug, Default)]
pub(in crate::engine) struct LockMessage {
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
    pub(in crate::engine) fn read(&mut self, line: &[u8]) {
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
    pub(in crate::engine) fn lock(self) -> Option<StateLock> {
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
    fn holder_is_read_from_what_each_kind_of_lock_makes_of_it() {
        for (kind, id) in [
            // As Terraform 1.11.4 prints them for s3's two kinds of locks, broken into lines where it
            // breaks them; and as its source has them for kubernetes, gcs and azurerm.
            (
                "operation error S3: PutObject, https response error\n│ StatusCode: 412, RequestID:\n│ \
                 0m2kpDuIgJW4spRlOQRWyNfxXVFycW5DtUqjrGbX, HostID:\n│ 9Gjjt1m+cjU4OPvX9O9=,\n│ api error \
                 PreconditionFailed: At least one of the pre-conditions you\n│ specified did not hold",
                "8b6983e4-417d-c2a2-6a53-5f0f8f674b40",
            ),
            (
                "operation error DynamoDB: PutItem, https response error\n│ StatusCode: 400, RequestID:\n│ \
                 c68mpEKcWO2zUK0AhoILVduQotPKwi34EHf4,\n│ ConditionalCheckFailedException: The \
                 conditional request failed",
                "97ef4d05-2df1-300d-3ed1-963fbb4295b4",
            ),
            ("the state is already locked by another terraform client", "97ef4d05-2df1"),
            // The id is the object's generation.
            (
                "writing \"gs://states/network/default.tflock\" failed: googleapi: Error 412:\n│ At least \
                 one of the pre-conditions you specified did not hold., conditionNotMet",
                "1763757180933409",
            ),
            ("state blob is already locked", "97ef4d05-2df1"),
        ] {
            let lock = read(&message(kind, id)).unwrap();
            assert_eq!(lock.id.as_deref(), Some(id), "{kind}");
            assert_eq!(lock.holder.unwrap().who, "alice@host", "{kind}");
        }
        // Whoever has no right to write a lock file has not met a lock.
        let refused = "Error: Error acquiring the state lock\n\nError message: operation error S3: \
            PutObject, https response error\nStatusCode: 403, api error AccessDenied: Access Denied\n\
            unable to retrieve file from S3 bucket 'states' with key 'a.tflock'";
        assert_eq!(read(refused), None);
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
        let own = Trace {
            operation: "OperationTypeApply",
            locks: true,
            begun: created - second,
            working: Some(created + second),
            observed: None,
            named: None,
            who: Some("alice@host".to_owned()),
        };
        let id = |id: &str| Some(id.to_owned());
        assert!(lock.is_left_by(&own));
        for other in [
            // Somebody else's; another command's; one that was held before; one that was taken
            // after the command had given its own back; and one that it only waited for.
            Trace { who: Some("bob@host".to_owned()), ..own.clone() },
            Trace { who: None, ..own.clone() },
            Trace { operation: "OperationTypePlan", ..own.clone() },
            Trace { begun: created + second, ..own.clone() },
            Trace { working: Some(created - second), ..own.clone() },
            Trace { working: None, ..own.clone() },
            // And whatever is held while the command takes no lock.
            Trace { locks: false, observed: id("x-1"), named: id("x-1"), ..own.clone() },
        ] {
            assert!(!lock.is_left_by(&other), "{other:?}");
        }
        let silent = StateLock { id: id("x-1"), holder: None };
        assert!(!silent.is_left_by(&own));
        assert!(silent.is_left_by(&Trace { observed: id("x-1"), ..own.clone() }));
        assert!(!silent.is_left_by(&Trace { observed: id("x-2"), ..own.clone() }));
        assert!(!silent.is_left_by(&Trace { observed: id("x-1"), working: None, ..own.clone() }));
        let named = Trace { working: None, named: id("x-1"), ..own.clone() };
        assert!(silent.is_left_by(&named));
        assert!(!silent.is_left_by(&Trace { named: id("x-2"), ..named }));
        let nameless = StateLock::default();
        assert!(!nameless.is_left_by(&own));
    }

    #[test]
    fn only_a_whole_id_in_an_address_is_named() {
        let id = "a66115e6-2f0d-5775-71cb-1df559258735";
        for line in [
            format!("http://127.0.0.1/s?ID={id} giving up"),
            format!("\"https://host/s?x=1&ID={id}\": EOF"),
        ] {
            assert_eq!(named_id(line.as_bytes()).as_deref(), Some(id), "{line}");
        }
        for line in [format!("ID={id}"), format!("?ID={}", &id[1..]), "?ID=".to_owned()] {
            assert_eq!(named_id(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn an_option_that_was_given_is_not_recommended() {
        let own = |failure| LeftLock::Own { id: "x".to_owned(), failure };
        let flag = "--force-unlock-own";
        assert!(own(None).advice("terraform").unwrap().contains(flag));
        let failed = own(Some("no".to_owned())).advice("terraform").unwrap();
        assert!(!failed.contains(flag) && failed.contains("force-unlock x"), "{failed}");
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
