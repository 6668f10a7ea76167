//! FETCH responses for which a body has to be opened.
//!
//! First everything is found and read that can fail, then the response begins: what has been begun must be finished,
//! since a literal has said how long it is. Small messages are read once and cut in memory; large sections go to the
//! socket in pieces, as the client takes them.

use std::ops::Range;

use bytes::Bytes;
use posthaste_imap_codec::print;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{BodyId, Uid};
use posthaste_mime_summary::{Kind, Section, SummaryRef, decode_transfer};
use posthaste_net::NetError;
use posthaste_store::Mailbox;

use super::line::{self, Kept, Subject};
use super::plan::{self, Plan, Step, cut};
use crate::flag_names::FlagNames;
use crate::reply::{Failure, Reply};
use crate::wire::Wire;

/// Messages up to this size are read whole, once, whatever is asked of them: one read of the system.
const WHOLE_BYTES_MAX: u64 = 128 * 1024;
/// Bytes of a large section read at a time: four blocks of the store's checksums; a reader that is slow holds no more.
const PIECE_BYTES: u64 = 256 * 1024;

/// What a step prints, found before the response begins.
enum Found {
    /// It is in row or summary.
    AtHand,
    /// There is no such part.
    Nothing,
    /// These bytes, as a string.
    Memory(Bytes),
    /// These bytes, which may hold NUL: RFC 9051 §4.3, literal8.
    Binary(Bytes),
    /// These bytes of the body; the first piece has been read.
    Stream(Bytes, Range<u64>),
    /// A number.
    Number(u64),
}

/// A message's bytes.
struct Reader<'m> {
    mailbox: &'m Mailbox,
    uid: Uid,
    body: BodyId,
    size: u64,
    whole: Option<Bytes>,
}

impl Reader<'_> {
    /// A range, in one piece.
    async fn bytes(&mut self, range: Range<u64>) -> Result<Bytes, Failure> {
        if self.whole.is_none() && self.size <= WHOLE_BYTES_MAX {
            self.whole = Some(self.mailbox.read_body(self.uid, self.body, 0..self.size).await?);
        }
        match &self.whole {
            Some(whole) => {
                let end = (range.end as usize).min(whole.len());
                Ok(whole.slice((range.start as usize).min(end)..end))
            }
            None => Ok(self.mailbox.read_body(self.uid, self.body, range).await?),
        }
    }

    /// A range for the socket: in memory if it is small, begun if it is large.
    async fn found(&mut self, range: Range<u64>) -> Result<Found, Failure> {
        if self.size <= WHOLE_BYTES_MAX || range.end - range.start <= PIECE_BYTES {
            return Ok(Found::Memory(self.bytes(range).await?));
        }
        let first = self.bytes(range.start..range.start + PIECE_BYTES).await?;
        Ok(Found::Stream(first, range))
    }
}

/// Prints the response of one message.
pub(super) async fn print(
    wire: &mut Wire,
    mailbox: &Mailbox,
    plan: &Plan,
    names: &mut FlagNames<'_>,
    subject: Subject<'_>,
    kept: Kept<'_>,
) -> Result<(), Failure> {
    let row = subject.row;
    let mut reader =
        Reader { mailbox, uid: row.uid(), body: kept.body, size: u64::from(row.size()), whole: None };
    let mut found = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        found.push(find(step, &mut reader, &kept.summary).await?);
    }
    line::begin(wire.out(), subject.seq);
    for (i, (step, found)) in plan.steps.iter().zip(found).enumerate() {
        if i > 0 {
            wire.out().push(b' ');
        }
        wire.out().extend_from_slice(label(step, &found));
        match found {
            Found::AtHand => line::item(wire.out(), step, names, subject, kept),
            Found::Nothing => wire.out().extend_from_slice(b"NIL"),
            Found::Number(number) => print::number(wire.out(), number),
            Found::Memory(bytes) => {
                print::literal_head(wire.out(), bytes.len() as u64);
                wire.put(&bytes).await?;
            }
            Found::Binary(bytes) => {
                // RFC 9051 §7.5.2: literal8 where there is a NUL.
                if memchr::memchr(0, &bytes).is_some() {
                    print::literal8_head(wire.out(), bytes.len() as u64);
                } else {
                    print::literal_head(wire.out(), bytes.len() as u64);
                }
                wire.put(&bytes).await?;
            }
            Found::Stream(first, range) => stream(wire, &reader, first, range).await?,
        }
    }
    line::end(wire.out());
    wire.relieve().await?;
    Ok(())
}

