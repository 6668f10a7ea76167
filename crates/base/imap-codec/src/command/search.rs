//! SEARCH: RFC 9051 §6.4.4 with the keys of RFC 3501, 5032 (WITHIN), 7162, 8474,
//! 8514 and 9738.

use posthaste_mail_model::{Flag, ModSeq, Uid};

use super::FetchItem;
use crate::{AnnotationKey, Date, Numbering, PageRange, SeqSet, UidSet};

/// SEARCH and UID SEARCH.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchArgs {
    /// Whether the result has UIDs or sequence numbers. Sets in the keys have their own.
    pub numbering: Numbering,
    /// `CHARSET`, if it was given. Text in the keys is decoded already.
    pub charset: Option<Charset>,
    /// `RETURN (…)`: answer by ESEARCH. `RETURN ()` is `ALL` (RFC 4731 §3.1).
    pub returns: Option<SearchReturn>,
    /// The items that `UPDATE (…)` fetches of new messages that enter the result (RFC 5465 §7).
    pub update_items: Vec<FetchItem>,
    /// The criteria. Several keys side by side are one [`SearchKey::And`].
    pub key: SearchKey,
}

/// Charsets that text is decoded from, and printed in. Text in another charset that mail has is
/// decoded when it is parsed, and counts as [`Charset::Utf8`]. An unknown charset is
/// [`crate::ParseErrorKind::BadCharset`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Charset {
    /// `US-ASCII`
    UsAscii,
    /// `UTF-8`
    Utf8,
}

/// The parts of the result that are returned: RFC 4731 §3.1, RFC 5182, RFC 5267 §4, RFC 9394.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SearchReturn {
    /// `MIN`
    pub min: bool,
    /// `MAX`
    pub max: bool,
    /// `ALL`
    pub all: bool,
    /// `COUNT`
    pub count: bool,
    /// `SAVE`: keep it as `$`.
    pub save: bool,
    /// `PARTIAL`: one page of the result; never with `all` (RFC 9394 §3.1).
    pub partial: Option<PageRange>,
    /// `UPDATE`: report changes of the result (RFC 5267 §4.3).
    pub update: bool,
    /// `CONTEXT`: the same criteria will be used again (RFC 5267 §4.2).
    pub context: bool,
    /// `RELEVANCY`: how well each message of `ALL` or `PARTIAL` matches (RFC 6203 §4).
    pub relevancy: bool,
}

impl SearchReturn {
    /// Whether it requests nothing of the result. `SAVE` alone is answered by nothing
    /// (RFC 5182 §2.1).
    pub fn names_no_result(&self) -> bool {
        !(self.min || self.max || self.all || self.count || self.save || self.partial.is_some())
    }
}

/// A criterion for messages. Text matches as a substring without regard to case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SearchKey {
    /// `ALL`
    All,
    /// Every one of several, at least two: `(a b c)`.
    And(Vec<SearchKey>),
    /// `OR a b`
    Or(Box<SearchKey>, Box<SearchKey>),
    /// `NOT a`
    Not(Box<SearchKey>),
    /// `FUZZY a`: an approximate match is enough (RFC 6203 §3).
    Fuzzy(Box<SearchKey>),
    /// `ANSWERED`, `SEEN`, …, `KEYWORD x`: the flag is set.
    Has(Flag),
    /// `UNANSWERED`, `UNSEEN`, …, `UNKEYWORD x`: the flag is not set.
    Lacks(Flag),
    /// `NEW`: recent and not seen (RFC 3501).
    New,
    /// `OLD`: not recent (RFC 3501).
    Old,
    /// `RECENT` (RFC 3501).
    Recent,
    /// Sequence numbers, or `$`.
    Seq(SeqSet),
    /// `UID set`
    Uid(UidSet),
    /// `UIDAFTER uid`: with a higher UID (RFC 9738 §3.2).
    UidAfter(Uid),
    /// `UIDBEFORE uid`: with a lower UID (RFC 9738 §3.2).
    UidBefore(Uid),
    /// `BCC`
    Bcc(String),
    /// `CC`
    Cc(String),
    /// `FROM`
    From(String),
    /// `SUBJECT`
    Subject(String),
    /// `TO`
    To(String),
    /// `HEADER name text`; with no text: the field is there.
    Header(String, String),
    /// `BODY`
    Body(String),
    /// `TEXT`
    Text(String),
    /// `BEFORE`: INTERNALDATE earlier than the day.
    Before(Date),
    /// `ON`
    On(Date),
    /// `SINCE`
    Since(Date),
    /// `SENTBEFORE`: by the Date field.
    SentBefore(Date),
    /// `SENTON`
    SentOn(Date),
    /// `SENTSINCE`
    SentSince(Date),
    /// `SAVEDBEFORE`: RFC 8514 §4.3.
    SavedBefore(Date),
    /// `SAVEDON`
    SavedOn(Date),
    /// `SAVEDSINCE`
    SavedSince(Date),
    /// `SAVEDATESUPPORTED`
    SaveDateSupported,
    /// `LARGER`: bytes.
    Larger(u64),
    /// `SMALLER`: bytes.
    Smaller(u64),
    /// `OLDER`: seconds, at least one (RFC 5032).
    Older(u32),
    /// `YOUNGER`: seconds, at least one.
    Younger(u32),
    /// `MODSEQ`: RFC 7162 §3.1.5.
    ModSeq {
        /// Metadata the client cares about; servers that keep one mod-sequence a message pass over
        /// it.
        entry: Option<ModSeqEntry>,
        /// The lowest mod-sequence.
        modseq: ModSeq,
    },
    /// `ANNOTATION entry attribute text`: RFC 5257 §4.8. Boxed: no other key is as large.
    Annotation(Box<AnnotationKey>),
    /// `FILTER name`: the criteria that are kept under this name (RFC 5466).
    Filter(String),
    /// `EMAILID`: RFC 8474 §5.
    EmailId(String),
    /// `THREADID`: RFC 8474 §5.
    ThreadId(String),
    /// `X-GM-MSGID` of Gmail's X-GM-EXT-1.
    GmMessageId(u64),
    /// `X-GM-THRID`
    GmThreadId(u64),
    /// `X-GM-LABELS`: the message has this label.
    GmLabel(String),
    /// `X-GM-RAW`: a query of Gmail's web interface.
    GmRaw(String),
}

/// `"/flags/\\draft" all`: RFC 7162 §3.1.5.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ModSeqEntry {
    /// Name of the entry.
    pub name: String,
    /// The scope.
    pub scope: EntryScope,
}

/// RFC 7162 §7, entry-type-req.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EntryScope {
    /// `priv`
    Private,
    /// `shared`
    Shared,
    /// `all`
    All,
}
