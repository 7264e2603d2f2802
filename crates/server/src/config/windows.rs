//! What is wrong with windows.

use butler_base::similar::closest;
use cronexpr::{FallbackTimezoneOption, ParseOptions, parse_crontab_with};
use globset::Glob;
use jiff::tz::TimeZoneDatabase;

use super::document::WindowEntry;
use super::entries::{Config, Placed};
use super::error::ConfigError;

/// The actions that a window can forbid.
pub(super) const ACTIONS: [&str; 4] = ["plan", "apply", "drift", "destroy"];

/// The fields of a cron expression.
const FIELDS: usize = 5;

/// What is wrong with a window.
pub(super) fn window(config: &Config, window: &Placed<WindowEntry>) -> Vec<ConfigError> {
    let entry = &window.entry;
    let mut errors = Vec::new();
    for action in entry.deny.iter().filter(|action| !ACTIONS.contains(&action.as_str())) {
        let message = format!("`{action}` is not an action: use {}", ACTIONS.join(", "));
        errors.push(window.error(message));
    }
    errors.extend(
        entry.layers.iter().filter_map(|it| pattern(config, it)).map(|it| window.error(it)),
    );
    if let Some(problem) = schedule(&entry.schedule.value) {
        errors.push(window.error_in(&entry.schedule, problem));
    }
    if let Some(zone) = &entry.timezone
        && let Some(problem) = time_zone(&zone.value)
    {
        errors.push(window.error_in(zone, problem));
    }
    errors
}

/// What is wrong with a pattern for names of layers.
pub(super) fn pattern(config: &Config, pattern: &str) -> Option<String> {
    let glob = match Glob::new(pattern) {
        Ok(glob) => glob.compile_matcher(),
        Err(error) => return Some(error.to_string()),
    };
    // The names of a set's layers are known only with its repository: all begin with the set's name.
    let literal = &pattern[..pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len())];
    let can_match = |set: &str| {
        let beginning = if set.is_empty() { String::new() } else { format!("{set}.") };
        literal.starts_with(&beginning)
            || (literal.len() < pattern.len() && beginning.starts_with(literal))
    };
    let is_found = config.layers.iter().any(|(name, layer)| {
        glob.is_match(name) || (layer.entry.path.is_none() && can_match(name))
    });
    if is_found {
        return None;
    }
    let names = || config.layers.keys().map(String::as_str);
    let in_set = pattern.split_once('.').and_then(|(set, _)| closest(set, names()));
    let near = closest(pattern, names()).or(in_set);
    // Layers of custom resources have names such as `team-a.network`, and are not known here.
    if near.is_none() && (pattern == "*" || pattern.contains('.')) {
        return None;
    }
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Some(format!("no layer matches `{pattern}`{near}"))
}

/// What is wrong with a schedule.
fn schedule(text: &str) -> Option<String> {
    let example = "such as `0 18 * * FRI`: minute, hour, day of the month, month, day of the week";
    // A sixth word would be a time zone, which has its own key.
    if text.split_whitespace().count() != FIELDS {
        return Some(format!("`{text}` is not a cron expression of {FIELDS} fields, {example}"));
    }
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    let is_usable = parse_crontab_with(text, options)
        .and_then(|schedule| schedule.find_next(jiff::Timestamp::UNIX_EPOCH))
        .is_ok();
    (!is_usable)
        .then(|| format!("`{text}` is not a cron expression that matches any time, {example}"))
}

/// What is wrong with a time zone. The database of this executable decides, so a configuration is valid on all
/// machines or on none.
fn time_zone(name: &str) -> Option<String> {
    let database = TimeZoneDatabase::bundled();
    if database.get(name).is_ok() {
        return None;
    }
    let known: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    let near = closest(name, known.iter().map(String::as_str));
    let advice = near.map_or_else(
        || "use a name of the IANA database such as `Europe/Berlin`".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Some(format!("there is no time zone `{name}`; {advice}"))
}
