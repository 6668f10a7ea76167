//! The content of a checkpoint: the state of one mailbox at a sequence number.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | 2, the version of this content |
//! | 1–8 | it contains all records about the mailbox before this sequence number |
//! | 9–16 | the mod-sequence up to which expunges are forgotten |
//! | … | head, as in a mailbox commit |
//! | … | number of notes of expunges as a varint, then for each mod-sequence (8) and set of UIDs |
//! | … | number of messages as a varint, then each of them |
//!
//! A message is its row (28), body id (16), date saved (8), and the mod-sequence with which it came
//! (a varint, as `entry::put_created` writes it). Version 1 has no such mod-sequences. Programs
//! before format 10 of the store wrote it.
//!
//! A rebuild begins with it and skips the commits before it. Summaries are made from the bodies,
//! as for commits.

use posthaste_mail_model::ModSeq;
use posthaste_store::octets::{Octets, put_set, put_varint};
use posthaste_store::{ExpungedUids, MailboxHead, Row};

use crate::index::heads::{put_head, read_head};
use crate::index::summaries::record::Arrival;
use crate::log::entry::{LoggedMessage, many, put_created, put_message, read_created, read_message};

/// The version of the content.
const VERSION: u8 = 2;
/// The version that lacks the first mod-sequences of messages.
const VERSION_OLD: u8 = 1;

/// The state of a mailbox in a checkpoint.
#[derive(Debug, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) upto: u64,
    pub(crate) forgotten: ModSeq,
    pub(crate) head: MailboxHead,
    pub(crate) expunged: Vec<ExpungedUids>,
    pub(crate) messages: Vec<LoggedMessage>,
}

/// Begins a content: all but the messages. As many must follow as the head counts.
pub(crate) fn begin(upto: u64, forgotten: ModSeq, head: &MailboxHead, expunged: &[ExpungedUids]) -> Vec<u8> {
    let messages = head.counts.messages;
    let mut out = Vec::with_capacity(256 + messages as usize * (Row::LEN + 26));
    out.push(VERSION);
    out.extend_from_slice(&upto.to_le_bytes());
    out.extend_from_slice(&forgotten.value().to_le_bytes());
    put_head(&mut out, head);
    put_varint(&mut out, expunged.len() as u64);
    for (modseq, set) in expunged {
        out.extend_from_slice(&modseq.value().to_le_bytes());
        put_set(&mut out, set);
    }
    put_varint(&mut out, u64::from(messages));
    out
}

/// Adds a message.
pub(crate) fn add_message(out: &mut Vec<u8>, row: &Row, arrival: Arrival) {
    put_message(out, row, arrival);
    put_created(out, row, arrival.created);
}

/// Reads a content.
pub(crate) fn from_content(content: &[u8]) -> Option<Checkpoint> {
    let mut read = Octets(content);
    let has_created = match read.u8()? {
        VERSION => true,
        VERSION_OLD => false,
        _ => return None,
    };
    let (upto, forgotten) = (read.u64()?, ModSeq::new(read.u64()?)?);
    let head = read_head(&mut read)?;
    let expunged = many(&mut read, |read| Some((ModSeq::new(read.u64()?)?, read.set()?)))?;
    let messages = many(&mut read, |read| {
        read_message(read, |read, row| if has_created { read_created(read, row) } else { Some(ModSeq::ZERO) })
    })?;
    let is_whole = read.is_empty() && messages.len() == head.counts.messages as usize;
    let is_rising = messages.is_sorted_by(|a, b| a.row.uid() < b.row.uid());
    (is_whole && is_rising).then_some(Checkpoint { upto, forgotten, head, expunged, messages })
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{BodyId, FlagSet, Id, NumSet, Uid};
    use posthaste_store::Counts;

    use super::*;

    #[test]
    fn a_checkpoint_comes_back_and_a_torn_one_does_not() {
        let message = |uid, body, saved, created| {
            let row = Row::new(Uid::new(uid).unwrap(), 5, 6, FlagSet::SEEN, ModSeq::new(7).unwrap());
            let created = ModSeq::new(created).unwrap();
            LoggedMessage { row, arrival: Arrival { body: BodyId(Id::new(1, body)), saved, created } }
        };
        let counts = Counts { messages: 3, unseen: 0, deleted: 0, bytes: 15 };
        let checkpoint = Checkpoint {
            upto: 99,
            forgotten: ModSeq::new(3).unwrap(),
            head: MailboxHead { modseq: ModSeq::new(8).unwrap(), counts, ..MailboxHead::default() },
            expunged: vec![(ModSeq::new(5).unwrap(), NumSet::range(3, 9))],
            messages: vec![message(1, 2, -4, 1), message(10, 3, 5, 7), message(11, 4, 6, 0)],
        };
        let Checkpoint { upto, forgotten, ref head, ref expunged, ref messages } = checkpoint;
        let mut out = begin(upto, forgotten, head, expunged);
        messages.iter().for_each(|message| add_message(&mut out, &message.row, message.arrival));
        for cut in 0..out.len() {
            assert_eq!(from_content(&out[..cut]), None);
        }
        assert_eq!(from_content(&out), Some(checkpoint));
    }

    #[test]
    fn a_checkpoint_of_an_older_program_is_read() {
        let row = Row::new(Uid::MIN, 5, 6, FlagSet::SEEN, ModSeq::new(7).unwrap());
        let arrival = Arrival { body: BodyId(Id::new(1, 2)), saved: 4, created: ModSeq::ZERO };
        let counts = Counts { messages: 1, unseen: 0, deleted: 0, bytes: 5 };
        let head = MailboxHead { counts, ..MailboxHead::default() };
        let mut out = begin(9, ModSeq::ZERO, &head, &[]);
        out[0] = VERSION_OLD;
        put_message(&mut out, &row, arrival);
        assert_eq!(from_content(&out).unwrap().messages, [LoggedMessage { row, arrival }]);
    }
}
