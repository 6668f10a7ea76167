//! Bounds on a summary, for any message.
//!
//! Parts, addresses and texts of the responses share one [`PrintBudget`], whose size follows from
//! that of the message. Values that do not fit are left out:
//! * a part beyond it is not parsed: its bytes stay in the body of the enclosing part, as beyond
//!   [`crate::MAX_PARTS`];
//! * a nested message or multipart beyond it is a leaf of type application/octet-stream, as beyond
//!   [`crate::MAX_DEPTH`];
//! * an address list ends where the budget ends, and so do parameters and languages;
//! * a text is absent (NIL).
//!
//! The root's ENVELOPE is served first. [`Structure`] estimates the size of each part, and stops at
//! the bound. The budget then counts every byte, so that the bound holds even if the estimate was
//! wrong.

use std::borrow::Cow;

use crate::address::{ADDRESSES_MAX, Address};
use crate::decoded::DecodedMessage;
use crate::estimate::{ADDRESS_BYTES, IN_BOTH, MESSAGE_BYTES, PART_BYTES, PRINTED_MAX, printed_max};
use crate::media::TOKEN_MAX;
use crate::params::{Param, Params};
use crate::scan::Span;
use crate::structure::{Kind, Part, Structure};

/// Longest summary of a message of any length: the printed responses, five texts for SEARCH of 256
/// KiB each, the kept fields and their table.
pub const SUMMARY_LEN_MAX: usize = 10 << 20;

/// Bytes of a summary for each byte of its message, at most. 12 are for the responses, 4 for the
/// texts of SEARCH, and 1 for the kept fields. 3 are for their table and the one part that may
/// begin at the end of the budget.
pub const SUMMARY_SHARE: usize = 20;

/// Longest summary of a message of this many bytes. Messages of nearly no bytes have 20 KiB: 16 for
/// the responses, and the rest for the head, the preview, and what each text may have beside its
/// share. A quota counts 1 KiB of each message, and 20 times that is the limit.
pub const fn summary_len_max(message_len: usize) -> usize {
    let share = message_len.saturating_mul(SUMMARY_SHARE).saturating_add(20 * 1024);
    if share < SUMMARY_LEN_MAX { share } else { SUMMARY_LEN_MAX }
}

/// Most memory that making the summary of a message of this many bytes takes besides the message.
/// The test that measures it is `delivery/tests/memory.rs`. Addresses of two bytes take most.
/// Twice the message: a large header is held unfolded, and as text.
pub const fn summary_memory_max(message_len: usize) -> usize {
    let share = message_len.saturating_mul(96).saturating_add(128 * 1024);
    let most = (64_usize << 20).saturating_add(message_len.saturating_mul(2));
    if share < most { share } else { most }
}

/// The bytes that the responses of one message may still take.
#[derive(Debug, Clone)]
pub struct PrintBudget {
    addresses: usize,
    bytes: usize,
}

impl PrintBudget {
    /// The whole budget of a message, except what its parts take at least.
    pub fn new(message: &[u8], structure: &Structure, decoded: &[DecodedMessage]) -> Self {
        let within = decoded.iter().flat_map(|message| message.structure().parts());
        let parts: usize = structure.parts().iter().chain(within).map(part_cost).sum();
        PrintBudget { addresses: ADDRESSES_MAX, bytes: printed_max(message.len()).saturating_sub(parts) }
    }

    /// The budget of one header alone.
    pub(crate) fn of_header() -> Self {
        PrintBudget { addresses: ADDRESSES_MAX, bytes: PRINTED_MAX }
    }

    pub(crate) fn addresses(&self) -> usize {
        self.addresses
    }

    pub(crate) fn count_addresses(&mut self, count: usize) {
        self.addresses = self.addresses.saturating_sub(count);
    }

    fn take(&mut self, bytes: usize) -> bool {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                true
            }
            None => {
                // Later values are left out, too, even if they are shorter: lists have no gaps.
                self.bytes = 0;
                false
            }
        }
    }

    /// The text if the budget is enough to print it this many times.
    pub fn text<'m>(&mut self, text: Option<Cow<'m, [u8]>>, times: usize) -> Option<Cow<'m, [u8]>> {
        text.filter(|text| self.take(string_len(text) * times))
    }

    /// Parameters, as many as the budget is enough to print this many times.
    pub fn params<'m>(&mut self, params: Params<'m>, times: usize) -> impl Iterator<Item = Param<'m>> {
        params.into_iter().take_while(move |param| {
            self.take((string_len(param.name) + string_len(&param.value) + 2) * times)
        })
    }

    /// Tags, as many as fit the budget.
    pub fn tags<'m>(&mut self, tags: Vec<&'m [u8]>) -> impl Iterator<Item = &'m [u8]> {
        tags.into_iter().take_while(|tag| self.take(string_len(tag) + 1))
    }

    /// Ends a list where the budget is not enough to print it this many times.
    pub(crate) fn cut(&mut self, list: &mut Vec<Address<'_>>, times: usize) {
        let texts = |a: &Address<'_>| {
            [&a.name, &a.route, &a.mailbox, &a.host]
                .into_iter()
                .flatten()
                .map(|t| string_len(t))
                .sum::<usize>()
        };
        let fits = list.iter().position(|a| !self.take((ADDRESS_BYTES + texts(a)) * times));
        list.truncate(fits.unwrap_or(list.len()));
    }
}

/// The bytes that a part prints if its fields do not fit the budget.
fn part_cost(part: &Part) -> usize {
    let fields = &part.fields;
    let len = |span: Option<Span>, max: usize| span.map_or(0, |span| (span.len() as usize).min(max));
    let tokens = len(fields.media, 2 * TOKEN_MAX) + len(fields.encoding, TOKEN_MAX);
    let message = if part.kind == Kind::Message || part.is_encoded_message { MESSAGE_BYTES } else { 0 };
    PART_BYTES + message + IN_BOTH * tokens
}

/// Upper bound of the bytes that a string prints: in quotes with escapes, or as a literal.
fn string_len(text: &[u8]) -> usize {
    /// `{` and ten digits, `}` and a line end.
    const LITERAL_HEAD: usize = 14;
    let escapes = memchr::memchr2_iter(b'"', b'\\', text).count();
    text.len() + 2 + escapes.max(if fits_quotes(text) { 0 } else { LITERAL_HEAD })
}

/// Whether a text is surely printed in quotes.
fn fits_quotes(text: &[u8]) -> bool {
    text.len() <= 1000 && text.is_ascii() && memchr::memchr3(0, b'\r', b'\n', text).is_none()
}
