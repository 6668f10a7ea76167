//! Data items of a FETCH response: RFC 9051 §7.5.2.

use super::message_annotation::annotation_data;
use super::{
    astring, body, body_structure, date_time, envelope, fits_quotes, hex, list, literal_head, literal8_head,
    number, object_ids, pair, part_path, put, quoted, response_flag, section,
};
use crate::response::FetchValue;

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
        FetchValue::ModSeq(n) => put(out, &format!("MODSEQ ({n})")),
        FetchValue::CreatedModSeq(n) => put(out, &format!("CREATEDMODSEQ ({n})")),
        FetchValue::EmailId(id) => put(out, &format!("EMAILID ({id})")),
        FetchValue::ThreadId(Some(id)) => put(out, &format!("THREADID ({id})")),
        FetchValue::ThreadId(None) => put(out, "THREADID NIL"),
        FetchValue::ObjectIds(ids) => object_ids(out, ids),
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
        FetchValue::Snippet(name, text) => {
            put(out, name.name());
            named_bytes(out, " (FUZZY ", text.as_deref());
            out.push(b')');
        }
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
        FetchValue::DigestSha1(sha1) => {
            put(out, "DIGEST.SHA1 ");
            hex(out, sha1);
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
