//! The values that IMAP clients fetch of a message: computed once at delivery, read back at no
//! cost.
//!
//! Three steps, each its own module:
//! 1. [`Structure`] makes one pass over the raw bytes and knows every part by its byte range.
//!    [`HeaderFields`], [`Media`] and [`Envelope`] read values out of those ranges.
//! 2. [`SummaryParts`] with the response bytes that the caller printed become one compact record
//!    ([`SummaryParts::encode`]).
//! 3. [`SummaryRef`] reads such a record in place. A FETCH item, a header field, a search text or
//!    the range of a part is a slice, never a parse. [`TransferDecoder`] and [`SearchKey`] serve
//!    BINARY and SEARCH where a body has to be read after all.
//!
//! Invariants: no input panics. Work and memory are linear in the message, and a summary is
//! never longer than [`summary_len_max`]. Every range of a part lies inside its parent's. Every
//! byte of a message belongs to a line, and lines end at LF (with or without CR before it). This
//! crate is no composer and no validator, and does not know IMAP's syntax.

mod address;
mod boundaries;
mod casemap;
mod charset;
mod content;
mod date;
mod decoded;
mod envelope;
mod envelope_text;
mod estimate;
mod exact;
mod fold;
mod header;
mod html;
mod html_joined;
mod html_lines;
mod in_bounds;
mod known;
mod media;
mod params;
mod piece;
mod preview;
mod print_budget;
mod record;
mod scan;
mod search;
mod structure;
mod subject;
mod summary;
mod table;
mod tap;
mod thread;
mod transfer;
mod window;
mod words;

pub use address::{ADDRESSES_MAX, Address, address_list};
pub use casemap::{casemap_char, casemap_into, casemapped};
pub use charset::{CHARSETS, CharsetReader, decode_bytes, is_charset};
pub use content::ContentFields;
pub use date::{SentDate, sent_date};
pub use decoded::{DecodedMessage, DecodedParts};
pub use envelope::Envelope;
pub use envelope_text::{EnvelopeText, order_mailbox_into, order_subject_into};
pub use fold::{Folder, fold_into, folded};
pub use header::{
    Field, HEADER_FIELDS_MAX, HEADER_LEN_MAX, HEADER_LEN_SHORT, HeaderFields, bounded_header_len,
    has_header_over, has_long_header, is_header_bounded, is_traced_header_bounded, unfold,
};
pub use html_lines::html_lines;
pub use in_bounds::InBounds;
pub use known::{FieldId, FieldMask};
pub use media::{Disposition, Media, TextKind, language_tags};
pub use params::{Param, Params};
pub use print_budget::{PrintBudget, SUMMARY_LEN_MAX, SUMMARY_SHARE, summary_len_max, summary_memory_max};
pub use record::{RECORD_VERSION, SummaryParts};
pub use scan::Span;
pub use search::{SearchKey, TextKey, TextSearch, Within};
pub use structure::{Kind, MAX_DEPTH, MAX_FIELDS, MAX_PARTS, Part, PartIndex, Structure};
pub use subject::{BaseSubject, base_subject};
pub use summary::{HeaderText, SummaryError, SummaryRef};
pub use table::{InDecoded, Located, PartRow, Section};
pub use tap::{Tap, Tapped, tap_envelope};
pub use thread::{MessageIds, message_ids};
pub use transfer::{Encoding, TransferDecoder, TransferError, decode_transfer};
pub use words::{decode_words, decode_words_into};
