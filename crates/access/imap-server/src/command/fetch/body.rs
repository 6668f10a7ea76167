//! FETCH responses for which a body is read.
//!
//! All work that can fail is done before the response begins. A response that has begun must be
//! finished, because a literal has announced its length. That work locates byte ranges; the bytes
//! are printed item by item, as the client reads them. So a response with any number of items
//! holds at most the memory of [`MessageReader`].

use std::ops::Range;

use bytes::Bytes;
use posthaste_imap_codec::print::{self, Line};
use posthaste_mime_summary::{Encoding, Kind, Section, SummaryRef};

use super::line::{self, Subject};
use super::plan::{self, Plan, ResponseItem, cut};
use super::reader::{Encoded, MessageReader};
use crate::command::walk::StoredMessage;
use crate::flag_names::FlagNames;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::progress::Reports;
use crate::reply::Failure;
use crate::wire::Wire;

/// Prints the responses of one FETCH.
pub(super) struct Printer<'p> {
    pub(super) plan: &'p Plan,
    pub(super) names: FlagNames<'p>,
    pub(super) pace: Pace,
    /// The reports of the command, until its first response (RFC 9585).
    pub(super) first: Option<Reports<'p>>,
}

/// The value that is printed for an item, located before the response begins.
enum ItemValue {
    /// The row or the summary holds it.
    AtHand,
    /// The part does not exist.
    Nothing,
    /// A number.
    Number(u64),
    /// Bytes of the body: this range. The first ones may have been read already.
    Raw { range: Range<u64>, first: Bytes, form: LiteralForm },
    /// Bytes of a decoded part, which the reader holds, too.
    Decoded { part: Bytes, cut: Range<u64> },
    /// Bytes that are sent as a plain literal.
    Plain(Bytes),
    /// Fields of this header.
    Fields(Bytes),
    /// A SHA-1.
    Digest([u8; 20]),
}

/// The form in which bytes are sent. RFC 9051 §4.3: bytes with a NUL need a literal8.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LiteralForm {
    Literal,
    Literal8,
}

/// Steps of reading a range of a body, and of printing an item from it. A message may have a
/// thousand items.
const READ_STEPS: u64 = SLICE_STEPS / 20;
const ITEM_STEPS: u64 = SLICE_STEPS / 100;

/// Bytes of a summary that are sent at a time.
const SLICE_BYTES: usize = 256 * 1024;

/// The place of an item's data.
enum DataSource {
    AtHand,
    Nothing,
    Raw(Range<u64>),
    Encoded(Range<u64>, Encoding),
    Header(Range<u64>),
    /// The place is in a message that has to be decoded.
    Within(Encoded, Vec<u32>),
}

/// Prints the response of one message.
pub(super) async fn print(
    wire: &mut Wire,
    mut reader: MessageReader<'_>,
    printer: &mut Printer<'_>,
    subject: Subject<'_>,
    stored: StoredMessage<'_>,
) -> Result<(), Failure> {
    let Printer { plan, names, pace, first } = printer;
    let is_large = reader.is_large();
    let finding = find_all(plan, &mut reader, &stored.summary, pace);
    // Boxed: most sessions that fetch a body fetch a small one.
    let found = match (*first, is_large) {
        (first, true) => Box::pin(wire.wait_for(finding, first)).await??,
        (Some(reports), false) => Box::pin(wire.reporting(reports, finding)).await?,
        (None, false) => finding.await?,
    };
    *first = None;
    Line::print(wire.out(), |line| line::begin(line, subject));
    for (i, (item, found)) in plan.items.iter().zip(found).enumerate() {
        if i > 0 {
            wire.out().push(b' ');
            wire.relieve().await?;
            pace.worked(ITEM_STEPS).await;
        }
        wire.out().extend_from_slice(label(item, &found));
        match found {
            ItemValue::AtHand => {
                pace.worked(item.steps_of(&stored.summary)).await;
                at_hand(wire, (item, &mut *names), subject, stored).await?;
            }
            ItemValue::Nothing => wire.out().extend_from_slice(b"NIL"),
            ItemValue::Number(number) => print::number(wire.out(), number),
            ItemValue::Raw { range, first, form } => {
                literal_head(wire, range.end - range.start, form);
                send(wire, &reader, first, range, form).await?;
            }
            ItemValue::Decoded { part, cut } => {
                let bytes = part.slice(cut.start as usize..cut.end as usize);
                // RFC 9051 §7.5.2: literal8 where there is a NUL.
                pace.worked(bytes.len() as u64 / 16).await;
                let nul = memchr::memchr(0, &bytes);
                let form = nul.map_or(LiteralForm::Literal, |_| LiteralForm::Literal8);
                literal_head(wire, bytes.len() as u64, form);
                wire.put(&bytes).await?;
            }
            ItemValue::Plain(bytes) => {
                print::literal_head(wire.out(), bytes.len() as u64);
                for slice in bytes.chunks(SLICE_BYTES) {
                    put_plain(wire, slice).await?;
                }
            }
            ItemValue::Digest(sha1) => print::hex(wire.out(), &sha1),
            ItemValue::Fields(header) => fields(wire, &reader, item, header, pace).await?,
        }
    }
    Line::print(wire.out(), line::end);
    wire.relieve().await?;
    Ok(())
}

