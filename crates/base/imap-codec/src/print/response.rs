//! Responses, for a server: RFC 9051 §7.
//!
//! The server's hot paths (FETCH of flags and prepared bytes) are written by the server from the
//! pieces in [`crate::print`]. These functions print everything else. They define the exact output
//! that the pieces must produce.

use posthaste_mail_model::{ModSeq, Uid};

use super::message_annotation::{annotation_data, annotation_value};
use super::{
    astring, body, body_structure, date_time, envelope, fits_quotes, flag, list, literal_head, literal8_head,
    mailbox, nstring, num_set, number, part_path, quoted, ranges, section, string,
};
use crate::command::ListSelection;
use crate::response::{
    Code, Esearch, FetchValue, ListAttribute, ListData, Namespace, Namespaces, QuotaResource, Response,
    ResponseFlag, Status, StatusValue, ThreadNode, Untagged, print_fetched,
};
use crate::{
    AnnotateCode, Annotation, AnnotationSupport, Capability, MetadataCode, NameEncoding, Numbering,
    PageRange, Tag,
};

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends ` NAME n`.
fn pair(out: &mut Vec<u8>, name: &str, n: u64) {
    put(out, name);
    out.push(b' ');
    number(out, n);
}

/// Appends a response with its line end.
pub fn response(out: &mut Vec<u8>, response: &Response, names: NameEncoding) {
    match response {
        Response::Continue(text) => {
            put(out, "+ ");
            line_text(out, text);
            put(out, "\r\n");
        }
        Response::Status(value) => status(out, value),
        Response::Data(value) => untagged(out, value, names),
    }
}

/// Appends a status response with its line end.
pub fn status(out: &mut Vec<u8>, status: &Status) {
    put(out, status.tag.as_ref().map_or("*", |t| t.as_str()));
    out.push(b' ');
    put(out, status.kind.name());
    out.push(b' ');
    if let Some(value) = &status.code {
        code(out, value);
        out.push(b' ');
    }
    line_text(out, &status.text);
    put(out, "\r\n");
}

/// Text for a person, which CR, LF and NUL must not cut in two.
fn line_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().map(|b| if matches!(b, 0 | b'\r' | b'\n') { b' ' } else { b }));
}

/// Appends `[…]`, brackets included.
pub fn code(out: &mut Vec<u8>, code: &Code) {
    out.push(b'[');
    match bare_code(code) {
        Some(name) => put(out, name),
        None => code_with_value(out, code),
    }
    out.push(b']');
}

/// The name of a code that is no more than its name.
pub(crate) fn bare_code(code: &Code) -> Option<&'static str> {
    BARE_CODES.iter().find(|(_, c)| c == code).map(|(name, _)| *name)
}

