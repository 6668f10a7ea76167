//! Estimates of the bytes that parts and fields print, and the bound for a message.

use crate::content::ContentFields;

/// Bytes of ENVELOPE, BODY, BODYSTRUCTURE and part table for each byte of the message. The 10,000
/// parts that we promise to serve have 18 bytes each where they are smallest, and print
/// [`PART_BYTES`]. Half of it would cut them.
const PRINTED_SHARE: usize = 12;

/// Bytes of the responses besides that share: for messages that are nearly empty, and for digests
/// of such messages. Each of these prints [`PART_BYTES`] twice and [`MESSAGE_BYTES`], so 39 fit.
/// With twice as much, a summary would be over 20 times what a quota counts of an empty message.
const PRINTED_BASE: usize = 16 * 1024;

/// Most bytes of the responses. 10,000 parts with usual Content-Type, -Disposition and
/// -Transfer-Encoding print 6 MiB.
pub(crate) const PRINTED_MAX: usize = 8 << 20;

/// Octets of a part that has only a type and an encoding: in BODY, in BODYSTRUCTURE, and its row
/// of the table. They are 156, and up to ten digits for each number.
pub(crate) const PART_BYTES: usize = 200;

/// The other bytes that a nested message prints: an envelope of nothing but NIL, twice, and its
/// lines.
pub(crate) const MESSAGE_BYTES: usize = 112;

/// The bytes that an address prints besides its texts: `(NIL NIL  )`.
pub(crate) const ADDRESS_BYTES: usize = 11;

/// The number of times that BODY and BODYSTRUCTURE together print a value.
pub(crate) const IN_BOTH: usize = 2;

/// The bytes that the responses of a message of this length may take.
pub(crate) fn printed_max(message_len: usize) -> usize {
    message_len.saturating_mul(PRINTED_SHARE).saturating_add(PRINTED_BASE).min(PRINTED_MAX)
}

/// About the bytes that a part with these fields prints.
pub(crate) fn part_estimate(fields: &ContentFields) -> usize {
    let all = [
        fields.media,
        fields.encoding,
        fields.disposition,
        fields.language,
        fields.location,
        fields.id,
        fields.description,
        fields.md5,
    ];
    let bytes: usize = all.into_iter().flatten().map(|span| span.len() as usize).sum();
    PART_BYTES + bytes * (IN_BOTH + 1)
}

/// About the octets that one field of a nested message prints in its envelope.
pub(crate) fn nested_estimate(field: EnvelopeField, raw: &[u8]) -> usize {
    let list = || raw.len() + (memchr::memchr_iter(b',', raw).count() + 1) * ADDRESS_BYTES;
    IN_BOTH
        * match field {
            EnvelopeField::From => 3 * list(),
            EnvelopeField::List => list(),
            EnvelopeField::Text => raw.len(),
        }
}

/// The use of a field in an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvelopeField {
    /// Printed for Sender and Reply-To as well, if they are absent.
    From,
    /// Another list of addresses.
    List,
    /// A text.
    Text,
}
