//! Which faults a story has, and how often: in percent of the occasions.

use fastrand::Rng;

/// The rates of the faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// A created object fails.
    pub(crate) failure: u8,
    /// A created object does not end.
    pub(crate) stuck: u8,
    /// A created object is invisible for some time.
    pub(crate) lag: u8,
    /// The reading is that of an earlier look.
    pub(crate) stale: u8,
    /// An object is not in the reading.
    pub(crate) omitted: u8,
    /// An object cannot be read.
    pub(crate) unreadable: u8,
    /// The branch cannot be read, or is missing.
    pub(crate) head: u8,
    /// The record is lost.
    pub(crate) lost_record: u8,
    /// The record is an earlier one.
    pub(crate) old_record: u8,
    /// The controller ends before it stores the record, or before it submits.
    pub(crate) crash: u8,
    /// Two controllers decide on the same facts.
    pub(crate) twin: u8,
    /// The branch gets a new commit, or returns to an earlier one.
    pub(crate) push: u8,
    /// An ended object is removed.
    pub(crate) removal: u8,
    /// The cluster refuses an object.
    pub(crate) refusal: u8,
    /// The follower is paused or continued.
    pub(crate) pause: u8,
    /// A person asks for a run.
    pub(crate) request: u8,
    /// A gate's object is removed, or reports a failure.
    pub(crate) gate: u8,
    /// The clock goes backwards.
    pub(crate) clock: u8,
}

impl Faults {
    /// Some faults, so that stories differ in kind and not only in order.
    pub(crate) fn some(random: &mut Rng) -> Self {
        let mut rate = |most: u8| if random.bool() { random.u8(1..=most) } else { 0 };
        Self {
            failure: rate(50),
            stuck: rate(20),
            lag: rate(40),
            stale: rate(20),
            omitted: rate(20),
            unreadable: rate(20),
            head: rate(15),
            lost_record: rate(4),
            old_record: rate(4),
            crash: rate(10),
            twin: rate(20),
            push: rate(6),
            removal: rate(10),
            refusal: rate(20),
            pause: rate(4),
            request: rate(10),
            gate: rate(6),
            clock: rate(5),
        }
    }

    /// Whether an object that is not in a reading does not exist.
    pub(crate) fn readings_are_true(&self) -> bool {
        self.lag == 0 && self.stale == 0
    }

    /// Whether the record is the last one that was stored.
    pub(crate) fn records_are_true(&self) -> bool {
        self.lost_record == 0 && self.old_record == 0
    }
}

/// Whether a fault of this rate happens now.
pub(crate) fn happens(random: &mut Rng, rate: u8) -> bool {
    random.u8(0..100) < rate
}
