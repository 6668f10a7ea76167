//! One FETCH response, as far as row and summary contain it: copied straight into the output
//! buffer.

use std::fmt::Arguments;
use std::io::Write as _;

use posthaste_imap_codec::{DateTime, print};
use posthaste_mail_model::{ModSeq, SeqNum};
use posthaste_mime_summary::SummaryRef;
use posthaste_store::Row;

use super::plan::{Fields, Plan, ResponseItem, cut};
use crate::command::walk::StoredMessage;
use crate::enabled::Enabled;
use crate::fetch_head::begin_fetch;
use crate::flag_names::FlagNames;
use crate::gmail;
use crate::thread_id::ThreadId;

/// The message that a response describes.
#[derive(Clone, Copy)]
pub(super) struct Subject<'s> {
    pub(super) seq: SeqNum,
    pub(super) row: &'s Row,
    pub(super) recent: bool,
    pub(super) enabled: Enabled,
}

/// `* 3 FETCH (`
pub(super) fn begin(out: &mut Vec<u8>, subject: Subject<'_>) {
    begin_fetch(out, subject.enabled, subject.seq, subject.row);
}

/// `)`
pub(super) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b")\r\n");
}

/// The whole response of a plan that needs only rows.
#[inline]
pub(super) fn of_row(out: &mut Vec<u8>, plan: &Plan, names: &mut FlagNames<'_>, subject: Subject<'_>) {
    begin(out, subject);
    for (i, item) in plan.items.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        column(out, item, names, subject);
    }
    end(out);
}

/// The whole response of a plan that needs only rows and summaries.
pub(super) fn of_summary(
    out: &mut Vec<u8>,
    plan: &Plan,
    names: &mut FlagNames<'_>,
    subject: Subject<'_>,
    stored: StoredMessage<'_>,
) {
    begin(out, subject);
    for (i, item) in plan.items.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        print_item(out, item, names, subject, stored);
    }
    end(out);
}

/// Whether this message's body has to be read for the plan.
pub(super) fn needs_body(plan: &Plan, summary: &SummaryRef<'_>) -> bool {
    plan.items.iter().any(|item| item_needs_body(item, summary))
}

/// Whether this message's body has to be read for the item.
pub(super) fn item_needs_body(item: &ResponseItem, summary: &SummaryRef<'_>) -> bool {
    match item {
        ResponseItem::Fields(fields) => summary.needs_body(&fields.mask),
        ResponseItem::NestedFields(_)
        | ResponseItem::Bytes(_)
        | ResponseItem::Decoded(_)
        | ResponseItem::DecodedSize(_)
        | ResponseItem::Digest(_) => true,
        _ => false,
    }
}

/// Prints an item that comes from the row; prints nothing for the others.
fn column(out: &mut Vec<u8>, item: &ResponseItem, names: &mut FlagNames<'_>, subject: Subject<'_>) {
    let row = subject.row;
    match item {
        ResponseItem::Uid => {
            out.extend_from_slice(b"UID ");
            print::number(out, u64::from(row.uid().value()));
        }
        ResponseItem::Flags => {
            out.extend_from_slice(b"FLAGS ");
            out.extend_from_slice(names.list(row.flags(), subject.recent));
        }
        ResponseItem::GmLabels => {
            out.extend_from_slice(b"X-GM-LABELS ");
            out.extend_from_slice(names.labels(row.flags(), subject.enabled.names()));
        }
        ResponseItem::Size => {
            out.extend_from_slice(b"RFC822.SIZE ");
            print::number(out, u64::from(row.size()));
        }
        ResponseItem::InternalDate => {
            out.extend_from_slice(b"INTERNALDATE ");
            date(out, i64::from(row.date()));
        }
        ResponseItem::Annotation(rendered) => out.extend_from_slice(rendered.of(row.uid().value())),
        ResponseItem::ModSeq => mod_seq(out, b"MODSEQ (", row.modseq()),
        _ => {}
    }
}

