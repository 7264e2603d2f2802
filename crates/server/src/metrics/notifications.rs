//! Counts the deliveries of notifications.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::families::NOTIFICATIONS;
use super::text::Exposition;

/// How a try to deliver a notification ended.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum DeliveryResult {
    /// The receiver has acknowledged it.
    Delivered,
    /// It is tried again.
    Failed,
    /// It is not tried again.
    Dropped,
}

impl DeliveryResult {
    const ALL: [Self; 3] = [Self::Delivered, Self::Failed, Self::Dropped];

    const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// The deliveries since the server started.
#[derive(Debug, Default)]
pub struct NotificationMetrics(Mutex<BTreeMap<(String, DeliveryResult), u64>>);

impl NotificationMetrics {
    /// Counts a try.
    pub fn count(&self, receiver: &str, result: DeliveryResult) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((receiver.to_owned(), result)).or_default() += 1;
    }

    /// How many tries of a receiver ended so.
    #[must_use]
    pub fn counted(&self, receiver: &str, result: DeliveryResult) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&(receiver.to_owned(), result)).copied().unwrap_or_default()
    }

    /// Writes the metric for these receivers, also for those without deliveries.
    pub fn write(&self, receivers: impl IntoIterator<Item = String>, text: &mut Exposition) {
        text.family(&NOTIFICATIONS);
        for receiver in receivers {
            for result in DeliveryResult::ALL {
                let count = self.counted(&receiver, result);
                text.sample(&NOTIFICATIONS, &[&receiver, result.name()], count);
            }
        }
    }
}
