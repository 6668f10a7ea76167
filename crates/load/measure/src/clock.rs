//! The clock by which a run says when it began, so that several generators can compare.
//!
//! With an agent it is the agent's: each generator compares its own with that one, and all have
//! one clock. Otherwise it is the generator's own. The kernel says how far that is from UTC at
//! most, if something synchronises it.

use std::io;
use std::time::{Duration, Instant};

use posthaste_load_results::Clock;

use crate::agent::Remote;
use crate::machine::{self, ClockFacts};
use crate::sample::WatchTarget;

/// Times that a clock is read; the narrowest reading counts. On a busy machine a thread may be
/// stopped within one of them, hardly within all.
const READINGS: u32 = 16;

/// A clock, compared with this program's own measure of time.
#[derive(Clone, Debug)]
pub struct Reference {
    at: Instant,
    facts: ClockFacts,
    bound_s: f64,
    words: String,
}

impl Reference {
    /// The clock of the agent, if it watches the server; otherwise this machine's.
    ///
    /// # Errors
    /// The agent does not answer, or has another version.
    pub fn of(target: &WatchTarget) -> io::Result<Self> {
        let WatchTarget::Agent { address, token, pid } = target else { return Ok(Self::own()) };
        let mut agent = Remote::connect(address, token, *pid)?;
        Self::read(|| agent.clock(), format!("the clock of the agent {address}"))
    }

    /// The clock of this machine.
    pub fn own() -> Self {
        let words = "the generator's own clock".to_owned();
        Self::read(|| Ok(machine::clock()), words.clone()).unwrap_or_else(|_| Self {
            at: Instant::now(),
            facts: machine::clock(),
            bound_s: 0.0,
            words,
        })
    }

    /// Reads a clock several times. It was read between the request and the answer, so the
    /// shortest of these times bounds the error.
    fn read(mut ask: impl FnMut() -> io::Result<ClockFacts>, words: String) -> io::Result<Self> {
        let mut best: Option<(Duration, Instant, ClockFacts)> = None;
        for _ in 0..READINGS {
            let before = Instant::now();
            let facts = ask()?;
            let took = before.elapsed();
            if best.as_ref().is_none_or(|(least, ..)| took < *least) {
                best = Some((took, before + took / 2, facts));
            }
        }
        let (took, at, facts) = best.ok_or_else(|| io::Error::other("the clock was not read"))?;
        Ok(Self { at, facts, bound_s: took.as_secs_f64() / 2.0, words })
    }

    /// The time of a moment by this clock, seconds since 1970.
    pub fn unix_s(&self, at: Instant) -> f64 {
        match at.checked_duration_since(self.at) {
            Some(later) => self.facts.unix_s + later.as_secs_f64(),
            None => self.facts.unix_s - self.at.duration_since(at).as_secs_f64(),
        }
    }

    /// The moment of a time by this clock; `None` if it is before this clock was read.
    pub fn moment(&self, unix_s: f64) -> Option<Instant> {
        let later = Duration::try_from_secs_f64(unix_s - self.facts.unix_s).ok()?;
        self.at.checked_add(later)
    }

    /// The clock for the result of a run that began at this moment.
    pub fn clock(&self, start: Instant) -> Clock {
        Clock {
            start_unix_s: self.unix_s(start),
            reference: self.words.clone(),
            machine: self.facts.machine.clone(),
            reading_bound_s: self.bound_s,
            utc_bound_s: self.facts.utc_bound_s.clone(),
        }
    }

    /// The clock in words, with its bound.
    pub fn words(&self) -> String {
        format!("{} (read within {:.2} ms)", self.words, self.bound_s * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::Offered;

    use super::*;

    #[test]
    fn a_moment_and_its_time_are_the_same_by_both_ways() {
        let clock = Reference::own();
        let later = Instant::now() + Duration::from_secs(5);
        let there_and_back = clock.moment(clock.unix_s(later)).unwrap();
        let apart = there_and_back.max(later) - there_and_back.min(later);
        // A double has a microsecond left, at seconds since 1970.
        assert!(apart < Duration::from_micros(10), "{apart:?}");
        assert!(clock.moment(0.0).is_none());
        let result = clock.clock(later);
        assert_eq!((result.machine.is_empty(), result.start_unix_s), (false, clock.unix_s(later)));
    }

    #[test]
    fn a_clock_is_read_between_request_and_answer() {
        let mut ahead = 0.0;
        let clock = Reference::read(
            || {
                ahead += 1.0;
                Ok(ClockFacts {
                    unix_s: 1000.0 + ahead,
                    machine: "m".into(),
                    utc_bound_s: Offered::Value(0.5),
                })
            },
            "x".into(),
        );
        let clock = clock.unwrap();
        assert!(clock.unix_s(Instant::now()) > 1000.0 && clock.bound_s >= 0.0);
        let failing = Reference::read(|| Err(io::Error::other("gone")), "x".into());
        assert!(failing.is_err());
    }
}
