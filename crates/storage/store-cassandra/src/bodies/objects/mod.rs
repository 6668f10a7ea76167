//! Bodies as objects: each is one object, and a description of it in Cassandra that carries its
//! checksums.
//!
//! | bytes | field of a description |
//! | --- | --- |
//! | 0–3 | checksum, seeded with the body's id |
//! | 16 | the commit that wrote the object: a part of its name |
//! | varint | octets |
//! | 4 each | CRC-32C of each 64 KiB, seeded with the body's id and the number of the block |
//!
//! An object is the message as it is, so that other tools can read it. A part of it is read by a
//! ranged GET of whole blocks.
//!
//! The object `PREFIX/posthaste` has an id that the keyspace has, too. It distinguishes a store
//! that lost an object from a wrong store. It also shows that two keyspaces use one storage.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::octets::{Octets, put_varint};
use posthaste_store::{BodyRange, Result, StoreError};

use crate::options::body_storage::BodyStorage;
use crate::stored::seal::{location, seal, unseal};

/// Octets under one checksum: the cost of reading a small part of a body, at 4 octets of
/// description for each.
const BLOCK: u64 = 64 << 10;

/// The kinds of the values, for their checksums.
const DESCRIPTION: u8 = 8;
const BLOCKS: u8 = 9;

/// The name of the object that names the owner of the storage. Bodies' names have one `/` more.
const MARKER: &str = "posthaste";

/// The facts about a body's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// The commit that wrote it.
    pub(crate) commit: Id,
    /// Octets.
    pub(crate) len: u64,
    /// Checksum of each block.
    sums: Vec<u32>,
}

pub(super) fn missing(body: BodyId) -> StoreError {
    StoreError::Corrupt(format!("there is no body {body}"))
}

fn block_sum(body: BodyId, number: usize, block: &[u8]) -> u32 {
    crc32c::crc32c_append(location(BLOCKS, body.0, number as u64), block)
}

impl Description {
    fn new(body: BodyId, commit: Id, bytes: &[u8]) -> Self {
        let blocks = bytes.chunks(BLOCK as usize).enumerate();
        let sums = blocks.map(|(number, block)| block_sum(body, number, block)).collect();
        Self { commit, len: bytes.len() as u64, sums }
    }

    pub(super) fn encode(&self, body: BodyId) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + self.sums.len() * 4);
        out.extend_from_slice(&self.commit.to_bytes());
        put_varint(&mut out, self.len);
        for sum in &self.sums {
            out.extend_from_slice(&sum.to_le_bytes());
        }
        seal(location(DESCRIPTION, body.0, 0), &out)
    }

    /// `None` if it is damaged.
    pub(super) fn decode(body: BodyId, value: &[u8]) -> Option<Self> {
        let mut read = Octets(unseal(location(DESCRIPTION, body.0, 0), value)?);
        let (commit, len) = (read.id()?, read.varint()?);
        let (sums, rest) = read.0.as_chunks::<4>();
        let sums: Vec<u32> = sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
        (rest.is_empty() && sums.len() as u64 == len.div_ceil(BLOCK)).then_some(Self { commit, len, sums })
    }
}

/// The objects of one keyspace.
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    storage: BodyStorage,
    prefix: Path,
    /// The content of the marker.
    owner: Id,
}

