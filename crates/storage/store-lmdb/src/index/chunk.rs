//! A column chunk: up to 144 rows of one mailbox as one value of the index.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–3 | checksum of all that follows, seeded with mailbox and key |
//! | 4–5 | number of rows, 1 … 144 |
//! | 6–7 | low half of the checksum of bytes 4–5 and 8–15, so that a chunk can be skipped unread |
//! | 8–15 | highest mod-sequence of its rows |
//! | 16–… | rows of 28 bytes in UID order |
//!
//! Its key is the mailbox and a UID that is at or below its first row and above every row of the
//! chunk before. The key stays when the first row is removed.

use posthaste_mail_model::{MailboxId, ModSeq, Uid};
use posthaste_store::Row;
use posthaste_store::octets::Octets;

use crate::index::checksum::{seed, seed_at, sum32};

/// Rows. 16 + 144 × 28 = 4,048 bytes, which with LMDB's 16-byte page header is one page of 4 KiB.
/// One row more would still fit. Twice as many would need two pages and make every flag change
/// write 8 KiB.
pub(crate) const ROWS_MAX: usize = 144;

/// Bytes before the first row.
const HEADER: usize = 16;

/// The key of a chunk or a summary: mailbox, then UID, most significant byte first.
pub(crate) type UidKey = [u8; 20];

/// Makes the key of a UID.
pub(crate) fn uid_key(mailbox: MailboxId, uid: u32) -> UidKey {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&mailbox.0.to_bytes());
    key[16..].copy_from_slice(&uid.to_be_bytes());
    key
}

/// The UID of a key, if the key is one of this mailbox's.
pub(crate) fn uid_of(mailbox: MailboxId, key: &[u8]) -> Option<u32> {
    let (prefix, uid) = key.split_at_checked(16)?;
    if prefix != mailbox.0.to_bytes() {
        return None;
    }
    uid.try_into().ok().map(u32::from_be_bytes)
}

fn seed_of(mailbox: MailboxId, low: u32) -> u64 {
    seed_at(seed(mailbox.0), u64::from(low))
}

fn header_sum(seed: u64, count: [u8; 2], modseq: [u8; 8]) -> [u8; 2] {
    let word = u64::from_le_bytes(modseq) ^ u64::from(u16::from_le_bytes(count)).rotate_left(48);
    (sum32(seed, &word.to_le_bytes()) as u16).to_le_bytes()
}

/// Writes a chunk of rows into `out`, which is emptied first.
pub(crate) fn encode(mailbox: MailboxId, low: u32, rows: &[Row], out: &mut Vec<u8>) {
    debug_assert!(!rows.is_empty() && rows.len() <= ROWS_MAX);
    let seed = seed_of(mailbox, low);
    let count = (rows.len() as u16).to_le_bytes();
    let modseq = rows.iter().map(Row::modseq).max().unwrap_or_default().value().to_le_bytes();
    out.clear();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&count);
    out.extend_from_slice(&header_sum(seed, count, modseq));
    out.extend_from_slice(&modseq);
    for row in rows {
        out.extend_from_slice(&row.to_bytes());
    }
    let sum = sum32(seed, &out[4..]).to_le_bytes();
    out[..4].copy_from_slice(&sum);
}

/// Adds the rows of a chunk to `out`; `None` if it is damaged.
pub(crate) fn decode(mailbox: MailboxId, low: u32, bytes: &[u8], out: &mut Vec<Row>) -> Option<()> {
    // A damaged length may reach beyond the file: only lengths that a chunk can have are summed.
    if bytes.len() > HEADER + ROWS_MAX * Row::LEN {
        return None;
    }
    let mut read = Octets(bytes);
    let sum = read.u32()?;
    if sum != sum32(seed_of(mailbox, low), read.0) {
        return None;
    }
    let count = usize::from(read.u16()?);
    let rows = bytes.get(HEADER..)?;
    if count == 0 || count > ROWS_MAX || rows.len() != count * Row::LEN {
        return None;
    }
    let (rows, _) = rows.as_chunks::<{ Row::LEN }>();
    let before = out.len();
    out.extend(rows.iter().map_while(Row::from_bytes));
    (out.len() - before == count).then_some(())
}

/// The highest mod-sequence of a chunk without reading its rows; `None` if its header is damaged.
pub(crate) fn modseq_max(mailbox: MailboxId, low: u32, bytes: &[u8]) -> Option<ModSeq> {
    let mut read = Octets(bytes.get(4..HEADER)?);
    let (count, sum, modseq) = (read.u16()?, read.u16()?, read.u64()?);
    let expected = header_sum(seed_of(mailbox, low), count.to_le_bytes(), modseq.to_le_bytes());
    (sum.to_le_bytes() == expected).then(|| ModSeq::new(modseq)).flatten()
}

/// The UID of a row as a bare number.
pub(crate) fn number(row: &Row) -> u32 {
    Uid::value(row.uid())
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{FlagSet, Id};

    use super::*;

    #[test]
    fn a_chunk_comes_back_and_damage_is_seen() {
        let mailbox = MailboxId(Id::new(1, 2));
        let rows: Vec<Row> = (1..=ROWS_MAX as u32)
            .map(|n| {
                let modseq = ModSeq::new(u64::from(n) + 7).unwrap();
                Row::new(Uid::new(n * 3).unwrap(), n, n, FlagSet::SEEN, modseq)
            })
            .collect();
        let (mut bytes, mut back) = (Vec::new(), Vec::new());
        encode(mailbox, 3, &rows, &mut bytes);
        assert!(bytes.len() + 16 <= 4096);
        decode(mailbox, 3, &bytes, &mut back).unwrap();
        assert_eq!(back, rows);
        assert_eq!(modseq_max(mailbox, 3, &bytes), ModSeq::new(151));
        assert!(decode(mailbox, 4, &bytes, &mut back).is_none());
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(decode(mailbox, 3, &bytes, &mut back).is_none(), "{at}");
            if (4..16).contains(&at) {
                assert_eq!(modseq_max(mailbox, 3, &bytes), None, "{at}");
            }
            bytes[at] ^= 0x10;
        }
    }
}
