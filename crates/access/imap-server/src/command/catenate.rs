//! CATENATE (RFC 4469): the server assembles a message from texts that the client sends and from
//! stored messages.
//!
//! All parts are found before the first one is read. Then the size of the message is known. It is
//! compared with the limits of an APPEND, and its memory is reserved in the budget of incoming
//! messages.

use bytes::Bytes;
use posthaste_delivery::{UrlPart, UrlRefusal};
use posthaste_imap_codec::command::{AppendText, CatenatePart};
use posthaste_imap_codec::response::Code;
use posthaste_net::{BytePermit, Holder};

use super::urlauth::{URL_STEPS, UrlSource, bad_url};
use crate::freed::free;
use crate::heavy::Pace;
use crate::reply::{Failure, Reply};
use crate::session::{MEMORY_WITHIN, no_memory};

/// Bytes that are copied between two counts of the steps.
const COPIED_AT_ONCE: usize = 512 * 1024;

/// Steps of copying a byte to memory that was not used before, at most.
const COPY_STEPS: u64 = 2;

/// Steps of a text, however short it is.
const TEXT_STEPS: u64 = 200;

/// Makes the messages of one command.
pub(super) struct Assembly {
    /// Bytes of the messages so far, and the parts that were read for them.
    total: u64,
    /// The memory of each complete message.
    paid: Vec<BytePermit>,
    /// The complete messages.
    made: Vec<Bytes>,
    pace: Pace,
}

/// A part whose size is known.
enum Piece {
    Text(Bytes),
    Found(UrlPart),
}

impl Assembly {
    /// An assembly that has made no message yet.
    pub(super) fn new() -> Self {
        Self { total: 0, paid: Vec::new(), made: Vec::new(), pace: Pace::default() }
    }

    /// The bytes of a message that the client sent whole. They count with the others.
    pub(super) fn sent(&mut self, message: Bytes) -> Bytes {
        self.total += message.len() as u64;
        message
    }

    /// The bytes of a message of these parts.
    pub(super) async fn message(
        &mut self,
        source: UrlSource<'_>,
        parts: Vec<CatenatePart>,
    ) -> Result<Bytes, Failure> {
        let delivery = &source.service.delivery;
        let mut pieces = Vec::with_capacity(parts.len());
        let mut size = 0_u64;
        for part in parts {
            self.pace.worked(URL_STEPS).await;
            let piece = match part {
                CatenatePart::Text(AppendText { data, .. }) => Piece::Text(data),
                CatenatePart::Url(url) => match delivery.find_url(source.reader, &url).await {
                    Ok(part) => Piece::Found(part),
                    Err(UrlRefusal::Bad(why)) => return Err(bad_url(&url, &why).into()),
                    Err(UrlRefusal::Failed(error)) => return Err(error.into()),
                },
            };
            size = size.saturating_add(match &piece {
                Piece::Text(data) => data.len() as u64,
                Piece::Found(found) => found.read_len(),
            });
            pieces.push(piece);
        }
        self.reserve(source, size).await?;
        let mut message = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        for piece in pieces {
            match piece {
                Piece::Text(data) => {
                    self.pace.worked(TEXT_STEPS).await;
                    copy(&data, &mut message, &mut self.pace).await;
                }
                Piece::Found(found) => {
                    delivery.read_url(&found, &mut message).await?;
                    // A longer one was read with pauses.
                    let read = found.read_len().min(COPIED_AT_ONCE as u64);
                    self.pace.worked(URL_STEPS + read * COPY_STEPS).await;
                }
            }
        }
        let message = Bytes::from(message);
        self.made.push(message.clone());
        Ok(message)
    }

    /// Reserves memory for a message, if it is no larger than any message may be. Selected fields
    /// of a header count as the whole header, which is read for them.
    async fn reserve(&mut self, source: UrlSource<'_>, size: u64) -> Result<(), Failure> {
        let options = &source.service.options;
        self.total = self.total.saturating_add(size);
        if size > options.append_bytes_max || self.total > options.append_total_bytes_max {
            // RFC 4469 §4
            return Err(Reply::no(Code::TooBig, "The assembled message is too large").into());
        }
        let account = source.reader.account.id;
        let paid = source.service.budget.begin(Holder::Account(account.0.to_bytes()));
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        paid.grow_to_within(bytes, MEMORY_WITHIN).await.map_err(|_| Failure::from(no_memory()))?;
        // The command was received completely, so its memory is not evicted for others.
        paid.complete();
        self.paid.push(paid);
        Ok(())
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        let bytes = self.made.iter().map(Bytes::len).sum();
        free((std::mem::take(&mut self.made), std::mem::take(&mut self.paid)), bytes);
    }
}

/// Copies a text, in pieces.
async fn copy(text: &[u8], into: &mut Vec<u8>, pace: &mut Pace) {
    for piece in text.chunks(COPIED_AT_ONCE) {
        into.extend_from_slice(piece);
        pace.worked(piece.len() as u64 * COPY_STEPS).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::heavy::SLICE_STEPS;

    /// A text of 60 MB was copied in one poll.
    #[test]
    fn a_long_text_is_copied_in_pieces() {
        let text = vec![b'x'; 2 * SLICE_STEPS as usize];
        let (mut message, mut pace, mut polls) = (Vec::new(), Pace::default(), 1);
        {
            let mut work = pin!(copy(&text, &mut message, &mut pace));
            while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                polls += 1;
            }
        }
        assert!(polls >= 4, "{polls} polls");
        assert_eq!(message, text);
    }
}
