//! FETCH responses for which a body is read.
//!
//! All steps that can fail run before the response begins. A response that has begun must be
//! finished, because a literal has announced its length. These steps produce byte ranges; the
//! bytes are printed item by item, as the client reads them. So a response with any number of
//! items holds at most the memory of [`MessageReader`].

use std::ops::Range;

use bytes::Bytes;
use posthaste_imap_codec::print;
use posthaste_mime_summary::{Encoding, Kind, Section, SummaryRef};

use super::line::{self, Subject};
use super::plan::{self, Plan, Step, cut};
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

/// The value that a step prints, located before the response begins.
enum StepValue {
    /// The row or the summary holds it.
    AtHand,
    /// There is no such part.
    Nothing,
    /// A number.
    Number(u64),
    /// These bytes of the body. The first ones may have been read already.
    Raw { range: Range<u64>, first: Bytes, has_nul: bool },
    /// These bytes of a decoded part, which the reader holds, too.
    Decoded { part: Bytes, cut: Range<u64> },
    /// These bytes, as a plain literal.
    Plain(Bytes),
    /// Fields of this header.
    Fields(Bytes),
    /// A SHA-1.
    Digest([u8; 20]),
}

/// Steps of reading a range of a body, and of printing an item from it. A message may have a
/// thousand items.
const READ_STEPS: u64 = SLICE_STEPS / 20;
const ITEM_STEPS: u64 = SLICE_STEPS / 100;

/// Bytes of a summary that are sent at a time.
const SLICE_BYTES: usize = 256 * 1024;

/// Where a step has to look for its data.
enum DataSource {
    AtHand,
    Nothing,
    Raw(Range<u64>),
    Encoded(Range<u64>, Encoding),
    Header(Range<u64>),
    /// In a message that has to be decoded.
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
    line::begin(wire.out(), subject);
    for (i, (step, found)) in plan.steps.iter().zip(found).enumerate() {
        if i > 0 {
            wire.out().push(b' ');
            wire.relieve().await?;
            pace.worked(ITEM_STEPS).await;
        }
        wire.out().extend_from_slice(label(step, &found));
        match found {
            StepValue::AtHand => {
                pace.worked(step.steps_of(&stored.summary)).await;
                at_hand(wire, (step, &mut *names), subject, stored).await?;
            }
            StepValue::Nothing => wire.out().extend_from_slice(b"NIL"),
            StepValue::Number(number) => print::number(wire.out(), number),
            StepValue::Raw { range, first, has_nul } => {
                literal_head(wire, range.end - range.start, has_nul);
                send(wire, &reader, first, range, has_nul).await?;
            }
            StepValue::Decoded { part, cut } => {
                let bytes = part.slice(cut.start as usize..cut.end as usize);
                // RFC 9051 §7.5.2: literal8 where there is a NUL.
                pace.worked(bytes.len() as u64 / 16).await;
                literal_head(wire, bytes.len() as u64, memchr::memchr(0, &bytes).is_some());
                wire.put(&bytes).await?;
            }
            StepValue::Plain(bytes) => {
                print::literal_head(wire.out(), bytes.len() as u64);
                for slice in bytes.chunks(SLICE_BYTES) {
                    put_plain(wire, slice).await?;
                }
            }
            StepValue::Digest(sha1) => print::hex(wire.out(), &sha1),
            StepValue::Fields(header) => fields(wire, &reader, step, header, pace).await?,
        }
    }
    line::end(wire.out());
    wire.relieve().await?;
    Ok(())
}

/// The label before a value. Values from row or summary print their own label.
fn label<'p>(step: &'p Step, found: &StepValue) -> &'p [u8] {
    match found {
        StepValue::AtHand => b"",
        _ => step.label(),
    }
}

