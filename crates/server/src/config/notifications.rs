//! What is wrong with receivers of notifications.

use std::collections::BTreeMap;

use super::document::{NotificationEntry, NotificationFormat};
use super::entries::{Config, Placed};
use super::error::ConfigError;
use super::secrets::{of_notification, relative};
use super::windows::pattern;
use crate::model::LayerName;

/// What is wrong with the values of a receiver.
pub(super) fn values(notification: &Placed<NotificationEntry>) -> Vec<ConfigError> {
    let entry = &notification.entry;
    let mut errors: Vec<_> = relative(of_notification(notification)).collect();
    if entry.on.is_empty() {
        errors.push(notification.error("`on` must name at least one event"));
    }
    let is_signed = entry.format == NotificationFormat::Generic;
    match &entry.secret_file {
        None if is_signed => {
            errors.push(notification.error("the format `generic` needs `secret-file`"));
        }
        Some(_) if !is_signed => {
            let message = "only messages of the format `generic` are signed: remove `secret-file`";
            errors.push(notification.error(message));
        }
        _ => {}
    }
    let is_valid = |name: String| name.parse::<LayerName>().is_ok();
    if !entry.receiver().is_some_and(is_valid) {
        let message = "the receiver needs a `name` of 1 to 200 letters, digits, dots, underscores and \
                       hyphens";
        errors.push(notification.error(message));
    }
    errors
}

/// What receivers and layers must say together.
pub(super) fn together(config: &Config) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    let mut known = BTreeMap::<String, &Placed<NotificationEntry>>::new();
    for notification in &config.notifications {
        let patterns = notification.entry.layers.iter();
        let problems = patterns.filter_map(|it| pattern(config, it));
        errors.extend(problems.map(|it| notification.error(it)));
        let Some(name) = notification.entry.receiver() else { continue };
        if let Some(first) = known.get(&name) {
            errors.push(notification.error(format!(
                "the receiver `{name}` is also given in {}:{}; give one of them another `name`",
                first.file.display(),
                first.at.0
            )));
            continue;
        }
        known.insert(name, notification);
    }
    errors
}
