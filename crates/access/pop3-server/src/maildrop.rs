//! An INBOX as a POP3 session sees it: one view, and a mark for each message to be removed.
//!
//! Message numbers are the sequence numbers of the view, so they do not change during the session
//! (RFC 1939 §4). A message that was removed elsewhere keeps its number here.
//!
//! **Unique ids** (RFC 1939 §7) are the INBOX's UIDVALIDITY and the message's UID, 16 hexadecimal
//! digits. The row has the UID, so that UIDL reads nothing from the store; the body's id would cost
//! a read for each message. A UIDVALIDITY is assigned once in an account, and a UID once under it.
//! So no id ever names another message, not even after RENAME INBOX. A restart, a rebuild of the
//! index and a copy to another engine keep both numbers.
//!
//! **Sizes** are the octets of the message as stored, which the row has. For a message whose lines
//! end with CR LF, RETR sends exactly that number (without stuffed dots). A client may have stored
//! a message with bare LF, or without an end of its last line. Then [`crate::dots`] adds the
//! missing octets. Only a read of the message could count them. The size of a rich message without
//! items is that of its MIME. It is made at the first request that needs it: a client that sends no
//! STAT and no LIST pays for the messages that it retrieves, and once for each.

use std::sync::Arc;

use posthaste_mail_model::{NumSet, SeqNum, UidValidity};
use posthaste_store::{Row, View};

use crate::print::{hex, number};

/// Messages that are printed between two checks of the buffer: some 30 KiB of lines.
const AT_ONCE: u32 = 1024;

/// The answer to STAT: a drop listing (RFC 1939 §5), without the marked messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropListing {
    /// The number of messages.
    pub messages: u32,
    /// The octets of all of them.
    pub octets: u64,
}

/// The maildrop of a session.
pub struct Maildrop {
    view: Arc<View>,
    validity: [u8; 8],
    marks: Marks,
    /// Whether the rows have the sizes that clients see.
    is_sized: bool,
    /// Whether the client may know message numbers.
    is_numbered: bool,
}

/// The value that a listing prints of each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedValue {
    /// LIST.
    Sizes,
    /// UIDL.
    Ids,
}

/// The position of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    what: ListedValue,
    next: u32,
}

impl Listing {
    /// A listing at the first message.
    pub fn new(what: ListedValue) -> Self {
        Self { what, next: 1 }
    }
}

/// Messages that DELE named: a bit each, up to the last of them.
#[derive(Default)]
struct Marks {
    words: Vec<u64>,
    messages: u32,
    octets: u64,
}

impl Marks {
    fn has(&self, seq: u32) -> bool {
        self.words.get(seq as usize / 64).is_some_and(|word| word >> (seq % 64) & 1 == 1)
    }

    fn set(&mut self, seq: u32, octets: u32) {
        let at = seq as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (seq % 64);
        self.messages += 1;
        self.octets += u64::from(octets);
    }

    /// The sequence numbers, in order.
    fn all(&self) -> NumSet<SeqNum> {
        let mut all = NumSet::new();
        for (base, word) in (0..).step_by(64).zip(&self.words) {
            let mut left = *word;
            while left != 0 {
                all.push(base + left.trailing_zeros());
                left &= left - 1;
            }
        }
        all
    }
}

impl Maildrop {
    /// An INBOX as it is now. Rows without items lack the sizes that clients see. They get them
    /// when a client requests sizes ([`posthaste_store::Mailbox::sized`]).
    pub fn new(view: Arc<View>, validity: UidValidity) -> Self {
        let (validity, marks) = (hex(validity.value()), Marks::default());
        let is_sized = view.counts().without_items() == 0;
        Self { view, validity, marks, is_sized, is_numbered: false }
    }

    /// The messages of the maildrop.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Whether the rows have the sizes that clients see.
    pub fn is_sized(&self) -> bool {
        self.is_sized
    }

    /// Whether the client may know message numbers. Until then, newer messages may take the place
    /// of superseded ones.
    pub fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// Records that the client may know message numbers from now on.
    pub fn number(&mut self) {
        self.is_numbered = true;
    }

    /// The same messages with sizes. All rows have them that can have them.
    pub fn set_sizes(&mut self, view: Arc<View>) {
        self.view = view;
        let marked = self.marks.all();
        let marked = self.view.rows(&marked);
        self.marks.octets = marked.map(|(_, row)| u64::from(row.size())).sum();
        self.is_sized = true;
    }

    /// The same messages. This one has its size now. A client may request any number of sizes one
    /// by one, so the marks are not read.
    pub fn learn(&mut self, view: Arc<View>, number: u32) {
        if self.marks.has(number) {
            let size = |view: &View| {
                let row = SeqNum::new(number).and_then(|seq| view.row(seq));
                row.map_or(0, |row| u64::from(row.size()))
            };
            self.marks.octets = (self.marks.octets + size(&view)).saturating_sub(size(&self.view));
        }
        self.view = view;
        self.is_sized |= self.view.counts().without_items() == 0;
    }