impl Objects {
    /// `storage` is where `store` and `prefix` are, for messages; `owner` is the keyspace's id.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, storage: BodyStorage, prefix: &str, owner: Id) -> Self {
        Self { store, storage, prefix: Path::from(prefix), owner }
    }

    /// A body's object. It begins with the last bits of the body's id, which are random. Stores
    /// spread their load by the beginning of names, and ids begin with the time.
    fn name(&self, body: BodyId, commit: Id) -> Path {
        let [.., last] = body.0.to_bytes();
        self.prefix.clone().join(format!("{last:02x}")).join(format!("{body}-{commit}"))
    }

    fn unavailable(&self, error: &Error) -> StoreError {
        StoreError::Unavailable(format!("{}: {error}", self.storage))
    }

    /// Writes a body; the caller stores its description.
    pub(crate) async fn put(&self, body: BodyId, commit: Id, bytes: &Bytes) -> Result<Description> {
        let written = self.store.put(&self.name(body, commit), bytes.clone().into()).await;
        written.map_err(|e| self.unavailable(&e))?;
        Ok(Description::new(body, commit, bytes))
    }

    /// A part of a body, checked.
    pub(crate) async fn range(
        &self,
        body: BodyId,
        description: &Description,
        range: BodyRange,
    ) -> Result<Bytes> {
        let end = range.end.min(description.len);
        let start = range.start.min(end);
        if start == end {
            return Ok(Bytes::new());
        }
        let first = start / BLOCK;
        let (from, to) = (first * BLOCK, (end.div_ceil(BLOCK) * BLOCK).min(description.len));
        let name = self.name(body, description.commit);
        let read = match self.store.get_range(&name, from..to).await {
            Ok(read) => read,
            Err(Error::NotFound { .. }) => {
                // Either this object is lost, or this is not the right store.
                self.verify_owner().await?;
                return Err(StoreError::Corrupt(format!("body {body}: {name} is not in {}", self.storage)));
            }
            Err(error) => return Err(self.unavailable(&error)),
        };
        let damaged = || StoreError::Corrupt(format!("body {body}: {name} in {}", self.storage));
        if read.len() as u64 != to - from {
            return Err(damaged());
        }
        for (number, block) in (first as usize..).zip(read.chunks(BLOCK as usize)) {
            if description.sums.get(number) != Some(&block_sum(body, number, block)) {
                return Err(damaged());
            }
        }
        Ok(read.slice((start - from) as usize..(end - from) as usize))
    }

    /// Removes the object that a commit wrote for a body. A missing object is no error.
    pub(crate) async fn delete(&self, body: BodyId, commit: Id) -> Result<()> {
        match self.store.delete(&self.name(body, commit)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    /// The content of the marker; `None` if there is none.
    async fn marker(&self) -> Result<Option<Bytes>, Error> {
        match self.store.get(&self.prefix.clone().join(MARKER)).await {
            Ok(found) => Ok(Some(found.bytes().await?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn compare_owner(&self, found: Option<&[u8]>) -> Result<()> {
        match found {
            Some(owner) if owner == self.owner.to_string().as_bytes() => Ok(()),
            Some(_) => Err(StoreError::Unavailable(format!(
                "{} holds the bodies of another keyspace; is it the right endpoint? Each keyspace needs a prefix of its own",
                self.storage
            ))),
            None => Err(StoreError::Unavailable(format!(
                "{} is not where this keyspace put its bodies: the object `{MARKER}` is missing. Is it the right endpoint?",
                self.storage
            ))),
        }
    }

    /// Claims this storage for the keyspace. An error if it belongs to another keyspace.
    pub(crate) async fn claim(&self) -> Result<()> {
        if let Some(found) = self.marker().await.map_err(|e| self.unavailable(&e))? {
            return self.compare_owner(Some(&found));
        }
        let name = self.prefix.clone().join(MARKER);
        let written = self.store.put(&name, self.owner.to_string().into()).await;
        written.map(drop).map_err(|e| self.unavailable(&e))
    }

    /// Refuses a storage that does not belong to the keyspace, or no longer does.
    async fn verify_owner(&self) -> Result<()> {
        self.compare_owner(self.marker().await.map_err(|e| self.unavailable(&e))?.as_deref())
    }

    /// [`Self::verify_owner`] at the start of a server. A storage that does not answer does not
    /// keep the server from starting.
    pub(crate) async fn verify_at_start(&self) -> Result<()> {
        match self.marker().await {
            Ok(found) => self.compare_owner(found.as_deref()),
            Err(error @ (Error::PermissionDenied { .. } | Error::Unauthenticated { .. })) => {
                Err(self.unavailable(&error))
            }
            Err(error) => {
                tracing::warn!(storage = %self.storage, %error, "the object store does not answer: messages cannot be read or stored until it does");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
