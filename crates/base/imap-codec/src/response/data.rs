//! Untagged data: RFC 9051 §7.2 – §7.5.

use bytes::Bytes;
use posthaste_mail_model::{ModSeq, NumSet, SeqNum, Uid, UidValidity};

use super::{FetchValue, ResponseFlag, UrlFetched};
use crate::command::{ListSelection, SpecialUse};
use crate::{AclData, Annotation, Capability, EntryName, MailboxArg, Numbering, ObjectIds, PageRange, Tag};

/// The responses after `* `, except status responses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Untagged {
    /// RFC 9051 §7.2.2.
    Capability(Vec<Capability>),
    /// RFC 9051 §7.2.1.
    Enabled(Vec<Capability>),
    /// RFC 9051 §7.3.1.
    List(ListData),
    /// RFC 3501 §7.2.3.
    Lsub(ListData),
    /// `XLIST`: the form of LIST that clients of Gmail used before RFC 6154.
    Xlist(ListData),
    /// RFC 9051 §7.3.2.
    Namespace(Namespaces),
    /// RFC 9698: the URL of the JMAP session.
    JmapAccess(String),
    /// RFC 9051 §7.3.3.
    Status {
        /// The mailbox.
        mailbox: MailboxArg,
        /// The mailbox's values.
        items: Vec<StatusValue>,
    },
    /// RFC 9208 §4.2.1.
    Quota {
        /// The quota root.
        root: String,
        /// The limited resources.
        resources: Vec<QuotaResource>,
    },
    /// RFC 9208 §4.2.2.
    QuotaRoot {
        /// The mailbox.
        mailbox: MailboxArg,
        /// The quota roots to which it belongs; may be empty.
        roots: Vec<String>,
    },
    /// RFC 5464 §4.4.1.
    Metadata {
        /// The mailbox of the annotations; the empty name is the server.
        mailbox: MailboxArg,
        /// Never empty.
        entries: Vec<Annotation>,
    },
    /// RFC 5464 §4.4.2: these changed.
    MetadataChanged {
        /// The mailbox of the annotations; the empty name is the server.
        mailbox: MailboxArg,
        /// Never empty.
        entries: Vec<EntryName>,
    },
    /// RFC 5255 §3.3: the language in use, or all available ones.
    Language(Vec<String>),
    /// RFC 5255 §4.8.
    Comparator {
        /// The one in use.
        active: String,
        /// Further comparators that match the client's request.
        others: Vec<String>,
    },
    /// Access control lists: RFC 4314 §3.6 – §3.8.
    Acl(AclData),
    /// RFC 3501 §7.2.5, with MODSEQ of RFC 7162 §3.1.5.
    Search {
        /// Numbers in the order of the response.
        numbers: Vec<u32>,
        /// The highest mod-sequence of those found.
        modseq: Option<ModSeq>,
    },
    /// RFC 5256 §4, with MODSEQ of RFC 7162 §3.1.5.
    Sort {
        /// Numbers in the order of the sort.
        numbers: Vec<u32>,
        /// The highest mod-sequence of those found.
        modseq: Option<ModSeq>,
    },
    /// RFC 5256 §4.
    Thread(Vec<ThreadNode>),
    /// RFC 9051 §7.3.4.
    Esearch(Esearch),
    /// RFC 9051 §7.3.5.
    Flags(Vec<ResponseFlag>),
    /// RFC 9051 §7.4.1.
    Exists(u32),
    /// RFC 3501 §7.3.2.
    Recent(u32),
    /// RFC 9051 §7.5.1.
    Expunge(SeqNum),
    /// RFC 7162 §3.2.10.
    Vanished {
        /// `(EARLIER)`: no sequence numbers change.
        earlier: bool,
        /// The expunged UIDs.
        uids: NumSet,
    },
    /// RFC 9051 §7.5.2.
    Fetch {
        /// The message.
        seq: SeqNum,
        /// The message's values.
        items: Vec<FetchValue>,
    },
    /// RFC 9586 §3.3: FETCH for a session that enabled UIDONLY.
    UidFetch {
        /// The message.
        uid: Uid,
        /// The message's values.
        items: Vec<FetchValue>,
    },
    /// The UIDs of a mailbox in batches: RFC 10022.
    UidBatches {
        /// The command that requested it.
        tag: Tag,
        /// The batches from the newest on, each by its highest and lowest UID.
        batches: Vec<(Uid, Uid)>,
    },
    /// RFC 4467 §8: the URLs with their authorisation; never empty.
    GenUrlAuth(Vec<String>),
    /// RFC 4467 §8, RFC 5524 §3; never empty.
    UrlFetch(Vec<UrlFetched>),
    /// RFC 2971 §3.2.
    Id(Option<Vec<(String, Option<String>)>>),
    /// Something we do not know: all after `* `, without the line end.
    Other(Bytes),
}

