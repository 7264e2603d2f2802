//! Measures the phases of a run, and notifies watchers of them: during the run (groups in a log, a
//! live line, spans of a trace), and at its end (the table of timings).
//!
//! A phase that fails ends too: its [`Span`] ends it when it is dropped. Phases may overlap.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use crate::{PhaseTiming, Timings};
use butler_base::event::Phase;

/// Is notified when phases begin and end, in their order. It must not block, because that would
/// delay the run.
pub trait Watcher: Send {
    /// `phase` has begun.
    fn begun(&mut self, phase: Phase);
    /// `phase` has ended.
    fn ended(&mut self, phase: Phase);
}

/// The phases of one run; clones share it.
#[derive(Clone)]
pub struct Timeline(Arc<Mutex<TimelineState>>);

struct TimelineState {
    started: SystemTime,
    clock: Instant,
    phases: Vec<PhaseTiming>,
    watchers: Vec<Box<dyn Watcher>>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::start()
    }
}

impl std::fmt::Debug for Timeline {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Timeline")
    }
}

impl Timeline {
    /// A run that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(Arc::new(Mutex::new(TimelineState {
            started: SystemTime::now(),
            clock: Instant::now(),
            phases: Vec::new(),
            watchers: Vec::new(),
        })))
    }

    /// Begins `phase`; it ends with the span.
    #[must_use = "the phase ends when this is dropped"]
    pub fn begin(&self, phase: Phase) -> Span {
        let mut state = self.state();
        let start = state.clock.elapsed();
        state.phases.push(PhaseTiming { phase, start, duration: None });
        let index = state.phases.len() - 1;
        for watcher in &mut state.watchers {
            watcher.begun(phase);
        }
        drop(state);
        Span { timeline: self.clone(), index }
    }

    /// Notifies `watcher` from now on, first of the phases that have begun and not ended.
    pub fn watch(&self, mut watcher: Box<dyn Watcher>) {
        let mut state = self.state();
        for timing in state.phases.iter().filter(|timing| timing.duration.is_none()) {
            watcher.begun(timing.phase);
        }
        state.watchers.push(watcher);
    }

    /// Drops all watchers.
    pub fn unwatch(&self) {
        self.state().watchers.clear();
    }

    /// The times up to now.
    #[must_use]
    pub fn timings(&self) -> Timings {
        let state = self.state();
        Timings {
            started: state.started,
            total: state.clock.elapsed(),
            phases: state.phases.clone(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TimelineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A phase that has not ended.
#[derive(Debug)]
pub struct Span {
    timeline: Timeline,
    index: usize,
}

impl Drop for Span {
    fn drop(&mut self) {
        let mut state = self.timeline.state();
        let now = state.clock.elapsed();
        let timing = &mut state.phases[self.index];
        timing.duration = Some(now.saturating_sub(timing.start));
        let phase = timing.phase;
        for watcher in &mut state.watchers {
            watcher.ended(phase);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    struct Recorder(Sender<(bool, Phase)>);

    impl Watcher for Recorder {
        fn begun(&mut self, phase: Phase) {
            self.0.send((true, phase)).unwrap();
        }

        fn ended(&mut self, phase: Phase) {
            self.0.send((false, phase)).unwrap();
        }
    }

    #[test]
    fn watcher_is_notified_of_open_and_later_phases() {
        let timeline = Timeline::start();
        drop(timeline.begin(Phase::Config));
        let source = timeline.begin(Phase::Source);
        let (sender, received) = channel();
        timeline.watch(Box::new(Recorder(sender)));
        let tool = timeline.begin(Phase::Tool);
        drop(source);
        drop(tool);
        timeline.unwatch();
        drop(timeline.begin(Phase::Init));
        let expected = [
            (true, Phase::Source),
            (true, Phase::Tool),
            (false, Phase::Source),
            (false, Phase::Tool),
        ];
        assert_eq!(received.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn timings_have_each_phase_in_its_order_and_the_open_one_without_a_duration() {
        let timeline = Timeline::start();
        drop(timeline.begin(Phase::Config));
        let _open = timeline.begin(Phase::Plan);
        let timings = timeline.timings();
        let phases: Vec<_> =
            timings.phases.iter().map(|timing| (timing.phase, timing.duration.is_some())).collect();
        assert_eq!(phases, [(Phase::Config, true), (Phase::Plan, false)]);
        assert!(timings.total >= timings.phases[1].start);
    }
}
