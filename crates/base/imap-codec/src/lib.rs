//! The IMAP grammar, once, for both ends of the wire: RFC 3501 and RFC 9051 with the extensions of
//! the table in `docs/rfc.md`.
//!
//! * [`framing`] cuts a byte stream into whole commands and whole responses;
//! * [`parse_command`] and [`parse_response`] turn those bytes into [`Command`] and [`Response`];
//! * [`mod@print`] turns them back. Delivery uses its pieces to print some responses once.
//!
//! Nothing here knows a socket, a clock, a task or a store. Invariants: no input makes a parser
//! panic or recurse deeper than [`limits`] says. No input takes more memory than a constant
//! factor of its size. Every value that the types can hold and the grammar can express is printed
//! so that it parses back.

mod acl;
mod annotation;
mod chars;
pub mod command;
mod cursor;
mod date;
mod envelope;
mod error;
pub mod framing;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod limits;
mod list_match;
mod mailbox;
mod mailbox_url;
mod message_annotation;
mod object_ids;
mod page;
pub mod print;
pub mod response;
mod section;
mod sequence;
mod tag;
mod url;
pub mod utf7;

pub use acl::{AclCommand, AclData, RightsChange};
pub use annotation::{Annotation, Depth, EntryName, MetadataCode};
pub use command::{Command, CommandBody, parse_command, parse_criteria};
pub use date::{Date, DateTime};
pub use envelope::{EnvelopeList, first_address};
pub use error::{ParseError, ParseErrorKind};
pub use list_match::ListMatcher;
pub use mailbox::{ListPattern, MailboxArg, MailboxArgError, NameEncoding};
pub use mailbox_url::MailboxUrl;
pub use message_annotation::{
    AnnotateCode, AnnotationData, AnnotationItem, AnnotationKey, AnnotationSupport, EntryPattern,
    ValueAttribute, ValueChange, ValueKind, ValueScope,
};
pub use object_ids::ObjectIds;
pub use page::PageRange;
pub use response::{Response, parse_response};
pub use section::{PartPath, Partial, Section, SectionText};
pub use sequence::{Bound, MessageSet, Numbering, SeqSet, SequenceSet, SetRange, UidRanges, UidSet};
pub use tag::{Capability, Tag};
pub use url::{
    ImapUrl, URL_BYTES_MAX, UrlAccess, UrlAuth, UrlError, UrlMailbox, UrlPartial, UrlProof, UrlServer,
};
