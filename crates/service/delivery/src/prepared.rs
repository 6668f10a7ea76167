//! The messages of one command, and the memory that their summaries take until they are stored.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, Flag};
use posthaste_mime_summary::{SUMMARY_LEN_MAX, summary_len_max};
use posthaste_net::{BytePermit, Holder};
use posthaste_store::IncomingMessage;

use crate::deliver::Delivery;
use crate::error::DeliveryError;
use crate::long_work::WorkFor;
use crate::memory::{INLINE_LEN_MAX, SUMMARY_WITHIN, is_long};

/// The divisor of the memory that gives the part for one command's summaries.
const COMMAND_SHARE: usize = 4;

/// The work of a summary that does not depend on the message's length, as octets of a message.
const MESSAGE_WORK: usize = 4 * 1024;

/// A message that a client appends.
#[derive(Debug)]
pub struct NewMessage {
    /// The message.
    pub bytes: Bytes,
    /// The message's flags.
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

impl SummariesHeld {
    /// The summaries are made; they take this memory.
    pub(crate) fn take(&self, bytes: usize) {
        self.0.shrink_to(bytes);
    }
}

impl Delivery {
    /// The messages of one command of an account, ready for a mailbox: see
    /// [`Delivery::incoming_for`]. Their summaries together have a bound.
    #[boxed]
    pub async fn incoming_all(
        &self,
        account: AccountId,
        messages: Vec<NewMessage>,
    ) -> Result<Prepared, DeliveryError> {
        let (mut most, mut longest) = (0, 0);
        for message in &messages {
            self.check_size(message.bytes.len())?;
            most += summary_len_max(message.bytes.len());
            longest = longest.max(message.bytes.len());
        }
        let whose = WorkFor::account(account);
        let _turn = match is_long(longest) {
            // Boxed: nearly no message is long.
            true => Box::pin(self.turn_if_long(whose, longest)).await?,
            false => None,
        };
        let limit = (self.finished.largest() / COMMAND_SHARE).max(SUMMARY_LEN_MAX);
        let held = self.room_for_finished(most.min(limit)).await?;
        let (mut ready, mut total, mut worked) = (Vec::with_capacity(messages.len()), 0, 0);
        for NewMessage { bytes, flags, date } in messages {
            let len = bytes.len();
            let message = match is_long(len) {
                true => self.incoming_for(whose, bytes, flags, date).await?,
                false => self.incoming_here(bytes, flags, date, self.options().compress),
            };
            total += message.summary.len();
            if total > limit {
                return Err(DeliveryError::TooMuchAtOnce { limit });
            }
            ready.push(message);
            // Larger ones are summarised on another thread.
            worked += if is_long(len) { 0 } else { len + MESSAGE_WORK };
            if worked >= INLINE_LEN_MAX {
                worked = 0;
                tokio::task::yield_now().await;
            }
        }
        held.take(total);
        Ok(Prepared { messages: ready, held })
    }

    /// Waits until there is memory for summaries of this many bytes. The caller holds none yet.
    pub(crate) async fn room_for_finished(&self, bytes: usize) -> Result<SummariesHeld, DeliveryError> {
        let permit = self.finished.begin(Holder::Account([0; 16]));
        // On a small machine the longest summary takes all of it, and no other one is made next
        // to it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::delivery;

    /// Each message allocated and moved the state of conversions and of other threads.
    #[tokio::test]
    async fn the_state_of_a_short_message_is_small() {
        let (delivery, ana) = delivery().await;
        let appended = std::mem::size_of_val(&*delivery.incoming_all(ana.id, Vec::new()));
        let delivered = std::mem::size_of_val(&*delivery.deliver(Bytes::new(), &[]));
        assert!(appended <= 1024 && delivered <= 1024, "{appended} and {delivered} octets");
    }
}
