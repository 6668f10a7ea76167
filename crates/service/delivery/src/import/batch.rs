//! The reader's end of the channel. It compares messages with earlier imports, makes their
//! summaries, and collects them into batches of one mailbox each.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use posthaste_directory::Account;
use posthaste_store::IncomingMessage;
use tokio::sync::{mpsc, oneshot};

use super::digest::{Digest, ImportedCounts};
use super::{BATCH_BYTES, BATCH_MESSAGES, Fault, ImportedMessage, Origin, Sink};
use crate::deliver::Delivery;

/// The messages imported into a mailbox before; two folders may share one mailbox.
pub(super) type SharedKnown = Arc<Mutex<ImportedCounts>>;

/// The events of the reader.
pub(super) enum Event {
    /// The first message of a folder: the reader needs the digests of earlier imports.
    Folder(Folder),
    /// Messages to append.
    Batch(Batch),
    /// Messages that were imported before.
    Present(Present),
    /// A message or file that was not imported.
    Fault(Fault),
}

/// A folder that is entered for the first time.
pub(super) struct Folder {
    /// Relative name.
    pub mailbox: String,
    /// The origin of the batch's first message.
    pub first: Origin,
    /// Dropped unused if the import is cancelled.
    pub reply: oneshot::Sender<SharedKnown>,
}

/// Messages for one commit.
pub(super) struct Batch {
    /// Relative name.
    pub mailbox: String,
    pub messages: Vec<IncomingMessage>,
    /// The digest of each message.
    pub digests: Vec<Digest>,
    /// Octets of all.
    pub bytes: usize,
    /// The origin of the first message.
    pub first: Origin,
}

/// Messages that were imported before.
#[derive(Default)]
pub(super) struct Present {
    pub messages: u64,
    /// Octets of all.
    pub bytes: u64,
}

pub(super) struct Batcher {
    delivery: Delivery,
    /// The account that gets the mail. It also says how mail is stored.
    account: Account,
    events: mpsc::Sender<Event>,
    batch: Option<Batch>,
    present: Present,
    /// By relative name.
    known: HashMap<String, SharedKnown>,
}

impl Batcher {
    pub fn new(delivery: Delivery, account: &Account, events: mpsc::Sender<Event>) -> Self {
        let (present, known) = (Present::default(), HashMap::new());
        Self { delivery, account: account.clone(), events, batch: None, present, known }
    }

    /// Sends the rest.
    pub fn finish(mut self) {
        // The error is ignored: the receiver has ended, so nobody needs the rest.
        let _ = self.flush();
    }

    fn flush(&mut self) -> ControlFlow<()> {
        self.flush_present()?;
        match self.batch.take() {
            Some(batch) => self.send(Event::Batch(batch)),
            None => ControlFlow::Continue(()),
        }
    }

    fn flush_present(&mut self) -> ControlFlow<()> {
        match std::mem::take(&mut self.present) {
            Present { messages: 0, .. } => ControlFlow::Continue(()),
            present => self.send(Event::Present(present)),
        }
    }

    /// Waits for room in the channel. `Break` once the import was cancelled.
    fn send(&self, event: Event) -> ControlFlow<()> {
        match self.events.blocking_send(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// The earlier imports into a folder's mailbox.
    fn known(&mut self, mailbox: &str, first: &Origin) -> ControlFlow<(), SharedKnown> {
        if let Some(known) = self.known.get(mailbox) {
            return ControlFlow::Continue(Arc::clone(known));
        }
        let (reply, answer) = oneshot::channel();
        self.send(Event::Folder(Folder { mailbox: mailbox.to_owned(), first: first.clone(), reply }))?;
        let Ok(known) = answer.blocking_recv() else { return ControlFlow::Break(()) };
        self.known.insert(mailbox.to_owned(), Arc::clone(&known));
        ControlFlow::Continue(known)
    }

    fn count_present(&mut self, bytes: usize) -> ControlFlow<()> {
        self.present.messages += 1;
        self.present.bytes += bytes as u64;
        if self.present.messages >= BATCH_MESSAGES as u64 {
            self.flush_present()
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Sink for Batcher {
    fn message(&mut self, message: ImportedMessage) -> ControlFlow<()> {
        let ImportedMessage { mailbox, flags, date, bytes, origin } = message;
        let len = bytes.len();
        if self.batch.as_ref().is_some_and(|batch| {
            batch.mailbox != mailbox
                || batch.messages.len() >= BATCH_MESSAGES
                || batch.bytes + len > BATCH_BYTES
        }) {
            self.flush()?;
        }
        let known = self.known(&mailbox, &origin)?;
        let digest = Digest::of(&bytes);
        if known.lock().unwrap_or_else(PoisonError::into_inner).take(digest) {
            return self.count_present(len);
        }
        match self.delivery.incoming_blocking(&self.account, Bytes::from(bytes), flags, date) {
            Ok(message) => {
                let batch = self.batch.get_or_insert_with(|| Batch {
                    mailbox,
                    messages: Vec::new(),
                    digests: Vec::new(),
                    bytes: 0,
                    first: origin,
                });
                batch.messages.push(message);
                batch.digests.push(digest);
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
