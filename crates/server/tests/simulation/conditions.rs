//! What a start depends on outside of a layer: windows, the breaker, the disk, and how many attempts
//! were started in the last minute.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use butler_server::controller::Limits;
use butler_server::model::{Action, Breaker, Cause, Moment, Run};
use butler_server::store::Store;
use butler_server::windows::Window;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::ops::Scenario;
use crate::world::{World, now};

/// The time in which starts are counted, in seconds.
const MINUTE: u64 = 60;

/// What the server that acts knows, and what an administrator has configured.
#[derive(Debug)]
pub(crate) struct Conditions {
    /// The begin and the end of each layer's window.
    windows: Vec<(Moment, Moment)>,
    disk_is_full: bool,
    starts_per_minute: u32,
    /// The most attempts at the same time.
    concurrency: u32,
    /// The most attempts of the limited repository at the same time.
    repository_concurrency: u32,
    /// The simulated seconds of the starts since the server was started.
    starts: Vec<u64>,
    /// The layers that have not been at rest since then.
    first_pass: BTreeSet<usize>,
    /// Counts the changes after which all layers are looked at.
    pub(crate) version: u64,
}

impl Conditions {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            windows: vec![(Moment::default(), Moment::default()); scenario.layers.len()],
            disk_is_full: false,
            starts_per_minute: scenario.starts_per_minute,
            concurrency: scenario.concurrency,
            repository_concurrency: 1,
            starts: Vec::new(),
            first_pass: (0..scenario.layers.len()).collect(),
            version: 0,
        }
    }

    /// How many limited attempts may start, and in how many seconds there is one more.
    fn starts_left(&self, elapsed: u64) -> (u32, u64) {
        let mut recent = self.starts.iter().filter(|start| elapsed - **start < MINUTE);
        let count = u32::try_from(recent.clone().count()).unwrap();
        let again = recent.next().map_or(0, |start| MINUTE - (elapsed - start));
        (self.starts_per_minute.saturating_sub(count), again)
    }

    fn is_in_window(&self, layer: usize, now: Moment) -> bool {
        let (begin, end) = self.windows[layer];
        (begin..end).contains(&now)
    }
}

impl World {
    fn elapsed(&self) -> u64 {
        self.executor.machine.lock().unwrap().elapsed
    }

    /// What can run of a layer now.
    pub(crate) fn limits(&self, layer: usize) -> Limits {
        let conditions = &self.conditions;
        let (starts_left, again) = conditions.starts_left(self.elapsed());
        Limits {
            starts_left,
            starts_again: Duration::from_secs(again),
            is_first_pass: conditions.first_pass.contains(&layer),
            no_starts: conditions.disk_is_full.then(|| "the disk is full".to_owned()),
            repository_concurrency: self.kinds[layer]
                .is_limited
                .then_some(conditions.repository_concurrency),
            ..Limits::concurrency(conditions.concurrency)
        }
    }

    pub(crate) fn close_window(&mut self, layer: usize, seconds: u64) {
        let begin = self.now().as_millis() / 1000 / MINUTE * MINUTE;
        let time = Timestamp::from_second(begin.cast_signed()).unwrap().to_zoned(TimeZone::UTC);
        let (minute, hour, day, month) = (time.minute(), time.hour(), time.day(), time.month());
        let schedule = format!("{minute} {hour} {day} {month} *");
        let (deny, duration) = ([Action::Apply, Action::Destroy], Duration::from_secs(seconds));
        let window = Window::new(&deny, &schedule, duration, "UTC").unwrap();
        self.layers[layer].windows = vec![Arc::new(window)];
        let begin = Moment::from_millis(begin * 1000);
        self.conditions.windows[layer] = (begin, begin + duration);
        self.conditions.version += 1;
    }

    /// Windows that are over are removed from the configuration. That changes no decision unless the clock is set back,
    /// and spares the search for their next begin at each one.
    pub(crate) fn remove_old_windows(&mut self) {
        let now = self.now();
        for (layer, window) in self.layers.iter_mut().zip(&mut self.conditions.windows) {
            if window.1 <= now {
                *window = <(Moment, Moment)>::default();
                layer.windows.clear();
            }
        }
    }

    /// Whether automatic applies are stopped.
    pub(crate) fn is_breaker_open(&self) -> bool {
        now(self.store.inner.breaker()).unwrap() == Breaker::Open
    }

    pub(crate) fn reset_breaker(&mut self) {
        let _ = now(self.store.reset_breaker("ana"));
        self.restart();
    }

    pub(crate) const fn set_disk_full(&mut self, full: bool) {
        self.conditions.disk_is_full = full;
        self.conditions.version += 1;
    }

    pub(crate) const fn limit_repository(&mut self, concurrency: u32) {
        self.conditions.repository_concurrency = concurrency;
        self.conditions.version += 1;
    }

    /// Invariant 2, after each start: no more attempts run than the limits allow.
    pub(crate) fn check_limits(&mut self, layer: usize) {
        let is_running = |layer: &usize| {
            let runs = self.runs_of(*layer);
            runs.iter().any(|run| run.running().is_some())
        };
        let running: Vec<usize> = (0..self.layers.len()).filter(is_running).collect();
        let limited = running.iter().filter(|layer| self.kinds[**layer].is_limited).count();
        let (all, conditions) = (running.len(), &self.conditions);
        if all > conditions.concurrency as usize {
            self.violation = Some(format!("{all} attempts run"));
        } else if self.kinds[layer].is_limited
            && limited > conditions.repository_concurrency as usize
        {
            self.violation = Some(format!("{limited} attempts of the limited repository run"));
        }
    }

    /// The server was started: it knows nothing about earlier starts.
    pub(crate) fn begin_first_pass(&mut self) {
        self.conditions.first_pass = (0..self.layers.len()).collect();
        self.conditions.starts.clear();
        self.conditions.version += 1;
    }

    pub(crate) fn end_first_pass(&mut self, layer: usize) {
        self.conditions.first_pass.remove(&layer);
    }

    pub(crate) fn count_start(&mut self) {
        let elapsed = self.elapsed();
        self.conditions.starts.push(elapsed);
    }

    /// Whether a run of a layer that was decided to start now must wait instead.
    pub(crate) fn forbids(&self, layer: usize, runs: &[Run], run: &Run) -> Option<&'static str> {
        let plan = match &run.cause {
            Cause::Plan { plan } => Run::saved_plan(runs, plan),
            _ => None,
        };
        let lifetime = self.layers[layer].layer.plan_lifetime;
        let has_expired = plan.is_some_and(|plan| self.now() >= plan.saved + lifetime);
        let conditions = &self.conditions;
        let is_apply = matches!(run.action, Action::Apply | Action::Destroy);
        let is_known = run.change > 1 || runs.iter().any(|run| !run.attempts.is_empty());
        let is_limited =
            run.action == Action::Drift || (is_known && conditions.first_pass.contains(&layer));
        if conditions.disk_is_full {
            Some("the disk is full")
        } else if has_expired {
            Some("its plan has expired")
        } else if is_apply && conditions.is_in_window(layer, self.now()) {
            Some("a window is closed")
        } else if run.is_automatic_apply() && self.is_breaker_open() {
            Some("the breaker is open")
        } else if is_limited && conditions.starts_left(self.elapsed()).0 == 0 {
            Some("too many attempts were started in this minute")
        } else {
            None
        }
    }
}
