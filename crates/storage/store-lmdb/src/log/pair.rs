//! Commits on two mailboxes in one record of the log: a MOVE.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | 1, the version of this content |
//! | 1–16 | id of the first mailbox |
//! | … | its commit: length as a varint, then the content of a mailbox record (`entry`) |
//! | … | the same of the second mailbox |
//!
//! A record is whole or does not count. So redo and rebuild find both commits or neither.

use posthaste_mail_model::MailboxId;
use posthaste_store::MailboxCommit;
use posthaste_store::octets::{Octets, put_counted};

use crate::log::entry;

/// The version of the content.
const VERSION: u8 = 1;

/// Writes a pair.
pub(crate) fn content(pair: &[MailboxCommit; 2]) -> Vec<u8> {
    let mut out = vec![VERSION];
    for commit in pair {
        out.extend_from_slice(&commit.mailbox.0.to_bytes());
        put_counted(&mut out, &entry::mailbox_content(commit));
    }
    out
}

/// The bytes of a record that are counted for each of the two mailboxes.
pub(crate) fn share(record_len: u64) -> u64 {
    record_len / 2
}

/// Reads a pair: each mailbox, and its commit as `entry::mailbox_from` reads it.
pub(crate) fn parts(content: &[u8]) -> Option<[(MailboxId, &[u8]); 2]> {
    let mut read = Octets(content);
    if read.u8()? != VERSION {
        return None;
    }
    let mut part = || Some((MailboxId(read.id()?), read.counted()?));
    let parts = [part()?, part()?];
    read.is_empty().then_some(parts)
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Id, ModSeq, NumSet};
    use posthaste_store::MailboxHead;

    use super::*;

    #[test]
    fn a_pair_comes_back() {
        let commit = |n: u64| MailboxCommit {
            mailbox: MailboxId(Id::new(n, 1)),
            expected: ModSeq::new(n).unwrap(),
            head: MailboxHead { modseq: ModSeq::new(n + 1).unwrap(), ..MailboxHead::default() },
            appended: Vec::new(),
            changed: Vec::new(),
            expunged: vec![(ModSeq::new(n + 1).unwrap(), NumSet::range(1, n as u32))],
        };
        let pair = [commit(3), commit(4)];
        let bytes = content(&pair);
        for ((mailbox, part), commit) in parts(&bytes).unwrap().into_iter().zip(&pair) {
            let back = entry::mailbox_from(part).unwrap();
            assert_eq!((mailbox, back.expected), (commit.mailbox, commit.expected));
            assert_eq!(back.expunged, commit.expunged);
        }
        for cut in 0..bytes.len() {
            assert!(parts(&bytes[..cut]).is_none());
        }
    }
}
