//! Commands of a client as typed values: RFC 9051 §6 and the extensions named at each.
//!
//! Each command is one variant. `UID FETCH` is FETCH with [`MessageSet::Uid`]. The session decides
//! whether a command is legal in the present state, not the grammar.

mod fetch;
mod mailbox;
mod multi_search;
mod notify;
mod parse;
mod parse_append;
mod parse_fetch;
mod parse_i18n;
mod parse_mailbox;
mod parse_metadata;
mod parse_multi_search;
mod parse_notify;
mod parse_search;
mod parse_sort;
mod parse_url;
mod parse_words;
mod search;
mod sort;

use bytes::Bytes;
use posthaste_mail_model::{Flag, ModSeq, Secret};

pub(crate) use parse_append::date_time;
pub(crate) use parse_fetch::binary_part;
pub(crate) use parse_words::{capability, gm_label, mailbox, mod_seq};

pub use fetch::{FetchItem, FetchModifiers, SnippetName};
pub use mailbox::{
    Access, ListArgs, ListReturn, ListSelection, ListSyntax, Qresync, SelectParams, SeqMatch, SpecialUse,
    StatusItem,
};
pub use multi_search::MultiSearchArgs;
pub use notify::{Event, EventGroup, MailboxFilter, Notify};
pub use parse::parse_command;
pub use parse_search::parse_criteria;
pub use search::{Charset, EntryScope, ModSeqEntry, SearchArgs, SearchKey, SearchReturn};
pub use sort::{SortArgs, SortCriterion, SortKey, ThreadAlgorithm, ThreadArgs};

use crate::ValueChange;
use crate::{
    AclCommand, Annotation, Capability, DateTime, Depth, EntryName, ListPattern, MailboxArg, MessageSet, Tag,
    UidSet,
};

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The client's name for it.
    pub tag: Tag,
    /// The command with its arguments.
    pub body: CommandBody,
}

