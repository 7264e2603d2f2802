//! Reads lines of the tool that are about its lock: work under the lock, its release, and the error about the
//! lock of another command.
//!
//! Not all backends report the holder of a lock: `http` reports the holder's id and `pg` nothing. Both print
//! the details of *this* command as if it were the holder, so these details are ignored.

use butler_protocol::backend::{Holder, StateLock};

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

/// Reads the holder of a lock from the tool's standard error.
#[derive(Debug, Default)]
pub(in crate::engine) struct LockMessage {
    /// Whether the lines belong to the error.
    within: bool,
    /// Whether the state is locked. If not, it cannot be locked for another reason.
    locked: bool,
    /// Whether the details describe this command and not the holder.
    details_are_own: bool,
    /// The holder's id, if it is printed outside of the details.
    named: Option<String>,
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
        if text.ends_with("Error acquiring the state lock") {
            *self = Self { within: true, ..Self::default() };
        } else if !self.within {
            return;
        }
        if text.ends_with("acquires a state lock to protect the state from being written") {
            self.within = false;
            return;
        }
        self.details_are_own |= text.contains("Workspace is already locked")
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

    /// The lock, if the state is locked.
    pub(in crate::engine) fn lock(self) -> Option<StateLock> {
        self.locked.then_some(())?;
        let is_credible = !self.details_are_own && (self.named.is_none() || self.named == self.id);
        if !is_credible {
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
        let pg = message("Workspace is already locked: default", "mine");
        assert_eq!(read(&pg), Some(StateLock::default()));
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
