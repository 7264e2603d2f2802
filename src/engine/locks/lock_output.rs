//! Reads lines of the tool that are about its lock: work under the lock, its release, and the error about the
//! lock of another command.
//!
//! Not all backends report the holder of a lock: `http` reports the holder's id or nothing, `pg` nothing, and HCP
//! Terraform the workspace. They print the details of *this* command as if it were the holder. So details are
//! ignored if they can be those of the command itself: of this machine, and from a time after its start.

use std::time::SystemTime;

use super::trace::{own_name, parse_time};
use crate::engine::failures::locking::says_that_lock_is_held;
use butler_protocol::backend::{Holder, StateLock};

/// The longest message of a backend that is read, in bytes.
const MAX_MESSAGE: usize = 16 * 1024;

/// Parts of the messages of backends that never report the holder.
const SILENT: [&str; 3] = [
    "Workspace is already locked",
    "lready locked for workspace creation",
    "failed to unmarshal body",
];

/// Whether `line` shows that the command works, which it does only while it holds its lock.
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
    // Most lines of a plan do not have a colon.
    memchr::memchr_iter(b':', line).any(|colon| {
        let (before, after) = line.split_at(colon);
        WORK.iter().any(|work| after.starts_with(work.as_bytes()))
            || (before.ends_with(b" (local-exec)") && after.starts_with(b": "))
    })
}

/// Whether `line` shows that the command is complete and releases its lock.
pub(in crate::engine) fn shows_end(line: &[u8]) -> bool {
    line.starts_with(b"Apply complete!") || line.starts_with(b"Releasing state lock.")
}

/// The id of the command's own lock in a line of the error that the state cannot be stored: the `http`
/// backend prints its address, which contains `?ID=` and a UUID.
pub(in crate::engine) fn lock_id_in_address(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let (_, rest) = text.split_once("?ID=").or_else(|| text.split_once("&ID="))?;
    let end = rest.find(|c: char| !(c.is_ascii_hexdigit() || c == '-')).unwrap_or(rest.len());
    let id = &rest[..end];
    let parts = id.split('-').map(str::len);
    parts.eq([8, 4, 4, 4, 12]).then(|| id.to_owned())
}

/// The command that printed an error about a lock.
#[derive(Clone, Debug)]
pub(in crate::engine) struct LockSeeker {
    /// This machine's `user@host`.
    pub(in crate::engine) who: Option<String>,
    /// When the command was started.
    pub(in crate::engine) begun: SystemTime,
}

impl LockSeeker {
    /// A command that is started now.
    pub(in crate::engine) fn now() -> Self {
        Self { who: own_name(), begun: SystemTime::now() }
    }
}

/// Reads the holder of a lock from the tool's standard error.
#[derive(Debug, Default)]
pub(in crate::engine) struct LockMessage {
    /// Whether the lines belong to the error.
    within: bool,
    /// The message of the backend, in one line.
    message: String,
    /// Whether the details of a lock are printed.
    has_details: bool,
    id: Option<String>,
    who: Option<String>,
    operation: Option<String>,
    created: Option<String>,
}

