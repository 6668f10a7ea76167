//! The clocks that the store reads, and how time passes between two steps.
//!
//! `clock_gettime` of the program adds these offsets ([`crate::syscalls`]). The seed moves them
//! between steps. The monotonic clock only goes forward: an hour is enough that a checkpoint is
//! due. The wall clock jumps forward and back, as if it were set. Sometimes it jumps to the year
//! 1970, as on a machine without a battery.

use std::sync::atomic::{AtomicI64, Ordering};

use libc::{c_int, timespec};

use crate::random::{KEPT, Random};

/// Seconds by which the monotonic clock is ahead.
static MONOTONIC: AtomicI64 = AtomicI64::new(0);
/// Seconds by which the clock on the wall is ahead, or behind.
static WALL: AtomicI64 = AtomicI64::new(0);

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// The date of all messages in seeds in which the clock does not move.
const START: i64 = 1_700_000_000;

/// The time that the system gave, as the program sees it.
pub(crate) fn shift(clock: c_int, time: &mut timespec) {
    let offset = match clock {
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME => &MONOTONIC,
        libc::CLOCK_REALTIME => &WALL,
        _ => return,
    };
    time.tv_sec = time.tv_sec.saturating_add(offset.load(Ordering::SeqCst));
}

/// Moves the clocks of this process. The clock on the wall may go back, but time continues.
pub(crate) fn pass(seconds: i64) {
    MONOTONIC.fetch_add(seconds.clamp(0, DAY), Ordering::SeqCst);
    WALL.fetch_add(seconds, Ordering::SeqCst);
}

/// How time passes in one process.
#[derive(Debug, Clone)]
pub(crate) struct Passing {
    random: Random,
    /// Unix seconds of the messages that come.
    now: i64,
    moves: bool,
}

impl Passing {
    /// In more than half of all seeds the clock moves.
    pub(crate) fn of(seed: u64, process: u64) -> Self {
        let moves = !KEPT.contains(&seed) && Random::new(seed, 70).chance(60);
        Self { random: Random::new(seed, 71 + process), now: START, moves }
    }

    /// The seconds by which the clock moves before the next step; mostly none.
    pub(crate) fn before_step(&mut self) -> Option<i64> {
        if !self.moves || !self.random.chance(12) {
            return None;
        }
        let some = self.random.below(1_000) as i64;
        let seconds = match self.random.below(8) {
            0 | 1 => some % 10,
            2 | 3 => HOUR + some,
            4 => DAY * some,
            // A clock that is set, or summer that ends.
            5 => -(some % 7) * HOUR - 1,
            6 => -DAY * some,
            _ => some - self.now,
        };
        self.now = (self.now + seconds).max(1);
        Some(seconds)
    }

    /// The date of a message that comes now.
    pub(crate) fn date(&self) -> u32 {
        u32::try_from(self.now).unwrap_or(u32::MAX)
    }

    /// When it is saved, if that is this many seconds later.
    pub(crate) fn saved(&self, after: i64) -> i64 {
        i64::from(self.date()) + after
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;

    /// Rust's standard library asks the clocks of this module.
    #[test]
    fn both_clocks_move() {
        assert!(crate::syscalls::linked());
        let (instant, wall) = (Instant::now(), SystemTime::now());
        pass(2 * HOUR);
        assert!(instant.elapsed().as_secs() >= 2 * HOUR as u64);
        pass(-DAY);
        assert!(instant.elapsed().as_secs() >= 2 * HOUR as u64);
        let back = wall.duration_since(SystemTime::now()).unwrap().as_secs() as i64;
        assert!((20 * HOUR..=22 * HOUR).contains(&back), "{back}");
    }

    #[test]
    fn a_seed_moves_the_clock_in_the_same_way_each_time() {
        let moves = |seed| {
            let mut passing = Passing::of(seed, 0);
            (0..500).filter_map(|_| passing.before_step()).collect::<Vec<_>>()
        };
        assert!((0..20).all(|seed| moves(seed) == moves(seed)));
        let all: Vec<i64> = (0..20).flat_map(moves).collect();
        assert!(all.iter().any(|s| *s > HOUR) && all.iter().any(|s| *s < -DAY));
        assert!((0..20).any(|seed| moves(seed).is_empty()));
    }
}
