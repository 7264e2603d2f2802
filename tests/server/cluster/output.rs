//! The output of a command, at its end or while it runs.

use std::process::Output;

use butler_testing::world::TOKEN;

/// The output of a command.
#[derive(Debug)]
pub(super) struct ClusterOutput {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl ClusterOutput {
    pub(super) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let said = Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        assert!(!format!("{said:?}").contains(TOKEN), "the token shows: {said:?}");
        said
    }

    /// Asserts that standard error contains this.
    #[track_caller]
    pub(super) fn says(&self, text: &str) {
        assert!(self.stderr.contains(text), "it does not say `{text}`: {self:#?}");
    }

    /// Asserts that standard error ends with this.
    #[track_caller]
    pub(super) fn ends_with(&self, text: &str) {
        assert!(self.stderr.ends_with(text), "it does not end with `{text}`: {self:#?}");
    }

    /// The number of lines on standard error that contain this.
    pub(super) fn count(&self, text: &str) -> usize {
        self.stderr.lines().filter(|line| line.contains(text)).count()
    }
}

/// A stream that is read while the process runs.
pub(super) struct StreamReader {
    lines: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStderr>>,
    seen: String,
}

impl StreamReader {
    pub(super) fn of(stream: tokio::process::ChildStderr) -> Self {
        use tokio::io::AsyncBufReadExt;
        Self { lines: tokio::io::BufReader::new(stream).lines(), seen: String::new() }
    }

    /// Reads until a line contains this.
    pub(super) async fn until(&mut self, text: &str) {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            self.seen.push_str(&line);
            self.seen.push('\n');
            if line.contains(text) {
                return;
            }
        }
        panic!("it never said `{text}`: {}", self.seen);
    }

    pub(super) async fn rest(mut self) -> String {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            self.seen.push_str(&line);
            self.seen.push('\n');
        }
        self.seen
    }
}
