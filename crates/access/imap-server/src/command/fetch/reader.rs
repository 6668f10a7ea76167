//! The bytes of one message, as the items of a FETCH need them. Each byte is read once and decoded
//! once. The bytes held stay within the budget for reading.
//!
//! A small message is read whole. For a large one the reader holds three things: headers of which
//! fields are selected, decoded parts, and the first pieces of some sections. Headers and parts are
//! held once for all items, and their memory is reserved before they are read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_lc_rs::digest;
use bytes::Bytes;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{AccountId, BodyId, Uid};
use posthaste_mime_summary::{
    DecodedParts, Encoding, FieldMask, Kind, Located, Section, Span, TransferDecoder, TransferError,
    decode_transfer,
};
use posthaste_net::BytePermit;
use posthaste_store::{Mailbox, Row, StoreError};

use crate::command::walk::StoredMessage;
use crate::freed::freed_elsewhere;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::reply::{Failure, Reply};
use crate::service::{ImapService, UNRESERVED_READ_BYTES};
use crate::wire::Wire;

/// Bytes of a large section read at a time: four blocks of the store's checksums. A slow client
/// makes the reader hold no more. The pieces held while a response is prepared are limited to the
/// same size together.
const PIECE_BYTES: u64 = 256 * 1024;
/// Bytes decoded at a time on another thread: some milliseconds' work.
const DECODED_AT_ONCE: u64 = 4 << 20;

/// Steps of finding the parts of a decoded message, for each byte. Most are one. A line that may be
/// a delimiter is compared with up to a hundred boundaries.
const PART_STEPS: u64 = 64;

/// Steps of selecting fields between two pauses: some tens of milliseconds.
const HEADER_STEPS: u64 = 8_000_000;

/// The mailbox that bodies are read from, and the service in whose budget they reserve memory.
#[derive(Clone, Copy)]
pub(super) struct Bodies<'m> {
    /// The service, with the budget for reading and the threads for decoding.
    pub(super) service: &'m ImapService,
    /// The account that is logged in.
    pub(super) account: AccountId,
    /// The selected mailbox.
    pub(super) mailbox: &'m Mailbox,
}

/// A part that is decoded.
#[derive(Clone, PartialEq)]
pub(super) struct Encoded {
    pub(super) range: Range<u64>,
    pub(super) encoding: Encoding,
}

/// A range of a message that is held for all items.
struct HeldRange {
    range: Range<u64>,
    /// The transfer encoding that was decoded; `None` for the bytes as stored.
    decoded: Option<Encoding>,
    bytes: Bytes,
}

/// A message within the message that was decoded.
struct NestedMessage {
    message: Encoded,
    parts: Arc<DecodedParts>,
    /// The parts of it that were decoded in their turn.
    decoded: Vec<(Span, Bytes)>,
}

/// A section of a message that was decoded.
pub(super) struct DecodedSection {
    located: Located,
    pub(super) bytes: Bytes,
}

/// A message's bytes.
pub(super) struct MessageReader<'m> {
    bodies: Bodies<'m>,
    uid: Uid,
    body: BodyId,
    size: u64,
    whole: Option<Bytes>,
    /// The parts that are read or decoded once.
    once: Vec<HeldRange>,
    /// The messages within it that were decoded.
    within: Vec<NestedMessage>,
    /// Bytes of the first pieces that are held.
    held: u64,
    /// Bytes of the message's summary, for which memory may be reserved.
    beside: u64,
    paid: Option<BytePermit>,
}

impl<'m> MessageReader<'m> {
    /// A reader that has read nothing yet.
    pub(super) fn new(bodies: Bodies<'m>, row: &Row, stored: &StoredMessage<'_>) -> Self {
        let (uid, size, body) = (row.uid(), u64::from(row.size()), stored.body);
        let beside = stored.summary.record_len() as u64;
        let (once, within) = (Vec::new(), Vec::new());
        Self { bodies, uid, body, size, whole: None, once, within, held: 0, beside, paid: None }
    }

