//! How a run of a job is identified: by its queue item, and later by its build.

/// Distinguishes the id of a queue item (`queue/39`) from the number of a build (`39`).
pub(super) const QUEUE_PREFIX: &str = "queue/";

/// Where a requested run is.
pub(super) enum RunReference {
    /// In the queue.
    QueueItem(u64),
    /// Started, with this build number.
    Build(u64),
}

/// The number in `.../queue/item/39/`.
pub(super) fn queue_item_number(location: &str) -> Option<u64> {
    let (_, after) = location.rsplit_once("/queue/item/")?;
    after.trim_end_matches('/').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_is_taken_from_where_the_server_says_that_it_is() {
        assert_eq!(queue_item_number("http://inside:8080/jenkins/queue/item/39/"), Some(39));
        assert_eq!(queue_item_number("/queue/item/39"), Some(39));
        assert_eq!(queue_item_number("http://inside/job/x/"), None);
        assert_eq!(queue_item_number("http://inside/queue/item/39/../../x"), None);
    }
}
