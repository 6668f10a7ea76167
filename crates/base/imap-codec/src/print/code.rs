//! Response codes: RFC 9051 §7.1.

use super::{
    astring, enabled_or_capability, line_text, list, number, object_ids, pair, put, quoted, ranges,
    response_flag,
};
use crate::response::Code;
use crate::{AnnotateCode, AnnotationSupport, MetadataCode};

/// Appends `[…]`, brackets included.
pub fn code(out: &mut Vec<u8>, code: &Code) {
    code_begin(out, code);
    for set in code_sets(code).into_iter().flatten() {
        out.push(b' ');
        ranges(out, set);
    }
    out.push(b']');
}

/// Appends a code up to its sets, which may be long. They are next, a space before each, then `]`.
pub(super) fn code_begin(out: &mut Vec<u8>, code: &Code) {
    out.push(b'[');
    code_with_value(out, code);
}

/// The sets of numbers that a code ends in: as many as there are messages in a mailbox.
pub fn code_sets(code: &Code) -> [Option<&[(u32, u32)]>; 2] {
    match code {
        Code::AppendUid(_, uids) => [Some(&uids.0), None],
        Code::CopyUid(_, from, to) => [Some(&from.0), Some(&to.0)],
        Code::Modified(set) => [Some(set.ranges()), None],
        _ => [None, None],
    }
}

/// The name of a code without a value.
fn bare_code(code: &Code) -> Option<&'static str> {
    BARE_CODES.iter().find(|(_, c)| c == code).map(|(name, _)| *name)
}

/// Codes without a value. The code of each SELECT is found first.
pub(crate) static BARE_CODES: [(&str, Code); 38] = [
    ("READ-WRITE", Code::ReadWrite),
    ("READ-ONLY", Code::ReadOnly),
    ("ALERT", Code::Alert),
    ("ALREADYEXISTS", Code::AlreadyExists),
    ("AUTHENTICATIONFAILED", Code::AuthenticationFailed),
    ("AUTHORIZATIONFAILED", Code::AuthorizationFailed),
    ("BADCOMPARATOR", Code::BadComparator),
    ("CANNOT", Code::Cannot),
    ("CLIENTBUG", Code::ClientBug),
    ("CLOSED", Code::Closed),
    ("COMPRESSIONACTIVE", Code::CompressionActive),
    ("CONTACTADMIN", Code::ContactAdmin),
    ("CORRUPTION", Code::Corruption),
    ("EXPIRED", Code::Expired),
    ("EXPUNGEISSUED", Code::ExpungeIssued),
    ("HASCHILDREN", Code::HasChildren),
    ("INUSE", Code::InUse),
    ("LIMIT", Code::Limit),
    ("NOMODSEQ", Code::NoModSeq),
    ("NONEXISTENT", Code::NonExistent),
    ("NOPERM", Code::NoPerm),
    ("NOTIFICATIONOVERFLOW", Code::NotificationOverflow),
    ("NOTSAVED", Code::NotSaved),
    ("OVERQUOTA", Code::OverQuota),
    ("PARSE", Code::Parse),
    ("PRIVACYREQUIRED", Code::PrivacyRequired),
    ("SERVERBUG", Code::ServerBug),
    ("TOOBIG", Code::TooBig),
    ("TOOFEW", Code::TooFew),
    ("TOOMANY", Code::TooMany),
    ("TRYCREATE", Code::TryCreate),
    ("UIDNOTSTICKY", Code::UidNotSticky),
    ("UIDREQUIRED", Code::UidRequired),
    ("UNAVAILABLE", Code::Unavailable),
    ("UNKNOWN-CTE", Code::UnknownCte),
    ("USEATTR", Code::UseAttr),
    ("BADCHARSET", Code::BadCharset(Vec::new())),
    ("CAPABILITY", Code::Capability(Vec::new())),
];

