//! The packs, in the main database: the end of each, its dead bytes, which are retired, and the
//! number of the next one.
//!
//! | key | value |
//! | --- | --- |
//! | `00`, pack (4) | sum (4), end (8), dead bytes (8), emptied up to (8), bits: 1 sealed, 2 damaged |
//! | `00`, `fffffffe` | sum (4), the number of the next pack (4) |
//! | `02`, pack (4) | nothing: the pack is retired. Maintenance removes its file |

use heed::RoTxn;
use posthaste_mail_model::NumSet;
use posthaste_store::Result;

use super::{Index, Indexed, NEXT_PACK_KEY, SEQ_KEY, VERSION_KEY, Writing, damaged};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};
use crate::log::PackBytes;

/// The first byte of the keys of retired packs.
const RETIRED: u8 = 2;

fn pack_key(pack: u32) -> [u8; 5] {
    let mut key = [0; 5];
    key[1..].copy_from_slice(&pack.to_be_bytes());
    key
}

fn retired_key(pack: u32) -> [u8; 5] {
    let mut key = pack_key(pack);
    key[0] = RETIRED;
    key
}

/// The state of a pack in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PackState {
    /// Every record below this offset belongs to a committed transaction; nothing above it counts.
    pub(crate) end: u64,
    /// Bytes of dead records.
    pub(crate) dead: u64,
    /// The offset up to which the pack's live records have been copied elsewhere; 0 while it is
    /// not being emptied.
    pub(crate) emptied: u64,
    /// No more is written to it.
    pub(crate) sealed: bool,
    /// Compaction or a rebuild found damage in it: it is not changed any more.
    pub(crate) damaged: bool,
}

impl PackState {
    pub(crate) fn to_value(self, pack: u32) -> Vec<u8> {
        let mut out = open_value();
        for field in [self.end, self.dead, self.emptied] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.push(u8::from(self.sealed) | u8::from(self.damaged) << 1);
        seal(u64::from(pack), out)
    }

    pub(crate) fn from_value(pack: u32, value: &[u8]) -> Option<Self> {
        let mut read = unseal(u64::from(pack), value)?;
        let (end, dead, emptied) = (read.u64()?, read.u64()?, read.u64()?);
        let bits = read.u8()?;
        let bit = |n: u8| bits & (1 << n) != 0;
        Some(Self { end, dead, emptied, sealed: bit(0), damaged: bit(1) })
    }
}

impl Index {
    /// Bytes of all packs.
    pub(crate) fn packs_len(&self, txn: &RoTxn) -> Result<u64> {
        Ok(self.all_packs(txn)?.iter().fold(0, |all, (_, state)| all.saturating_add(state.end)))
    }

    /// The state of a pack.
    pub(crate) fn pack(&self, txn: &RoTxn, pack: u32) -> Result<Option<PackState>> {
        let Some(value) = self.main.get(txn, &pack_key(pack)).indexed()? else { return Ok(None) };
        PackState::from_value(pack, value).map(Some).ok_or_else(damaged(format_args!("state of pack {pack}")))
    }

    /// Sets the state of a pack.
    pub(crate) fn put_pack(&self, txn: &mut Writing, pack: u32, state: PackState) -> Result<()> {
        self.main.put(txn, &pack_key(pack), &state.to_value(pack)).indexed()
    }

    /// Adds dead bytes of packs. A pack that was retired since is ignored.
    pub(crate) fn add_dead(&self, txn: &mut Writing, dead: impl Iterator<Item = PackBytes>) -> Result<()> {
        for PackBytes { pack, bytes } in dead {
            if let Some(state) = self.pack(txn, pack)? {
                let dead = state.dead.saturating_add(bytes).min(state.end);
                self.put_pack(txn, pack, PackState { dead, ..state })?;
            }
        }
        Ok(())
    }

    /// Takes an emptied pack out of the packs and notes that maintenance may remove its file.
    pub(crate) fn retire_pack(&self, txn: &mut Writing, pack: u32) -> Result<()> {
        self.take_out_pack(txn, pack)?;
        self.add_retired(txn, &NumSet::range(pack, pack))
    }

