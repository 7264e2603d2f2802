//! Updates the live line, and always removes it at the end.
//!
//! A thread draws, because drawing may wait: a terminal that is stopped (Ctrl-S) stops this thread
//! and nothing else. While the process itself is stopped (Ctrl-Z) the line is not there.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::surface::{Screen, View, refresh};
use butler_base::event::Phase;
use butler_base::platform::{Change, Changes, Ending, suspend};
use butler_result::timeline::Watcher;

/// How often it is looked whether there is something new to show; seconds are what changes most.
const PACE: Duration = Duration::from_millis(200);

/// How long a terminal that takes nothing may hold up what waits for the line to be gone.
const PATIENCE: Duration = Duration::from_millis(500);

/// A live line; it ends when this is dropped.
#[derive(Debug)]
pub struct Live {
    screen: Screen,
    orders: Sender<Order>,
    gone: Receiver<()>,
    signals: JoinHandle<()>,
}

enum Order {
    /// The terminal may be another one now.
    Draw,
    /// Take the line away until the next order.
    Hide(oneshot::Sender<()>),
    /// Take it away until it may come back.
    Pause(oneshot::Sender<()>),
    /// It may come back.
    Resume,
    /// Take it away for good.
    End,
}

/// Keeps a live line away while something else needs the bottom of the terminal.
#[derive(Clone, Debug)]
pub struct LiveControl(Sender<Order>);

impl LiveControl {
    /// Takes the line away until what is returned is dropped.
    pub async fn pause(&self) -> Paused {
        let (done, hidden) = oneshot::channel();
        if self.0.send(Order::Pause(done)).is_ok() {
            let _ = tokio::time::timeout(PATIENCE, hidden).await;
        }
        Paused(self.0.clone())
    }
}

/// A live line that is kept away.
#[derive(Debug)]
pub struct Paused(Sender<Order>);

impl Drop for Paused {
    fn drop(&mut self) {
        // Where the line has ended there is nothing to bring back.
        let _ = self.0.send(Order::Resume);
    }
}

impl Live {
    /// A live line on `screen`, where it may have one. Must be called where tokio runs.
    #[must_use]
    pub fn start(screen: &Screen) -> Option<Self> {
        if screen.abilities().view != View::Live {
            return None;
        }
        let (orders, ordered) = channel();
        let (going, gone) = channel();
        let shown = screen.clone();
        let thread = std::thread::Builder::new().name("live line".to_owned()).spawn(move || {
            draw(&shown, &ordered);
            // Nobody waits for it any more where it took too long.
            let _ = going.send(());
        });
        if let Err(error) = thread {
            tracing::debug!(%error, "no thread for the live line");
            return None;
        }
        let signals = tokio::spawn(watch_terminal(orders.clone()));
        Some(Self { screen: screen.clone(), orders, gone, signals })
    }

    /// Removes the line before a signal terminates this process, if no other code handles signals.
    pub fn leave_with_signals(&self) {
        for mut ending in Ending::watch() {
            let orders = self.orders.clone();
            tokio::spawn(async move {
                while ending.received().await.is_some() {
                    hide(&orders).await;
                    ending.end();
                }
            });
        }
    }

    /// What can take the line away for a while.
    #[must_use]
    pub fn control(&self) -> LiveControl {
        LiveControl(self.orders.clone())
    }

    /// What tells the line of phases.
    #[must_use]
    pub fn watcher(&self) -> Box<dyn Watcher> {
        Box::new(Phases(self.screen.clone()))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.signals.abort();
        let _ = self.orders.send(Order::End);
        // The line is gone, or the terminal takes nothing and will not show that it is.
        let _ = self.gone.recv_timeout(PATIENCE);
    }
}

/// Draws until the last sender is dropped, and then removes the line.
fn draw(screen: &Screen, orders: &Receiver<Order>) {
    let (mut is_hidden, mut is_paused) = (false, false);
    loop {
        match orders.recv_timeout(PACE) {
            Err(RecvTimeoutError::Timeout) if is_hidden || is_paused => {}
            Ok(Order::Draw) if is_paused => is_hidden = false,
            Err(RecvTimeoutError::Timeout) | Ok(Order::Draw) => {
                is_hidden = false;
                refresh(screen);
            }
            Ok(Order::Pause(done)) => {
                is_paused = true;
                screen.surface().hide();
                let _ = done.send(());
            }
            Ok(Order::Resume) => is_paused = false,
            Ok(Order::Hide(done)) => {
                is_hidden = true;
                screen.surface().hide();
                let _ = done.send(());
            }
            Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    screen.surface().hide();
}

/// Follows what happens to the terminal.
async fn watch_terminal(orders: Sender<Order>) {
    let Some(mut changes) = Changes::watch() else { return };
    while let Some(change) = changes.next().await {
        if change == Change::Suspension {
            hide(&orders).await;
            suspend();
        }
        if orders.send(Order::Draw).is_err() {
            return;
        }
    }
}

/// Has the line taken away. A terminal that takes nothing cannot keep the process from being stopped.
async fn hide(orders: &Sender<Order>) {
    let (done, hidden) = oneshot::channel();
    if orders.send(Order::Hide(done)).is_ok() {
        let _ = tokio::time::timeout(PATIENCE, hidden).await;
    }
}

/// Tells the board of phases.
struct Phases(Screen);

impl Watcher for Phases {
    fn begun(&mut self, phase: Phase) {
        self.0.board().begun(phase, Instant::now());
    }

    fn ended(&mut self, phase: Phase) {
        self.0.board().ended(phase);
    }
}
