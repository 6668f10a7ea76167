//! One FETCH response, as far as row and summary contain it. Long values are copied straight into
//! the output buffer.

use std::fmt::Arguments;
use std::io::Write as _;

use posthaste_imap_codec::DateTime;
use posthaste_imap_codec::print::{self, Line};
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
#[inline]
pub(super) fn begin(line: &mut Line<'_>, subject: Subject<'_>) {
    begin_fetch(line, subject.enabled, subject.seq, subject.row);
}

/// `)`
#[inline]
pub(super) fn end(line: &mut Line<'_>) {
    line.put(b")\r\n");
}

/// The whole response of a plan that needs only rows.
#[inline]
pub(super) fn of_row(out: &mut Vec<u8>, plan: &Plan, names: &mut FlagNames<'_>, subject: Subject<'_>) {
    response(out, plan, subject, |line, item| column(line, item, names, subject));
}

/// The whole response of a plan that needs only rows and summaries.
pub(super) fn of_summary(
    out: &mut Vec<u8>,
    plan: &Plan,
    names: &mut FlagNames<'_>,
    subject: Subject<'_>,
    stored: StoredMessage<'_>,
) {
    response(out, plan, subject, |line, item| print_item(line, item, names, subject, stored));
}

/// A whole response whose items are printed one by one.
#[inline]
fn response(
    out: &mut Vec<u8>,
    plan: &Plan,
    subject: Subject<'_>,
    mut print: impl FnMut(&mut Line<'_>, &ResponseItem),
) {
    Line::print(out, |line| {
        begin(line, subject);
        for (i, item) in plan.items.iter().enumerate() {
            if i > 0 {
                line.put(b" ");
            }
            print(line, item);
        }
        end(line);
    });
}

/// Whether this message's body has to be read for the plan.
pub(super) fn needs_body(plan: &Plan, summary: &SummaryRef<'_>) -> bool {
    plan.may_need_body && plan.items.iter().any(|item| item_needs_body(item, summary))
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
#[inline(always)]
fn column(line: &mut Line<'_>, item: &ResponseItem, names: &mut FlagNames<'_>, subject: Subject<'_>) {
    let row = subject.row;
    match item {
        ResponseItem::Uid => {
            line.put(b"UID ");
            line.number(u64::from(row.uid().value()));
        }
        ResponseItem::Flags => {
            line.put(b"FLAGS ");
            line.put_slice(names.list(row.flags(), subject.recent));
        }
        ResponseItem::GmLabels => {
            line.put(b"X-GM-LABELS ");
            line.put_slice(names.labels(row.flags(), subject.enabled.names()));
        }
        ResponseItem::Size => {
            line.put(b"RFC822.SIZE ");
            line.number(u64::from(row.size()));
        }
        ResponseItem::InternalDate => {
            line.put(b"INTERNALDATE ");
            date(line, i64::from(row.date()));
        }
        ResponseItem::Annotation(rendered) => line.put_slice(rendered.of(row.uid().value())),
        ResponseItem::ModSeq => mod_seq(line, b"MODSEQ (", row.modseq()),
        _ => {}
    }
}

/// Prints an item that comes from row or summary.
pub(super) fn print_item(
    line: &mut Line<'_>,
    item: &ResponseItem,
    names: &mut FlagNames<'_>,
    subject: Subject<'_>,
    stored: StoredMessage<'_>,
) {
    let summary = stored.summary;
    match item {
        ResponseItem::Envelope => {
            line.put(b"ENVELOPE ");
            line.append(|out| summary.envelope().append_to(out));
        }
        ResponseItem::Body => {
            line.put(b"BODY ");
            line.append(|out| summary.body().append_to(out));
        }
        ResponseItem::BodyStructure => {
            line.put(b"BODYSTRUCTURE ");
            line.put_slice(summary.body_structure());
        }
        ResponseItem::Fields(fields) => header_fields(line, fields, &summary),
        ResponseItem::EmailId => {
            // RFC 8474 §5.1
            formatted(line, format_args!("EMAILID ({})", stored.body));
        }
        ResponseItem::ThreadId => {
            // RFC 8474 §5.2
            formatted(line, format_args!("THREADID ({})", ThreadId::of(&summary, stored.body)));
        }
        ResponseItem::ObjectIds => {
            // OBJECTID+ (draft 06 §7.5)
            let thread = ThreadId::of(&summary, stored.body);
            formatted(line, format_args!("OBJECTID (EMAILID {} THREADID {thread})", stored.body));
        }
        ResponseItem::GmMessageId => {
            line.put(b"X-GM-MSGID ");
            line.number(gmail::message_number(stored.body));
        }
        ResponseItem::GmThreadId => {
            line.put(b"X-GM-THRID ");
            line.number(gmail::thread_number(ThreadId::of(&summary, stored.body)));
        }
        ResponseItem::SaveDate => {
            // RFC 8514 §4.2
            line.put(b"SAVEDATE ");
            date(line, stored.saved);
        }
        ResponseItem::CreatedModSeq => {
            // 1 if it is not known. Clients take the message for an old one.
            mod_seq(line, b"CREATEDMODSEQ (", stored.created.max(ModSeq::ZERO.next()));
        }
        ResponseItem::Preview => {
            // RFC 8970 §3
            line.put(b"PREVIEW ");
            line.append(|out| print::string(out, summary.preview().as_bytes()));
        }
        ResponseItem::Snippet(name) => {
            line.put_slice(name.name().as_bytes());
            line.put(b" (FUZZY ");
            line.append(|out| print::string(out, summary.preview().as_bytes()));
            line.put(b")");
        }
        _ => column(line, item, names, subject),
    }
}

/// Prints the ids of a message straight into the buffer: a listing has them of each message.
fn formatted(line: &mut Line<'_>, text: Arguments<'_>) {
    line.append(|out| {
        let written = out.write_fmt(text);
        debug_assert!(written.is_ok(), "a buffer has no room");
    });
}

fn mod_seq(line: &mut Line<'_>, label: &[u8], modseq: ModSeq) {
    line.put_slice(label);
    line.number(modseq.value());
    line.put(b")");
}

fn date(line: &mut Line<'_>, unix_seconds: i64) {
    match DateTime::new(unix_seconds, 0) {
        Some(at) => line.append(|out| print::date_time(out, at)),
        None => line.put(b"NIL"),
    }
}

fn header_fields(line: &mut Line<'_>, fields: &Fields, summary: &SummaryRef<'_>) {
    line.put_slice(&fields.label);
    let selected = summary.header_fields(&fields.mask);
    if fields.partial.is_none() {
        return line.append(|out| {
            print::literal_head(out, selected.len() as u64);
            selected.append_to(out);
        });
    }
    let mut text = Vec::with_capacity(selected.len());
    selected.append_to(&mut text);
    let part = cut(text.len() as u64, fields.partial);
    let part = text.get(part.start as usize..part.end as usize);
    debug_assert!(part.is_some(), "a partial is cut to the length of its text");
    line.append(|out| print::literal(out, part.unwrap_or_default()));
}