/// Appends a code up to its sets. The codes of logins and of SELECT have values, so those without
/// one are looked for last.
fn code_with_value(out: &mut Vec<u8>, code: &Code) {
    match code {
        Code::AppendUid(validity, _) => pair(out, "APPENDUID", u64::from(validity.value())),
        Code::CopyUid(validity, ..) => pair(out, "COPYUID", u64::from(validity.value())),
        Code::BadCharset(charsets) if !charsets.is_empty() => {
            put(out, "BADCHARSET ");
            // RFC 9051 §9: charset = atom / quoted. A status response cannot have a literal.
            let ascii = |b: u8| if b.is_ascii_graphic() || b == b' ' { b } else { b'?' };
            list(out, charsets, |out, c| astring(out, &c.bytes().map(ascii).collect::<Vec<_>>()));
        }
        Code::BadEvent(events) => {
            put(out, "BADEVENT ");
            list(out, events, |out, event| put(out, event));
        }
        Code::UndefinedFilter(name) => {
            put(out, "UNDEFINED-FILTER ");
            put(out, name);
        }
        Code::BadUrl(one) => {
            put(out, "BADURL ");
            url(out, one);
        }
        Code::Referral(urls) => {
            put(out, "REFERRAL");
            for one in urls {
                out.push(b' ');
                url(out, one);
            }
        }
        Code::Capability(names) if !names.is_empty() => enabled_or_capability(out, "CAPABILITY", names),
        Code::HighestModSeq(n) => pair(out, "HIGHESTMODSEQ", n.value()),
        Code::InProgress { tag, done, goal } => {
            put(out, "INPROGRESS (");
            match tag {
                Some(tag) => quoted(out, tag.as_str().as_bytes()),
                None => put(out, "NIL"),
            }
            for amount in [done, goal] {
                out.push(b' ');
                match amount {
                    Some(amount) => number(out, *amount),
                    None => put(out, "NIL"),
                }
            }
            out.push(b')');
        }
        Code::MailboxId(id) => {
            put(out, "MAILBOXID (");
            put(out, id);
            out.push(b')');
        }
        Code::MessageLimit(n, uid) => {
            pair(out, "MESSAGELIMIT", u64::from(*n));
            if let Some(uid) = uid {
                out.push(b' ');
                number(out, u64::from(uid.value()));
            }
        }
        Code::Annotate(AnnotateCode::TooBig) => put(out, "ANNOTATE TOOBIG"),
        Code::Annotate(AnnotateCode::TooMany) => put(out, "ANNOTATE TOOMANY"),
        Code::Annotations(AnnotationSupport::None) => put(out, "ANNOTATIONS NONE"),
        Code::Annotations(AnnotationSupport::ReadOnly) => put(out, "ANNOTATIONS READ-ONLY"),
        Code::Annotations(AnnotationSupport::Octets(n)) => pair(out, "ANNOTATIONS", u64::from(*n)),
        Code::Metadata(MetadataCode::LongEntries(n)) => pair(out, "METADATA LONGENTRIES", *n),
        Code::Metadata(MetadataCode::MaxSize(n)) => pair(out, "METADATA MAXSIZE", *n),
        Code::Metadata(MetadataCode::TooMany) => put(out, "METADATA TOOMANY"),
        Code::Metadata(MetadataCode::NoPrivate) => put(out, "METADATA NOPRIVATE"),
        Code::Modified(_) => put(out, "MODIFIED"),
        Code::NoUpdate(tag) => {
            put(out, "NOUPDATE ");
            quoted(out, tag.as_str().as_bytes());
        }
        Code::ObjectIds(ids) => object_ids(out, ids),
        Code::PermanentFlags(flags) => {
            put(out, "PERMANENTFLAGS ");
            list(out, flags, response_flag);
        }
        Code::UidNext(uid) => pair(out, "UIDNEXT", u64::from(uid.value())),
        Code::UidValidity(n) => pair(out, "UIDVALIDITY", u64::from(n.value())),
        Code::Unseen(n) => pair(out, "UNSEEN", u64::from(n.value())),
        Code::UrlMech(others) => {
            put(out, "URLMECH INTERNAL");
            for (name, data) in others {
                out.push(b' ');
                put(out, name);
                if let Some(data) = data {
                    out.push(b'=');
                    put(out, data);
                }
            }
        }
        Code::Other(name, value) => {
            put(out, name);
            if let Some(value) = value {
                out.push(b' ');
                line_text(out, value);
            }
        }
        bare => {
            let name = bare_code(bare);
            debug_assert!(name.is_some(), "{bare:?} is printed neither bare nor with a value");
            put(out, name.unwrap_or_default());
        }
    }
}

/// RFC 4469 §5, url-resp-text, with its erratum: no `]`. A line cannot hold the others, either.
fn url(out: &mut Vec<u8>, url: &str) {
    for b in url.bytes() {
        match b {
            b'!'..=b'~' if b != b']' => out.push(b),
            _ => put(out, &format!("%{b:02X}")),
        }
    }
}
