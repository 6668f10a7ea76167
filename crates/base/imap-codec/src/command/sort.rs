//! SORT and THREAD: RFC 5256, the display keys of RFC 5957, RETURN of RFC 5267 §3.

use super::{Charset, FetchItem, SearchKey, SearchReturn};
use crate::{EntryName, Numbering, ValueScope};

/// SORT and UID SORT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SortArgs {
    /// Whether the result has UIDs or sequence numbers.
    pub numbering: Numbering,
    /// `RETURN (…)`: answer by ESEARCH (RFC 5267 §3). `RETURN ()` is `ALL`.
    pub returns: Option<SearchReturn>,
    /// The items that `UPDATE (…)` fetches of new messages that enter the result (RFC 5465 §7).
    pub update_items: Vec<FetchItem>,
    /// The keys to sort by. The first one counts most. Never empty.
    pub criteria: Vec<SortCriterion>,
    /// The annotations that [`SortKey::Annotation`] names.
    pub annotations: Vec<(EntryName, ValueScope)>,
    /// The charset of the text in the keys; the text is decoded already.
    pub charset: Charset,
    /// The messages.
    pub key: SearchKey,
}

/// `["REVERSE" SP] sort-key`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SortCriterion {
    /// The value to compare.
    pub key: SortKey,
    /// Whether the order of this key is descending.
    pub is_reverse: bool,
}

/// The values that SORT compares: RFC 5256 §3, RFC 5957 §4. MODSEQ and UID are keys of Cyrus.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SortKey {
    /// `ARRIVAL`: INTERNALDATE.
    Arrival,
    /// `CC`: mailbox of the first address.
    Cc,
    /// `DATE`: the Date field in UTC.
    Date,
    /// `FROM`: mailbox of the first address.
    From,
    /// `SIZE`
    Size,
    /// `SUBJECT`: the base subject (RFC 5256 §2.1).
    Subject,
    /// `TO`: mailbox of the first address.
    To,
    /// `DISPLAYFROM`: the first address as it is displayed.
    DisplayFrom,
    /// `DISPLAYTO`: the same of To.
    DisplayTo,
    /// `MODSEQ`: the mod-sequence (SORT=MODSEQ).
    ModSeq,
    /// `UID` (SORT=UID).
    Uid,
    /// `RELEVANCY`: how well the message matches, the best first (RFC 6203 §5).
    Relevancy,
    /// `ANNOTATION entry value.priv`: the value of the annotation at this place of
    /// [`SortArgs::annotations`] (RFC 5257 §4.9).
    Annotation(u16),
}

impl SortKey {
    /// The keys except the keys of annotations.
    pub const ALL: [Self; 12] = [
        Self::Arrival,
        Self::Cc,
        Self::Date,
        Self::From,
        Self::Size,
        Self::Subject,
        Self::To,
        Self::DisplayFrom,
        Self::DisplayTo,
        Self::ModSeq,
        Self::Uid,
        Self::Relevancy,
    ];

    /// The key's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "ARRIVAL",
            Self::Cc => "CC",
            Self::Date => "DATE",
            Self::From => "FROM",
            Self::Size => "SIZE",
            Self::Subject => "SUBJECT",
            Self::To => "TO",
            Self::DisplayFrom => "DISPLAYFROM",
            Self::DisplayTo => "DISPLAYTO",
            Self::ModSeq => "MODSEQ",
            Self::Uid => "UID",
            Self::Relevancy => "RELEVANCY",
            Self::Annotation(_) => "ANNOTATION",
        }
    }
}

/// THREAD and UID THREAD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadArgs {
    /// Whether the result has UIDs or sequence numbers.
    pub numbering: Numbering,
    /// The algorithm that puts messages together.
    pub algorithm: ThreadAlgorithm,
    /// The charset of the text in the keys.
    pub charset: Charset,
    /// The messages.
    pub key: SearchKey,
}

/// An algorithm by which THREAD puts messages together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ThreadAlgorithm {
    /// `ORDEREDSUBJECT`: RFC 5256 §3.
    OrderedSubject,
    /// `REFERENCES`: RFC 5256 §3.
    References,
    /// `REFS`: draft-ietf-morg-inthread.
    Refs,
}

impl ThreadAlgorithm {
    /// The algorithms that exist.
    pub const ALL: [Self; 3] = [Self::OrderedSubject, Self::References, Self::Refs];

    /// The algorithm's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrderedSubject => "ORDEREDSUBJECT",
            Self::References => "REFERENCES",
            Self::Refs => "REFS",
        }
    }
}