/// A resource of a quota root: RFC 9208 §5.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QuotaResource {
    /// `STORAGE`, in units of 1,024 octets, `MESSAGE`, or another, in capitals.
    pub name: String,
    /// The used amount.
    pub usage: u64,
    /// The allowed amount.
    pub limit: u64,
}

/// LIST and LSUB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListData {
    /// `(\HasChildren …)`
    pub attributes: Vec<ListAttribute>,
    /// Hierarchy separator; `None` for a flat name.
    pub separator: Option<char>,
    /// The mailbox.
    pub mailbox: MailboxArg,
    /// `CHILDINFO (…)`: below it are mailboxes that these options select (RFC 5258 §3.5).
    pub child_info: ListSelection,
    /// `OLDNAME (…)`: RFC 9051 §6.3.9.7.
    pub old_name: Option<MailboxArg>,
}

/// Attributes of a mailbox: RFC 9051 §7.3.1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ListAttribute {
    /// `\NonExistent`
    NonExistent,
    /// `\Noinferiors`
    NoInferiors,
    /// `\Noselect`
    NoSelect,
    /// `\HasChildren`
    HasChildren,
    /// `\HasNoChildren`
    HasNoChildren,
    /// `\Marked`
    Marked,
    /// `\Unmarked`
    Unmarked,
    /// `\Subscribed`
    Subscribed,
    /// `\Remote`
    Remote,
    /// `\NoAccess`: RFC 5465 §3.1.
    NoAccess,
    /// The mailbox's special use; `SpecialUse::Other` is any attribute we do not know.
    Use(SpecialUse),
}

impl ListAttribute {
    const KNOWN: [(&'static str, Self); 10] = [
        ("NonExistent", Self::NonExistent),
        ("Noinferiors", Self::NoInferiors),
        ("Noselect", Self::NoSelect),
        ("HasChildren", Self::HasChildren),
        ("HasNoChildren", Self::HasNoChildren),
        ("Marked", Self::Marked),
        ("Unmarked", Self::Unmarked),
        ("Subscribed", Self::Subscribed),
        ("Remote", Self::Remote),
        ("NoAccess", Self::NoAccess),
    ];

    /// The attribute of a name without its backslash.
    pub fn from_name(name: &str) -> Self {
        match Self::KNOWN.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
            Some((_, known)) => known.clone(),
            None => Self::Use(SpecialUse::known(name).unwrap_or_else(|| SpecialUse::Other(name.to_owned()))),
        }
    }

    /// The attribute's name without the backslash.
    pub fn name(&self) -> &str {
        match self {
            Self::Use(special_use) => special_use.name(),
            known => Self::KNOWN.iter().find(|(_, a)| a == known).map_or("", |(name, _)| name),
        }
    }
}

/// One namespace: RFC 2342.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Prefix of its names.
    pub prefix: MailboxArg,
    /// Hierarchy separator.
    pub separator: Option<char>,
}

