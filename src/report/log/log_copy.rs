//! Copies a run's log for its page, off the path of the upload.

use std::io::Result;
use std::path::PathBuf;

use butler_result::LogCopy;

use super::spool::Receiver;

/// How many lines are collected before the copy is written, to avoid a wake-up per line.
const LINES: usize = 500;

/// How many bytes are.
const BYTES: usize = 64 * 1024;

/// Keeps what comes out of `receiver`, up to its end, in files in `directory` that have no name.
///
/// # Errors
/// When such a file cannot be made or written.
pub async fn copy_log(mut receiver: Receiver, directory: PathBuf) -> Result<LogCopy> {
    let mut copy = LogCopy::create(&directory)?;
    let mut written = Ok(());
    while written.is_ok() && receiver.ready(LINES, BYTES).await {
        receiver.take_while(|entry| {
            written = copy.add(entry);
            written.is_ok()
        });
    }
    written.map(|()| copy)
}

#[cfg(test)]
mod tests {
    use butler_base::event::{LogLineRef, Stream};

    use super::*;
    use crate::report::channel;

    #[tokio::test]
    async fn a_log_is_kept_as_it_is_and_leaves_no_name_behind() {
        let directory = tempfile::tempdir().unwrap();
        let (sender, receiver) = channel(1024, directory.path().join("spool"));
        let long = "ä".repeat(16 * 1024);
        for (sequence, content) in [(1, "one"), (2, ""), (3, " two  "), (4, long.as_str())] {
            sender.send(LogLineRef { sequence, stream: Stream::Stderr, content });
        }
        drop(sender);
        let mut copy = copy_log(receiver, directory.path().to_owned()).await.unwrap();
        let mut lines = Vec::new();
        copy.each(|line| {
            lines.push((line.sequence, line.content.to_owned()));
            Ok(())
        })
        .unwrap();
        assert_eq!(lines[..3], [(1, "one".into()), (2, String::new()), (3, " two  ".into())]);
        assert!(lines[3].1.len() < 16 * 1024 + 40 && lines[3].1.ends_with("ä… (16384 more bytes)"));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
