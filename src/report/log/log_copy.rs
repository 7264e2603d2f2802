//! Copies a run's log for its page (`--report`).

use std::io::Result;
use std::path::PathBuf;

use butler_result::LogCopy;

use super::spool::Receiver;

/// The number of lines that are collected before they are written, to avoid a wake-up for each line.
const LINES: usize = 500;

/// The same in bytes.
const BYTES: usize = 64 * 1024;

/// Copies all lines of `receiver` into unnamed files in `directory`.
///
/// # Errors
/// If a file cannot be created or written.
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
    async fn copy_contains_all_lines_and_its_files_have_no_name() {
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
