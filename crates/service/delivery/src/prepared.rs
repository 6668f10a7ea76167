//! The messages of one command, and the memory that their summaries take until they are stored.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, Flag};
use posthaste_mime_summary::{SUMMARY_LEN_MAX, summary_len_max};
use posthaste_net::{BytePermit, Holder, KeyedPermit};
use posthaste_store::IncomingMessage;
use posthaste_store::compressed::Compression;

use crate::deliver::Delivery;
use crate::error::DeliveryError;
use crate::long_work::{Turn, WorkFor};
use crate::memory::{INLINE_LEN_MAX, SUMMARY_WITHIN, SummaryMemory, is_long, until_stored_max};

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

/// Memory of summaries that are not stored yet, or of what a script wants; given back when dropped.
#[derive(Debug)]
pub struct SummariesHeld(Held);

#[derive(Debug)]
enum Held {
    /// Bytes of the budget.
    Bytes(BytePermit),
    /// The reserve of a step.
    Reserve { _until_stored: KeyedPermit<usize> },
}

impl SummariesHeld {
    /// The summaries are made; they take this memory.
    pub(crate) fn take(&self, bytes: usize) {
        match &self.0 {
            Held::Bytes(permit) => permit.shrink_to(bytes),
            Held::Reserve { .. } => {}
        }
    }
}

