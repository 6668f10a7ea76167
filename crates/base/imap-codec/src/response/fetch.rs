//! The items of FETCH: RFC 9051 §7.5.2.

use bytes::Bytes;
use posthaste_mail_model::{ModSeq, Uid};

use super::{BodyStructure, Envelope, ResponseFlag};
use crate::command::SnippetName;
use crate::{AnnotationData, DateTime, ObjectIds, PartPath, Section};

/// One data item with its value. Bytes of messages are slices of the response, not copies; `None`
/// is `NIL`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FetchValue {
    /// `ENVELOPE`
    Envelope(Box<Envelope<'static>>),
    /// `BODY`
    Body(BodyStructure<'static>),
    /// `BODYSTRUCTURE`
    BodyStructure(BodyStructure<'static>),
    /// `FLAGS`
    Flags(Vec<ResponseFlag>),
    /// `INTERNALDATE`
    InternalDate(DateTime),
    /// `RFC822`
    Rfc822(Option<Bytes>),
    /// `RFC822.HEADER`
    Rfc822Header(Option<Bytes>),
    /// `RFC822.TEXT`
    Rfc822Text(Option<Bytes>),
    /// `RFC822.SIZE`
    Rfc822Size(u64),
    /// `UID`
    Uid(Uid),
    /// `MODSEQ (n)`
    ModSeq(ModSeq),
    /// `CREATEDMODSEQ (n)` (X-CREATEDMODSEQ of Cyrus)
    CreatedModSeq(ModSeq),
    /// `EMAILID (id)`
    EmailId(String),
    /// `THREADID (id)` or `NIL`
    ThreadId(Option<String>),
    /// `OBJECTID (…)`: OBJECTID+ (draft 06 §7.5).
    ObjectIds(ObjectIds),
    /// `SAVEDATE`
    SaveDate(Option<DateTime>),
    /// `PREVIEW`
    Preview(Option<Bytes>),
    /// `PREVIEW (FUZZY "text")`, `SNIPPET (FUZZY "text")`: RFC 8970 as its drafts had it.
    Snippet(SnippetName, Option<Bytes>),
    /// `BODY[…]<…>`
    BodySection {
        /// The section.
        section: Section,
        /// The position where the bytes start, if a part of them was requested.
        origin: Option<u64>,
        /// The bytes.
        data: Option<Bytes>,
    },
    /// `BINARY[…]<…>`
    Binary {
        /// The part.
        part: PartPath,
        /// The position where the bytes start.
        origin: Option<u64>,
        /// The bytes, decoded.
        data: Option<Bytes>,
    },
    /// `BINARY.SIZE[…]`
    BinarySize {
        /// The part.
        part: PartPath,
        /// Bytes, decoded.
        size: u64,
    },
    /// `X-GM-MSGID` of Gmail's X-GM-EXT-1.
    GmMessageId(u64),
    /// `DIGEST.SHA1`: the SHA-1 of the message.
    DigestSha1([u8; 20]),
    /// `X-GM-THRID`
    GmThreadId(u64),
    /// `X-GM-LABELS`: labels, those of Gmail's own with their backslash.
    GmLabels(Vec<String>),
    /// `ANNOTATION (…)`: RFC 5257 §4.4.
    Annotation(Vec<AnnotationData>),
    /// An unknown item: its name, and its raw value.
    Other(String, Bytes),
}