/// Codes that are no more than their names.
pub(crate) static BARE_CODES: [(&str, Code); 38] = [
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
    ("READ-ONLY", Code::ReadOnly),
    ("READ-WRITE", Code::ReadWrite),
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

fn code_with_value(out: &mut Vec<u8>, code: &Code) {
    match code {
        Code::AppendUid(validity, uids) => {
            pair(out, "APPENDUID", u64::from(validity.value()));
            out.push(b' ');
            ranges(out, &uids.0);
        }
        Code::CopyUid(validity, from, to) => {
            pair(out, "COPYUID", u64::from(validity.value()));
            for uids in [from, to] {
                out.push(b' ');
                ranges(out, &uids.0);
            }
        }
        Code::BadCharset(charsets) => {
            put(out, "BADCHARSET ");
            // RFC 9051 §9: charset = atom / quoted. No literal can stand in a status response.
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
        Code::Capability(capabilities) => enabled_or_capability(out, "CAPABILITY", capabilities),
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
        Code::Modified(set) => {
            put(out, "MODIFIED ");
            num_set(out, set);
        }
        Code::NoUpdate(tag) => {
            put(out, "NOUPDATE ");
            quoted(out, tag.as_str().as_bytes());
        }
        Code::PermanentFlags(flags) => {
            put(out, "PERMANENTFLAGS ");
            list(out, flags, response_flag);
        }
        Code::UidNext(uid) => pair(out, "UIDNEXT", u64::from(uid.value())),
        Code::UidValidity(n) => pair(out, "UIDVALIDITY", u64::from(n.value())),
        Code::Unseen(n) => pair(out, "UNSEEN", u64::from(n.value())),
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

/// RFC 4469 §5, url-resp-text, with its erratum: no `]`. Nor can a line hold the others.
fn url(out: &mut Vec<u8>, url: &str) {
    for b in url.bytes() {
        match b {
            b'!'..=b'~' if b != b']' => out.push(b),
            _ => put(out, &format!("%{b:02X}")),
        }
    }
}

/// Appends `CAPABILITY a b c` or `ENABLED …`.
pub fn enabled_or_capability(out: &mut Vec<u8>, name: &str, capabilities: &[Capability]) {
    put(out, name);
    for capability in capabilities {
        out.push(b' ');
        put(out, capability.as_str());
    }
}

/// Appends a flag as a server sends it.
pub fn response_flag(out: &mut Vec<u8>, value: &ResponseFlag) {
    match value {
        ResponseFlag::Flag(value) => flag(out, value),
        ResponseFlag::Recent => put(out, "\\Recent"),
        ResponseFlag::Any => put(out, "\\*"),
        ResponseFlag::Other(text) => put(out, text),
    }
}

/// Appends `* data` with its line end.
pub fn untagged(out: &mut Vec<u8>, data: &Untagged, names: NameEncoding) {
    put(out, "* ");
    match data {
        Untagged::Capability(capabilities) => enabled_or_capability(out, "CAPABILITY", capabilities),
        Untagged::Enabled(capabilities) => enabled_or_capability(out, "ENABLED", capabilities),
        Untagged::List(data) => list_data(out, "LIST", data, names),
        Untagged::Lsub(data) => list_data(out, "LSUB", data, names),
        Untagged::Xlist(data) => list_data(out, "XLIST", data, names),
        Untagged::Namespace(value) => namespaces(out, value, names),
        Untagged::JmapAccess(url) => {
            put(out, "JMAPACCESS ");
            string(out, url.as_bytes());
        }
        Untagged::Status { mailbox: name, items } => {
            put(out, "STATUS ");
            mailbox(out, name, names);
            out.push(b' ');
            list(out, items, status_value);
        }
        Untagged::Quota { root, resources } => quota(out, root, resources),
        Untagged::QuotaRoot { mailbox: name, roots } => {
            put(out, "QUOTAROOT ");
            mailbox(out, name, names);
            for root in roots {
                out.push(b' ');
                string(out, root.as_bytes());
            }
        }
        Untagged::Metadata { mailbox: name, entries } => {
            put(out, "METADATA ");
            mailbox(out, name, names);
            out.push(b' ');
            list(out, entries, annotation);
        }
        Untagged::MetadataChanged { mailbox: name, entries } => {
            put(out, "METADATA ");
            mailbox(out, name, names);
            for entry in entries {
                out.push(b' ');
                astring(out, entry.as_str().as_bytes());
            }
        }
        Untagged::Language(tags) => {
            put(out, "LANGUAGE ");
            list(out, tags, |out, tag| astring(out, tag.as_bytes()));
        }
        Untagged::Comparator { active, others } => {
            put(out, "COMPARATOR ");
            astring(out, active.as_bytes());
            if !others.is_empty() {
                out.push(b' ');
                list(out, others, |out, other| astring(out, other.as_bytes()));
            }
        }
        Untagged::Acl(data) => data.print(out, names),
        Untagged::Search { numbers, modseq } => found(out, "SEARCH", numbers, *modseq),
        Untagged::Sort { numbers, modseq } => found(out, "SORT", numbers, *modseq),
        Untagged::Thread(nodes) => {
            put(out, if nodes.is_empty() { "THREAD" } else { "THREAD " });
            let mut printer = ThreadPrinter::default();
            nodes.iter().for_each(|node| printer.node(out, *node));
        }
        Untagged::Esearch(value) => esearch(out, value, names),
        Untagged::Flags(flags) => {
            put(out, "FLAGS ");
            list(out, flags, response_flag);
        }
        Untagged::GenUrlAuth(urls) => {
            put(out, "GENURLAUTH");
            for url in urls {
                out.push(b' ');
                string(out, url.as_bytes());
            }
        }
        Untagged::UrlFetch(urls) => {
            put(out, "URLFETCH");
            print_fetched(out, urls);
        }
        Untagged::Id(pairs) => id(out, pairs.as_deref()),
        Untagged::Other(bytes) => out.extend_from_slice(bytes),
        numbered => message_data(out, numbered),
    }
    put(out, "\r\n");
}

fn message_data(out: &mut Vec<u8>, data: &Untagged) {
    match data {
        Untagged::Exists(n) => {
            number(out, u64::from(*n));
            put(out, " EXISTS");
        }
        Untagged::Recent(n) => {
            number(out, u64::from(*n));
            put(out, " RECENT");
        }
        Untagged::Expunge(seq) => {
            number(out, u64::from(seq.value()));
            put(out, " EXPUNGE");
        }
        Untagged::Vanished { earlier, uids } => {
            put(out, if *earlier { "VANISHED (EARLIER) " } else { "VANISHED " });
            num_set(out, uids);
        }
        Untagged::Fetch { seq, items } => {
            number(out, u64::from(seq.value()));
            put(out, " FETCH ");
            list(out, items, fetch_value);
        }
        Untagged::UidFetch { uid, items } => {
            number(out, u64::from(uid.value()));
            put(out, " UIDFETCH ");
            list(out, items, fetch_value);
        }
        Untagged::UidBatches { tag, batches } => uid_batches(out, tag, batches),
        // Every other kind is printed by the function that calls this one.
        _ => {}
    }
}

/// `UIDBATCHES (TAG "A1") 99:50,49:1`
fn uid_batches(out: &mut Vec<u8>, tag: &Tag, batches: &[(Uid, Uid)]) {
    put(out, "UIDBATCHES (TAG ");
    quoted(out, tag.as_str().as_bytes());
    out.push(b')');
    for (i, (high, low)) in batches.iter().enumerate() {
        out.push(if i == 0 { b' ' } else { b',' });
        number(out, u64::from(high.value()));
        out.push(b':');
        number(out, u64::from(low.value()));
    }
}

/// `QUOTA "" (STORAGE 10 512)`
fn quota(out: &mut Vec<u8>, root: &str, resources: &[QuotaResource]) {
    put(out, "QUOTA ");
    string(out, root.as_bytes());
    out.push(b' ');
    list(out, resources, |out, QuotaResource { name, usage, limit }| {
        pair(out, name, *usage);
        out.push(b' ');
        number(out, *limit);
    });
}

/// `/private/comment "text"`
fn annotation(out: &mut Vec<u8>, annotation: &Annotation) {
    astring(out, annotation.name.as_str().as_bytes());
    out.push(b' ');
    annotation_value(out, annotation.value.as_deref());
}

fn id(out: &mut Vec<u8>, pairs: Option<&[(String, Option<String>)]>) {
    put(out, "ID ");
    let Some(pairs) = pairs else { return put(out, "NIL") };
    list(out, pairs, |out, (name, value)| {
        string(out, name.as_bytes());
        out.push(b' ');
        nstring(out, value.as_ref().map(|v| v.as_bytes()));
    });
}

/// Appends `LIST (…) "/" name …`, without `* ` and line end.
pub fn list_data(out: &mut Vec<u8>, name: &str, data: &ListData, names: NameEncoding) {
    put(out, name);
    out.push(b' ');
    list(out, &data.attributes, list_attribute);
    out.push(b' ');
    separator(out, data.separator);
    out.push(b' ');
    mailbox(out, &data.mailbox, names);
    let info = super::command::selection_names(data.child_info);
    let mut extended: Vec<Vec<u8>> = Vec::new();
    if data.child_info != ListSelection::default() {
        let mut item = b"\"CHILDINFO\" ".to_vec();
        list(&mut item, info, |out, option| quoted(out, option.as_bytes()));
        extended.push(item);
    }
    if let Some(old) = &data.old_name {
        let mut item = b"\"OLDNAME\" (".to_vec();
        mailbox(&mut item, old, names);
        item.push(b')');
        extended.push(item);
    }
    if !extended.is_empty() {
        out.push(b' ');
        list(out, extended, |out, item| out.extend_from_slice(&item));
    }
}

fn list_attribute(out: &mut Vec<u8>, attribute: &ListAttribute) {
    out.push(b'\\');
    put(out, attribute.name());
}

fn separator(out: &mut Vec<u8>, separator: Option<char>) {
    match separator {
        Some(c) => quoted(out, c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => put(out, "NIL"),
    }
}

/// Appends `NAMESPACE …`, without `* ` and line end.
pub fn namespaces(out: &mut Vec<u8>, value: &Namespaces, names: NameEncoding) {
    put(out, "NAMESPACE");
    for kind in [&value.personal, &value.other, &value.shared] {
        out.push(b' ');
        if kind.is_empty() {
            put(out, "NIL");
            continue;
        }
        out.push(b'(');
        for Namespace { prefix, separator: by } in kind {
            out.push(b'(');
            // RFC 9051 §9, namespace-descr: a string, never an atom.
            super::string_utf8(out, &prefix.encode(names), names);
            out.push(b' ');
            separator(out, *by);
            out.push(b')');
        }
        out.push(b')');
    }
}

/// Appends `MESSAGES 3`.
pub fn status_value(out: &mut Vec<u8>, value: &StatusValue) {
    match value {
        StatusValue::Messages(n) => pair(out, "MESSAGES", u64::from(*n)),
        StatusValue::Recent(n) => pair(out, "RECENT", u64::from(*n)),
        StatusValue::UidNext(uid) => pair(out, "UIDNEXT", u64::from(uid.value())),
        StatusValue::UidValidity(n) => pair(out, "UIDVALIDITY", u64::from(n.value())),
        StatusValue::Unseen(n) => pair(out, "UNSEEN", u64::from(*n)),
        StatusValue::Deleted(n) => pair(out, "DELETED", u64::from(*n)),
        StatusValue::DeletedStorage(n) => pair(out, "DELETED-STORAGE", *n),
        StatusValue::Size(n) => pair(out, "SIZE", *n),
        StatusValue::HighestModSeq(n) => pair(out, "HIGHESTMODSEQ", n.value()),
        StatusValue::AppendLimit(Some(n)) => pair(out, "APPENDLIMIT", *n),
        StatusValue::AppendLimit(None) => put(out, "APPENDLIMIT NIL"),
        StatusValue::MailboxId(id) => {
            put(out, "MAILBOXID (");
            put(out, id);
            out.push(b')');
        }
    }
}

/// Appends `SEARCH 2 5 (MODSEQ 7)`.
fn found(out: &mut Vec<u8>, name: &str, numbers: &[u32], modseq: Option<ModSeq>) {
    put(out, name);
    for &n in numbers {
        out.push(b' ');
        number(out, u64::from(n));
    }
    if let Some(modseq) = modseq {
        pair(out, " (MODSEQ", modseq.value());
        out.push(b')');
    }
}

/// Prints the threads of a THREAD response node by node: RFC 5256 §5, thread-data. It remembers one
/// number for each node with several children that is open, so a long chain costs nothing.
#[derive(Debug, Default)]
pub struct ThreadPrinter {
    /// For each open node with several children: how many are still to come.
    left: Vec<u32>,
    /// Whether the next node is the only child of the last one.
    is_chained: bool,
}

impl ThreadPrinter {
    /// Appends the next node. Nodes come in the order of [`Untagged::Thread`].
    pub fn node(&mut self, out: &mut Vec<u8>, node: ThreadNode) {
        if self.is_chained {
            out.push(b' ');
        } else {
            out.push(b'(');
            if let Some(left) = self.left.last_mut() {
                *left = left.saturating_sub(1);
            }
        }
        if let Some(n) = node.number {
            number(out, u64::from(n));
        }
        self.is_chained = node.children == 1;
        match node.children {
            0 => {
                out.push(b')');
                while self.left.pop_if(|left| *left == 0).is_some() {
                    out.push(b')');
                }
            }
            1 => {}
            several => {
                if node.number.is_some() {
                    out.push(b' ');
                }
                self.left.push(several);
            }
        }
    }
}

/// Appends `ESEARCH (TAG "a") UID MIN 1 …`, without `* ` and line end.
pub fn esearch(out: &mut Vec<u8>, value: &Esearch, names: NameEncoding) {
    esearch_begin(out, value, names);
    if let Some(all) = &value.all
        && !all.is_empty()
    {
        put(out, " ALL ");
        ranges(out, all);
    }
    if let Some((range, page)) = &value.partial {
        partial_begin(out, *range);
        match page.is_empty() {
            true => put(out, "NIL"),
            false => ranges(out, page),
        }
        out.push(b')');
    }
    esearch_end(out, value);
}

/// Appends ESEARCH up to its sets, for those who print long sets in slices. `ALL` is next.
pub fn esearch_begin(out: &mut Vec<u8>, value: &Esearch, names: NameEncoding) {
    put(out, "ESEARCH");
    // RFC 7377 §3: each correlator once.
    let mut before = " (";
    if let Some(tag) = &value.tag {
        put(out, before);
        put(out, "TAG ");
        quoted(out, tag.as_str().as_bytes());
        before = " ";
    }
    if let Some((name, validity)) = &value.mailbox {
        put(out, before);
        put(out, "MAILBOX ");
        mailbox(out, name, names);
        put(out, " ");
        pair(out, "UIDVALIDITY", u64::from(validity.value()));
        before = " ";
    }
    if before == " " {
        out.push(b')');
    }
    if value.numbering == Numbering::Uid {
        put(out, " UID");
    }
    for (name, n) in [(" MIN", value.min), (" MAX", value.max), (" COUNT", value.count)] {
        if let Some(n) = n {
            pair(out, name, u64::from(n));
        }
    }
}

/// Appends ` PARTIAL (1:100 `. A set or `NIL` is next, and then `)`.
pub fn partial_begin(out: &mut Vec<u8>, range: PageRange) {
    put(out, " PARTIAL (");
    super::page_range(out, range);
    out.push(b' ');
}

/// Appends what ESEARCH has behind its sets.
pub fn esearch_end(out: &mut Vec<u8>, value: &Esearch) {
    if let Some(scores) = &value.relevancy {
        put(out, " RELEVANCY ");
        list(out, scores, |out, score| number(out, u64::from(*score)));
    }
    if let Some(modseq) = value.modseq {
        pair(out, " MODSEQ", modseq.value());
    }
    for update in &value.updates {
        out.push(b' ');
        put(out, update.kind.name());
        out.push(b' ');
        list(out, &update.places, |out, (place, messages)| {
            number(out, u64::from(*place));
            out.push(b' ');
            ranges(out, messages);
        });
    }
}

/// Appends a data item of FETCH with its value.
pub fn fetch_value(out: &mut Vec<u8>, value: &FetchValue) {
    match value {
        FetchValue::Envelope(value) => {
            put(out, "ENVELOPE ");
            envelope(out, value);
        }
        FetchValue::Body(value) => {
            put(out, "BODY ");
            body(out, value);
        }
        FetchValue::BodyStructure(value) => {
            put(out, "BODYSTRUCTURE ");
            body_structure(out, value);
        }
        FetchValue::Flags(flags) => {
            put(out, "FLAGS ");
            list(out, flags, response_flag);
        }
        FetchValue::InternalDate(at) => {
            put(out, "INTERNALDATE ");
            date_time(out, *at);
        }
        FetchValue::Rfc822Size(n) => pair(out, "RFC822.SIZE", *n),
        FetchValue::Uid(uid) => pair(out, "UID", u64::from(uid.value())),
        FetchValue::ModSeq(n) => {
            put(out, "MODSEQ (");
            number(out, n.value());
            out.push(b')');
        }
        FetchValue::EmailId(id) => put(out, &format!("EMAILID ({id})")),
        FetchValue::ThreadId(Some(id)) => put(out, &format!("THREADID ({id})")),
        FetchValue::ThreadId(None) => put(out, "THREADID NIL"),
        FetchValue::SaveDate(Some(at)) => {
            put(out, "SAVEDATE ");
            date_time(out, *at);
        }
        FetchValue::SaveDate(None) => put(out, "SAVEDATE NIL"),
        FetchValue::Annotation(all) => {
            put(out, "ANNOTATION ");
            annotation_data(out, all);
        }
        other => bytes_value(out, other),
    }
}

fn bytes_value(out: &mut Vec<u8>, value: &FetchValue) {
    match value {
        FetchValue::Rfc822(data) => named_bytes(out, "RFC822 ", data.as_deref()),
        FetchValue::Rfc822Header(data) => named_bytes(out, "RFC822.HEADER ", data.as_deref()),
        FetchValue::Rfc822Text(data) => named_bytes(out, "RFC822.TEXT ", data.as_deref()),
        FetchValue::Preview(data) => named_bytes(out, "PREVIEW ", data.as_deref()),
        FetchValue::BodySection { section: of, origin: from, data } => {
            put(out, "BODY");
            section(out, of);
            origin(out, *from);
            named_bytes(out, " ", data.as_deref());
        }
        FetchValue::Binary { part, origin: from, data } => {
            put(out, "BINARY[");
            part_path(out, &part.0);
            out.push(b']');
            origin(out, *from);
            named_bytes(out, " ", data.as_deref());
        }
        FetchValue::BinarySize { part, size } => {
            put(out, "BINARY.SIZE[");
            part_path(out, &part.0);
            pair(out, "]", *size);
        }
        FetchValue::GmMessageId(id) => pair(out, "X-GM-MSGID", *id),
        FetchValue::GmThreadId(id) => pair(out, "X-GM-THRID", *id),
        FetchValue::GmLabels(labels) => {
            put(out, "X-GM-LABELS ");
            list(out, labels, |out, label| astring(out, label.as_bytes()));
        }
        FetchValue::Other(name, value) => {
            put(out, name);
            out.push(b' ');
            out.extend_from_slice(value);
        }
        // Every other kind is printed by the function that calls this one.
        _ => {}
    }
}

fn origin(out: &mut Vec<u8>, origin: Option<u64>) {
    if let Some(n) = origin {
        out.push(b'<');
        number(out, n);
        out.push(b'>');
    }
}

/// Bytes of a message as they are: in quotes if that is shorter and can hold them, a literal8 only
/// if there is a NUL in them (RFC 3516 §4.2).
fn named_bytes(out: &mut Vec<u8>, name: &str, data: Option<&[u8]>) {
    put(out, name);
    let Some(data) = data else { return put(out, "NIL") };
    if memchr::memchr(0, data).is_some() {
        literal8_head(out, data.len() as u64);
    } else if data.len() <= 64 && fits_quotes(data) {
        return quoted(out, data);
    } else {
        literal_head(out, data.len() as u64);
    }
    out.extend_from_slice(data);
}
