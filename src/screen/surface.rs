//! The one owner of the terminal: writes lines above the live line, and the live line below them.
//!
//! The cursor stays at the beginning of the live line, so that output of other programs overwrites the line. Each
//! change is one write, with the lock held.

use std::io::{IsTerminal, LineWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::paint::Painter;
use super::progress::Board;
use super::text::width;
use butler_base::event::Stream;
use butler_base::platform::is_in_foreground;

/// Moves to the beginning of the line and clears the screen below, because a terminal that became narrower wraps the
/// line.
const ERASE: &str = "\r\x1b[J";

/// The width of a terminal whose width is unknown.
const USUAL_WIDTH: usize = 80;

/// The kind of output in addition to lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum View {
    /// None: lines only.
    #[default]
    Lines,
    /// A live line, and a summary for users.
    Live,
}

/// The abilities of the two outputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Abilities {
    /// Whether Terraform's lines on standard output are coloured.
    pub colours_on_stdout: bool,
    /// Whether Terraform's lines and the runner's output on standard error are coloured.
    pub colours_on_stderr: bool,
    /// The additional output on standard error.
    pub view: View,
}

/// The terminal of this process; clones share it.
#[derive(Clone)]
pub struct Screen(Arc<Shared>);

struct Shared {
    abilities: Abilities,
    /// Held during a write, which may block without a limit.
    surface: Mutex<Surface>,
    /// The text of the live line. Code that holds this lock does not write to the terminal.
    board: Mutex<Board>,
}

/// The content of the terminal's bottom.
pub(super) struct Surface {
    /// Whether standard output is the terminal with the live line.
    stdout_is_here: bool,
    /// The live line and its width in columns; empty if there is no live line.
    live: String,
    columns: usize,
    /// Whether the live line is drawn.
    is_drawn: bool,
    /// Whether the line above is incomplete. The live line is not drawn until it ends.
    is_open: bool,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Screen").field(&self.0.abilities).finish()
    }
}

impl Default for Screen {
    /// The outputs of this process, without the abilities of a terminal.
    fn default() -> Self {
        Self::of_process(Abilities::default())
    }
}

impl Screen {
    /// The outputs of this process with these abilities.
    #[must_use]
    pub fn of_process(abilities: Abilities) -> Self {
        let surface = Surface {
            stdout_is_here: std::io::stdout().is_terminal(),
            live: String::new(),
            columns: 0,
            is_drawn: false,
            is_open: false,
        };
        Self(Arc::new(Shared {
            abilities,
            surface: Mutex::new(surface),
            board: Mutex::new(Board::default()),
        }))
    }

    /// The abilities of the outputs.
    #[must_use]
    pub fn abilities(&self) -> Abilities {
        self.0.abilities
    }

    /// The writer for lines of children. It writes complete lines, with colours if possible, above the live line.
    #[must_use]
    pub fn lines(&self, stream: Stream) -> Box<dyn Write + Send> {
        let coloured = match stream {
            Stream::Stdout => self.0.abilities.colours_on_stdout,
            Stream::Stderr => self.0.abilities.colours_on_stderr,
        };
        let painter = coloured.then(Painter::default);
        let watched = self.0.abilities.view == View::Live;
        Box::new(LineWriter::new(Lines { writer: self.writer(stream), painter, watched }))
    }

    /// The writer for other output above the live line.
    #[must_use]
    pub fn writer(&self, stream: Stream) -> Writer {
        Writer { screen: self.clone(), stream }
    }

    /// The width of the terminal, in columns.
    #[must_use]
    pub fn width(&self) -> usize {
        let size = terminal_size::terminal_size_of(std::io::stderr());
        size.map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0)).max(1)
    }

    /// Shows `note` in the live line, or removes it.
    pub fn note(&self, note: Option<String>) {
        self.board().note = note;
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.0.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn surface(&self) -> MutexGuard<'_, Surface> {
        self.0.surface.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Surface {
    /// Draws `line` at the bottom. It must be shorter than the `width` of the terminal.
    pub(super) fn show(&mut self, line: &str, columns: usize) {
        if self.is_drawn && self.live == line {
            return;
        }
        line.clone_into(&mut self.live);
        self.columns = columns;
        let text = format!("{}{}", self.erased(), self.drawn());
        self.put(&text);
    }

    /// Removes the live line until the next one is drawn.
    pub(super) fn hide(&mut self) {
        self.live.clear();
        let text = self.erased();
        self.put(text);
    }

    /// Writes `text` above the live line.
    fn write(&mut self, stream: Stream, text: &[u8]) -> std::io::Result<()> {
        let is_here = stream == Stream::Stderr || self.stdout_is_here;
        let mut all = Vec::with_capacity(text.len() + 256);
        if is_here {
            all.extend_from_slice(self.erased().as_bytes());
            self.is_open = !text.ends_with(b"\n");
        }
        all.extend_from_slice(text);
        if is_here {
            all.extend_from_slice(self.drawn().as_bytes());
        }
        let written = put(stream, &all);
        if written.is_err() {
            self.is_drawn = false;
        }
        written
    }

    /// The escape sequence that removes the live line; empty if it is not drawn.
    fn erased(&mut self) -> &'static str {
        if std::mem::take(&mut self.is_drawn) { ERASE } else { "" }
    }

    /// The text that draws the live line; empty if it does not fit or the process is in the background.
    fn drawn(&mut self) -> String {
        if self.live.is_empty() || self.is_open || !self.fits() || !is_in_foreground() {
            return String::new();
        }
        self.is_drawn = true;
        format!("\x1b[0m{}\r", self.live)
    }

    /// Whether the terminal still has the width for which the line was created.
    fn fits(&self) -> bool {
        let size = terminal_size::terminal_size_of(std::io::stderr());
        size.is_none_or(|(width, _)| self.columns < usize::from(width.0))
    }

    fn put(&mut self, text: &str) {
        // The terminal may not exist any more; an error has no consequence.
        if !text.is_empty() && put(Stream::Stderr, text.as_bytes()).is_err() {
            self.is_drawn = false;
        }
    }
}

fn put(stream: Stream, text: &[u8]) -> std::io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(text).and_then(|()| stdout.flush())
        }
        Stream::Stderr => std::io::stderr().lock().write_all(text),
    }
}

/// A writer above the live line.
#[derive(Debug)]
pub struct Writer {
    screen: Screen,
    stream: Stream,
}

impl Write for Writer {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.screen.surface().write(self.stream, text)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A writer for lines of children, which also updates the progress.
struct Lines {
    writer: Writer,
    painter: Option<Painter>,
    watched: bool,
}

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        // A part of a long line that is not valid UTF-8 is written unchanged.
        let Ok(lines) = std::str::from_utf8(text) else { return self.writer.write(text) };
        if self.watched {
            let mut board = self.writer.screen.board();
            for line in lines.lines() {
                board.progress.see(line);
            }
        }
        match &mut self.painter {
            Some(painter) => self.writer.write_all(painter.paint(lines).as_bytes())?,
            None => self.writer.write_all(text)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

/// The usable columns of `width`: some terminals wrap a line that uses the last column.
pub(super) fn room(width: usize) -> usize {
    width.saturating_sub(1)
}

/// Draws the current content of the board.
pub(super) fn refresh(screen: &Screen) {
    let columns = room(screen.width());
    let line = screen.board().line(std::time::Instant::now(), columns);
    let taken = width(&line.plain());
    let shown = if screen.abilities().colours_on_stderr { line.coloured() } else { line.plain() };
    let mut surface = screen.surface();
    if shown.is_empty() { surface.hide() } else { surface.show(&shown, taken) }
}
