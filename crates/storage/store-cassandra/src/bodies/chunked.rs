//! Bodies in Cassandra: sealed chunks of a partition for each body.

use std::ops::ControlFlow;

use bytes::Bytes;
use posthaste_mail_model::BodyId;
use posthaste_store::{BodyRange, Result, StoreError};

use super::objects::missing;
use crate::cluster::Cluster;
use crate::stored::seal::{location, seal, unseal};

/// Bytes of a body in one cell. Cassandra likes cells below 1 MiB; a range of a body reads at most
/// this much too much at either end.
pub(super) const BODY_CHUNK: usize = 256 << 10;
/// Times that a body is read again because it takes another form meanwhile. Two changes of one body
/// are minutes apart.
const AGAIN_MAX: usize = 2;

/// Octets of the longest body: its chunks are numbered by an `i32`.
const LEN_MAX: u64 = (BODY_CHUNK as u64) << 31;
/// Octets that are reserved because of a body's length alone: those of the largest usual message.
/// The column of the length has no checksum, and a damaged one would reserve terabytes.
const RESERVED_MAX: usize = 64 << 20;

/// The kind of the value, for its checksum.
const KIND: u8 = 6;

/// The number of a chunk as the column has it.
fn chunk_number(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| too_large())
}

fn too_large() -> StoreError {
    StoreError::TooLarge { what: "a body of bytes", limit: 1 << 48 }
}

/// The length of a body from its column.
fn octets(body: BodyId, len: i64) -> Result<u64> {
    let octets = u64::try_from(len).ok().filter(|octets| *octets <= LEN_MAX);
    octets.ok_or_else(|| StoreError::Corrupt(format!("body {body}: its length is {len}")))
}

/// A part of a body that is put together from its chunks.
struct Part {
    body: BodyId,
    /// Octets of the whole body.
    len: usize,
    start: usize,
    end: usize,
    /// The number of the next chunk.
    next: usize,
    octets: Vec<u8>,
}

impl Part {
    fn new(body: BodyId, len: usize, range: &BodyRange) -> Self {
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(len);
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        let octets = Vec::with_capacity((end - start).min(RESERVED_MAX));
        Self { body, len, start, end, next: start / BODY_CHUNK, octets }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The number of the last chunk.
    fn last(&self) -> usize {
        self.end.saturating_sub(1) / BODY_CHUNK
    }

    /// Adds what a chunk has of the part. Chunks come in their order.
    fn add(&mut self, n: i32, value: Option<&[u8]>) -> Result<()> {
        let body = self.body;
        let damaged = || StoreError::Corrupt(format!("body {body}: chunk {n}"));
        let number = usize::try_from(n).map_err(|_| damaged())?;
        let value = value.ok_or_else(damaged)?;
        let chunk = unseal(location(KIND, body.0, number as u64), value).ok_or_else(damaged)?;
        let at = number * BODY_CHUNK;
        let is_next = number == self.next && number <= self.last();
        if !is_next || chunk.len() != (self.len - at.min(self.len)).min(BODY_CHUNK) {
            return Err(damaged());
        }
        self.next += 1;
        let wanted = self.start.saturating_sub(at)..chunk.len().min(self.end - at);
        self.octets.extend_from_slice(&chunk[wanted]);
        Ok(())
    }

    /// The part, if all its chunks came.
    fn whole(self) -> Result<Bytes> {
        if self.next <= self.last() {
            return Err(StoreError::Corrupt(format!("body {}: chunk {} is missing", self.body, self.next)));
        }
        Ok(self.octets.into())
    }
}

/// Bodies of a keyspace that keeps them in Cassandra.
pub(super) struct Chunked<'c> {
    pub(super) cluster: &'c Cluster,
}