    /// Whether it is read piece by piece. Others are read whole in one system call, whatever
    /// items are requested.
    pub(super) const fn is_large(&self) -> bool {
        self.size > UNRESERVED_READ_BYTES
    }

    /// Waits for the memory that these ranges of a large message need. Each range is read or
    /// decoded once. Of some the parts may be decoded in their turn.
    pub(super) async fn pay(
        &mut self,
        ranges: Vec<Range<u64>>,
        twice: Vec<Range<u64>>,
    ) -> Result<(), Failure> {
        let bytes = bytes_of(ranges) + bytes_of(twice);
        if self.is_large() && bytes > 0 {
            // Memory for a long summary may be reserved, too. Ranges that fit the budget alone must
            // also fit together with it.
            let room = self.bodies.service.reads.largest() as u64;
            let bytes = if bytes > room { bytes } else { bytes.min(room.saturating_sub(self.beside)) };
            self.paid = Some(self.bodies.service.reserve_to_read(self.bodies.account, bytes).await?);
        }
        Ok(())
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes, Failure> {
        let wanted = range.end - range.start;
        let bytes = self.bodies.mailbox.read_body(self.uid, self.body, range).await?;
        if bytes.is_empty() && wanted > 0 {
            let why = "it ends early".to_owned();
            return Err(StoreError::Body { uid: self.uid, body: self.body, why }.into());
        }
        Ok(bytes)
    }

    /// A range of a small message.
    async fn small(&mut self, range: &Range<u64>) -> Result<Bytes, Failure> {
        let whole = match &self.whole {
            Some(whole) => whole,
            None => {
                let whole = self.bodies.mailbox.read_body(self.uid, self.body, 0..self.size).await?;
                self.whole.insert(whole)
            }
        };
        let end = (range.end as usize).min(whole.len());
        Ok(whole.slice((range.start as usize).min(end)..end))
    }

    /// Reads the beginning of a range to be sent. For a large message it reads at least the first
    /// piece, so that read errors appear before the response begins. The piece is kept while
    /// there is room for it.
    pub(super) async fn first(&mut self, range: &Range<u64>) -> Result<Bytes, Failure> {
        if !self.is_large() {
            return self.small(range).await;
        }
        let piece = self.read(range.start..range.end.min(range.start + PIECE_BYTES)).await?;
        if self.held + piece.len() as u64 > PIECE_BYTES {
            return Ok(Bytes::new());
        }
        self.held += piece.len() as u64;
        Ok(piece)
    }

    /// The next piece of a range, starting at `at`.
    pub(super) async fn piece(&self, at: u64, end: u64) -> Result<Bytes, Failure> {
        self.read(at..end.min(at + PIECE_BYTES)).await
    }

    /// Whether a NUL is in the range.
    pub(super) async fn has_nul(&mut self, range: &Range<u64>, pace: &mut Pace) -> Result<bool, Failure> {
        if !self.is_large() {
            return Ok(memchr::memchr(0, &self.small(range).await?).is_some());
        }
        let mut at = range.start;
        while at < range.end {
            let piece = self.piece(at, range.end).await?;
            if memchr::memchr(0, &piece).is_some() {
                return Ok(true);
            }
            at += piece.len() as u64;
            pace.worked(piece.len() as u64).await;
        }
        Ok(false)
    }

    /// The SHA-1 of a range.
    pub(super) async fn sha1(&mut self, range: &Range<u64>, pace: &mut Pace) -> Result<[u8; 20], Failure> {
        let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        if self.is_large() {
            let mut at = range.start;
            while at < range.end {
                let piece = self.piece(at, range.end).await?;
                hash.update(&piece);
                at += piece.len() as u64;
                pace.worked(piece.len() as u64).await;
            }
        } else {
            let bytes = self.small(range).await?;
            hash.update(&bytes);
            pace.worked(bytes.len() as u64).await;
        }
        Ok(sha1(hash))
    }

    /// The SHA-1 of bytes that are in memory.
    pub(super) async fn sha1_of(&self, bytes: &[u8], pace: &mut Pace) -> [u8; 20] {
        let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        for piece in bytes.chunks(PIECE_BYTES as usize) {
            hash.update(piece);
            pace.worked(piece.len() as u64).await;
        }
        sha1(hash)
    }

    /// A whole range, as stored.
    pub(super) async fn header(&mut self, range: &Range<u64>) -> Result<Bytes, Failure> {
        if !self.is_large() {
            return self.small(range).await;
        }
        if let Some(bytes) = self.once(range, None) {
            return Ok(bytes);
        }
        let bytes = freed_elsewhere(self.read(range.clone()).await?);
        self.once.push(HeldRange { range: range.clone(), decoded: None, bytes: bytes.clone() });
        Ok(bytes)
    }

    /// A decoded part.
    pub(super) async fn decoded(
        &mut self,
        Encoded { range, encoding }: &Encoded,
        pace: &mut Pace,
    ) -> Result<Bytes, Failure> {
        let encoding = *encoding;
        if let Some(bytes) = self.once(range, Some(encoding)) {
            return Ok(bytes);
        }
        let bytes = if self.is_large() {
            let decoder = TransferDecoder::new(encoding).map_err(unknown)?;
            self.decode_large(range, decoder).await?
        } else {
            let content = self.small(range).await?;
            pace.worked(content.len() as u64).await;
            decode_transfer(encoding, &content).map_err(unknown)?
        };
        self.bodies.service.decoded.fetch_add(1, Ordering::Relaxed);
        let bytes = freed_elsewhere(bytes);
        self.once.push(HeldRange { range: range.clone(), decoded: Some(encoding), bytes: bytes.clone() });
        Ok(bytes)
    }

    async fn decode_large(
        &self,
        range: &Range<u64>,
        mut decoder: TransferDecoder,
    ) -> Result<Vec<u8>, Failure> {
        let Bodies { service, account, .. } = self.bodies;
        // Decoding never yields more bytes than it reads, so the reserved memory suffices.
        let mut decoded = Vec::with_capacity((range.end - range.start) as usize);
        let mut at = range.start;
        while at < range.end {
            let piece = self.read(at..range.end.min(at + DECODED_AT_ONCE)).await?;
            at += piece.len() as u64;
            let work = move || {
                decoder.decode(&piece, &mut decoded);
                (decoder, decoded)
            };
            (decoder, decoded) = service.heavy.run(account, work).await?;
        }
        decoder.finish(&mut decoded);
        Ok(decoded)
    }

    /// A section of a message within, which is decoded. `None` if there is no such section.
    pub(super) async fn within(
        &mut self,
        message: &Encoded,
        (path, section): (&[u32], Section),
        pace: &mut Pace,
    ) -> Result<Option<DecodedSection>, Failure> {
        let bytes = self.decoded(message, pace).await?;
        let parts = match self.within.iter().find(|within| within.message == *message) {
            Some(within) => Arc::clone(&within.parts),
            None => {
                let parts = Arc::new(self.parts_of(bytes.clone(), pace).await?);
                let (message, decoded) = (message.clone(), Vec::new());
                self.within.push(NestedMessage { message, parts: Arc::clone(&parts), decoded });
                parts
            }
        };
        Ok(parts.locate(path, section).map(|located| {
            let bytes = bytes.slice(located.span.range());
            DecodedSection { located, bytes }
        }))
    }

    async fn parts_of(&self, message: Bytes, pace: &mut Pace) -> Result<DecodedParts, Failure> {
        let Bodies { service, account, .. } = self.bodies;
        let steps = message.len() as u64 * PART_STEPS;
        if steps > SLICE_STEPS {
            return service.heavy.run(account, move || DecodedParts::of(&message)).await;
        }
        pace.worked(steps).await;
        Ok(DecodedParts::of(&message))
    }

    /// A part of a message within, decoded.
    pub(super) async fn decoded_within(
        &mut self,
        message: &Encoded,
        DecodedSection { located, bytes }: DecodedSection,
        pace: &mut Pace,
    ) -> Result<Bytes, Failure> {
        // A multipart has no encoding of its own (RFC 2045 §6.4).
        if located.encoding.is_identity() || located.kind == Kind::Multipart {
            return Ok(bytes);
        }
        let known = self.within.iter().filter(|within| within.message == *message);
        let known = known.flat_map(|within| &within.decoded).find(|(span, _)| *span == located.span);
        if let Some((_, bytes)) = known {
            return Ok(bytes.clone());
        }
        let Bodies { service, account, .. } = self.bodies;
        let mut decoder = TransferDecoder::new(located.encoding).map_err(unknown)?;
        let mut decoded = Vec::with_capacity(bytes.len());
        for at in (0..bytes.len()).step_by(DECODED_AT_ONCE as usize) {
            let piece = bytes.slice(at..bytes.len().min(at + DECODED_AT_ONCE as usize));
            if piece.len() as u64 <= SLICE_STEPS {
                pace.worked(piece.len() as u64).await;
                decoder.decode(&piece, &mut decoded);
                continue;
            }
            let work = move || {
                decoder.decode(&piece, &mut decoded);
                (decoder, decoded)
            };
            (decoder, decoded) = service.heavy.run(account, work).await?;
        }
        decoder.finish(&mut decoded);
        let decoded = freed_elsewhere(decoded);
        if let Some(within) = self.within.iter_mut().find(|within| within.message == *message) {
            within.decoded.push((located.span, decoded.clone()));
        }
        Ok(decoded)
    }

    fn once(&self, range: &Range<u64>, decoded: Option<Encoding>) -> Option<Bytes> {
        let held = self.once.iter().find(|held| held.range == *range && held.decoded == decoded);
        held.map(|held| held.bytes.clone())
    }

    /// The fields of a header that a mask selects. A large header is read on another thread, in
    /// pieces, for as long as the client stays connected.
    pub(super) async fn fields(
        &self,
        wire: &mut Wire,
        header: Bytes,
        mask: &FieldMask,
        pace: &mut Pace,
    ) -> Result<Bytes, Failure> {
        let cost = header.len() as u64 * mask.comparisons();
        let mut text = Vec::new();
        if cost <= SLICE_STEPS {
            pace.worked(cost).await;
            mask.append_from_header(&header, &mut text);
            return Ok(Bytes::from(text));
        }
        let Bodies { service, account, .. } = self.bodies;
        let piece_bytes = (HEADER_STEPS / mask.comparisons()).max(1) as usize;
        let work = async {
            let mut at = Some(0);
            while let Some(from) = at {
                let (header, mask) = (header.clone(), mask.clone());
                let piece = move || {
                    let next = mask.append_piece(&header, from..from + piece_bytes, &mut text);
                    (next, text)
                };
                (at, text) = service.heavy.run(account, piece).await?;
            }
            Ok(Bytes::from(text))
        };
        Box::pin(wire.while_there(work)).await?
    }

    /// The error when reading a body fails in the middle of a response. It can only end the
    /// connection.
    pub(super) fn broken(&self, why: &Failure) -> Failure {
        tracing::error!(uid = %self.uid, body = %self.body, %why, "reading a body failed while it was sent");
        Failure::Net(posthaste_net::NetError::Closed)
    }
}

/// Bytes of ranges that are held once each.
fn bytes_of(mut ranges: Vec<Range<u64>>) -> u64 {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.dedup();
    ranges.iter().map(|range| range.end - range.start).sum()
}

fn sha1(hash: digest::Context) -> [u8; 20] {
    let mut sha1 = [0; 20];
    sha1.copy_from_slice(hash.finish().as_ref());
    sha1
}

fn unknown(error: TransferError) -> Failure {
    Failure::from(Reply::no(Code::UnknownCte, error.to_string()))
}
