//! Which windows are about which layers.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::{Glob, GlobMatcher};

use crate::config::{Config, Placed, WindowEntry};
use crate::model::{Action, LayerName};
use crate::windows::Window;

/// The actions that a configuration can name.
const ACTIONS: [Action; 4] = [Action::Plan, Action::Apply, Action::Drift, Action::Destroy];

/// The windows of a configuration. Patterns and schedules are compiled once.
#[derive(Debug)]
pub(super) struct WindowsByName<'a>(Vec<Named<'a>>);

/// A window, and the names for which it is.
#[derive(Debug)]
struct Named<'a> {
    names: Vec<GlobMatcher>,
    /// The layers and layer sets of the include that has the window. Without it, the window is for all.
    of: Option<&'a BTreeSet<String>>,
    window: Arc<Window>,
}

impl<'a> WindowsByName<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        let own = config.windows.iter().map(|window| (window, None));
        let included = config.included.iter().flat_map(|included| {
            included.windows.iter().map(move |window| (window, Some(&included.layers)))
        });
        Self(own.chain(included).filter_map(|(window, of)| Named::new(window, of)).collect())
    }

    /// The windows of a layer, which `entry` defines: a layer or a layer set.
    pub(super) fn of(&self, entry: &str, name: &LayerName) -> Vec<Arc<Window>> {
        let is_for = |named: &&Named<'_>| {
            let mut names = named.names.iter();
            named.of.is_none_or(|of| of.contains(entry))
                && names.any(|glob| glob.is_match(name.as_str()) || glob.is_match(entry))
        };
        self.0.iter().filter(is_for).map(|named| Arc::clone(&named.window)).collect()
    }
}

impl<'a> Named<'a> {
    /// `None` if the entry is not valid. A configuration with such an entry is refused when it is read.
    fn new(placed: &Placed<WindowEntry>, of: Option<&'a BTreeSet<String>>) -> Option<Self> {
        let entry = &placed.entry;
        let is_denied = |action: &Action| entry.deny.iter().any(|name| name == action.as_str());
        let deny: Vec<Action> = ACTIONS.into_iter().filter(is_denied).collect();
        let zone = entry.timezone.as_ref().map_or("UTC", |zone| zone.value.as_str());
        let window = Window::new(&deny, &entry.schedule.value, entry.duration.0, zone)?;
        let globs = entry.layers.iter().map(|pattern| Glob::new(pattern));
        let names = globs.map(|glob| Some(glob.ok()?.compile_matcher())).collect::<Option<_>>()?;
        Some(Self { names, of, window: Arc::new(window) })
    }
}