impl Chunked<'_> {
    pub(super) async fn put(&self, body: BodyId, bytes: &[u8]) -> Result<()> {
        let key = body.0.to_bytes();
        let len = i64::try_from(bytes.len()).map_err(|_| too_large())?;
        // An empty body has one empty chunk.
        for n in 0..bytes.len().div_ceil(BODY_CHUNK).max(1) {
            let chunk = &bytes[n * BODY_CHUNK..bytes.len().min((n + 1) * BODY_CHUNK)];
            let n = chunk_number(n)?;
            let value = seal(location(KIND, body.0, u64::from(n.cast_unsigned())), chunk);
            self.cluster.write(&self.cluster.statements.body.put, (len, value, &key[..], n)).await?;
        }
        Ok(())
    }

    /// Octets of a body; `None` if it does not exist.
    pub(super) async fn len(&self, body: BodyId) -> Result<Option<u64>> {
        let key = body.0.to_bytes();
        let lens =
            self.cluster.read::<(Option<i64>,)>(&self.cluster.statements.body.len, (&key[..],)).await?;
        let Some((Some(len),)) = lens.into_iter().next() else { return Ok(None) };
        octets(body, len).map(Some)
    }

    pub(super) async fn range(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        for _ in 0..AGAIN_MAX {
            match self.range_once(body, range.clone()).await {
                // Its length and its chunk may be those of two forms.
                Err(StoreError::Corrupt(_)) => {}
                read => return read,
            }
        }
        self.range_once(body, range).await
    }

    async fn range_once(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        let key = body.0.to_bytes();
        let len = self.len(body).await?.and_then(|len| usize::try_from(len).ok());
        let len = len.ok_or_else(|| missing(body))?;
        let mut part = Part::new(body, len, &range);
        if part.is_empty() {
            return Ok(Bytes::new());
        }
        let bounds = (&key[..], chunk_number(part.next)?, chunk_number(part.last())?);
        let take = |page: Vec<(i32, Option<i64>, Option<Vec<u8>>)>| {
            for (n, _, value) in page {
                part.add(n, value.as_deref())?;
            }
            Ok(ControlFlow::Continue(()))
        };
        self.cluster.pages(&self.cluster.statements.body.read, bounds, take).await?;
        part.whole()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn lengths_and_numbers_beyond_their_columns_are_errors() {
        let body = BodyId(Id::new(1, 1));
        assert_eq!(octets(body, 5).unwrap(), 5);
        assert_eq!(octets(body, LEN_MAX.cast_signed()).unwrap(), LEN_MAX);
        for len in [-1, LEN_MAX.cast_signed() + 1, i64::MAX] {
            assert!(matches!(octets(body, len), Err(StoreError::Corrupt(_))), "{len}");
        }
        assert_eq!(chunk_number(3).unwrap(), 3);
        assert!(matches!(chunk_number(1 << 31), Err(StoreError::TooLarge { .. })));
        let longest = Part::new(body, usize::try_from(LEN_MAX).unwrap(), &(0..u64::MAX));
        assert_eq!(chunk_number(longest.last()).unwrap(), i32::MAX);
    }

    /// A body of two chunks, and their values.
    fn chunks(body: BodyId) -> (Vec<u8>, Vec<Vec<u8>>) {
        let bytes: Vec<u8> = (0..BODY_CHUNK + 1_000).map(|n| n as u8).collect();
        let values = bytes.chunks(BODY_CHUNK).zip(0..);
        let values = values.map(|(chunk, n)| seal(location(KIND, body.0, n), chunk)).collect();
        (bytes, values)
    }

    #[test]
    fn a_part_is_put_together_from_its_chunks() {
        let body = BodyId(Id::new(1, 1));
        let (bytes, values) = chunks(body);
        let len = bytes.len();
        for range in [0..len, 5..9, BODY_CHUNK - 3..BODY_CHUNK + 4, BODY_CHUNK..len, len - 1..len] {
            let mut part = Part::new(body, len, &(range.start as u64..range.end as u64));
            let (first, last) = (part.next, part.last());
            for (n, value) in (first as i32..).zip(&values[first..=last]) {
                part.add(n, Some(&value[..])).unwrap();
            }
            assert!(part.whole().unwrap() == bytes[range.clone()], "{range:?}");
        }
        assert!(Part::new(body, len, &(7..7)).is_empty());
        assert!(Part::new(body, len, &(len as u64..u64::MAX)).is_empty());
    }

    /// Terabytes were reserved for it, which ended the process.
    #[test]
    fn a_damaged_length_reserves_little_and_is_damage() {
        let body = BodyId(Id::new(1, 1));
        let (bytes, values) = chunks(body);
        let is_damage = |done: Result<()>| matches!(done, Err(StoreError::Corrupt(_)));
        let longest = usize::try_from(LEN_MAX).unwrap();
        for len in [longest, 3 * BODY_CHUNK, bytes.len() + 1, bytes.len() - 1] {
            let mut part = Part::new(body, len, &(0..u64::MAX));
            assert!(part.octets.capacity() <= 2 * RESERVED_MAX, "{len}");
            part.add(0, Some(&values[0][..])).unwrap();
            assert!(is_damage(part.add(1, Some(&values[1][..]))), "{len}");
            assert!(part.whole().is_err(), "{len}");
        }
        // Chunks in another order, one too many, and none.
        let mut part = Part::new(body, bytes.len(), &(0..10));
        assert!(is_damage(part.add(1, Some(&values[1][..]))) && is_damage(part.add(0, None)));
        part.add(0, Some(&values[0][..])).unwrap();
        assert!(is_damage(part.add(1, Some(&values[1][..]))) && is_damage(part.add(-1, None)));
    }
}
