//! When a delivery is tried again.

use std::time::Duration;

use crate::decision::fraction;
use crate::model::Moment;

/// How long a notification is tried. The journal and the entries of runs are kept for longer.
pub const LIMIT: Duration = Duration::from_hours(24);

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait, unless the receiver asks for a longer one.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// Whether a notification about something that happened `at` this time is too old at `now`.
pub(super) fn is_expired(at: Moment, now: Moment) -> bool {
    now.since(at) >= LIMIT
}

/// When the delivery `id`, which has failed this many times, is tried again; `None` if it is too old by then. The
/// wait is 1 s, doubled with each failure, at most 10 minutes, and up to a fifth more or less. It is as long as
/// the receiver asks for at least.
pub(super) fn next_try(
    id: &str,
    at: Moment,
    now: Moment,
    failures: u32,
    asked: Option<Duration>,
) -> Option<Moment> {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT);
    let wait = wait.mul_f64(0.8 + 0.4 * fraction(&[id.as_bytes(), &failures.to_le_bytes()]));
    let due = now + wait.max(asked.unwrap_or_default());
    (!is_expired(at, due)).then_some(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_differ_by_a_fifth_and_are_as_long_as_the_receiver_asks() {
        let now = Moment::from_millis(1_000_000);
        for (failures, seconds) in [(1, 1.0), (2, 2.0), (5, 16.0), (11, 600.0), (90, 600.0)] {
            let wait = |seed: u32, asked| {
                let due = next_try(&format!("delivery-{seed}"), now, now, failures, asked);
                due.unwrap().since(now)
            };
            let waits: Vec<f64> = (0..200).map(|seed| wait(seed, None).as_secs_f64()).collect();
            let least = waits.iter().copied().fold(f64::INFINITY, f64::min);
            let most = waits.iter().copied().fold(0.0, f64::max);
            assert!(least >= seconds * 0.799 && least < seconds * 0.85, "{failures}: {least}");
            assert!(most <= seconds * 1.201 && most > seconds * 1.15, "{failures}: {most}");
            for asked in [Duration::from_mins(15), Duration::from_hours(2)] {
                assert_eq!(wait(7, Some(asked)), asked);
            }
            assert!(wait(7, Some(Duration::from_millis(1))).as_secs_f64() >= seconds * 0.799);
        }
    }

    /// Receivers that are down, ask for waits, or answer at last.
    #[test]
    fn each_delivery_is_acknowledged_once_or_dropped_after_a_day_with_any_answers() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let at = Moment::from_millis(random.u64(1_000..1 << 40));
            let comes_back = at + Duration::from_secs(random.u64(0..200_000));
            let (mut now, mut failures, mut tries) = (at, 0, 0);
            let acknowledged = loop {
                tries += 1;
                assert!(!is_expired(at, now) && tries < 1_000, "{seed}: {tries} tries");
                if now >= comes_back {
                    break true;
                }
                // A server that starts again tries at once, and has forgotten the failures.
                failures = if random.u8(..) < 8 { 0 } else { failures + 1 };
                let asked =
                    (random.u8(..) < 16).then(|| Duration::from_secs(random.u64(0..90_000)));
                let Some(due) = next_try("id", at, now, failures.max(1), asked) else {
                    break false;
                };
                assert!(due > now, "{seed}");
                let longest = LONGEST_WAIT.mul_f64(1.201).max(asked.unwrap_or_default());
                assert!(due.since(now) <= longest, "{seed}");
                now = due;
            };
            let is_back_in_time = comes_back.since(at) + Duration::from_mins(15) < LIMIT;
            // One that asks for a wait beyond the limit is given up.
            assert!(acknowledged || !is_back_in_time || now < comes_back, "{seed}");
            assert!(!acknowledged || now.since(at) < LIMIT, "{seed}");
        }
    }

    #[test]
    fn wait_beyond_the_limit_drops_the_notification() {
        let at = Moment::from_millis(5_000);
        let late = at + LIMIT.saturating_sub(Duration::from_secs(30));
        assert!(next_try("id", at, late, 1, None).is_some());
        assert_eq!(next_try("id", at, late, 1, Some(Duration::from_secs(31))), None);
        assert_eq!(next_try("id", at, at, 1, Some(Duration::MAX)), None);
        assert!(is_expired(at, at + LIMIT));
        // A clock that was set back.
        assert!(!is_expired(at, Moment::default()));
    }
}
