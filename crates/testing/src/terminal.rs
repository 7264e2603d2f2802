//! A pseudo terminal with the visible screen and a keyboard.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

use nix::pty::{Winsize, openpty};
use tokio::process::{Child, Command};

use super::world::{eventually, wrapped};

/// Ctrl-C.
pub const INTERRUPT: u8 = 0x03;
/// Ctrl-Z.
pub const SUSPEND: u8 = 0x1a;
/// Ctrl-S.
pub const STOP_OUTPUT: u8 = 0x13;

/// A terminal that renders its output.
pub struct Terminal {
    keyboard: File,
    slave: OwnedFd,
    seen: Arc<Mutex<TerminalState>>,
}

struct TerminalState {
    emulator: vt100::Parser,
    raw: Vec<u8>,
}

impl Terminal {
    /// A terminal of this size.
    pub fn new(rows: u16, columns: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let emulator = vt100::Parser::new(rows, columns, 0);
        let seen = Arc::new(Mutex::new(TerminalState { emulator, raw: Vec::new() }));
        let (shown, mut master) = (seen.clone(), File::from(pty.master.try_clone().unwrap()));
        // It ends with the terminal: reading fails when the other side is closed.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                let mut seen = shown.lock().unwrap();
                seen.emulator.process(&bytes[..count]);
                seen.raw.extend_from_slice(&bytes[..count]);
            }
        });
        Self { keyboard: pty.master.into(), slave: pty.slave, seen }
    }

    /// One end of it for a child.
    pub fn end(&self) -> Stdio {
        self.slave.try_clone().unwrap().into()
    }

    /// Starts `job` in a new session with this as its terminal.
    pub fn start(&self, job: &Command) -> Child {
        self.command(job).spawn().unwrap()
    }

    /// The same, not started yet.
    pub fn command(&self, job: &Command) -> Command {
        let mut command = wrapped(job, &["setsid", "--ctty"]);
        command.env("TERM", "xterm-256color");
        command.envs(job.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(self.end()).stdout(self.end()).stderr(self.end());
        command
    }

    /// Presses a key.
    pub fn press(&self, key: u8) {
        (&self.keyboard).write_all(&[key]).unwrap();
    }

    /// Resizes the window to this width and clears it.
    pub fn resize(&self, columns: u16) {
        let mut stty = std::process::Command::new("stty");
        let status = stty.args(["cols", &columns.to_string()]).stdin(self.end()).status();
        assert!(status.unwrap().success());
        // Terminals treat existing lines differently on a resize; this one clears them.
        let mut seen = self.seen.lock().unwrap();
        let rows = seen.emulator.screen().size().0;
        seen.emulator = vt100::Parser::new(rows, columns, 0);
    }

    /// The visible text, line by line.
    pub fn text(&self) -> String {
        self.seen.lock().unwrap().emulator.screen().contents()
    }

    /// The number of rows with text; a long line has several.
    pub fn rows(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        let screen = seen.emulator.screen();
        screen.rows(0, screen.size().1).filter(|row| !row.trim().is_empty()).count()
    }

    /// The last visible line.
    pub fn last_line(&self) -> String {
        self.text().lines().last().unwrap_or_default().to_owned()
    }

    /// The raw output.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().raw).into_owned()
    }

    /// The colour of the first letter of the first `text` on the screen.
    pub fn colour_of(&self, text: &str) -> vt100::Color {
        let seen = self.seen.lock().unwrap();
        let screen = seen.emulator.screen();
        let rows: Vec<String> = screen.rows(0, screen.size().1).collect();
        let row = rows.iter().position(|row| row.contains(text)).expect(text);
        let column = rows[row].find(text).unwrap();
        let place = |number| u16::try_from(number).unwrap();
        screen.cell(place(row), place(column)).unwrap().fgcolor()
    }

    /// Waits until `condition` holds for the screen.
    pub async fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let so = std::panic::AssertUnwindSafe(eventually(what, || is_so(&self.text())));
        let came = futures_util::FutureExt::catch_unwind(so).await.is_ok();
        assert!(came, "the terminal never showed {what}:\n{}", self.text());
    }

    /// Waits until the child has ended and its output is complete.
    pub async fn finish(&self, mut child: Child) -> Output {
        let status: ExitStatus = child.wait().await.unwrap();
        self.wait_until_rendered().await;
        Output { status, stdout: Vec::new(), stderr: self.raw().into_bytes() }
    }

    /// Waits until all output so far is rendered.
    async fn wait_until_rendered(&self) {
        let mark = "\u{1b}]7;end\u{7}";
        let before = self.raw().matches(mark).count();
        File::from(self.slave.try_clone().unwrap()).write_all(mark.as_bytes()).unwrap();
        eventually("the end of the output", || self.raw().matches(mark).count() > before).await;
    }
}