    /// Does this for one of many packs. The caller adds all of them to the set of retired ones.
    pub(crate) fn take_out_pack(&self, txn: &mut Writing, pack: u32) -> Result<()> {
        self.main.delete(txn, &pack_key(pack)).indexed()?;
        self.main.put(txn, &retired_key(pack), &[]).indexed()
    }

    /// Retired packs, by number. Maintenance removes their files.
    pub(crate) fn retired_packs(&self, txn: &RoTxn) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for number in self.retired_numbers(txn)? {
            all.push(number?.ok_or_else(damaged("number of a retired pack"))?);
        }
        Ok(all)
    }

    /// The numbers of retired packs; `None` for a key that is no pack's.
    pub(crate) fn retired_numbers<'t>(
        &self,
        txn: &'t RoTxn,
    ) -> Result<impl Iterator<Item = Result<Option<u32>>> + use<'t>> {
        let records = self.main.prefix_iter(txn, &[RETIRED]).indexed()?;
        Ok(records.map(|item| Ok(number_of(item.indexed()?.0))))
    }

    /// The file of a retired pack was removed, and its directory synced.
    pub(crate) fn forget_retired(&self, txn: &mut Writing, pack: u32) -> Result<()> {
        self.main.delete(txn, &retired_key(pack)).indexed().map(|_| ())
    }

    /// The number of the next pack; `None` in a store of a program that did not keep it.
    pub(crate) fn next_pack(&self, txn: &RoTxn) -> Result<Option<u32>> {
        let Some(value) = self.main.get(txn, &NEXT_PACK_KEY).indexed()? else { return Ok(None) };
        unseal(seed_of_key(&NEXT_PACK_KEY), value)
            .and_then(|mut read| read.u32())
            .map(Some)
            .ok_or_else(damaged("the number of the next pack"))
    }

    /// Sets the number of the next pack.
    pub(crate) fn put_next_pack(&self, txn: &mut Writing, number: u32) -> Result<()> {
        let mut value = open_value();
        value.extend_from_slice(&number.to_le_bytes());
        self.main.put(txn, &NEXT_PACK_KEY, &seal(seed_of_key(&NEXT_PACK_KEY), value)).indexed()
    }

    /// The packs, by number.
    pub(crate) fn all_packs(&self, txn: &RoTxn) -> Result<Vec<(u32, PackState)>> {
        let mut all = Vec::new();
        for pack in self.pack_records(txn)? {
            all.push(pack?.ok_or_else(damaged("state of a pack"))?);
        }
        Ok(all)
    }

    /// The packs, by number; `None` for a record that is damaged.
    pub(crate) fn pack_records<'t>(
        &self,
        txn: &'t RoTxn,
    ) -> Result<impl Iterator<Item = Result<Option<(u32, PackState)>>> + use<'t>> {
        let records = self.main.prefix_iter(txn, &[0]).indexed()?;
        let is_pack = |key: &[u8]| [SEQ_KEY, NEXT_PACK_KEY, VERSION_KEY].iter().all(|other| key != other);
        Ok(records.filter_map(move |item| match item.indexed() {
            Ok((key, value)) => is_pack(key).then(|| {
                let number = number_of(key);
                Ok(number.and_then(|number| Some((number, PackState::from_value(number, value)?))))
            }),
            Err(error) => Some(Err(error)),
        }))
    }
}

/// The number of the pack that a key names.
fn number_of(key: &[u8]) -> Option<u32> {
    key.get(1..).and_then(|number| number.try_into().ok()).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_under_its_key_alone() {
        let state = PackState { end: 1, dead: 2, emptied: 3, sealed: true, damaged: true };
        assert_eq!(PackState::from_value(8, &state.to_value(8)), Some(state));
        assert_eq!(PackState::from_value(9, &state.to_value(8)), None);
    }
}
