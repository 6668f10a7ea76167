//! The keys of a message for SORT and THREAD.

use posthaste_imap_codec::response::Address;
use posthaste_imap_codec::{EnvelopeList, first_address};
use posthaste_mime_summary::{
    EnvelopeText, SummaryRef, casemap_into, decode_words, order_mailbox_into, order_subject_into,
};
use posthaste_search_index::{SortKeys, TEXTS};
use sha2::{Digest, Sha256};

/// Bytes of a text that are kept. A longer one keeps its beginning and a digest of the whole. So
/// equal texts stay equal and different ones different. Texts that differ only after the
/// beginning are next to each other. Their order has no meaning, but is always the same.
const TEXT_BYTES_MAX: usize = 1000;
/// Bytes of such a digest.
const DIGEST_LEN: usize = 16;

/// A text that messages are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SortField {
    /// RFC 5256 §3: the mailbox of the first address of From.
    From,
    /// The same of To.
    To,
    /// The same of Cc.
    Cc,
    /// RFC 5256 §2.1.
    Subject,
    /// RFC 5957 §4.
    DisplayFrom,
    /// RFC 5957 §4.
    DisplayTo,
}

impl SortField {
    /// All of them, in the order in which segments have them.
    pub const ALL: [Self; TEXTS] =
        [Self::From, Self::To, Self::Cc, Self::Subject, Self::DisplayFrom, Self::DisplayTo];
}

/// Makes the texts of one message after the other. It keeps its buffers.
#[derive(Debug, Default)]
pub struct SortTexts {
    envelope: Vec<u8>,
}

impl SortTexts {
    /// Appends the text of a message for a key, as SORT compares it. Returns its whole length.
    pub fn append(&mut self, key: SortField, summary: &SummaryRef<'_>, into: &mut Vec<u8>) -> usize {
        let start = into.len();
        self.append_whole(key, summary, into);
        let len = into.len() - start;
        if len > TEXT_BYTES_MAX {
            let digest = Sha256::digest(&into[start..]);
            into.truncate(start + TEXT_BYTES_MAX - DIGEST_LEN);
            into.extend(digest.iter().take(DIGEST_LEN));
        }
        len
    }

    /// The same, however long the text is.
    pub fn append_whole(&mut self, key: SortField, summary: &SummaryRef<'_>, into: &mut Vec<u8>) {
        let Self { envelope } = self;
        let list = match key {
            SortField::From => return order_mailbox_into(EnvelopeText::From, summary, into),
            SortField::To => return order_mailbox_into(EnvelopeText::To, summary, into),
            SortField::Cc => return order_mailbox_into(EnvelopeText::Cc, summary, into),
            SortField::Subject => return order_subject_into(summary, into),
            SortField::DisplayFrom => EnvelopeList::From,
            SortField::DisplayTo => EnvelopeList::To,
        };
        envelope.clear();
        summary.envelope().append_to(envelope);
        if let Some(address) = first_address(envelope, list) {
            display(&address, into);
        }
    }
}

/// RFC 5957 §3: the name, decoded; without one the address.
fn display(address: &Address<'_>, into: &mut Vec<u8>) {
    let start = into.len();
    if let Some(name) = &address.name {
        casemap_into(&decode_words(name), into);
    }
    if into.len() == start
        && let Some(mailbox) = &address.mailbox
    {
        casemap_into(&String::from_utf8_lossy(mailbox), into);
        if let Some(host) = &address.host {
            into.push(b'@');
            casemap_into(&String::from_utf8_lossy(host), into);
        }
    }
}

/// Makes the sort keys of one message after the other. It keeps its buffers.
#[derive(Debug, Default)]
pub(crate) struct SortKeysOf {
    texts: SortTexts,
    bytes: Vec<u8>,
    references: Vec<[u8; 8]>,
}

impl SortKeysOf {
    /// The sort keys of a message.
    pub(crate) fn summary(&mut self, summary: &SummaryRef<'_>) -> SortKeys<'_> {
        self.bytes.clear();
        let ends = SortField::ALL.map(|key| {
            self.texts.append(key, summary, &mut self.bytes);
            self.bytes.len()
        });
        self.references.clear();
        self.references.extend(summary.reference_hashes().map(u64::to_le_bytes));
        let mut start = 0;
        SortKeys {
            sent: summary.sent().map(|sent| sent.unix_s),
            id: summary.message_id_hash(),
            is_reply: summary.is_reply(),
            references: &self.references,
            texts: ends.map(|end| &self.bytes[std::mem::replace(&mut start, end)..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_their_difference() {
        let subject = |tail: &str| format!("Subject: {}{tail}\r\n\r\n", "x".repeat(50_000));
        let text = |message: &str| {
            let summary = posthaste_delivery::summarize(message.as_bytes());
            let (mut texts, mut text) = (SortTexts::default(), Vec::new());
            texts.append(SortField::Subject, &SummaryRef::new(&summary).unwrap(), &mut text);
            text
        };
        let (a, b) = (text(&subject("")), text(&subject("y")));
        assert!(a != b && a.len() <= TEXT_BYTES_MAX && b.len() <= TEXT_BYTES_MAX);
        assert_eq!(a, text(&subject("")));
    }
}
