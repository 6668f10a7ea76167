//! An arriving message: its bytes, their share of the server's memory, and its faults.
//!
//! A refused message is still read to its end, and discarded: the client reads no reply before it
//! has sent all of it. Memory is reserved before it is used, as the bytes come. A stalled message
//! may lose its memory to others. Another thread frees the memory of a large message.

use std::future::{Future, pending};
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use posthaste_net::{ByteBudget, BytePermit, Holder, free, freed_elsewhere};

use crate::options::DRAIN_MAX;
use crate::reply::{Enhanced, Reply};

/// First size of a message's buffer: most mail fits.
const FIRST_BYTES: usize = 64 * 1024;

/// The longest wait of a message for the memory of others: longer than a sender may pause before
/// it is evicted. The client sees a slow line meanwhile, and RFC 5321 §4.5.3.2.5 has it wait
/// three minutes.
const MEMORY_WITHIN: Duration = Duration::from_secs(15);

/// Bytes of an envelope that need no reservation: some twenty usual recipients.
const ENVELOPE_FEW: usize = 16 * 1024;

/// A message that is being received.
pub(crate) struct Incoming {
    bytes: BytesMut,
    /// `None` once the message is refused.
    permit: Option<BytePermit>,
    /// Octets of trace headers in front, which do not count towards the limit.
    header: usize,
    size_max: usize,
    refused: Option<Refused>,
    /// The time by which the rest of a refused message must have come.
    refused_until: Option<Instant>,
    discarded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    TooLarge,
    NoRoom,
}

impl Incoming {
    /// Begins with the trace headers. Memory for these few lines is reserved with the first bytes.
    pub fn new(header: &[u8], size_max: usize, budget: &ByteBudget, holder: Holder) -> Self {
        Self {
            bytes: BytesMut::from(header),
            permit: Some(budget.begin(holder)),
            header: header.len(),
            size_max,
            refused: None,
            refused_until: None,
            discarded: 0,
        }
    }

    /// Octets of the trace headers in front.
    pub const fn header_len(&self) -> usize {
        self.header
    }

    /// Reserves memory for `more` bytes; waits if necessary. If there is none in time, the
    /// message is refused.
    pub async fn reserve(&mut self, more: usize) {
        let Some(permit) = &self.permit else { return };
        permit.note_arrived(more);
        let length = self.bytes.len() + more;
        if length <= self.bytes.capacity() && length <= permit.bytes() {
            return;
        }
        // Twice the room each time keeps the copies linear.
        let ceiling = self.header + self.size_max;
        let wanted = (self.bytes.capacity() * 2).max(FIRST_BYTES).min(ceiling).max(length);
        match permit.grow_to_within(wanted, MEMORY_WITHIN).await {
            Ok(()) => self.bytes.reserve(wanted - self.bytes.len()),
            Err(_) => self.refuse(Refused::NoRoom),
        }
    }

    /// Reserves memory for the copies of a long envelope that a delivery makes; waits if necessary.
    /// If there is none in time, the message is refused.
    pub async fn reserve_for_envelope(&mut self, bytes: usize, budget: &ByteBudget) {
        let Some(permit) = self.permit.as_ref().filter(|_| bytes > ENVELOPE_FEW) else { return };
        // A message of the largest size leaves less, and is still taken.
        let wanted = (permit.bytes() + bytes).min(budget.largest());
        if permit.grow_to_within(wanted, MEMORY_WITHIN).await.is_err() {
            self.refuse(Refused::NoRoom);
        }
    }

    /// Adds bytes, for which there is room.
    pub fn append(&mut self, more: &[u8]) {
        self.take(more.len(), |bytes| bytes.extend_from_slice(more));
    }

    /// Has `read` append up to `more` bytes, for which there is room. The bytes of a refused
    /// message are discarded.
    pub fn take<R>(&mut self, more: usize, read: impl FnOnce(&mut BytesMut) -> R) -> R {
        if self.refused.is_some() {
            self.discarded += more as u64;
            return read(&mut BytesMut::new());
        }
        let outcome = read(&mut self.bytes);
        if self.bytes.len() > self.header + self.size_max {
            self.refuse(Refused::TooLarge);
        }
        outcome
    }

