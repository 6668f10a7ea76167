//! A message while it arrives: its bytes, the share of the server's memory they take, and what went wrong.
//!
//! A message that is refused is still read to its end, and thrown away: the client is not listening before.

use bytes::{Bytes, BytesMut};
use posthaste_net::{ByteBudget, BytePermit};

use crate::{
    options::DRAIN_MAX,
    reply::{Enhanced, Reply},
};

/// First size of a message's buffer: most mail fits.
const FIRST_BYTES: usize = 64 * 1024;

/// A message that is being received.
pub(crate) struct Incoming {
    bytes: BytesMut,
    permit: Option<BytePermit>,
    budget: ByteBudget,
    /// Octets of trace headers in front, which do not count towards the limit.
    header: usize,
    size_max: usize,
    refused: Option<Refused>,
    discarded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    TooLarge,
    NoRoom,
}

impl Incoming {
    /// Begins with the trace headers.
    pub fn new(header: &[u8], size_max: usize, budget: ByteBudget) -> Self {
        let mut incoming = Self {
            bytes: BytesMut::new(),
            permit: None,
            budget,
            header: header.len(),
            size_max,
            refused: None,
            discarded: 0,
        };
        incoming.append(header);
        incoming
    }

    /// Adds bytes.
    pub fn append(&mut self, more: &[u8]) {
        self.take(more.len(), |bytes| bytes.extend_from_slice(more));
    }

    /// Has `read` append up to `more` bytes. Those of a refused message go nowhere.
    pub fn take<R>(&mut self, more: usize, read: impl FnOnce(&mut BytesMut) -> R) -> R {
        let length = self.bytes.len() + more;
        if self.refused.is_none() && length > self.bytes.capacity() && !self.grow(length) {
            self.refuse(Refused::NoRoom);
        }
        if self.refused.is_some() {
            self.discarded += more as u64;
            return read(&mut BytesMut::new());
        }
        let outcome = read(&mut self.bytes);
        if self.bytes.len() > self.header + self.size_max {
            self.refuse(Refused::TooLarge);
        }
        outcome
    }

    /// Twice the room, paid for out of the budget before it is taken.
    fn grow(&mut self, length: usize) -> bool {
        let ceiling = self.header + self.size_max;
        let wanted = (self.bytes.capacity() * 2).max(FIRST_BYTES).min(ceiling).max(length);
        let paid = match &mut self.permit {
            Some(permit) => permit.grow_to(wanted).is_ok(),
            None => match self.budget.try_reserve(wanted) {
                Ok(permit) => {
                    self.permit = Some(permit);
                    true
                }
                Err(_) => false,
            },
        };
        if paid {
            self.bytes.reserve(wanted - self.bytes.len());
        }
        paid
    }

    fn refuse(&mut self, reason: Refused) {
        self.refused = Some(reason);
        self.bytes = BytesMut::new();
        self.permit = None;
    }

    /// Whether so much was thrown away that it is time to hang up.
    pub fn is_hopeless(&self) -> bool {
        self.discarded > DRAIN_MAX
    }

    /// Why the message is not taken, if it is not.
    pub fn refusal(&self) -> Option<Reply> {
        self.refused.map(|reason| match reason {
            // RFC 1870 §6.3.
            Refused::TooLarge => Reply::new(552, Enhanced(5, 3, 4), "Message size exceeds the limit"),
            Refused::NoRoom => {
                Reply::new(452, Enhanced(4, 3, 1), "Too many messages are arriving; try again later")
            }
        })
    }

    /// The message, and what keeps its memory reserved.
    pub fn finish(self) -> (Bytes, Option<BytePermit>) {
        (self.bytes.freeze(), self.permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_for_the_message_alone() {
        let mut incoming = Incoming::new(b"head", 10, ByteBudget::new(1 << 20));
        incoming.append(b"0123456789");
        assert!(incoming.refusal().is_none());
        assert_eq!(&incoming.finish().0[..], b"head0123456789");
    }

    #[test]
    fn what_is_too_large_is_forgotten_and_paid_back() {
        let budget = ByteBudget::new(1 << 20);
        let mut incoming = Incoming::new(b"head", 10, budget.clone());
        assert!(budget.available() < 1 << 20);
        incoming.append(b"0123456789a");
        incoming.append(b"b");
        assert_eq!(incoming.refusal().unwrap().code(), 552);
        assert_eq!((budget.available(), incoming.discarded), (1 << 20, 1));
    }

    #[test]
    fn without_budget_there_is_no_room() {
        let budget = ByteBudget::new(100 * 1024);
        let mut incoming = Incoming::new(b"", 1 << 20, budget.clone());
        incoming.append(&[0; 60_000]);
        assert!(incoming.refusal().is_none());
        incoming.append(&[0; 60_000]);
        assert_eq!(incoming.refusal().unwrap().code(), 452);
        assert_eq!(budget.available(), 100 * 1024);
    }
}
