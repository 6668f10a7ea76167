//! The state of the server, and the faults that it has.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::store::Store;

/// The faults of the server.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// One message in this many is acknowledged and dropped; 0 for none.
    pub lose_one_in: u32,
    /// One body in this many has a byte changed.
    pub alter_one_in: u32,
    /// A command that is delayed: its name, for how long, one in this many.
    pub delay: Option<(&'static str, Duration, u32)>,
    /// Answers a FETCH of more than one message without the last.
    pub short_listings: bool,
    /// Closes the connection in the middle of one answer in this many.
    pub hang_up_one_in: u32,
    /// Answers garbage to one command in this many.
    pub garbage_one_in: u32,
    /// Refuses every login.
    pub refuse_logins: bool,
}

/// State shared by its connections.
pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) counters: [AtomicU32; 5],
}

/// Kinds of faults that are counted.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Lose,
    Alter,
    Delay,
    HangUp,
    Garbage,
}

impl Server {
    /// Whether this time is the one in this many.
    pub(crate) fn strikes(&self, fault: Fault, one_in: u32) -> bool {
        one_in > 0
            && (self.counters[fault as usize].fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(one_in)
    }
}