/// Prints an item from row or summary. A long value is sent piece by piece, without a complete
/// copy.
async fn at_hand(
    wire: &mut Wire,
    (step, names): (&Step, &mut FlagNames<'_>),
    subject: Subject<'_>,
    stored: StoredMessage<'_>,
) -> Result<(), Failure> {
    let summary = stored.summary;
    match step {
        Step::Envelope => {
            wire.out().extend_from_slice(b"ENVELOPE ");
            for piece in summary.envelope().iter() {
                put_slices(wire, piece).await?;
            }
        }
        Step::Body => {
            wire.out().extend_from_slice(b"BODY ");
            for piece in summary.body().iter() {
                put_slices(wire, piece).await?;
            }
        }
        Step::BodyStructure => {
            wire.out().extend_from_slice(b"BODYSTRUCTURE ");
            put_slices(wire, summary.body_structure()).await?;
        }
        Step::Fields(fields) => {
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
        _ => line::item(wire.out(), step, names, subject, stored),
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

fn literal_head(wire: &mut Wire, len: u64, has_nul: bool) {
    // RFC 9051 §4.3: what holds NUL is a literal8.
    if has_nul { print::literal8_head(wire.out(), len) } else { print::literal_head(wire.out(), len) }
}

/// Locates what every step prints. All that can fail fails here.
async fn find_all(
    plan: &Plan,
    reader: &mut MessageReader<'_>,
    summary: &SummaryRef<'_>,
    pace: &mut Pace,
) -> Result<Vec<StepValue>, Failure> {
    let sources: Vec<DataSource> = plan.steps.iter().map(|step| source_of(step, summary)).collect();
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
    for (step, source) in plan.steps.iter().zip(sources) {
        if !matches!(source, DataSource::AtHand | DataSource::Nothing) {
            pace.worked(READ_STEPS).await;
        }
        found.push(find(step, source, reader, pace).await?);
    }
    Ok(found)
}

fn source_of(step: &Step, summary: &SummaryRef<'_>) -> DataSource {
    if !line::step_needs_body(step, summary) {
        return DataSource::AtHand;
    }
    match step {
        Step::Fields(fields) | Step::NestedFields(fields) => {
            let header = summary.locate(&fields.path, Section::Header);
            let source = header.map(|header| DataSource::Header(span(header.span)));
            source.unwrap_or_else(|| within(&fields.path, Section::Header, summary))
        }
        Step::Bytes(bytes) | Step::Digest(bytes) => {
            let located = summary.locate(&bytes.path, bytes.section);
            let source = located.map(|located| DataSource::Raw(span(located.span)));
            source.unwrap_or_else(|| within(&bytes.path, bytes.section, summary))
        }
        Step::Decoded(bytes) | Step::DecodedSize(bytes) => of_part(bytes, summary),
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
    step: &Step,
    source: DataSource,
    reader: &mut MessageReader<'_>,
    pace: &mut Pace,
) -> Result<StepValue, Failure> {
    Ok(match (step, source) {
        (_, DataSource::AtHand) => StepValue::AtHand,
        // RFC 3516 §4.3 has no NIL here; a missing part has no bytes.
        (Step::DecodedSize(_), DataSource::Nothing) => StepValue::Number(0),
        (_, DataSource::Nothing) => StepValue::Nothing,
        (_, DataSource::Header(range)) => StepValue::Fields(reader.header(&range).await?),
        (_, DataSource::Within(message, path)) => find_within(step, &message, &path, (reader, pace)).await?,
        (Step::DecodedSize(_), DataSource::Raw(range)) => StepValue::Number(range.end - range.start),
        (Step::DecodedSize(_), DataSource::Encoded(range, encoding)) => {
            let part = Encoded { range, encoding };
            StepValue::Number(reader.decoded(&part, pace).await?.len() as u64)
        }
        (Step::Digest(_), DataSource::Raw(range)) => StepValue::Digest(reader.sha1(&range, pace).await?),
        (Step::Bytes(bytes) | Step::Decoded(bytes), DataSource::Raw(whole)) => {
            let part = cut(whole.end - whole.start, bytes.partial);
            let range = whole.start + part.start..whole.start + part.end;
            let first = reader.first(&range).await?;
            let has_nul = matches!(step, Step::Decoded(_)) && reader.has_nul(&range, pace).await?;
            StepValue::Raw { range, first, has_nul }
        }
        (Step::Decoded(bytes), DataSource::Encoded(range, encoding)) => {
            let part = reader.decoded(&Encoded { range, encoding }, pace).await?;
            let cut = cut(part.len() as u64, bytes.partial);
            StepValue::Decoded { part, cut }
        }
        _ => StepValue::AtHand,
    })
}

/// Finds a step's bytes in a decoded message. That message is treated as one of its own.
async fn find_within(
    step: &Step,
    message: &Encoded,
    path: &[u32],
    (reader, pace): (&mut MessageReader<'_>, &mut Pace),
) -> Result<StepValue, Failure> {
    let section = match step {
        Step::Fields(_) | Step::NestedFields(_) => Section::Header,
        Step::Bytes(bytes) | Step::Digest(bytes) => bytes.section,
        _ => Section::Body,
    };
    let Some(found) = reader.within(message, (path, section), pace).await? else {
        return Ok(match step {
            Step::DecodedSize(_) => StepValue::Number(0),
            _ => StepValue::Nothing,
        });
    };
    Ok(match step {
        Step::Fields(_) | Step::NestedFields(_) => StepValue::Fields(found.bytes),
        Step::Digest(_) => StepValue::Digest(reader.sha1_of(&found.bytes, pace).await),
        Step::Bytes(bytes) => {
            let cut = cut(found.bytes.len() as u64, bytes.partial);
            StepValue::Plain(found.bytes.slice(cut.start as usize..cut.end as usize))
        }
        Step::Decoded(_) | Step::DecodedSize(_) => {
            let part = reader.decoded_within(message, found, pace).await?;
            let len = part.len() as u64;
            match step {
                Step::Decoded(bytes) => StepValue::Decoded { part, cut: cut(len, bytes.partial) },
                _ => StepValue::Number(len),
            }
        }
        _ => StepValue::AtHand,
    })
}

/// Selected fields of a header that was read.
async fn fields(
    wire: &mut Wire,
    reader: &MessageReader<'_>,
    step: &Step,
    header: Bytes,
    pace: &mut Pace,
) -> Result<(), Failure> {
    let (Step::Fields(fields) | Step::NestedFields(fields)) = step else { return Ok(()) };
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
    is_literal8: bool,
) -> Result<(), Failure> {
    put(wire, &first, is_literal8).await?;
    let mut at = range.start + first.len() as u64;
    drop(first);
    while at < range.end {
        let piece = reader.piece(at, range.end).await.map_err(|why| reader.broken(&why))?;
        put(wire, &piece, is_literal8).await?;
        at += piece.len() as u64;
    }
    Ok(())
}

async fn put(wire: &mut Wire, bytes: &[u8], is_literal8: bool) -> Result<(), Failure> {
    if !is_literal8 {
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
