//! ENVELOPE and BODYSTRUCTURE: RFC 9051 §7.5.2.
//!
//! Texts are the bytes of the header, neither decoded nor checked. A delivery borrows them from the
//! message. A client that has read them owns them.

use std::borrow::Cow;

/// `nstring`: `None` is `NIL`.
pub type NString<'a> = Option<Cow<'a, [u8]>>;

/// A parameter: name and value.
pub type Param<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// `envelope`. A field that is missing is `None` or empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Envelope<'a> {
    /// Date, as the header has it.
    pub date: NString<'a>,
    /// Subject.
    pub subject: NString<'a>,
    /// The addresses of From.
    pub from: Vec<Address<'a>>,
    /// Sender; `None` means the same as From, without a copy of it.
    pub sender: Option<Vec<Address<'a>>>,
    /// Reply-To; `None` means the same as From.
    pub reply_to: Option<Vec<Address<'a>>>,
    /// The addresses of To.
    pub to: Vec<Address<'a>>,
    /// Cc.
    pub cc: Vec<Address<'a>>,
    /// Bcc.
    pub bcc: Vec<Address<'a>>,
    /// The value of In-Reply-To.
    pub in_reply_to: NString<'a>,
    /// Message-ID.
    pub message_id: NString<'a>,
}

/// `address`. The start of a group has its name as mailbox and no host; its end has neither.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Address<'a> {
    /// Display name.
    pub name: NString<'a>,
    /// Source route: obsolete, `NIL`.
    pub route: NString<'a>,
    /// Left of the `@`.
    pub mailbox: NString<'a>,
    /// Right of the `@`.
    pub host: NString<'a>,
}

/// `body`. Never deeper than [`crate::limits::BODY_NESTING_MAX`] when it comes from the parser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyStructure<'a> {
    /// One part.
    Single(Box<SinglePart<'a>>),
    /// `multipart/…`
    Multi(Box<MultiPart<'a>>),
}

/// `body-type-1part`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinglePart<'a> {
    /// Type and the fields all parts have.
    pub basic: BasicPart<'a>,
    /// The fields that only some kinds have.
    pub kind: PartKind<'a>,
    /// `body-fld-md5`
    pub md5: NString<'a>,
    /// The last fields of both sorts of part.
    pub tail: PartTail<'a>,
}

/// Media type and `body-fields`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BasicPart<'a> {
    /// `text`, `image`, …
    pub media_type: Cow<'a, [u8]>,
    /// `plain`, …
    pub media_subtype: Cow<'a, [u8]>,
    /// Parameters of Content-Type.
    pub params: Vec<Param<'a>>,
    /// Content-ID.
    pub id: NString<'a>,
    /// Content-Description.
    pub description: NString<'a>,
    /// Content-Transfer-Encoding.
    pub encoding: Cow<'a, [u8]>,
    /// Bytes, encoded.
    pub size: u64,
}

/// The fields that only some parts have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartKind<'a> {
    /// Nothing.
    Basic,
    /// `text/…`
    Text {
        /// Lines, encoded.
        lines: u64,
    },
    /// `message/rfc822` and `message/global`
    Message {
        /// Envelope of the message inside.
        envelope: Box<Envelope<'a>>,
        /// The message's structure.
        body: BodyStructure<'a>,
        /// Lines, encoded.
        lines: u64,
    },
}

/// `body-type-mpart`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiPart<'a> {
    /// The parts of the multipart. The grammar requires at least one: without any, an empty
    /// `text/plain` is printed.
    pub parts: Vec<BodyStructure<'a>>,
    /// `mixed`, …
    pub media_subtype: Cow<'a, [u8]>,
    /// Parameters of Content-Type: extension data.
    pub params: Vec<Param<'a>>,
    /// The last fields of both sorts of part.
    pub tail: PartTail<'a>,
}

/// Extension data of both sorts of part; only BODYSTRUCTURE has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartTail<'a> {
    /// Content-Disposition.
    pub disposition: Option<Disposition<'a>>,
    /// Content-Language; empty is `NIL`.
    pub language: Vec<Cow<'a, [u8]>>,
    /// Content-Location.
    pub location: NString<'a>,
}

/// Content-Disposition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disposition<'a> {
    /// `attachment`, …
    pub kind: Cow<'a, [u8]>,
    /// Parameters.
    pub params: Vec<Param<'a>>,
}
