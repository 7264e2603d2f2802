//! Registers values as masks of a GitHub Actions job (workflow commands, `add-mask`).
//!
//! A command contains the value in clear text. The platform reads it from the job's standard output and does not
//! show it, so commands are only written to that output, never to the log. The caller of [`Masks::start`] must
//! ensure that the platform reads the output.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest wait for a mask to be written. The platform must read it before a line that contains the value, but
/// an output without a reader must not stop the run.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A command, and the sender for the notice that it is written.
type MaskCommand = (Vec<u8>, SyncSender<()>);

/// Registers masks with the platform. A separate thread writes them.
#[derive(Debug)]
pub struct Masks {
    /// `None` after a command could not be written in time.
    commands: Mutex<Option<Sender<MaskCommand>>>,
    write_timeout: Duration,
}

impl Masks {
    /// Masks that are registered on `output`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(output: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (commands, queue) = channel();
        std::thread::Builder::new()
            .name("masks".to_owned())
            .spawn(move || write_commands(&queue, output))?;
        Ok(Self { commands: Mutex::new(Some(commands)), write_timeout: WRITE_TIMEOUT })
    }

    /// Registers each line of `value`, because the platform masks line by line. Returns when they are
    /// written. If the output is not read in time, this and all further masks are dropped.
    pub fn register(&self, value: &str) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        for line in value.lines().filter(|line| !line.trim().is_empty()) {
            let Some(sender) = &*commands else { return };
            let (done, written) = sync_channel(1);
            let sent = sender.send((command(line), done)).is_ok();
            if !sent || written.recv_timeout(self.write_timeout).is_err() {
                *commands = None;
                tracing::warn!("the job's masks are incomplete: the output is not read");
            }
        }
    }
}

fn write_commands(queue: &Receiver<MaskCommand>, mut output: impl Write) {
    while let Ok((command, done)) = queue.recv() {
        if output.write_all(&command).and_then(|()| output.flush()).is_err() {
            return;
        }
        // The caller may have stopped waiting.
        let _ = done.send(());
    }
}

/// The command for one line, escaped as the platform reads it.
fn command(line: &str) -> Vec<u8> {
    let head = b"::add-mask::";
    let mut command = Vec::with_capacity(head.len() + line.len() + 1);
    command.extend_from_slice(head);
    for byte in line.bytes() {
        match byte {
            b'%' => command.extend_from_slice(b"%25"),
            b'\r' => command.extend_from_slice(b"%0D"),
            byte => command.push(byte),
        }
    }
    command.push(b'\n');
    command
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn each_line_is_registered_and_escaped() {
        let (mut read, written) = std::io::pipe().unwrap();
        let masks = Masks::start(written).unwrap();
        masks.register("hunter22\n\n  50%\rü  \r\nend");
        drop(masks);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "::add-mask::hunter22\n::add-mask::  50%25%0Dü  \n::add-mask::end\n");
    }

    #[test]
    fn mask_is_written_when_its_registration_returns() {
        let (mut read, written) = std::io::pipe().unwrap();
        let masks = Masks::start(written).unwrap();
        masks.register("one");
        // The command is complete, so reading does not block.
        let mut text = [0; 16];
        read.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"::add-mask::one\n");
    }

    #[test]
    fn masks_stop_if_the_output_is_not_read() {
        let (read, written) = std::io::pipe().unwrap();
        let masks = Masks::start(written).unwrap();
        let masks = Masks { write_timeout: Duration::from_millis(1), ..masks };
        // More than the buffer of a pipe.
        masks.register(&"x".repeat(1 << 20));
        assert!(masks.commands.lock().unwrap().is_none());
        masks.register("more");
        drop(read);
        let masks = Masks::start(std::io::pipe().unwrap().1).unwrap();
        masks.register("the reader has gone");
        assert!(masks.commands.lock().unwrap().is_none());
    }
}
