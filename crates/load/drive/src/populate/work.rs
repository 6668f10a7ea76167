//! The state that the tasks of one populate share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use posthaste_load_workload::corpus::{Corpus, Envelope, Serial, populated_serial};

use super::options::{Contents, PopulateOptions};

/// Four of five messages are marked as seen, as in a mailbox that is read.
pub(super) const UNSEEN_ONE_IN: u32 = 5;

/// Appends the message of this serial and number, to this address.
pub(super) fn generate(
    corpus: &Corpus,
    contents: &Contents,
    (serial, number, to): (Serial, u32, &str),
    out: &mut Vec<u8>,
) {
    let from = format!("writer{}@example.com", number % 97);
    corpus.write(serial, &contents.sizes, Envelope { from: &from, to }, out);
}

/// Shared by the tasks of one populate.
pub(super) struct Work {
    pub(super) options: PopulateOptions,
    pub(super) corpus: Corpus,
    pub(super) added: AtomicU64,
    pub(super) found: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl Work {
    /// Appends message `number` of a folder to `out`; its serial.
    pub(super) fn message(
        &self,
        account: u32,
        folder: u32,
        number: u32,
        out: &mut Vec<u8>,
    ) -> std::io::Result<Serial> {
        let serial = populated_serial(account, folder, number);
        match &self.options.mail {
            Some(mail) => mail.write(number as usize, serial, out).map_err(std::io::Error::other)?,
            None => {
                let to = self.options.accounts.address(account);
                generate(&self.corpus, &self.options.contents, (serial, number, &to), out);
            }
        }
        Ok(serial)
    }

    pub(super) fn note(&self, messages: u64, bytes: u64) {
        self.added.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