impl LockMessage {
    pub(in crate::engine) fn read(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        // If colours are enabled, the tool draws a frame around errors.
        let text = text.trim_matches(|character: char| {
            character.is_whitespace() || matches!(character, '│' | '╷' | '╵')
        });
        if let Some(message) = beginning(text) {
            *self = Self { within: true, message: message.to_owned(), ..Self::default() };
            return;
        }
        if !self.within {
            return;
        }
        if text.contains(" acquires a state lock to protect") || text.starts_with("Error: ") {
            self.within = false;
            return;
        }
        if text == "Lock Info:" {
            self.has_details = true;
            return;
        }
        if !self.has_details {
            if self.message.len() < MAX_MESSAGE {
                self.message.push(' ');
                self.message.push_str(&text[..text.floor_char_boundary(MAX_MESSAGE)]);
            }
            return;
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

    /// The lock, if the state is locked. The details of the lock are the holder's only if they cannot be those
    /// of the command itself.
    pub(in crate::engine) fn lock(self, seeker: &LockSeeker) -> Option<StateLock> {
        let named = self.named_id();
        let is_own = self.has_own_details(named.as_deref(), seeker);
        let is_held = says_that_lock_is_held(&self.message) || (self.has_details && !is_own);
        is_held.then_some(())?;
        if is_own || !self.has_details {
            return Some(StateLock { id: named, holder: None });
        }
        let holder = match (self.who, self.operation, self.created) {
            (Some(who), Some(operation), Some(created)) => Some(Holder { who, operation, created }),
            _ => None,
        };
        Some(StateLock { id: self.id, holder })
    }

    /// The holder's id in the message of a backend that also prints details: `http` prints `ID=` and the id,
    /// HCP Terraform `lock ID:` and the workspace, which is the id that `force-unlock` takes.
    fn named_id(&self) -> Option<String> {
        let after = |mark: &str| Some(self.message.split_once(mark)?.1);
        let id = after("(lock ID: \"").and_then(|rest| rest.split('"').next());
        let id = id.or_else(|| after(" ID=").and_then(|rest| rest.split_whitespace().next()));
        id.filter(|id| !id.is_empty()).map(str::to_owned)
    }

    /// Whether the details describe the command that could not get the lock.
    fn has_own_details(&self, named: Option<&str>, seeker: &LockSeeker) -> bool {
        if !self.has_details {
            return false;
        }
        if named.is_some_and(|named| self.id.as_deref() != Some(named)) {
            return true;
        }
        let is_silent = SILENT.iter().any(|text| self.message.contains(text));
        // A run can give its tools a user of their own, so only the machine is compared.
        let machine = |who: &str| who.rsplit_once('@').map(|(_, machine)| machine.to_owned());
        let is_of_machine =
            self.who.as_deref().and_then(machine) == seeker.who.as_deref().and_then(machine);
        let is_new = self.created.as_deref().and_then(parse_time);
        is_silent || is_of_machine && is_new.is_some_and(|created| created >= seeker.begun)
    }
}

/// The message behind the beginning of an error about a lock, if `text` is the beginning of one.
fn beginning(text: &str) -> Option<&str> {
    const BEGINNINGS: [&str; 3] =
        ["Error acquiring the state lock", "failed to lock ", "Error locking state: "];
    let text = text.strip_prefix("Error: ").unwrap_or(text);
    BEGINNINGS.iter().find_map(|beginning| text.strip_prefix(beginning))
}

#[cfg(test)]
mod tests {
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
        read_as("alice@elsewhere", text)
    }

    /// By a command of `who` that was started before all locks of the tests.
    fn read_as(who: &str, text: &str) -> Option<StateLock> {
        let mut message = LockMessage::default();
        text.lines().for_each(|line| message.read(line.as_bytes()));
        let begun = humantime::parse_rfc3339("2026-01-01T09:00:00Z").unwrap();
        message.lock(&LockSeeker { who: Some(who.to_owned()), begun })
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
    fn holder_is_read_from_the_messages_of_each_backend() {
        for (kind, id) in [
            // s3: the output of Terraform 1.11.4 for both kinds of locks, with its line breaks. kubernetes, gcs
            // and azurerm: the texts in Terraform's source.
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
        // A missing permission to write the lock file is not a lock.
        let refused = "Error: Error acquiring the state lock\n\nError message: operation error S3: \
            PutObject, https response error\nStatusCode: 403, api error AccessDenied: Access Denied\n\
            unable to retrieve file from S3 bucket 'states' with key 'a.tflock'";
        assert_eq!(read(refused), None);
    }

    #[test]
    fn own_details_are_not_reported_as_those_of_the_holder() {
        let id = |id: &str| StateLock { id: Some(id.to_owned()), holder: None };
        let http = message("HTTP remote state already locked:\n│ ID=theirs", "mine");
        assert_eq!(read(&http), Some(id("theirs")));
        let repaired = message("HTTP remote state already locked:\n│ ID=theirs", "theirs");
        assert!(read(&repaired).unwrap().holder.is_some());
        for silent in [
            "Workspace is already locked: default",
            "Already locked for workspace creation: default",
            "Cannot lock workspace; already locked for workspace creation:\n│ default",
            "HTTP remote state already locked, failed to unmarshal body",
            "HTTP remote state already locked, failed to read body",
        ] {
            // The command's own details are recognised by the machine and the time, and those of some
            // backends also by the message.
            assert_eq!(read_as("alice@host", &message(silent, "mine")), Some(StateLock::default()));
        }
        let unnamed = "Error: Error acquiring the state lock\n\nError message: HTTP remote state already \
            locked, failed to unmarshal body\n\nTerraform acquires a state lock to protect";
        assert_eq!(read(unnamed), Some(StateLock::default()));
        let cloud = message("workspace already locked (lock ID: \"org/network\")", "mine");
        for who in ["alice@host", "alice@elsewhere"] {
            assert_eq!(read_as(who, &cloud), Some(id("org/network")));
        }
    }

    #[test]
    fn lock_that_cannot_be_asked_for_is_not_held() {
        for failure in [
            "dial tcp 10.0.0.1:5432: connect: connection refused",
            "pq: permission denied for table states",
            "pq: relation \"team.states\" does not exist",
            "resource not found",
        ] {
            assert_eq!(read_as("root@host", &message(failure, "mine")), None, "{failure}");
        }
    }

    #[test]
    fn lock_of_this_machine_from_before_the_command_is_that_of_a_holder() {
        let early =
            message("state blob is already locked", "theirs").replace("10:00:00.5", "08:59:59.9");
        assert!(read_as("alice@host", &early).unwrap().holder.is_some());
        assert_eq!(read_as("alice@host", &early.replace("08:", "10:")), Some(StateLock::default()));
    }

    #[test]
    fn lock_that_stops_init_is_read() {
        let text = message("x", "theirs").replace(
            "Error acquiring the state lock\n│ \n│ Error message: x",
            "failed to lock s3 state: operation error DynamoDB: PutItem, ConditionalCheckFailedException: failed",
        );
        assert_eq!(read(&text).unwrap().id.as_deref(), Some("theirs"));
    }

    #[test]
    fn lock_id_in_an_address_must_be_complete() {
        let id = "a66115e6-2f0d-5775-71cb-1df559258735";
        for line in [
            format!("http://127.0.0.1/s?ID={id} giving up"),
            format!("\"https://host/s?x=1&ID={id}\": EOF"),
        ] {
            assert_eq!(lock_id_in_address(line.as_bytes()).as_deref(), Some(id), "{line}");
        }
        for line in [format!("ID={id}"), format!("?ID={}", &id[1..]), "?ID=".to_owned()] {
            assert_eq!(lock_id_in_address(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn work_is_distinguished_from_waiting() {
        for line in ["a.b[0]: Creating...", "a: Refreshing state... [id=1]", "a (local-exec): hi"] {
            assert!(shows_work(line.as_bytes()), "{line}");
        }
        let waiting = b"Acquiring state lock. This may take a few moments...";
        assert!(!shows_work(waiting) && !shows_end(waiting));
        assert!(shows_end(b"Apply complete! Resources: 1 added, 0 changed, 0 destroyed."));
    }
}