/// Prints an item that comes from row or summary.
pub(super) fn print_item(
    out: &mut Vec<u8>,
    item: &ResponseItem,
    names: &mut FlagNames<'_>,
    subject: Subject<'_>,
    stored: StoredMessage<'_>,
) {
    let summary = stored.summary;
    match item {
        ResponseItem::Envelope => {
            out.extend_from_slice(b"ENVELOPE ");
            summary.envelope().append_to(out);
        }
        ResponseItem::Body => {
            out.extend_from_slice(b"BODY ");
            summary.body().append_to(out);
        }
        ResponseItem::BodyStructure => {
            out.extend_from_slice(b"BODYSTRUCTURE ");
            out.extend_from_slice(summary.body_structure());
        }
        ResponseItem::Fields(fields) => header_fields(out, fields, &summary),
        ResponseItem::EmailId => {
            // RFC 8474 §5.1
            formatted(out, format_args!("EMAILID ({})", stored.body));
        }
        ResponseItem::ThreadId => {
            // RFC 8474 §5.2
            formatted(out, format_args!("THREADID ({})", ThreadId::of(&summary, stored.body)));
        }
        ResponseItem::ObjectIds => {
            // OBJECTID+ (draft 06 §7.5)
            let thread = ThreadId::of(&summary, stored.body);
            formatted(out, format_args!("OBJECTID (EMAILID {} THREADID {thread})", stored.body));
        }
        ResponseItem::GmMessageId => {
            out.extend_from_slice(b"X-GM-MSGID ");
            print::number(out, gmail::message_number(stored.body));
        }
        ResponseItem::GmThreadId => {
            out.extend_from_slice(b"X-GM-THRID ");
            print::number(out, gmail::thread_number(ThreadId::of(&summary, stored.body)));
        }
        ResponseItem::SaveDate => {
            // RFC 8514 §4.2
            out.extend_from_slice(b"SAVEDATE ");
            date(out, stored.saved);
        }
        ResponseItem::CreatedModSeq => {
            // 1 if it is not known. Clients take the message for an old one.
            mod_seq(out, b"CREATEDMODSEQ (", stored.created.max(ModSeq::ZERO.next()));
        }
        ResponseItem::Preview => {
            // RFC 8970 §3
            out.extend_from_slice(b"PREVIEW ");
            print::string(out, summary.preview().as_bytes());
        }
        ResponseItem::Snippet(name) => {
            out.extend_from_slice(name.name().as_bytes());
            out.extend_from_slice(b" (FUZZY ");
            print::string(out, summary.preview().as_bytes());
            out.push(b')');
        }
        _ => column(out, item, names, subject),
    }
}

/// Prints the ids of a message straight into the buffer: a listing has them of each message.
fn formatted(out: &mut Vec<u8>, text: Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "a buffer has no room");
}

fn mod_seq(out: &mut Vec<u8>, label: &[u8], modseq: ModSeq) {
    out.extend_from_slice(label);
    print::number(out, modseq.value());
    out.push(b')');
}

fn date(out: &mut Vec<u8>, unix_seconds: i64) {
    match DateTime::new(unix_seconds, 0) {
        Some(at) => print::date_time(out, at),
        None => out.extend_from_slice(b"NIL"),
    }
}

fn header_fields(out: &mut Vec<u8>, fields: &Fields, summary: &SummaryRef<'_>) {
    out.extend_from_slice(&fields.label);
    let selected = summary.header_fields(&fields.mask);
    if fields.partial.is_none() {
        print::literal_head(out, selected.len() as u64);
        return selected.append_to(out);
    }
    let mut text = Vec::with_capacity(selected.len());
    selected.append_to(&mut text);
    let part = cut(text.len() as u64, fields.partial);
    let part = text.get(part.start as usize..part.end as usize);
    debug_assert!(part.is_some(), "a partial is cut to the length of its text");
    print::literal(out, part.unwrap_or_default());
}
