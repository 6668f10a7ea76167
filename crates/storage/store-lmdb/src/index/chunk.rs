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

use posthaste_mail_model::{FlagSet, MailboxId, ModSeq, Uid};
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

/// A row as a chunk has it.
type StoredRow = [u8; Row::LEN];

/// Writes a chunk of rows into `out`, which is emptied first.
pub(crate) fn encode(mailbox: MailboxId, low: u32, rows: &[Row], out: &mut Vec<u8>) {
    debug_assert!(!rows.is_empty() && rows.len() <= ROWS_MAX);
    out.clear();
    out.extend_from_slice(&[0; HEADER]);
    for row in rows {
        out.extend_from_slice(&row.to_bytes());
    }
    let modseq = rows.iter().map(Row::modseq).max().unwrap_or_default();
    seal(mailbox, low, modseq.value(), out);
}

/// Writes a chunk into `out`, with other flags and mod-sequences in these rows, which come with
/// rising UIDs. The others are copied as they are. Fails with the first row that the chunk lacks.
pub(crate) fn encode_changed<'c>(
    mailbox: MailboxId,
    low: u32,
    stored: &[StoredRow],
    changed: &'c [Row],
    out: &mut Vec<u8>,
) -> Result<(), &'c Row> {
    out.clear();
    out.extend_from_slice(&[0; HEADER]);
    out.extend_from_slice(stored.as_flattened());
    let (rows, _) = out[HEADER..].as_chunks_mut::<{ Row::LEN }>();
    let mut at = 0;
    for change in changed {
        let uid = number(change);
        // Mostly the very next row; never before the one changed last.
        at += rows[at..].iter().position(|row| Row::numbers_in(row).0 >= uid).unwrap_or(rows.len() - at);
        match rows.get_mut(at) {
            Some(row) if Row::numbers_in(row).0 == uid => {
                Row::change_bytes(row, change.flags(), change.modseq());
            }
            _ => return Err(change),
        }
    }
    let modseq = rows.iter().map(|row| Row::numbers_in(row).1).max().unwrap_or_default();
    seal(mailbox, low, modseq, out);
    Ok(())
}

/// Fills in the header of a chunk whose rows are there.
fn seal(mailbox: MailboxId, low: u32, modseq: u64, chunk: &mut [u8]) {
    let seed = seed_of(mailbox, low);
    let count = ((chunk.len() - HEADER) / Row::LEN) as u16;
    let (count, modseq) = (count.to_le_bytes(), modseq.to_le_bytes());
    chunk[4..6].copy_from_slice(&count);
    chunk[6..8].copy_from_slice(&header_sum(seed, count, modseq));
    chunk[8..HEADER].copy_from_slice(&modseq);
    let sum = sum32(seed, &chunk[4..]).to_le_bytes();
    chunk[..4].copy_from_slice(&sum);
}

/// The rows of a chunk as it has them; `None` if it is damaged.
pub(crate) fn stored_rows(mailbox: MailboxId, low: u32, bytes: &[u8]) -> Option<&[StoredRow]> {
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
    Some(rows)
}

/// Adds the rows of a chunk to `out`; `None` if it is damaged.
pub(crate) fn decode(mailbox: MailboxId, low: u32, bytes: &[u8], out: &mut Vec<Row>) -> Option<()> {
    /// In place of a row that is damaged, until all are read.
    const FILLER: Row = Row::new(Uid::MIN, 0, 0, FlagSet::EMPTY, ModSeq::ZERO);
    let rows = stored_rows(mailbox, low, bytes)?;
    let (before, mut are_valid) = (out.len(), true);
    // Their number is known, so that the room for them is made once.
    out.extend(rows.iter().map(|bytes| {
        let row = Row::from_bytes(bytes);
        are_valid &= row.is_some();
        row.unwrap_or(FILLER)
    }));
    if !are_valid {
        out.truncate(before);
    }
    are_valid.then_some(())
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
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn changed_bytes_are_those_of_the_changed_rows() {
        let mailbox = MailboxId(Id::new(1, 2));
        let modseq = |n: u64| ModSeq::new(n).unwrap();
        let row = |uid: u32| Row::new(Uid::new(uid).unwrap(), uid, 1, FlagSet::SEEN, modseq(u64::from(uid)));
        let rows: Vec<Row> = (1..=ROWS_MAX as u32).map(|n| row(n * 3)).collect();
        let (mut stored, mut made, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        encode(mailbox, 3, &rows, &mut stored);
        let stored = stored_rows(mailbox, 3, &stored).unwrap();
        let all: Vec<usize> = (0..ROWS_MAX).collect();
        for chosen in [vec![0], vec![143], vec![0, 1, 2, 9, 142, 143], all, vec![]] {
            // The last row has the highest mod-sequence so far: in one case it gets a lower one.
            for next in [modseq(1 << 40), modseq(5)] {
                let mut after = rows.clone();
                chosen.iter().for_each(|&at| after[at] = rows[at].with_flags(FlagSet::DELETED, next));
                let changed: Vec<Row> = chosen.iter().map(|&at| after[at]).collect();
                encode_changed(mailbox, 3, stored, &changed, &mut made).unwrap();
                encode(mailbox, 3, &after, &mut expected);
                assert_eq!(made, expected, "{chosen:?}");
            }
        }
        for missing in [1, 7, 500] {
            let changed = [row(6), row(missing)];
            let changed = if missing < 6 { &changed[1..] } else { &changed[..] };
            let lacked = encode_changed(mailbox, 3, stored, changed, &mut made);
            assert_eq!(lacked, Err(&row(missing)));
        }
    }

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
        // A row without a UID, in a chunk whose checksum is right.
        bytes[HEADER..HEADER + 4].fill(0);
        seal(mailbox, 3, 151, &mut bytes);
        back.truncate(1);
        assert!(decode(mailbox, 3, &bytes, &mut back).is_none());
        assert_eq!(back, rows[..1], "nothing of it is left");
    }
}