/// The label before a value. Values from row or summary print their own label.
fn label<'p>(item: &'p ResponseItem, found: &ItemValue) -> &'p [u8] {
    match found {
        ItemValue::AtHand => b"",
        _ => item.label(),
    }
}

/// Prints an item from row or summary. A long value is sent piece by piece, without a complete
/// copy.
async fn at_hand(
    wire: &mut Wire,
    (item, names): (&ResponseItem, &mut FlagNames<'_>),
    subject: Subject<'_>,
    stored: StoredMessage<'_>,
) -> Result<(), Failure> {
    let summary = stored.summary;
    match item {
        ResponseItem::Envelope => {
            wire.out().extend_from_slice(b"ENVELOPE ");
            for piece in summary.envelope().iter() {
                put_slices(wire, piece).await?;
            }
        }
        ResponseItem::Body => {
            wire.out().extend_from_slice(b"BODY ");
            for piece in summary.body().iter() {
                put_slices(wire, piece).await?;
            }
        }
        ResponseItem::BodyStructure => {
            wire.out().extend_from_slice(b"BODYSTRUCTURE ");
            put_slices(wire, summary.body_structure()).await?;
        }
        ResponseItem::Fields(fields) => {
            let selected = summary.header_fields(&fields.mask);
            let part = cut(selected.len() as u64, fields.partial);
            wire.out().extend_from_slice(&fields.label);
            print::literal_head(wire.out(), part.end - part.start);
            let mut at = 0;
            for run in selected.iter() {
                let end = at + run.len() as u64;
                let (from, to) = (part.start.clamp(at, end) - at, part.end.clamp(at, end) - at);
                put_slices(wire, &run[from as usize..to as usize]).await?;
                at = end;
            }
        }
        _ => Line::print(wire.out(), |line| line::print_item(line, item, names, subject, stored)),
    }
    wire.relieve().await?;
    Ok(())
}

/// Sends bytes of a summary in slices.
async fn put_slices(wire: &mut Wire, bytes: &[u8]) -> Result<(), Failure> {
    for slice in bytes.chunks(SLICE_BYTES) {
        wire.put(slice).await?;
    }
    Ok(())
}

fn literal_head(wire: &mut Wire, len: u64, form: LiteralForm) {
    match form {
        LiteralForm::Literal => print::literal_head(wire.out(), len),
        LiteralForm::Literal8 => print::literal8_head(wire.out(), len),
    }
}

/// Locates the values of all items. Errors occur here only.
async fn find_all(
    plan: &Plan,
    reader: &mut MessageReader<'_>,
    summary: &SummaryRef<'_>,
    pace: &mut Pace,
) -> Result<Vec<ItemValue>, Failure> {
    let sources: Vec<DataSource> = plan.items.iter().map(|item| source_of(item, summary)).collect();
    if reader.is_large() {
        let held = sources.iter().filter_map(|source| match source {
            DataSource::Encoded(range, _) | DataSource::Header(range) => Some(range.clone()),
            DataSource::Within(message, _) => Some(message.range.clone()),
            _ => None,
        });
        let within = sources.iter().filter_map(|source| match source {
            DataSource::Within(message, _) => Some(message.range.clone()),
            _ => None,
        });
        reader.pay(held.collect(), within.collect()).await?;
    }
    let mut found = Vec::with_capacity(sources.len());
    for (item, source) in plan.items.iter().zip(sources) {
        if !matches!(source, DataSource::AtHand | DataSource::Nothing) {
            pace.worked(READ_STEPS).await;
        }
        found.push(find(item, source, reader, pace).await?);
    }
    Ok(found)
}

fn source_of(item: &ResponseItem, summary: &SummaryRef<'_>) -> DataSource {
    if !line::item_needs_body(item, summary) {
        return DataSource::AtHand;
    }
    match item {
        ResponseItem::Fields(fields) | ResponseItem::NestedFields(fields) => {
            let header = summary.locate(&fields.path, Section::Header);
            let source = header.map(|header| DataSource::Header(span(header.span)));
            source.unwrap_or_else(|| within(&fields.path, Section::Header, summary))
        }
        ResponseItem::Bytes(bytes) | ResponseItem::Digest(bytes) => {
            let located = summary.locate(&bytes.path, bytes.section);
            let source = located.map(|located| DataSource::Raw(span(located.span)));
            source.unwrap_or_else(|| within(&bytes.path, bytes.section, summary))
        }
        ResponseItem::Decoded(bytes) | ResponseItem::DecodedSize(bytes) => of_part(bytes, summary),
        _ => DataSource::AtHand,
    }
}

fn of_part(bytes: &plan::Bytes, summary: &SummaryRef<'_>) -> DataSource {
    let Some(located) = summary.locate(&bytes.path, Section::Body) else {
        return within(&bytes.path, Section::Body, summary);
    };
    // A multipart has no encoding of its own (RFC 2045 §6.4).
    match located.encoding.is_identity() || located.kind == Kind::Multipart {
        true => DataSource::Raw(span(located.span)),
        false => DataSource::Encoded(span(located.span), located.encoding),
    }
}

/// A section that may be in a message that is encoded.
fn within(path: &[u32], section: Section, summary: &SummaryRef<'_>) -> DataSource {
    match summary.locate_in_decoded(path, section) {
        Some(found) => {
            let message = Encoded { range: span(found.span), encoding: found.encoding };
            DataSource::Within(message, found.path.to_vec())
        }
        None => DataSource::Nothing,
    }
}

async fn find(
    item: &ResponseItem,
    source: DataSource,
    reader: &mut MessageReader<'_>,
    pace: &mut Pace,
) -> Result<ItemValue, Failure> {
    Ok(match (item, source) {
        (_, DataSource::AtHand) => ItemValue::AtHand,
        // RFC 3516 §4.3 has no NIL here; a missing part has no bytes.
        (ResponseItem::DecodedSize(_), DataSource::Nothing) => ItemValue::Number(0),
        (_, DataSource::Nothing) => ItemValue::Nothing,
        (_, DataSource::Header(range)) => ItemValue::Fields(reader.header(&range).await?),
        (_, DataSource::Within(message, path)) => find_within(item, &message, &path, (reader, pace)).await?,
        (ResponseItem::DecodedSize(_), DataSource::Raw(range)) => ItemValue::Number(range.end - range.start),
        (ResponseItem::DecodedSize(_), DataSource::Encoded(range, encoding)) => {
            let part = Encoded { range, encoding };
            ItemValue::Number(reader.decoded(&part, pace).await?.len() as u64)
        }
        (ResponseItem::Digest(_), DataSource::Raw(range)) => {
            ItemValue::Digest(reader.sha1(&range, pace).await?)
        }
        (ResponseItem::Bytes(bytes) | ResponseItem::Decoded(bytes), DataSource::Raw(whole)) => {
            let part = cut(whole.end - whole.start, bytes.partial);
            let range = whole.start + part.start..whole.start + part.end;
            let first = reader.first(&range).await?;
            let has_nul = matches!(item, ResponseItem::Decoded(_)) && reader.has_nul(&range, pace).await?;
            let form = if has_nul { LiteralForm::Literal8 } else { LiteralForm::Literal };
            ItemValue::Raw { range, first, form }
        }
        (ResponseItem::Decoded(bytes), DataSource::Encoded(range, encoding)) => {
            let part = reader.decoded(&Encoded { range, encoding }, pace).await?;
            let cut = cut(part.len() as u64, bytes.partial);
            ItemValue::Decoded { part, cut }
        }
        _ => ItemValue::AtHand,
    })
}

/// Finds an item's bytes in a decoded message. That message is treated as one of its own.
async fn find_within(
    item: &ResponseItem,
    message: &Encoded,
    path: &[u32],
    (reader, pace): (&mut MessageReader<'_>, &mut Pace),
) -> Result<ItemValue, Failure> {
    let section = match item {
        ResponseItem::Fields(_) | ResponseItem::NestedFields(_) => Section::Header,
        ResponseItem::Bytes(bytes) | ResponseItem::Digest(bytes) => bytes.section,
        _ => Section::Body,
    };
    let Some(found) = reader.within(message, (path, section), pace).await? else {
        return Ok(match item {
            ResponseItem::DecodedSize(_) => ItemValue::Number(0),
            _ => ItemValue::Nothing,
        });
    };
    Ok(match item {
        ResponseItem::Fields(_) | ResponseItem::NestedFields(_) => ItemValue::Fields(found.bytes),
        ResponseItem::Digest(_) => ItemValue::Digest(reader.sha1_of(&found.bytes, pace).await),
        ResponseItem::Bytes(bytes) => {
            let cut = cut(found.bytes.len() as u64, bytes.partial);
            ItemValue::Plain(found.bytes.slice(cut.start as usize..cut.end as usize))
        }
        ResponseItem::Decoded(_) | ResponseItem::DecodedSize(_) => {
            let part = reader.decoded_within(message, found, pace).await?;
            let len = part.len() as u64;
            match item {
                ResponseItem::Decoded(bytes) => ItemValue::Decoded { part, cut: cut(len, bytes.partial) },
                _ => ItemValue::Number(len),
            }
        }
        _ => ItemValue::AtHand,
    })
}

/// Selected fields of a header that was read.
async fn fields(
    wire: &mut Wire,
    reader: &MessageReader<'_>,
    item: &ResponseItem,
    header: Bytes,
    pace: &mut Pace,
) -> Result<(), Failure> {
    let (ResponseItem::Fields(fields) | ResponseItem::NestedFields(fields)) = item else { return Ok(()) };
    let text = reader.fields(wire, header, &fields.mask, pace).await.map_err(|why| reader.broken(&why))?;
    let part = cut(text.len() as u64, fields.partial);
    print::literal_head(wire.out(), part.end - part.start);
    put_plain(wire, &text.slice(part.start as usize..part.end as usize)).await
}

/// Prints a section piece by piece. Once its length is sent, a failure can only end the connection.
async fn send(
    wire: &mut Wire,
    reader: &MessageReader<'_>,
    first: Bytes,
    range: Range<u64>,
    form: LiteralForm,
) -> Result<(), Failure> {
    put(wire, &first, form).await?;
    let mut at = range.start + first.len() as u64;
    drop(first);
    while at < range.end {
        let piece = reader.piece(at, range.end).await.map_err(|why| reader.broken(&why))?;
        put(wire, &piece, form).await?;
        at += piece.len() as u64;
    }
    Ok(())
}

async fn put(wire: &mut Wire, bytes: &[u8], form: LiteralForm) -> Result<(), Failure> {
    if form == LiteralForm::Literal {
        return put_plain(wire, bytes).await;
    }
    wire.put(bytes).await?;
    Ok(())
}

/// Prints bytes of a plain literal, which holds no NUL (RFC 9051 §9, CHAR8). Each NUL becomes
/// 0x80, as with Dovecot, so sizes do not change. BINARY has the bytes themselves.
async fn put_plain(wire: &mut Wire, bytes: &[u8]) -> Result<(), Failure> {
    if memchr::memchr(0, bytes).is_none() {
        wire.put(bytes).await?;
        return Ok(());
    }
    let plain: Vec<u8> = bytes.iter().map(|&byte| if byte == 0 { 0x80 } else { byte }).collect();
    wire.put(&plain).await?;
    Ok(())
}

fn span(span: posthaste_mime_summary::Span) -> Range<u64> {
    u64::from(span.start)..u64::from(span.end)
}
