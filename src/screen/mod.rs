//! The terminal of a user: its abilities, its lines, the live line, and the summary of a run.
//!
//! One [`Screen`] owns the terminal. Lines of children, lines of the runner's own log and the live line at the bottom
//! use one lock, so that lines are not mixed up. A write may block for as long as the terminal is stopped, so code
//! that executes a run must not take this lock. The text of the live line has a separate lock, and code that holds it
//! does not write.

mod live;
mod paint;
mod progress;
mod summary;
mod surface;
mod text;

pub use live::{Live, LiveControl, Paused};
pub use summary::{Ending, ending};
pub use surface::{Abilities, Screen, View};
