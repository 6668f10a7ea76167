//! The data items that FETCH requests: RFC 9051 §6.4.5.

use posthaste_mail_model::ModSeq;

use crate::{AnnotationItem, PageRange, PartPath, Partial, Section};

/// One data item. The macros ALL, FAST and FULL are spelt out by the parser.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FetchItem {
    /// `ENVELOPE`
    Envelope,
    /// `BODY`: the structure without extension data.
    Body,
    /// `BODYSTRUCTURE`
    BodyStructure,
    /// `FLAGS`
    Flags,
    /// `INTERNALDATE`
    InternalDate,
    /// `RFC822`: as `BODY[]`, under its own name (RFC 3501).
    Rfc822,
    /// `RFC822.HEADER`: as `BODY.PEEK[HEADER]` (RFC 3501).
    Rfc822Header,
    /// `RFC822.TEXT`: as `BODY[TEXT]` (RFC 3501).
    Rfc822Text,
    /// `RFC822.SIZE`
    Rfc822Size,
    /// `UID`
    Uid,
    /// `MODSEQ`: RFC 7162 §3.1.4.2.
    ModSeq,
    /// `EMAILID`: RFC 8474 §5.1.
    EmailId,
    /// `THREADID`: RFC 8474 §5.2.
    ThreadId,
    /// `OBJECTID`: both in one list (OBJECTID+, draft 06 §7.5).
    ObjectIds,
    /// `X-GM-MSGID` of Gmail's X-GM-EXT-1.
    GmMessageId,
    /// `DIGEST.SHA1` (DIGEST=SHA1, an extension of Cyrus)
    DigestSha1,
    /// `X-GM-THRID`
    GmThreadId,
    /// `X-GM-LABELS`
    GmLabels,
    /// `ANNOTATION (entries attributes)`: RFC 5257 §4.3.
    Annotation(AnnotationItem),
    /// `SAVEDATE`: RFC 8514.
    SaveDate,
    /// `CREATEDMODSEQ` (X-CREATEDMODSEQ, an extension of Cyrus): the mod-sequence with which the
    /// message came into the mailbox.
    CreatedModSeq,
    /// `PREVIEW`, `PREVIEW (LAZY)`: RFC 8970.
    Preview {
        /// Only if it is available.
        lazy: bool,
    },
    /// `PREVIEW (FUZZY)`, `SNIPPET (LAZY=FUZZY)`: RFC 8970 as its drafts had it.
    Snippet {
        /// The name of the item.
        name: SnippetName,
        /// Only if it is available.
        lazy: bool,
    },
    /// `BODY[…]<…>` and `BODY.PEEK[…]<…>`.
    BodySection {
        /// The section.
        section: Section,
        /// The range of its bytes.
        partial: Option<Partial>,
        /// Whether `\Seen` stays as it is.
        peek: bool,
    },
    /// `BINARY[…]<…>` and `BINARY.PEEK[…]<…>`: the part with its transfer encoding undone.
    Binary {
        /// The part.
        part: PartPath,
        /// The range of its decoded bytes.
        partial: Option<Partial>,
        /// Whether `\Seen` stays as it is.
        peek: bool,
    },
    /// `BINARY.SIZE[…]`
    BinarySize {
        /// The part.
        part: PartPath,
    },
}

impl FetchItem {
    /// Whether fetching this sets `\Seen` (RFC 9051 §6.4.5).
    pub fn sets_seen(&self) -> bool {
        match self {
            Self::Rfc822 | Self::Rfc822Text => true,
            Self::BodySection { peek, .. } | Self::Binary { peek, .. } => !peek,
            _ => false,
        }
    }
}

/// FETCH modifiers: RFC 4466 §2.4, RFC 7162, RFC 9394.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FetchModifiers {
    /// `CHANGEDSINCE`: only messages above this mod-sequence (RFC 7162 §3.1.4.1).
    pub changed_since: Option<ModSeq>,
    /// `VANISHED`: also report expunged UIDs (RFC 7162 §3.2.6); only with `changed_since` and UID
    /// FETCH.
    pub vanished: bool,
    /// `PARTIAL`: only one page of the messages (RFC 9394 §3.3); only with UID FETCH.
    pub partial: Option<PageRange>,
}

/// The names that drafts of RFC 8970 gave to the preview of a message, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SnippetName {
    /// `PREVIEW` with the algorithm in parentheses: PREVIEW=FUZZY.
    Preview,
    /// `SNIPPET`: SNIPPET=FUZZY.
    Snippet,
}

impl SnippetName {
    /// The name as it is sent.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preview => "PREVIEW",
            Self::Snippet => "SNIPPET",
        }
    }
}