impl Delivery {
    /// The messages of one command of an account, ready for a mailbox: see
    /// [`Delivery::incoming_held`]. Their summaries together have a bound.
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
            true => Box::pin(self.turn_if_long(whose, longest, SummaryMemory::Counted)).await?,
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
                Ok(SummariesHeld(Held::Bytes(permit)))
            }
            Err(_) => Err(DeliveryError::Busy),
        }
    }

    /// Memory for a summary of this many bytes, of a caller that may hold others: what is free at
    /// once, or the reserve of the step.
    ///
    /// What is stored next takes nothing that others wait for. Mail of users goes into the queue
    /// at any time, without a wait before. A message that needs all memory might never get it.
    /// Scripts send on only mail that has waited itself.
    async fn room_beside_others(
        &self,
        bytes: usize,
        memory: SummaryMemory,
    ) -> Result<SummariesHeld, DeliveryError> {
        let permit = self.finished.begin(Holder::Account([0; 16]));
        let wanted = bytes.min(self.finished.largest());
        let has_grown = match memory {
            SummaryMemory::Last => permit.grew_at_once(wanted),
            SummaryMemory::Counted | SummaryMemory::SentOn(_) => permit.grow_to(wanted).is_ok(),
        };
        if has_grown {
            permit.complete();
            return Ok(SummariesHeld(Held::Bytes(permit)));
        }
        drop(permit);
        let reserve = self.reserves.take(memory).await.ok_or(DeliveryError::Busy)?;
        Ok(SummariesHeld(Held::Reserve { _until_stored: reserve }))
    }

    /// Memory for this many bytes of what a script wants, at once or not at all. The caller holds
    /// the memory of its message's summary, so it must not wait for more. It holds both while the
    /// script's mail is delivered, so half of the budget is left to summaries.
    pub fn room_for_outcome(&self, bytes: usize) -> Option<SummariesHeld> {
        if self.finished.available() < self.finished.largest() / 2 + bytes {
            return None;
        }
        let permit = self.finished.begin(Holder::Account([0; 16]));
        permit.grow_to(bytes).ok()?;
        permit.complete();
        Some(SummariesHeld(Held::Bytes(permit)))
    }

    /// Memory for the summary of a message that clients see with this many octets. Hold it until
    /// the message is stored. That of a long message needs a turn before.
    pub(crate) async fn room_for_message(
        &self,
        octets: usize,
        memory: SummaryMemory,
    ) -> Result<SummariesHeld, DeliveryError> {
        let bytes = until_stored_max(octets, self.options().compress);
        match memory {
            SummaryMemory::Counted => self.room_for_finished(bytes).await,
            // Boxed: most mail comes from elsewhere.
            SummaryMemory::SentOn(_) | SummaryMemory::Last => {
                Box::pin(self.room_beside_others(bytes, memory)).await
            }
        }
    }

    /// The turn of a message that may be long, and then the memory for its summary. Hold the turn
    /// until the summary is made.
    pub(crate) async fn turn_and_room(
        &self,
        whose: WorkFor,
        octets: usize,
        memory: SummaryMemory,
    ) -> Result<(Option<Turn>, SummariesHeld), DeliveryError> {
        let turn = self.turn_if_long(whose, octets, memory).await?;
        let held = self.room_for_message(octets, memory).await?;
        Ok((turn, held))
    }

    /// A message ready for a mailbox, and the memory of its summary. Hold that until the message
    /// is stored. Its size is checked and its summary is made. A date is INTERNALDATE in unix
    /// seconds; without one, it is now.
    #[boxed]
    pub async fn incoming_held(
        &self,
        whose: WorkFor,
        message: NewMessage,
        memory: SummaryMemory,
    ) -> Result<(IncomingMessage, SummariesHeld), DeliveryError> {
        let NewMessage { bytes, flags, date } = message;
        self.check_size(bytes.len())?;
        let (_turn, held) = self.turn_and_room(whose, bytes.len(), memory).await?;
        let message = self.incoming_for(whose, bytes, flags, date).await?;
        self.take_room(&held, &message);
        Ok((message, held))
    }

    /// The summary and the body are made: memory is held only for them from now on.
    pub(crate) fn take_room(&self, held: &SummariesHeld, message: &IncomingMessage) {
        let stored = if self.options().compress == Compression::Zstd { message.bytes.len() } else { 0 };
        held.take(message.summary.len() + stored);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::Pin;
    use std::task::Poll;

    use posthaste_net::ByteBudget;

    use super::*;
    use crate::tests::delivery;

    async fn waits(work: Pin<&mut impl Future>) -> bool {
        let mut work = work;
        poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await
    }

    /// Nothing bounded the summaries of mail that scripts send on, nor those of the queue.
    #[tokio::test]
    async fn without_memory_one_summary_of_each_step_is_held() {
        let (delivery, _) = delivery().await;
        let budget = ByteBudget::new(1 << 20);
        let delivery = delivery.with_finished(budget.clone());
        let incoming = |memory| {
            let bytes = Bytes::from_static(b"Subject: x\r\n\r\nx\r\n");
            let message = NewMessage { bytes, flags: Vec::new(), date: None };
            delivery.incoming_held(WorkFor::SERVER, message, memory)
        };
        let (message, counted) = incoming(SummaryMemory::SentOn(1)).await.unwrap();
        assert_eq!(budget.available(), (1 << 20) - message.summary.len());
        drop(counted);
        let all = delivery.room_for_finished(1 << 20).await.unwrap();
        for memory in [SummaryMemory::SentOn(1), SummaryMemory::SentOn(2), SummaryMemory::Last] {
            let first = incoming(memory).await.unwrap();
            let mut second = std::pin::pin!(incoming(memory));
            assert!(waits(second.as_mut()).await, "{memory:?}");
            // The reserve of another step is free.
            drop(delivery.room_for_message(1, SummaryMemory::SentOn(3)).await.unwrap());
            drop(first);
            second.await.unwrap();
        }
        let mut counted = std::pin::pin!(incoming(SummaryMemory::Counted));
        assert!(waits(counted.as_mut()).await);
        drop(all);
        counted.await.unwrap();
    }

    /// Mail that waited for all memory had it only if nobody submitted mail for a moment. All other
    /// mail waited behind it, and was deferred after a minute.
    #[tokio::test]
    async fn mail_for_the_queue_takes_no_memory_that_others_wait_for() {
        let (delivery, _) = delivery().await;
        let budget = ByteBudget::new(1 << 20);
        let delivery = delivery.with_finished(budget.clone());
        let last = || delivery.room_for_message(1, SummaryMemory::Last);
        let some = last().await.unwrap();
        let available = budget.available();
        assert!(available < 1 << 20, "nobody waits, so it has free memory");
        let mut all = std::pin::pin!(delivery.room_for_finished(1 << 20));
        assert!(waits(all.as_mut()).await);
        let queued = last().await.unwrap();
        assert_eq!(budget.available(), available);
        drop(some);
        let all = all.await.unwrap();
        assert_eq!(budget.available(), 0);
        drop((all, queued));
        let _again = last().await.unwrap();
        assert_eq!(budget.available(), available);
    }

    /// Each message allocated and moved the state of conversions and of other threads.
    #[tokio::test]
    async fn the_state_of_a_short_message_is_small() {
        let (delivery, ana) = delivery().await;
        let appended = std::mem::size_of_val(&*delivery.incoming_all(ana.id, Vec::new()));
        let delivered = std::mem::size_of_val(&*delivery.deliver(Bytes::new(), &[]));
        assert!(appended <= 1024 && delivered <= 1200, "{appended} and {delivered} octets");
    }
}