/// A command with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandBody {
    /// RFC 9051 §6.1.1.
    Capability,
    /// RFC 9051 §6.1.2.
    Noop,
    /// RFC 9051 §6.1.3.
    Logout,
    /// RFC 9051 §6.2.1.
    StartTls,
    /// RFC 9051 §6.2.2, with the initial response of RFC 4959.
    Authenticate {
        /// Name of the mechanism, in capitals.
        mechanism: String,
        /// Decoded; `=` is `Some` of nothing.
        initial: Option<Secret<Vec<u8>>>,
    },
    /// RFC 9051 §6.2.3.
    Login {
        /// The name of the user.
        user: String,
        /// Bytes, as passwords are.
        password: Secret<Vec<u8>>,
    },
    /// RFC 8437.
    Unauthenticate,
    /// RFC 2971; `None` is `NIL`.
    Id(Option<Vec<(String, Option<String>)>>),
    /// RFC 9051 §6.3.1.
    Enable(Vec<Capability>),
    /// RFC 4978 `COMPRESS DEFLATE`, the only mechanism there is.
    CompressDeflate,
    /// SELECT and EXAMINE: RFC 9051 §6.3.2 and §6.3.3, parameters of RFC 7162.
    Select {
        /// The mailbox.
        mailbox: MailboxArg,
        /// SELECT or EXAMINE.
        access: Access,
        /// CONDSTORE and QRESYNC.
        params: SelectParams,
    },
    /// RFC 9051 §6.3.4, `USE` of RFC 6154 §3.
    Create {
        /// The mailbox's name: see [`MailboxArg::create_name`].
        mailbox: MailboxArg,
        /// The mailbox's special uses; usually empty.
        special_use: Vec<SpecialUse>,
    },
    /// RFC 9051 §6.3.5.
    Delete(MailboxArg),
    /// RFC 9051 §6.3.6.
    Rename {
        /// Old name.
        from: MailboxArg,
        /// New name.
        to: MailboxArg,
    },
    /// RFC 9051 §6.3.7.
    Subscribe(MailboxArg),
    /// RFC 9051 §6.3.8.
    Unsubscribe(MailboxArg),
    /// RFC 9051 §6.3.9, RFC 5258, RFC 5819.
    List(ListArgs),
    /// RFC 3501 §6.3.9.
    Lsub {
        /// The reference name of the pattern.
        reference: MailboxArg,
        /// One pattern.
        pattern: ListPattern,
    },
    /// LIST with mailboxes of other servers: RFC 2193 §5.1.
    Rlist {
        /// The reference name of the pattern.
        reference: MailboxArg,
        /// One pattern.
        pattern: ListPattern,
    },
    /// LSUB with mailboxes of other servers: RFC 2193 §5.2.
    Rlsub {
        /// The reference name of the pattern.
        reference: MailboxArg,
        /// One pattern.
        pattern: ListPattern,
    },
    /// LIST with special uses, as Gmail had it before RFC 6154.
    Xlist {
        /// The reference name of the pattern.
        reference: MailboxArg,
        /// One pattern.
        pattern: ListPattern,
    },
    /// RFC 9051 §6.3.10.
    Namespace,
    /// RFC 9698.
    GetJmapAccess,
    /// RFC 9051 §6.3.11.
    Status {
        /// The mailbox.
        mailbox: MailboxArg,
        /// In the requested order, never empty.
        items: Vec<StatusItem>,
    },
    /// RFC 9208 §4.1.1: the quota root of this name.
    GetQuota(String),
    /// RFC 9208 §4.1.2: the quota roots of a mailbox.
    GetQuotaRoot(MailboxArg),
    /// RFC 9208 §4.1.3.
    SetQuota {
        /// The quota root.
        root: String,
        /// Each resource in capitals, and its limit; may be empty.
        limits: Vec<(String, u64)>,
    },
    /// RFC 5464 §4.2. The empty name of a mailbox is the server.
    GetMetadata {
        /// The mailbox of the annotations.
        mailbox: MailboxArg,
        /// `MAXSIZE n`: longer values are left out.
        max_size: Option<u64>,
        /// `DEPTH n`
        depth: Depth,
        /// The entries; never empty.
        entries: Vec<EntryName>,
    },
    /// RFC 5464 §4.3. The empty name of a mailbox is the server.
    SetMetadata {
        /// The mailbox of the annotations.
        mailbox: MailboxArg,
        /// The new values; never empty.
        entries: Vec<Annotation>,
    },
    /// Access control lists: RFC 4314 §3.
    Acl(AclCommand),
    /// `GENURLAUTH`: RFC 4467 §8. URLs that end in their access, each with its mechanism in
    /// capitals; never empty.
    GenUrlAuth(Vec<(String, String)>),
    /// `RESETKEY`: RFC 4467 §8.
    ResetKey {
        /// The mailbox of the key; `None` for the keys of all mailboxes.
        mailbox: Option<MailboxArg>,
        /// The mechanisms whose keys are reset, in capitals; only with a mailbox.
        mechanisms: Vec<String>,
    },
    /// `URLFETCH`: RFC 4467 §8. Never empty.
    UrlFetch(Vec<UrlFetchItem>),
    /// RFC 9051 §6.3.12, several messages by RFC 3502.
    Append {
        /// The target.
        mailbox: MailboxArg,
        /// Never empty.
        messages: Vec<AppendMessage>,
    },
    /// RFC 8508 §3.3, §3.4.
    Replace {
        /// The message that is replaced: one number, or `*` where it is a sequence number.
        set: MessageSet,
        /// The target.
        mailbox: MailboxArg,
        /// The new message. Boxed: all other commands would be as large.
        message: Box<AppendMessage>,
    },
    /// RFC 5465.
    Notify(Notify),
    /// ESEARCH: a search in several mailboxes (RFC 7377).
    MultiSearch(MultiSearchArgs),
    /// RFC 5255 §3.2: languages in the client's order. An empty list requests the available ones.
    Language(Vec<String>),
    /// RFC 5255 §4.7: comparators in the client's order. An empty list requests the one in use.
    Comparator(Vec<String>),
    /// RFC 9051 §6.3.13. The `DONE` that ends it is no command: see
    /// [`crate::framing::CommandFramer::next_line`].
    Idle,
    /// RFC 3501 §6.4.1.
    Check,
    /// RFC 9051 §6.4.1.
    Close,
    /// RFC 9051 §6.4.2.
    Unselect,
    /// RFC 9051 §6.4.3; with a set, `UID EXPUNGE` of §6.4.9.
    Expunge {
        /// Only these UIDs.
        uids: Option<UidSet>,
    },
    /// The UIDs of the mailbox in batches: RFC 10022.
    UidBatches {
        /// Messages of a batch.
        size: u32,
        /// The first and the last batch wanted, counted from the newest messages on; most often
        /// all.
        batches: Option<(u32, u32)>,
    },
    /// No more updates of the results of these searches: RFC 5267 §4.3.5. Never empty.
    CancelUpdate(Vec<Tag>),
    /// RFC 9051 §6.4.4.
    Search(SearchArgs),
    /// RFC 5256 §3.
    Sort(SortArgs),
    /// RFC 5256 §3.
    Thread(ThreadArgs),
    /// RFC 9051 §6.4.5.
    Fetch {
        /// The messages.
        set: MessageSet,
        /// Macros are spelt out; never empty. `UID FETCH` does not add [`FetchItem::Uid`] by
        /// itself.
        items: Vec<FetchItem>,
        /// RFC 7162.
        modifiers: FetchModifiers,
    },
    /// STORE of annotations: RFC 5257 §4.5.
    StoreAnnotations {
        /// The messages.
        set: MessageSet,
        /// RFC 7162 §3.1.3.
        unchanged_since: Option<ModSeq>,
        /// Never empty.
        changes: Vec<ValueChange>,
    },
    /// RFC 9051 §6.4.6.
    Store {
        /// The messages.
        set: MessageSet,
        /// RFC 7162 §3.1.3.
        unchanged_since: Option<ModSeq>,
        /// Set, add or take away.
        action: StoreAction,
        /// Whether the new flags are returned.
        answer: StoreAnswer,
        /// The flags; may be empty.
        flags: Vec<Flag>,
    },
    /// STORE of labels: Gmail's X-GM-EXT-1.
    StoreLabels {
        /// The messages.
        set: MessageSet,
        /// RFC 7162 §3.1.3.
        unchanged_since: Option<ModSeq>,
        /// Set, add or take away.
        action: StoreAction,
        /// Whether the new labels are returned.
        answer: StoreAnswer,
        /// The labels; may be empty.
        labels: Vec<String>,
    },
    /// RFC 9051 §6.4.7.
    Copy {
        /// The messages.
        set: MessageSet,
        /// The target.
        mailbox: MailboxArg,
    },
    /// RFC 9051 §6.4.8.
    Move {
        /// The messages.
        set: MessageSet,
        /// The target.
        mailbox: MailboxArg,
    },
}

