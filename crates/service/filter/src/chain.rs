//! How far a message may go through scripts, and how much they may send because of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_delivery::SummaryMemory;
use posthaste_queue::TlsWish;

/// How often scripts of this server may send one message on to each other. A chain of forwards is
/// short; each step is held in memory while the next one runs.
const DEPTH_MAX: usize = 8;

/// How often the scripts that receive one message may send mail: redirects, replies, notifications.
/// A script has 8 redirects, and each may reach another script: eight scripts in a row would make
/// millions of messages of one. More is not needed: for a list of members there are groups.
pub(crate) const SENDS_MAX: usize = 100;

/// Where a message is on its way through scripts, which send it on to each other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chain<'c> {
    /// How many scripts have sent it on within this server.
    depth: usize,
    /// The count of messages sent so far, once a script has sent one.
    sends: Option<&'c AtomicUsize>,
    /// The sender's wish about TLS. It holds for mail that is sent because of the message, too (RFC
    /// 8689 §4.2.1).
    pub(crate) tls: TlsWish,
}

impl<'c> Chain<'c> {
    /// A message as it comes, whose sender wants this of TLS.
    pub(crate) fn of(tls: TlsWish) -> Self {
        Self { tls, ..Self::default() }
    }

    /// Whether its summary is counted: a script that sends it on holds one that is.
    pub(crate) fn summary_memory(self) -> SummaryMemory {
        if self.depth == 0 { SummaryMemory::Counted } else { SummaryMemory::BesideOthers }
    }

    /// One script further.
    pub(crate) fn next(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// Counted from here on, unless it is counted already.
    pub(crate) fn counted(self, sends: &'c AtomicUsize) -> Self {
        Self { sends: Some(self.sends.unwrap_or(sends)), ..self }
    }

    /// Whether too many scripts have sent the message on.
    pub(crate) fn is_too_long(self) -> bool {
        self.depth > DEPTH_MAX
    }

    /// Counts the messages that a script sends. Returns whether it may be sent.
    pub(crate) fn count(self) -> bool {
        self.sends.is_none_or(|sends| sends.fetch_add(1, Ordering::Relaxed) < SENDS_MAX)
    }
}
