//! The time in which a host must accept a message and its envelope.

use std::time::Duration;

use tokio::time::Instant;

/// The timeout of each block of a message: RFC 5321 §4.5.3.2.5.
pub(crate) const BLOCK_WITHIN: Duration = Duration::from_secs(180);
/// For the greeting, and for replies to MAIL and RCPT: RFC 5321 §4.5.3.2.1 to §4.5.3.2.3.
pub(crate) const REPLY_WITHIN: Duration = Duration::from_secs(300);

/// The time by which a host must have taken a message, or its envelope. A host that takes a
/// little at a time, each in its time, would hold the message's memory for days.
#[derive(Debug)]
pub(crate) struct Pace(Instant);

impl Pace {
    /// Octets a second that a host takes at least: a line of 32 kbit/s. The largest message of 64
    /// MiB takes four and a half hours then.
    const OCTETS_PER_SECOND: u64 = 4096;

    /// The time by which a host must have taken a message of this many octets.
    pub fn of(len: usize, now: Instant) -> Self {
        Self(now + BLOCK_WITHIN + Duration::from_secs(len as u64 / Self::OCTETS_PER_SECOND))
    }

    /// The time by which a host must have answered MAIL and so many RCPT: a minute for each
    /// recipient, after the time for two replies.
    pub fn of_envelope(recipients: usize, now: Instant) -> Self {
        Self(now + 2 * REPLY_WITHIN + Duration::from_secs(recipients as u64 * 60))
    }

    /// The time that is left.
    pub fn left(&self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_time_by_its_length() {
        let now = Instant::now();
        assert_eq!(Pace::of(100, now).left(now), BLOCK_WITHIN);
        let pace = Pace::of(64 << 20, now);
        let whole = BLOCK_WITHIN + Duration::from_secs((64 << 20) / 4096);
        assert_eq!(pace.left(now), whole);
        assert_eq!(pace.left(now + whole), Duration::ZERO);
    }

    /// Else it would have eight hours.
    #[test]
    fn a_host_that_answers_each_recipient_late_does_not_hear_of_all() {
        let mut now = Instant::now();
        let pace = Pace::of_envelope(100, now);
        let mut answers = 0;
        while pace.left(now) >= REPLY_WITHIN {
            now += REPLY_WITHIN;
            answers += 1;
        }
        assert_eq!(answers, 22);
        // One recipient has the whole time of its reply.
        let now = Instant::now();
        assert!(Pace::of_envelope(1, now).left(now + REPLY_WITHIN) > REPLY_WITHIN);
    }
}