    /// Waits until the message is evicted, and refuses it then.
    pub async fn evicted(&mut self) {
        match &self.permit {
            Some(permit) => permit.revoked().await,
            None => pending().await,
        }
        self.refuse(Refused::NoRoom);
    }

    /// Waits for other work. If the message is evicted meanwhile, its bytes are dropped at once:
    /// the budget counts them as free.
    pub async fn while_held<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            output = &mut work => return output,
            () = self.evicted() => {}
        }
        work.await
    }

    /// The message is complete and can no longer be evicted. If it was evicted before, it is
    /// refused.
    pub fn complete(&mut self) {
        let Some(permit) = &self.permit else { return };
        permit.complete();
        if permit.is_revoked() {
            self.refuse(Refused::NoRoom);
        }
    }

    /// The time that the rest of the message may take in all, also after a refusal.
    pub fn time_left(&self) -> Duration {
        let refused = || self.refused_until.map(|until| until.saturating_duration_since(Instant::now()));
        self.permit.as_ref().map(BytePermit::time_left).or_else(refused).unwrap_or(Duration::MAX)
    }

    fn refuse(&mut self, reason: Refused) {
        self.refused = Some(reason);
        if let Some(permit) = &self.permit {
            self.refused_until = Some(Instant::now() + permit.time_left());
        }
        self.release();
    }

    /// Frees the bytes, and then returns their share of the memory.
    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let len = bytes.len();
        free((bytes, self.permit.take()), len);
    }

    /// Whether input is discarded.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether too many bytes were dropped, so that the connection should be closed.
    pub fn is_hopeless(&self) -> bool {
        self.discarded > DRAIN_MAX
    }

    /// The reason why the message is not taken; `None` if it is taken.
    pub fn refusal(&self) -> Option<Reply> {
        self.refused.map(|reason| match reason {
            // RFC 1870 §6.3.
            Refused::TooLarge => Reply::new(552, Enhanced(5, 3, 4), "Message size exceeds the limit"),
            Refused::NoRoom => {
                Reply::new(452, Enhanced(4, 3, 1), "Too many messages are arriving; try again later")
            }
        })
    }

    /// The message, and what keeps its memory reserved.
    pub fn finish(mut self) -> (Bytes, Option<BytePermit>) {
        self.complete();
        (freed_elsewhere(std::mem::take(&mut self.bytes)), self.permit.take())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDER: Holder = Holder::Account([1; 16]);

    fn incoming(header: &[u8], size_max: usize, budget: &ByteBudget) -> Incoming {
        Incoming::new(header, size_max, budget, HOLDER)
    }

    async fn append(incoming: &mut Incoming, more: &[u8]) {
        incoming.reserve(more.len()).await;
        incoming.append(more);
    }

    #[tokio::test]
    async fn the_limit_is_for_the_message_alone() {
        let budget = ByteBudget::new(1 << 20);
        let mut incoming = incoming(b"head", 10, &budget);
        append(&mut incoming, b"0123456789").await;
        assert!(incoming.refusal().is_none());
        assert_eq!(&incoming.finish().0[..], b"head0123456789");
    }

    #[tokio::test]
    async fn a_long_envelope_has_its_share_of_the_memory_until_the_delivery_ends() {
        let budget = ByteBudget::new(8 << 20);
        let mut message = incoming(b"head", 10, &budget);
        append(&mut message, b"0123").await;
        let before = budget.available();
        message.reserve_for_envelope(ENVELOPE_FEW, &budget).await;
        assert_eq!(budget.available(), before, "a short one needs none");
        message.reserve_for_envelope(768 << 10, &budget).await;
        assert_eq!(budget.available(), before - (768 << 10));
        // One message cannot have as much as this. So all that it can have is enough.
        message.reserve_for_envelope(8 << 20, &budget).await;
        assert!(budget.largest() < 8 << 20 && !message.is_refused());
        assert_eq!(budget.available(), (8 << 20) - budget.largest());
        let (_, permit) = message.finish();
        assert_eq!(budget.available(), (8 << 20) - budget.largest());
        drop(permit);
        assert_eq!(budget.available(), 8 << 20);
    }

    #[tokio::test]
    async fn a_message_that_is_too_large_is_dropped_and_its_memory_returned() {
        let budget = ByteBudget::new(1 << 20);
        let mut incoming = incoming(b"head", 10, &budget);
        assert_eq!(budget.available(), 1 << 20, "nothing came yet");
        append(&mut incoming, b"0123").await;
        assert!(budget.available() < 1 << 20);
        append(&mut incoming, b"0123456789a").await;
        append(&mut incoming, b"b").await;
        assert_eq!(incoming.refusal().unwrap().code(), 552);
        assert_eq!((budget.available(), incoming.discarded), (1 << 20, 1));
    }

    /// There is one other thread here, and it is busy. The memory of 60 MB took a poll of 11 ms.
    #[test]
    fn a_large_message_is_freed_on_another_thread() {
        const LARGE: usize = 8 << 20;
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let budget = ByteBudget::new(1 << 30);
            let busy = tokio::task::spawn_blocking(move || wait.recv().unwrap());
            let (mut refused, mut dropped) = (incoming(b"", LARGE, &budget), incoming(b"", LARGE, &budget));
            append(&mut refused, &vec![0; LARGE]).await;
            append(&mut dropped, &vec![0; LARGE]).await;
            let before = budget.available();
            append(&mut refused, b"x").await;
            drop(dropped);
            assert_eq!(refused.refusal().unwrap().code(), 552);
            assert!(budget.available() <= before, "nothing is freed yet");
            go.send(()).unwrap();
            busy.await.unwrap();
            // It comes after the two in the queue of the one thread.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(budget.available(), 1 << 30);
        });
    }

    #[tokio::test]
    async fn discarded_data_has_the_deadline_of_its_message() {
        let budget = ByteBudget::new(1 << 20).with_message_within(Duration::ZERO);
        let mut incoming = incoming(b"", 10, &budget);
        append(&mut incoming, b"0123456789a").await;
        assert!(incoming.is_refused());
        assert_eq!(incoming.time_left(), Duration::ZERO);
    }

    #[tokio::test]
    async fn without_budget_there_is_no_room() {
        let budget = ByteBudget::new(100 * 1024).with_share_of_at_least(100 * 1024);
        let mut incoming = incoming(b"", 1 << 20, &budget);
        append(&mut incoming, &[0; 60_000]).await;
        assert!(incoming.refusal().is_none());
        append(&mut incoming, &[0; 60_000]).await;
        assert_eq!(incoming.refusal().unwrap().code(), 452);
        assert_eq!(budget.available(), 100 * 1024);
    }

    #[tokio::test]
    async fn a_stalled_message_is_evicted() {
        let budget = ByteBudget::new(200_000).with_share_of_at_least(200_000).with_pause_max(Duration::ZERO);
        let mut still = incoming(b"", 1 << 20, &budget);
        append(&mut still, &[0; 150_000]).await;
        let mut new = incoming(b"", 1 << 20, &budget);
        append(&mut new, &[0; 150_000]).await;
        assert!(new.refusal().is_none());
        still.evicted().await;
        assert_eq!(still.refusal().unwrap().code(), 452);
        assert!(still.bytes.capacity() == 0);
    }

    #[tokio::test]
    async fn a_message_is_evicted_during_other_work_and_before_its_end() {
        let budget = ByteBudget::new(200_000).with_share_of_at_least(200_000).with_pause_max(Duration::ZERO);
        let mut still = incoming(b"", 1 << 20, &budget);
        append(&mut still, &[0; 150_000]).await;
        let mut new = incoming(b"", 1 << 20, &budget);
        append(&mut new, &[0; 150_000]).await;
        let (done, wait) = tokio::sync::oneshot::channel();
        let mut beside = Box::pin(still.while_held(wait));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(beside.as_mut().poll(&mut context).is_pending());
        done.send(5).unwrap();
        assert_eq!(beside.await.unwrap(), 5);
        assert_eq!((still.bytes.capacity(), still.refusal().unwrap().code()), (0, 452));

        let mut last = incoming(b"", 1 << 20, &budget);
        append(&mut last, &[0; 150_000]).await;
        new.complete();
        assert_eq!((new.bytes.len(), new.refusal().unwrap().code()), (0, 452));
    }
}
