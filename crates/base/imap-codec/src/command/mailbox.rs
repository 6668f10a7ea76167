//! Arguments of the commands about mailboxes: SELECT, CREATE, LIST, STATUS.

use std::fmt;

use posthaste_mail_model::{ModSeq, UidValidity};

use crate::{EntryName, ListPattern, MailboxArg, ObjectIds, SeqSet, UidSet};

/// The way of opening a mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// SELECT.
    ReadWrite,
    /// EXAMINE.
    ReadOnly,
}

/// Parameters of SELECT and EXAMINE.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SelectParams {
    /// `CONDSTORE`: RFC 7162 §3.1.8.
    pub condstore: bool,
    /// `ANNOTATE`: report changes of annotations (RFC 5257 §4.2).
    pub annotate: bool,
    /// `QRESYNC (…)`: RFC 7162 §3.2.5. Boxed: few commands have it, and it is large.
    pub qresync: Option<Box<Qresync>>,
    /// `OBJECTID`, `OBJECTID (…)`: the mailbox of these ids rather than that of the name. Without
    /// ids it is empty (OBJECTID+, draft 06 §7.1).
    pub object_ids: Option<Box<ObjectIds>>,
}

/// The state of the mailbox that the client remembers: RFC 7162 §3.2.5.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qresync {
    /// The UIDVALIDITY it saw.
    pub uid_validity: UidValidity,
    /// The mod-sequence up to which it knows all.
    pub modseq: ModSeq,
    /// The UIDs it holds; `None` means all. Never `$` and no `*`.
    pub known_uids: Option<UidSet>,
    /// Sequence numbers and the UIDs it knows them by.
    pub seq_match: Option<SeqMatch>,
}

/// Message sequence match data: RFC 7162 §3.2.5.2. The n-th number of one set belongs to the n-th
/// of the other. Never `$` and no `*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeqMatch {
    /// Sequence numbers.
    pub seqs: SeqSet,
    /// The UIDs of these messages.
    pub uids: UidSet,
}

/// The special use of a mailbox: RFC 6154 §2, RFC 8457.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SpecialUse {
    /// `\All`
    All,
    /// `\Archive`
    Archive,
    /// `\Drafts`
    Drafts,
    /// `\Flagged`
    Flagged,
    /// `\Important`
    Important,
    /// `\Junk`
    Junk,
    /// `\Sent`
    Sent,
    /// `\Trash`
    Trash,
    /// One we do not know, without its backslash: `NO [USEATTR]`.
    Other(String),
}

impl SpecialUse {
    const KNOWN: [(&'static str, Self); 8] = [
        ("All", Self::All),
        ("Archive", Self::Archive),
        ("Drafts", Self::Drafts),
        ("Flagged", Self::Flagged),
        ("Important", Self::Important),
        ("Junk", Self::Junk),
        ("Sent", Self::Sent),
        ("Trash", Self::Trash),
    ];

    /// One of those we know, from its name without the backslash.
    pub fn known(name: &str) -> Option<Self> {
        Self::KNOWN.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, u)| u.clone())
    }

    /// The name without the backslash.
    pub fn name(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => Self::KNOWN.iter().find(|(_, u)| u == known).map_or("", |(n, _)| n),
        }
    }
}

impl fmt::Display for SpecialUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\\{}", self.name())
    }
}

/// LIST: RFC 9051 §6.3.9.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListArgs {
    /// The syntax of the command: `LIST "" ""` requests the separator only in the basic one.
    pub syntax: ListSyntax,
    /// The mailboxes.
    pub selection: ListSelection,
    /// The reference name of the patterns.
    pub reference: MailboxArg,
    /// Never empty; one in the basic syntax.
    pub patterns: Vec<ListPattern>,
    /// The return options.
    pub returns: ListReturn,
}

/// RFC 5258 §3: options make it an extended LIST.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListSyntax {
    /// As in RFC 3501.
    Basic,
    /// With a list of selection options, patterns or return options. The list may be empty.
    Extended,
}

/// Selection options: RFC 5258 §3.1, RFC 6154 §2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ListSelection {
    /// `SUBSCRIBED`
    pub subscribed: bool,
    /// `REMOTE`
    pub remote: bool,
    /// `RECURSIVEMATCH`: never alone.
    pub recursive_match: bool,
    /// `SPECIAL-USE`
    pub special_use: bool,
}

/// Return options: RFC 5258 §3.2, RFC 5819, RFC 6154 §2, RFC 9590.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ListReturn {
    /// `SUBSCRIBED`
    pub subscribed: bool,
    /// `CHILDREN`
    pub children: bool,
    /// `SPECIAL-USE`
    pub special_use: bool,
    /// `MYRIGHTS`: RFC 8440.
    pub my_rights: bool,
    /// `STATUS (…)`; empty if it was not requested.
    pub status: Vec<StatusItem>,
    /// `METADATA (…)`: RFC 9590; empty if it was not requested.
    pub metadata: Vec<EntryName>,
}

/// The items of STATUS: RFC 9051 §6.3.11.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StatusItem {
    /// `MESSAGES`
    Messages,
    /// `RECENT` (RFC 3501).
    Recent,
    /// `UIDNEXT`
    UidNext,
    /// `UIDVALIDITY`
    UidValidity,
    /// `UNSEEN`
    Unseen,
    /// `DELETED`
    Deleted,
    /// `DELETED-STORAGE`: RFC 9208 §4.1.4.
    DeletedStorage,
    /// `SIZE`
    Size,
    /// `HIGHESTMODSEQ`: RFC 7162 §3.1.7.
    HighestModSeq,
    /// `CREATEDMODSEQ` (X-CREATEDMODSEQ, an extension of Cyrus): the mod-sequence with which the
    /// mailbox was created.
    CreatedModSeq,
    /// `APPENDLIMIT`: RFC 7889 §4.
    AppendLimit,
    /// `MAILBOXID`: RFC 8474 §4.3.
    MailboxId,
    /// `OBJECTID`: OBJECTID+ (draft 06 §7.4).
    ObjectIds,
}

impl StatusItem {
    /// Every item.
    pub const ALL: [Self; 13] = [
        Self::Messages,
        Self::Recent,
        Self::UidNext,
        Self::UidValidity,
        Self::Unseen,
        Self::Deleted,
        Self::DeletedStorage,
        Self::Size,
        Self::HighestModSeq,
        Self::CreatedModSeq,
        Self::AppendLimit,
        Self::MailboxId,
        Self::ObjectIds,
    ];

    /// The item's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => "MESSAGES",
            Self::Recent => "RECENT",
            Self::UidNext => "UIDNEXT",
            Self::UidValidity => "UIDVALIDITY",
            Self::Unseen => "UNSEEN",
            Self::Deleted => "DELETED",
            Self::DeletedStorage => "DELETED-STORAGE",
            Self::Size => "SIZE",
            Self::HighestModSeq => "HIGHESTMODSEQ",
            Self::CreatedModSeq => "CREATEDMODSEQ",
            Self::AppendLimit => "APPENDLIMIT",
            Self::MailboxId => "MAILBOXID",
            Self::ObjectIds => "OBJECTID",
        }
    }
}
