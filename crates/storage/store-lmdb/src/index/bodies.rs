//! The table `bodies`: the location and the reference count of each body.
//!
//! Key: body (16). Value: sum (4), pack (4), offset (8), length (8), references (4). Programs up
//! to November 2026 kept the newest bodies in the main database. They are read there, and move to
//! the table when the next body is added.

use std::ops::Bound;

use heed::RoTxn;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::Result;

use super::{Hex, Index, Indexed, Writing, damaged};
use crate::index::checksum::{seed, sum32};
use crate::index::sealed::unseal;

/// The first byte of the keys of bodies in the main database.
const RECENT: u8 = 1;

fn recent_key(body: BodyId) -> [u8; 17] {
    let mut key = [RECENT; 17];
    key[1..].copy_from_slice(&body.0.to_bytes());
    key
}

/// The location of a body, and how many messages are known to have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLocation {
    pub(crate) pack: u32,
    /// Offset of the record in the pack.
    pub(crate) offset: u64,
    /// Length of the content.
    pub(crate) len: u64,
    pub(crate) refs: u32,
}

impl BodyLocation {
    pub(crate) fn to_value(self, body: BodyId) -> [u8; 28] {
        let mut out = [0; 28];
        out[4..8].copy_from_slice(&self.pack.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..24].copy_from_slice(&self.len.to_le_bytes());
        out[24..].copy_from_slice(&self.refs.to_le_bytes());
        let sum = sum32(seed(body.0), &out[4..]).to_le_bytes();
        out[..4].copy_from_slice(&sum);
        out
    }

    pub(crate) fn from_value(body: BodyId, value: &[u8]) -> Option<Self> {
        let mut read = unseal(seed(body.0), value)?;
        Some(Self { pack: read.u32()?, offset: read.u64()?, len: read.u64()?, refs: read.u32()? })
    }
}

impl Index {
    /// The location of a body.
    pub(crate) fn body(&self, txn: &RoTxn, body: BodyId) -> Result<Option<BodyLocation>> {
        let recent = self.main.get(txn, &recent_key(body)).indexed()?;
        let value = match recent {
            Some(value) => Some(value),
            None => self.bodies.get(txn, &body.0.to_bytes()).indexed()?,
        };
        let Some(value) = value else { return Ok(None) };
        BodyLocation::from_value(body, value)
            .map(Some)
            .ok_or_else(damaged(format_args!("location of body {body}")))
    }

    /// Changes the location or the reference count of a body.
    pub(crate) fn put_body(&self, txn: &mut Writing, body: BodyId, location: BodyLocation) -> Result<()> {
        let value = location.to_value(body);
        let recent = recent_key(body);
        if self.main.get(txn, &recent).indexed()?.is_some() {
            return self.main.put(txn, &recent, &value).indexed();
        }
        self.bodies.put(txn, &body.0.to_bytes(), &value).indexed()
    }

    /// Puts new bodies into the index.
    pub(crate) fn add_bodies(&self, txn: &mut Writing, new: &[(BodyId, BodyLocation)]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        self.move_recent(txn)?;
        for (body, location) in new {
            self.bodies.put(txn, &body.0.to_bytes(), &location.to_value(*body)).indexed()?;
        }
        Ok(())
    }

    /// Moves bodies from the main database to the table.
    fn move_recent(&self, txn: &mut Writing) -> Result<()> {
        let mut recent = Vec::new();
        for item in self.main.prefix_iter(txn, &[RECENT]).indexed()? {
            let (key, value) = item.indexed()?;
            recent.push((key.to_vec(), value.to_vec()));
        }
        for (key, value) in recent {
            self.bodies.put(txn, &key[1..], &value).indexed()?;
            self.main.delete(txn, &key).indexed()?;
        }
        Ok(())
    }

    /// Removes a body without references.
    pub(crate) fn remove_body(&self, txn: &mut Writing, body: BodyId) -> Result<()> {
        if !self.main.delete(txn, &recent_key(body)).indexed()? {
            self.bodies.delete(txn, &body.0.to_bytes()).indexed()?;
        }
        Ok(())
    }

    /// Every body with its location, or the fault of the record.
    pub(crate) fn all_bodies<'t>(
        &self,
        txn: &'t RoTxn,
    ) -> Result<impl Iterator<Item = Result<(BodyId, BodyLocation)>> + use<'t>> {
        let recent = self.main.prefix_iter(txn, &[RECENT]).indexed()?;
        let others = self.bodies.iter(txn).indexed()?;
        let recent = recent.map(|item| item.map(|(key, value)| (&key[1..], value)));
        Ok(recent.chain(others).map(body_from))
    }

    /// The bodies of the table after one, in the order of their ids. For a rebuild, whose index
    /// has no bodies in the main database.
    pub(crate) fn bodies_after<'t>(
        &self,
        txn: &'t RoTxn,
        after: Option<BodyId>,
    ) -> Result<impl Iterator<Item = Result<(BodyId, BodyLocation)>> + use<'t>> {
        let key = after.map(|body| body.0.to_bytes());
        let low = key.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key[..]));
        Ok(self.bodies.range(txn, &(low, Bound::Unbounded)).indexed()?.map(body_from))
    }
}

fn body_from(item: heed::Result<(&[u8], &[u8])>) -> Result<(BodyId, BodyLocation)> {
    let (key, value) = item.indexed()?;
    let body = key.try_into().ok().map(|id| BodyId(Id::from_bytes(id)));
    body.and_then(|body| Some((body, BodyLocation::from_value(body, value)?)))
        .ok_or_else(damaged(format_args!("location of body {}", Hex(key))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_under_its_key_alone() {
        let (a, b) = (BodyId(Id::new(1, 1)), BodyId(Id::new(1, 2)));
        let location = BodyLocation { pack: 3, offset: 1 << 33, len: 9, refs: 2 };
        assert_eq!(BodyLocation::from_value(a, &location.to_value(a)), Some(location));
        assert_eq!(BodyLocation::from_value(b, &location.to_value(a)), None);
    }
}
