//! Updates the live line, and always removes it at the end.
//!
//! A separate thread draws, because a terminal that is stopped (Ctrl-S) blocks writes. While the process itself is
//! suspended (Ctrl-Z), the line is removed.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::surface::{Screen, View, refresh};
use butler_base::event::Phase;
use butler_base::platform::{Change, Changes, Ending, suspend};
use butler_result::timeline::Watcher;

/// The interval at which the line is drawn; the shown seconds change most often.
const PACE: Duration = Duration::from_millis(200);

/// How long callers wait for the removal of the line if the terminal is blocked.
const PATIENCE: Duration = Duration::from_millis(500);

/// A live line. Dropping it removes the line.
#[derive(Debug)]
pub struct Live {
    screen: Screen,
    orders: Sender<Order>,
    gone: Receiver<()>,
    signals: JoinHandle<()>,
}

enum Order {
    /// The size of the terminal may have changed.
    Draw,
    /// Remove the line until the next order.
    Hide(oneshot::Sender<()>),
    /// Remove the line until `Resume`.
    Pause(oneshot::Sender<()>),
    /// Draw the line again.
    Resume,
    /// Remove the line permanently.
    End,
}

/// Pauses a live line while other code writes to the bottom of the terminal.
#[derive(Clone, Debug)]
pub struct LiveControl(Sender<Order>);

impl LiveControl {
    /// Removes the line until the returned guard is dropped.
    pub async fn pause(&self) -> Paused {
        let (done, hidden) = oneshot::channel();
        if self.0.send(Order::Pause(done)).is_ok() {
            let _ = tokio::time::timeout(PATIENCE, hidden).await;
        }
        Paused(self.0.clone())
    }
}

/// The guard of a paused live line.
#[derive(Debug)]
pub struct Paused(Sender<Order>);

impl Drop for Paused {
    fn drop(&mut self) {
        // Fails if the line has ended, and then there is nothing to draw.
        let _ = self.0.send(Order::Resume);
    }
}

impl Live {
    /// Starts a live line on `screen`; `None` if the screen does not support one. Must be called in a tokio runtime.
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
            // Fails if the receiver has stopped waiting.
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

    /// A handle that pauses the line.
    #[must_use]
    pub fn control(&self) -> LiveControl {
        LiveControl(self.orders.clone())
    }

    /// The notation that passes phases to the line.
    #[must_use]
    pub fn watcher(&self) -> Box<dyn Watcher> {
        Box::new(Phases(self.screen.clone()))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.signals.abort();
        let _ = self.orders.send(Order::End);
        // Either the line was removed, or the terminal is blocked.
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

/// Handles the events of the terminal.
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

/// Removes the line. A blocked terminal must not keep the process from being suspended, so the wait is limited.
async fn hide(orders: &Sender<Order>) {
    let (done, hidden) = oneshot::channel();
    if orders.send(Order::Hide(done)).is_ok() {
        let _ = tokio::time::timeout(PATIENCE, hidden).await;
    }
}

/// Passes phases to the board.
struct Phases(Screen);

impl Watcher for Phases {
    fn begun(&mut self, phase: Phase) {
        self.0.board().begun(phase, Instant::now());
    }

    fn ended(&mut self, phase: Phase) {
        self.0.board().ended(phase);
    }
}
