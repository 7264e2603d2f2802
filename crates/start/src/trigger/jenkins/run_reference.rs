//! The identifiers of a run of a job: its queue item, and later its build.

/// Distinguishes the id of a queue item (`queue/39`) from the number of a build (`39`).
pub(super) const QUEUE_PREFIX: &str = "queue/";

/// A run of a job, queued or started.
pub(super) enum RunReference {
    /// The id of the queue item.
    QueueItem(u64),
    /// The build number.
    Build(u64),
}

/// The id in `.../queue/item/39/`.
pub(super) fn queue_item_number(location: &str) -> Option<u64> {
    let (_, after) = location.rsplit_once("/queue/item/")?;
    after.trim_end_matches('/').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_is_read_from_the_address_of_a_queue_item() {
        assert_eq!(queue_item_number("http://inside:8080/jenkins/queue/item/39/"), Some(39));
        assert_eq!(queue_item_number("/queue/item/39"), Some(39));
        assert_eq!(queue_item_number("http://inside/job/x/"), None);
        assert_eq!(queue_item_number("http://inside/queue/item/39/../../x"), None);
    }
}
