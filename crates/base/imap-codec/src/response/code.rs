//! Response codes: RFC 9051 §7.1 and the extensions named at each.

use posthaste_mail_model::{ModSeq, NumSet, ResponseNum, SeqNum, Uid, UidValidity};

use super::ResponseFlag;
use crate::{AnnotateCode, AnnotationSupport, Capability, MetadataCode, ObjectIds, Tag, UidRanges};

/// The response code in the brackets of a status response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Code {
    /// `ALERT`
    Alert,
    /// `ALREADYEXISTS`: RFC 5530, as most codes without another RFC.
    AlreadyExists,
    /// `ANNOTATE TOOBIG`, `ANNOTATE TOOMANY`: RFC 5257 §4.5.
    Annotate(AnnotateCode),
    /// `ANNOTATIONS …`: RFC 5257 §4.1.
    Annotations(AnnotationSupport),
    /// `APPENDUID validity uids`: RFC 4315 §3.
    AppendUid(UidValidity, UidRanges),
    /// `AUTHENTICATIONFAILED`
    AuthenticationFailed,
    /// `AUTHORIZATIONFAILED`
    AuthorizationFailed,
    /// `BADCHARSET (…)`: the supported charsets; the list may be empty.
    BadCharset(Vec<String>),
    /// `BADCOMPARATOR`: RFC 5255 §4.7.
    BadComparator,
    /// `BADEVENT (…)`: the events that are known (RFC 5465 §5); never empty.
    BadEvent(Vec<String>),
    /// `BADURL url`: RFC 4469 §4, with its erratum: the URL has no quotes.
    BadUrl(String),
    /// `CANNOT`
    Cannot,
    /// `CAPABILITY …`
    Capability(Vec<Capability>),
    /// `CLIENTBUG`
    ClientBug,
    /// `CLOSED`: RFC 7162 §3.2.11.
    Closed,
    /// `COMPRESSIONACTIVE`: RFC 4978.
    CompressionActive,
    /// `CONTACTADMIN`
    ContactAdmin,
    /// `COPYUID validity from to`: RFC 4315 §3.
    CopyUid(UidValidity, UidRanges, UidRanges),
    /// `CORRUPTION`
    Corruption,
    /// `EXPIRED`
    Expired,
    /// `EXPUNGEISSUED`
    ExpungeIssued,
    /// `HASCHILDREN`: RFC 9051.
    HasChildren,
    /// `HIGHESTMODSEQ n`: RFC 7162 §3.1.2.1.
    HighestModSeq(ModSeq),
    /// `INPROGRESS (tag done goal)`: RFC 9585 §4.
    InProgress {
        /// The slow command.
        tag: Option<Tag>,
        /// The done part.
        done: Option<u64>,
        /// The amount of work to do, never 0; only with `done`.
        goal: Option<u64>,
    },
    /// `INUSE`
    InUse,
    /// `LIMIT`
    Limit,
    /// `MAILBOXID (id)`: RFC 8474 §4.
    MailboxId(String),
    /// `MESSAGELIMIT n [uid]`: the number of messages that one command processes, and the lowest
    /// UID of those that were (RFC 9738 §3.1).
    MessageLimit(u32, Option<Uid>),
    /// `METADATA …`: RFC 5464 §5.
    Metadata(MetadataCode),
    /// `MODIFIED set`: RFC 7162 §3.1.3.
    Modified(NumSet<ResponseNum>),
    /// `NOMODSEQ`: RFC 7162 §3.1.2.2.
    NoModSeq,
    /// `NONEXISTENT`
    NonExistent,
    /// `NOPERM`
    NoPerm,
    /// `NOTIFICATIONOVERFLOW`: RFC 5465 §5.8.
    NotificationOverflow,
    /// `NOUPDATE tag`: the results of this search are not kept up to date (RFC 5267 §4.3.1).
    NoUpdate(Tag),
    /// `NOTSAVED`: RFC 5182 §2.1.
    NotSaved,
    /// `OBJECTID (…)`: OBJECTID+ (draft 06 §3).
    ObjectIds(ObjectIds),
    /// `OVERQUOTA`: RFC 9208 §4.3.
    OverQuota,
    /// `PARSE`
    Parse,
    /// `PERMANENTFLAGS (…)`
    PermanentFlags(Vec<ResponseFlag>),
    /// `PRIVACYREQUIRED`
    PrivacyRequired,
    /// `REFERRAL url …`: the server that has the account (RFC 2221 §3), or those that have the
    /// mailboxes (RFC 2193 §3). Never empty.
    Referral(Vec<String>),
    /// `READ-ONLY`
    ReadOnly,
    /// `READ-WRITE`
    ReadWrite,
    /// `SERVERBUG`
    ServerBug,
    /// `TOOBIG`: RFC 7889 §3, RFC 4469.
    TooBig,
    /// `TOOFEW`: batches that are too small (RFC 10022).
    TooFew,
    /// `TOOMANY`: too many messages in the batches (RFC 10022).
    TooMany,
    /// `TRYCREATE`
    TryCreate,
    /// `UIDNEXT n`
    UidNext(Uid),
    /// `UIDNOTSTICKY`: RFC 4315 §3.
    UidNotSticky,
    /// `UIDREQUIRED`: RFC 9586 §3.
    UidRequired,
    /// `UIDVALIDITY n`
    UidValidity(UidValidity),
    /// `UNAVAILABLE`
    Unavailable,
    /// `UNDEFINED-FILTER name`: RFC 5466 §3.1.
    UndefinedFilter(String),
    /// `UNKNOWN-CTE`: RFC 3516 §4.3.
    UnknownCte,
    /// `UNSEEN n` (RFC 3501).
    Unseen(SeqNum),
    /// `URLMECH INTERNAL …`: the mechanisms of authorised URLs besides INTERNAL, in capitals,
    /// each with its data in base64 if there are any (RFC 4467 §8).
    UrlMech(Vec<(String, Option<String>)>),
    /// `USEATTR`: RFC 6154 §3.
    UseAttr,
    /// An unknown code, with the text after its name.
    Other(String, Option<String>),
}