    /// Messages and octets, without those that are marked (RFC 1939 §5).
    pub fn stat(&self) -> DropListing {
        let counts = self.view.counts();
        DropListing {
            messages: counts.messages - self.marks.messages,
            octets: counts.octets() - self.marks.octets,
        }
    }

    /// The row of a message that is there and is not marked.
    pub fn row(&self, number: u32) -> Option<Row> {
        let row = self.view.row(SeqNum::new(number)?)?;
        (!self.marks.has(number)).then_some(*row)
    }

    /// Marks a message. Whether it is there and was not marked before.
    pub fn mark(&mut self, number: u32) -> bool {
        let Some(row) = self.row(number) else { return false };
        self.marks.set(number, row.size());
        true
    }

    /// Removes all marks.
    pub fn reset(&mut self) {
        self.marks = Marks::default();
    }

    /// The number of marked messages.
    pub fn marked(&self) -> u32 {
        self.marks.messages
    }

    /// Removes all marks. Finds the UIDs of the messages that had one.
    pub fn take_marked(&mut self) -> impl FnOnce() -> NumSet + Send + use<> {
        let (view, marks) = (Arc::clone(&self.view), std::mem::take(&mut self.marks));
        move || view.uids_of_seqs(&marks.all())
    }

    /// Prints the line of a listing for one message: `number value`, without an end.
    pub fn line(&self, what: ListedValue, number_: u32, row: &Row, out: &mut Vec<u8>) {
        number(out, u64::from(number_));
        out.push(b' ');
        match what {
            ListedValue::Sizes => number(out, u64::from(row.size())),
            ListedValue::Ids => {
                out.extend_from_slice(&self.validity);
                out.extend_from_slice(&hex(row.uid().value()));
            }
        }
    }

    /// Prints the next lines of a listing, some thousand at most. Whether there are more.
    pub fn lines(&self, listing: &mut Listing, out: &mut Vec<u8>) -> bool {
        let first = listing.next;
        let last = self.view.exists().min(first.saturating_add(AT_ONCE - 1));
        if first > last {
            return false;
        }
        self.view.for_each_run(&NumSet::range(first, last), |seq, rows| {
            for (n, row) in (seq.value()..).zip(rows) {
                if !self.marks.has(n) {
                    self.line(listing.what, n, row, out);
                    out.extend_from_slice(b"\r\n");
                }
            }
        });
        listing.next = last + 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::fuzzing::view;

    fn listed(maildrop: &Maildrop, what: ListedValue) -> String {
        let (mut listing, mut out) = (Listing::new(what), Vec::new());
        while maildrop.lines(&mut listing, &mut out) {}
        String::from_utf8(out).unwrap()
    }

    properties! {
        /// Against a set of numbers and a loop.
        #[test]
        fn marks_match_the_named_messages(
            messages in 0..3000_u32,
            named in prop::collection::vec(0..3100_u32, 0..60),
        ) {
            let validity = UidValidity::new(0xabc).unwrap();
            let mut maildrop = Maildrop::new(Arc::new(view(messages)), validity);
            let mut marked = BTreeSet::new();
            for n in named {
                let is_new = (1..=messages).contains(&n) && marked.insert(n);
                prop_assert_eq!(maildrop.mark(n), is_new);
            }
            let left: Vec<u32> = (1..=messages).filter(|n| !marked.contains(n)).collect();
            // Message n has n octets and UID 3 n.
            let octets = left.iter().map(|n| u64::from(*n)).sum();
            prop_assert_eq!(maildrop.stat(), DropListing { messages: left.len() as u32, octets });
            let sizes: String = left.iter().map(|n| format!("{n} {n}\r\n")).collect();
            prop_assert_eq!(listed(&maildrop, ListedValue::Sizes), sizes);
            let ids: String = left.iter().map(|n| format!("{n} 00000abc{:08x}\r\n", 3 * n)).collect();
            prop_assert_eq!(listed(&maildrop, ListedValue::Ids), ids);
            prop_assert_eq!(maildrop.marked() as usize, marked.len());
            let uids = maildrop.take_marked()();
            prop_assert!(uids.iter().eq(marked.iter().map(|n| 3 * n)));
            prop_assert_eq!(maildrop.stat().messages, messages);
        }
    }

    #[test]
    fn a_size_that_is_learned_counts_for_its_mark() {
        let messages = view(9);
        let mut maildrop = Maildrop::new(Arc::new(messages.clone()), UidValidity::new(1).unwrap());
        assert!(maildrop.mark(4) && maildrop.mark(5));
        for (number, octets) in [(4, 36), (7, 136)] {
            let row = maildrop.view().row(SeqNum::new(number).unwrap()).unwrap().with_size(number + 100);
            let sized = maildrop.view().edited(messages.head().clone(), &[row], &NumSet::new(), &[]);
            maildrop.learn(Arc::new(sized), number);
            // All sizes but those of 4 and 5.
            assert_eq!(maildrop.stat(), DropListing { messages: 7, octets });
        }
    }
}