/// NAMESPACE: empty is `NIL`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Namespaces {
    /// The user's own mailboxes.
    pub personal: Vec<Namespace>,
    /// The mailboxes of other users.
    pub other: Vec<Namespace>,
    /// Shared.
    pub shared: Vec<Namespace>,
}

/// One item of STATUS with its value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum StatusValue {
    /// `MESSAGES`
    Messages(u32),
    /// `RECENT`
    Recent(u32),
    /// `UIDNEXT`
    UidNext(Uid),
    /// `UIDVALIDITY`
    UidValidity(UidValidity),
    /// `UNSEEN`
    Unseen(u32),
    /// `DELETED`
    Deleted(u32),
    /// `DELETED-STORAGE`: bytes.
    DeletedStorage(u64),
    /// `SIZE`: bytes.
    Size(u64),
    /// `HIGHESTMODSEQ`; 0 if the mailbox has no mod-sequences.
    HighestModSeq(ModSeq),
    /// `CREATEDMODSEQ` (X-CREATEDMODSEQ of Cyrus)
    CreatedModSeq(ModSeq),
    /// `APPENDLIMIT`; `None` is `NIL`.
    AppendLimit(Option<u64>),
    /// `MAILBOXID (…)`
    MailboxId(String),
    /// `OBJECTID (…)`: OBJECTID+ (draft 06 §7.4).
    ObjectIds(ObjectIds),
}

/// ESEARCH: RFC 4731 §3.1, RFC 9051 §7.3.4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Esearch {
    /// The SEARCH it answers.
    pub tag: Option<Tag>,
    /// The mailbox that was searched, of a search in several (RFC 7377 §3).
    pub mailbox: Option<(MailboxArg, UidValidity)>,
    /// Whether the numbers are UIDs or sequence numbers.
    pub numbering: Numbering,
    /// `MIN`
    pub min: Option<u32>,
    /// `MAX`
    pub max: Option<u32>,
    /// `COUNT`
    pub count: Option<u32>,
    /// `ALL`: ranges in the order of the response, the lower end first; never empty. A SEARCH has
    /// ascending numbers, a SORT has its own order (RFC 5267 §3.2).
    pub all: Option<Vec<(u32, u32)>>,
    /// `PARTIAL`: the range that was requested, and what is on it, as in `all`; nothing is `NIL`
    /// (RFC 9394 §3.1).
    pub partial: Option<(PageRange, Vec<(u32, u32)>)>,
    /// `RELEVANCY`: the scores of the messages of `all` or `partial`, 1 … 100 (RFC 6203 §4).
    pub relevancy: Option<Vec<u8>>,
    /// `MODSEQ`: RFC 7162 §3.1.10.
    pub modseq: Option<ModSeq>,
    /// `ADDTO` and `REMOVEFROM`, to be applied in this order (RFC 5267 §4.3.2).
    pub updates: Vec<Update>,
}

/// A change of a result that is kept up to date: RFC 5267 §4.3.3, §4.3.4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// Whether the messages come or go.
    pub kind: UpdateKind,
    /// Places in the result, from 1, each with the messages there in their order, as in
    /// [`Esearch::all`]; never empty. Place 0 leaves the order to the client, which a SEARCH may
    /// do.
    pub places: Vec<(u32, Vec<(u32, u32)>)>,
}

/// The kind of an [`Update`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UpdateKind {
    /// `ADDTO`
    AddTo,
    /// `REMOVEFROM`
    RemoveFrom,
}

impl UpdateKind {
    /// The name as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddTo => "ADDTO",
            Self::RemoveFrom => "REMOVEFROM",
        }
    }
}

/// A node of THREAD's forest. All nodes are in one list, each before its children, so that a
/// thread of any depth needs no recursion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadNode {
    /// The message. `None` is a parent that the mailbox lacks: it has at least two children, and is
    /// not the only child of another node.
    pub number: Option<u32>,
    /// The number of children that follow it, with theirs.
    pub children: u32,
}
