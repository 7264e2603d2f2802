//! The terminal of a user: what it can do, who may write on it, and what it shows
//! beside the lines.
//!
//! One [`Screen`] owns it. Lines of children, lines of the runner's own log and the live line at the
//! bottom all go through its one lock, so that none is torn and none stands behind the live line.
//! Writing may wait, as long as the terminal is stopped; so nothing that carries a run out ever
//! takes that lock: what the live line is to say is told under another, which nobody writes under.

mod live;
mod paint;
mod progress;
mod summary;
mod surface;
mod text;

pub use live::{Live, LiveControl, Paused};
pub use summary::{Ending, ending};
pub use surface::{Abilities, Screen, View};
