//! Memory for summaries and conversions that are being made: one budget, which both share. Another
//! one is for summaries that are made and not stored yet.
//!
//! Whoever holds bytes of the second may wait for the first. A message waits for the second before
//! it holds any of it, and work that makes a summary waits for nothing. The copy of a message that
//! was verified counts for the first, too, while it waits: so each wait has a deadline.

use bytes::Bytes;
use posthaste_mail_model::Flag;
use posthaste_mime_summary::{SUMMARY_LEN_MAX, summary_len_max};
use posthaste_net::{ByteBudget, BytePermit, Holder};
use posthaste_store::IncomingMessage;
use std::time::Duration;

use crate::deliver::{Delivery, INLINE_LEN_MAX};
use crate::error::DeliveryError;

/// How long a message waits for that memory before its sender gets a temporary error. Senders wait
/// 10 minutes for an answer to their data (RFC 5321 §4.5.3.2.6). People who append a message wait
/// far less.
pub(crate) const SUMMARY_WITHIN: Duration = Duration::from_secs(60);

/// A budget whose shares are all of it. Each use is so short that fairness between accounts needs
/// no shares. Waiters are served in order, so many small messages do not starve a large one.
pub(crate) fn one_share(budget: ByteBudget) -> ByteBudget {
    budget.with_share_of_at_least(usize::MAX).in_order()
}

/// Default memory for summaries that are not stored yet: twelve of the longest, or a hundred
/// thousand usual ones.
pub(crate) const FINISHED_BYTES_DEFAULT: usize = 128 << 20;

/// One command's summaries may take this part of it.
const COMMAND_SHARE: usize = 4;

/// A message that a client appends.
#[derive(Debug)]
pub struct NewMessage {
    /// The message.
    pub bytes: Bytes,
    /// Its flags.
    pub flags: Vec<Flag>,
    /// INTERNALDATE in unix seconds; now, if it has none.
    pub date: Option<u32>,
}

/// Messages ready for a mailbox, and the memory that their summaries take.
#[derive(Debug)]
pub struct Prepared {
    /// The messages, in their order.
    pub messages: Vec<IncomingMessage>,
    /// Hold it until they are stored.
    pub held: SummariesHeld,
}

/// Memory of summaries that are not stored yet; given back when dropped.
#[derive(Debug)]
pub struct SummariesHeld(BytePermit);

/// Whether a delivery waits for memory for its summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryMemory {
    /// It does, and the memory is held until the message is stored.
    Counted,
    /// The caller holds the summary of another message, which a script sends on. Who holds such
    /// memory may not wait for more of it, so this summary is not counted.
    BesideOthers,
}

impl SummariesHeld {
    /// The summaries are made and take so much.
    pub(crate) fn take(&self, bytes: usize) {
        self.0.shrink_to(bytes);
    }
}

impl Delivery {
    /// The messages of one command, ready for a mailbox: see [`Delivery::incoming`]. Their
    /// summaries together have a bound.
    pub async fn incoming_all(&self, messages: Vec<NewMessage>) -> Result<Prepared, DeliveryError> {
        let mut most = 0;
        for message in &messages {
            self.check_size(message.bytes.len())?;
            most += summary_len_max(message.bytes.len());
        }
        let limit = (self.finished.largest() / COMMAND_SHARE).max(SUMMARY_LEN_MAX);
        let held = self.room_for_finished(most.min(limit)).await?;
        let (mut ready, mut total, mut worked) = (Vec::with_capacity(messages.len()), 0, 0);
        for NewMessage { bytes, flags, date } in messages {
            let len = bytes.len();
            let message = self.incoming(bytes, flags, date).await?;
            total += message.summary.len();
            if total > limit {
                return Err(DeliveryError::TooMuchAtOnce { limit });
            }
            ready.push(message);
            // Larger ones are summarised on another thread.
            worked += if len <= INLINE_LEN_MAX { len + MESSAGE_WORK } else { 0 };
            if worked >= INLINE_LEN_MAX {
                worked = 0;
                tokio::task::yield_now().await;
            }
        }
        held.take(total);
        Ok(Prepared { messages: ready, held })
    }

    /// Waits until there is memory for summaries of so many bytes. Who asks holds none yet.
    pub(crate) async fn room_for_finished(&self, bytes: usize) -> Result<SummariesHeld, DeliveryError> {
        let permit = self.finished.begin(Holder::Account([0; 16]));
        // On a small machine the longest summary takes all of it, and no other one is made beside
        // it.
        let wanted = bytes.min(self.finished.largest());
        match permit.grow_to_within(wanted, SUMMARY_WITHIN).await {
            Ok(()) => {
                permit.complete();
                Ok(SummariesHeld(permit))
            }
            Err(_) => Err(DeliveryError::Busy),
        }
    }
}

/// The work of a summary that does not depend on the message's length, as octets of a message.
const MESSAGE_WORK: usize = 4 * 1024;