/// A URL of URLFETCH, and the requested items.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlFetchItem {
    /// The URL, authorised.
    pub url: String,
    /// `(url BODY …)`, each once: RFC 5524 §3. `None` for the bytes alone, without parentheses.
    pub params: Option<Vec<UrlFetchParam>>,
}

/// The parts of a URL's data to return: RFC 5524 §3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UrlFetchParam {
    /// `BODY`: the bytes as they are; not with `BINARY`.
    Body,
    /// `BINARY`: the bytes with the transfer encoding undone.
    Binary,
    /// `BODYPARTSTRUCTURE`: the structure of the part.
    Structure,
}

impl UrlFetchParam {
    /// The parameter's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "BODY",
            Self::Binary => "BINARY",
            Self::Structure => "BODYPARTSTRUCTURE",
        }
    }
}

/// The change that STORE makes with its flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreAction {
    /// `FLAGS`
    Replace,
    /// `+FLAGS`
    Add,
    /// `-FLAGS`
    Remove,
}

/// Whether STORE is answered by FETCH responses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreAnswer {
    /// Yes.
    Flags,
    /// `.SILENT`
    Silent,
}

/// One message of an APPEND.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendMessage {
    /// Flags it gets.
    pub flags: Vec<Flag>,
    /// The message's INTERNALDATE; `None` is now.
    pub date: Option<DateTime>,
    /// `ANNOTATION (…)`: annotations it gets (RFC 5257 §4.7).
    pub annotations: Vec<ValueChange>,
    /// The message, or the parts of which it is made.
    pub content: AppendContent,
}

/// The source of the bytes of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AppendContent {
    /// The bytes were sent.
    Sent(AppendText),
    /// `CATENATE (…)`: RFC 4469 §3. Never empty.
    Catenate(Vec<CatenatePart>),
}

/// Bytes of a message that were sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendText {
    /// The form in which the bytes were sent.
    pub form: AppendForm,
    /// The bytes: a slice of the command, not a copy.
    pub data: Bytes,
}

/// A piece of a message that the server puts together: RFC 4469 §5, cat-part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CatenatePart {
    /// `URL`: bytes of a message that is there. See [`crate::ImapUrl`].
    Url(String),
    /// `TEXT`, or `UTF8 (…)` of RFC 6855 §4.
    Text(AppendText),
}

/// The form in which a message was sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AppendForm {
    /// `{n}`: no NUL in it.
    Literal,
    /// `~{n}`: RFC 3516 §4.4; may hold NUL.
    Literal8,
    /// `UTF8 (~{n}…)`: RFC 6855 §4, its header may be UTF-8.
    Utf8,
}
