//! Registers values as masks of a GitHub Actions job (workflow commands, `add-mask`).
//!
//! A command holds the value in clear: the platform reads it from the job's standard output and
//! does not show it. So commands are only written to that output, never to the log. The caller of
//! [`Masks::start`] must ensure that the platform reads the output.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use zeroize::Zeroizing;

/// How long the run waits until a mask is written: it must be known before anything is printed
/// that it applies to, but an output without a reader must not stop the run.
const PATIENCE: Duration = Duration::from_secs(5);

/// A command, and who waits for it to be written.
type MaskCommand = (Zeroizing<Vec<u8>>, SyncSender<()>);

/// The way to the platform; a thread of its own writes.
#[derive(Debug)]
pub struct Masks {
    /// None once a command could not be written in time.
    orders: Mutex<Option<Sender<MaskCommand>>>,
    patience: Duration,
}

impl Masks {
    /// Masks that are registered on `output`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(output: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (orders, waiting) = channel();
        std::thread::Builder::new()
            .name("masks".to_owned())
            .spawn(move || write_commands(&waiting, output))?;
        Ok(Self { orders: Mutex::new(Some(orders)), patience: PATIENCE })
    }

    /// Registers each line of `value`, because the platform masks line by line. Returns when they are
    /// written. If the output is not read in time, this and all further masks are dropped.
    pub fn register(&self, value: &str) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        for line in value.lines().filter(|line| !line.trim().is_empty()) {
            let Some(sender) = &*orders else { return };
            let (done, written) = sync_channel(1);
            let sent = sender.send((command(line), done)).is_ok();
            if !sent || written.recv_timeout(self.patience).is_err() {
                *orders = None;
                tracing::warn!("the job's masks are incomplete: the output is not read");
            }
        }
    }
}

fn write_commands(orders: &Receiver<MaskCommand>, mut output: impl Write) {
    while let Ok((command, done)) = orders.recv() {
        if output.write_all(&command).and_then(|()| output.flush()).is_err() {
            return;
        }
        // The caller may have stopped waiting.
        let _ = done.send(());
    }
}

/// The command for one line, escaped as the platform reads it.
fn command(line: &str) -> Zeroizing<Vec<u8>> {
    let head = b"::add-mask::";
    let mut command = Zeroizing::new(Vec::with_capacity(head.len() + 3 * line.len() + 1));
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
    fn each_line_is_registered_in_the_way_that_the_platform_reads() {
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
        // Nothing else is written before, so this cannot wait for more.
        let mut text = [0; 16];
        read.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"::add-mask::one\n");
    }

    #[test]
    fn masks_stop_if_the_output_is_not_read() {
        let (read, written) = std::io::pipe().unwrap();
        let masks = Masks::start(written).unwrap();
        let masks = Masks { patience: Duration::from_millis(1), ..masks };
        // More than a pipe takes.
        masks.register(&"x".repeat(1 << 20));
        assert!(masks.orders.lock().unwrap().is_none());
        masks.register("more");
        drop(read);
        let masks = Masks::start(std::io::pipe().unwrap().1).unwrap();
        masks.register("the reader has gone");
        assert!(masks.orders.lock().unwrap().is_none());
    }
}
