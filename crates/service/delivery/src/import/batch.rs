//! The reader's end of the channel: messages summarised and gathered into batches, one mailbox each.

use bytes::Bytes;
use posthaste_store::IncomingMessage;
use std::ops::ControlFlow;
use tokio::sync::mpsc;

use super::{BATCH_BYTES, BATCH_MESSAGES, Fault, Found, Origin, Sink};
use crate::deliver::Delivery;

/// What the reader tells.
pub(super) enum Event {
    Batch(Batch),
    Fault(Fault),
}

/// Messages for one commit.
pub(super) struct Batch {
    /// Relative name.
    pub mailbox: String,
    pub messages: Vec<IncomingMessage>,
    /// Octets of all.
    pub bytes: usize,
    /// Where the first was found.
    pub first: Origin,
}

pub(super) struct Batcher {
    delivery: Delivery,
    events: mpsc::Sender<Event>,
    batch: Option<Batch>,
}

impl Batcher {
    pub fn new(delivery: Delivery, events: mpsc::Sender<Event>) -> Self {
        Self { delivery, events, batch: None }
    }

    /// Sends what is left.
    pub fn finish(mut self) {
        // If nobody listens any more, nobody misses it.
        let _ = self.flush();
    }

    fn flush(&mut self) -> ControlFlow<()> {
        match self.batch.take() {
            Some(batch) => self.send(Event::Batch(batch)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Waits for room in the channel. `Break` once the import was given up.
    fn send(&self, event: Event) -> ControlFlow<()> {
        match self.events.blocking_send(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl Sink for Batcher {
    fn message(&mut self, found: Found) -> ControlFlow<()> {
        let Found { mailbox, flags, date, bytes, origin } = found;
        let len = bytes.len();
        if self.batch.as_ref().is_some_and(|batch| {
            batch.mailbox != mailbox
                || batch.messages.len() >= BATCH_MESSAGES
                || batch.bytes + len > BATCH_BYTES
        }) {
            self.flush()?;
        }
        match self.delivery.incoming_blocking(Bytes::from(bytes), flags, date) {
            Ok(message) => {
                let batch = self.batch.get_or_insert_with(|| Batch {
                    mailbox,
                    messages: Vec::new(),
                    bytes: 0,
                    first: origin,
                });
                batch.messages.push(message);
                batch.bytes += len;
                ControlFlow::Continue(())
            }
            Err(error) => self.fault(Fault { origin, why: error.to_string() }),
        }
    }

    fn fault(&mut self, fault: Fault) -> ControlFlow<()> {
        self.send(Event::Fault(fault))
    }
}
