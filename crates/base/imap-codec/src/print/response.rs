//! Responses, for a server: RFC 9051 §7.
//!
//! The server's hot paths (FETCH of flags and prepared bytes) are written by the server from the
//! pieces in [`crate::print`]. These functions print everything else. They define the exact output
//! that the pieces must produce.

use posthaste_mail_model::Uid;

use super::code::code_begin;
use super::message_annotation::annotation_value;
use super::search_data::found;
use super::{
    ThreadPrinter, astring, code, enabled_or_capability, esearch, fetch_value, line_text, list, mailbox,
    nstring, num_set, number, pair, put, quoted, response_flag, string,
};
use crate::command::ListSelection;
use crate::response::{
    ListAttribute, ListData, Namespace, Namespaces, QuotaResource, Response, Status, StatusValue, Untagged,
    print_fetched,
};
use crate::{Annotation, NameEncoding, Tag};

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
    status_kind(out, status);
    if let Some(value) = &status.code {
        code(out, value);
        out.push(b' ');
    }
    status_text(out, status);
}

/// Appends a status response up to the sets of its code, for callers that print long sets in
/// slices. The sets of [`code_sets`](super::code_sets) are next, a space before each.
pub fn status_begin(out: &mut Vec<u8>, status: &Status) {
    status_kind(out, status);
    if let Some(value) = &status.code {
        code_begin(out, value);
    }
}

/// Appends the rest of a status response after the sets of its code.
pub fn status_end(out: &mut Vec<u8>, status: &Status) {
    if status.code.is_some() {
        put(out, "] ");
    }
    status_text(out, status);
}

fn status_kind(out: &mut Vec<u8>, status: &Status) {
    put(out, status.tag.as_ref().map_or("*", |t| t.as_str()));
    out.push(b' ');
    put(out, status.kind.name());
    out.push(b' ');
}

fn status_text(out: &mut Vec<u8>, status: &Status) {
    line_text(out, &status.text);
    put(out, "\r\n");
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
        StatusValue::CreatedModSeq(n) => pair(out, "CREATEDMODSEQ", n.value()),
        StatusValue::AppendLimit(Some(n)) => pair(out, "APPENDLIMIT", *n),
        StatusValue::AppendLimit(None) => put(out, "APPENDLIMIT NIL"),
        StatusValue::MailboxId(id) => {
            put(out, "MAILBOXID (");
            put(out, id);
            out.push(b')');
        }
        StatusValue::ObjectIds(ids) => super::object_ids(out, ids),
    }
}
