//! The bytes of one message, as the items of a FETCH need them. Each byte is read once and decoded
//! once. The bytes held stay within the budget for reading.
//!
//! A small message is read whole. For a large one the reader holds three things: headers of which
//! fields are selected, decoded parts, and the first pieces of some sections. Headers and parts are
//! held once for all items, and their memory is reserved before they are read.

use std::ops::Range;
use std::sync::atomic::Ordering;

use aws_lc_rs::digest;
use bytes::Bytes;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{AccountId, BodyId, Uid};
use posthaste_mime_summary::{Encoding, FieldMask, TransferDecoder, decode_transfer};
use posthaste_net::BytePermit;
use posthaste_store::{Mailbox, Row, StoreError};

use crate::command::walk::StoredMessage;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::reply::{Failure, Reply};
use crate::service::ImapService;
use crate::wire::Wire;

/// Messages up to this size are read whole in one system call, whatever items are requested.
pub(super) const WHOLE_BYTES_MAX: u64 = 128 * 1024;
/// Bytes of a large section read at a time: four blocks of the store's checksums. A slow client
/// makes the reader hold no more. The pieces held while a response is prepared are limited to the
/// same size together.
const PIECE_BYTES: u64 = 256 * 1024;
/// Bytes decoded at a time on another thread: some milliseconds' work.
const DECODED_AT_ONCE: u64 = 4 << 20;

/// Steps of selecting fields between two pauses: some tens of milliseconds.
const HEADER_STEPS: u64 = 8_000_000;

/// Where bodies are read, and whose memory budget pays for them.
#[derive(Clone, Copy)]
pub(super) struct Bodies<'m> {
    /// Its budget for reading and its threads for decoding.
    pub(super) service: &'m ImapService,
    /// The account that is logged in.
    pub(super) account: AccountId,
    /// The selected mailbox.
    pub(super) mailbox: &'m Mailbox,
}

/// A range of a message that is held for all items.
struct Once {
    range: Range<u64>,
    /// The transfer encoding that was decoded; `None` for the bytes as stored.
    decoded: Option<Encoding>,
    bytes: Bytes,
}

/// A message's bytes.
pub(super) struct MessageReader<'m> {
    bodies: Bodies<'m>,
    uid: Uid,
    body: BodyId,
    size: u64,
    whole: Option<Bytes>,
    /// The parts that are read or decoded once.
    once: Vec<Once>,
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
        Self { bodies, uid, body, size, whole: None, once: Vec::new(), held: 0, beside, paid: None }
    }

    /// Whether it is read piece by piece.
    pub(super) const fn is_large(&self) -> bool {
        self.size > WHOLE_BYTES_MAX
    }

    /// Waits for the memory that these ranges of a large message need. Each range is read or
    /// decoded once.
    pub(super) async fn pay(&mut self, mut ranges: Vec<Range<u64>>) -> Result<(), Failure> {
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup();
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if self.is_large() && bytes > 0 {
            // A long summary may have been paid for, too. With it, what fits the budget alone
            // must fit, too.
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
        let mut sha1 = [0; 20];
        sha1.copy_from_slice(hash.finish().as_ref());
        Ok(sha1)
    }

    /// A whole range, as stored.
    pub(super) async fn header(&mut self, range: &Range<u64>) -> Result<Bytes, Failure> {
        if !self.is_large() {
            return self.small(range).await;
        }
        if let Some(bytes) = self.once(range, None) {
            return Ok(bytes);
        }
        let bytes = self.read(range.clone()).await?;
        self.once.push(Once { range: range.clone(), decoded: None, bytes: bytes.clone() });
        Ok(bytes)
    }

    /// A decoded part.
    pub(super) async fn decoded(
        &mut self,
        range: &Range<u64>,
        encoding: Encoding,
        pace: &mut Pace,
    ) -> Result<Bytes, Failure> {
        if let Some(bytes) = self.once(range, Some(encoding)) {
            return Ok(bytes);
        }
        let unknown = |error: posthaste_mime_summary::TransferError| {
            Failure::from(Reply::no(Code::UnknownCte, error.to_string()))
        };
        let bytes = if self.is_large() {
            let decoder = TransferDecoder::new(encoding).map_err(unknown)?;
            self.decode_large(range, decoder).await?
        } else {
            let content = self.small(range).await?;
            pace.worked(content.len() as u64).await;
            decode_transfer(encoding, &content).map_err(unknown)?
        };
        self.bodies.service.decoded.fetch_add(1, Ordering::Relaxed);
        let bytes = Bytes::from(bytes);
        self.once.push(Once { range: range.clone(), decoded: Some(encoding), bytes: bytes.clone() });
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