/// The label that a found value stands behind; what is at hand brings its own.
fn label<'p>(step: &'p Step, found: &Found) -> &'p [u8] {
    match (step, found) {
        (_, Found::AtHand) => b"",
        (Step::Fields(fields) | Step::NestedFields(fields), _) => &fields.label,
        (Step::Bytes(bytes) | Step::Decoded(bytes) | Step::DecodedSize(bytes), _) => &bytes.label,
        _ => b"",
    }
}

async fn find(step: &Step, reader: &mut Reader<'_>, summary: &SummaryRef<'_>) -> Result<Found, Failure> {
    if !line::step_needs_body(step, summary) {
        return Ok(Found::AtHand);
    }
    match step {
        Step::Fields(fields) | Step::NestedFields(fields) => {
            let Some(header) = summary.locate(&fields.path, Section::Header) else {
                return Ok(Found::Nothing);
            };
            let header = reader.bytes(span(header.span)).await?;
            let mut text = Vec::new();
            fields.mask.append_from_header(&header, &mut text);
            let part = cut(text.len() as u64, fields.partial);
            Ok(Found::Memory(Bytes::from(text).slice(part.start as usize..part.end as usize)))
        }
        Step::Bytes(bytes) => {
            let Some(located) = summary.locate(&bytes.path, bytes.section) else { return Ok(Found::Nothing) };
            let whole = span(located.span);
            let part = cut(whole.end - whole.start, bytes.partial);
            reader.found(whole.start + part.start..whole.start + part.end).await
        }
        Step::Decoded(bytes) => Ok(match decoded(bytes, reader, summary).await? {
            Some(content) => {
                let part = cut(content.len() as u64, bytes.partial);
                Found::Binary(content.slice(part.start as usize..part.end as usize))
            }
            None => Found::Nothing,
        }),
        Step::DecodedSize(bytes) => Ok(match decoded(bytes, reader, summary).await? {
            Some(content) => Found::Number(content.len() as u64),
            // RFC 3516 §4.3 has no NIL here; a part that is not there has no bytes.
            None => Found::Number(0),
        }),
        _ => Ok(Found::AtHand),
    }
}

/// A part's content with its transfer encoding undone; `None` if there is no such part.
async fn decoded(
    bytes: &plan::Bytes,
    reader: &mut Reader<'_>,
    summary: &SummaryRef<'_>,
) -> Result<Option<Bytes>, Failure> {
    let Some(located) = summary.locate(&bytes.path, Section::Body) else { return Ok(None) };
    let content = reader.bytes(span(located.span)).await?;
    // What is made of parts has no encoding of its own (RFC 2045 §6.4).
    if located.encoding.is_identity() || located.kind == Kind::Multipart {
        return Ok(Some(content));
    }
    match decode_transfer(located.encoding, &content) {
        Ok(decoded) => Ok(Some(decoded.into())),
        Err(error) => Err(Reply::no(Code::UnknownCte, error.to_string()).into()),
    }
}

/// A large section, piece by piece. Once its length is said, a failure can only end the connection.
async fn stream(
    wire: &mut Wire,
    reader: &Reader<'_>,
    first: Bytes,
    range: Range<u64>,
) -> Result<(), Failure> {
    print::literal_head(wire.out(), range.end - range.start);
    wire.put(&first).await?;
    let mut at = range.start + first.len() as u64;
    while at < range.end {
        let piece =
            reader.mailbox.read_body(reader.uid, reader.body, at..range.end.min(at + PIECE_BYTES)).await;
        match piece {
            Ok(piece) if !piece.is_empty() => {
                wire.put(&piece).await?;
                at += piece.len() as u64;
            }
            Ok(_) => return Err(broken(reader, "it ends early")),
            Err(error) => return Err(broken(reader, &error.to_string())),
        }
    }
    Ok(())
}

fn broken(reader: &Reader<'_>, why: &str) -> Failure {
    tracing::error!(uid = %reader.uid, body = %reader.body, why, "body broke off while it was sent");
    Failure::Net(NetError::Closed)
}

fn span(span: posthaste_mime_summary::Span) -> Range<u64> {
    u64::from(span.start)..u64::from(span.end)
}
