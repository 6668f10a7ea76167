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
    u64::try_from(len).map_err(|_| StoreError::Corrupt(format!("body {body}: its length is {len}")))
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
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(len);
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        if start == end {
            return Ok(Bytes::new());
        }
        let (first, last) = (start / BODY_CHUNK, (end - 1) / BODY_CHUNK);
        let (mut out, mut next) = (Vec::with_capacity(end - start), first);
        let bounds = (&key[..], chunk_number(first)?, chunk_number(last)?);
        let take = |page: Vec<(i32, Option<i64>, Option<Vec<u8>>)>| {
            for (n, _, value) in page {
                let damaged = || StoreError::Corrupt(format!("body {body}: chunk {n}"));
                let number = usize::try_from(n).map_err(|_| damaged())?;
                let value = value.ok_or_else(damaged)?;
                let chunk = unseal(location(KIND, body.0, number as u64), &value).ok_or_else(damaged)?;
                let at = number * BODY_CHUNK;
                if number != next || chunk.len() != (len - at.min(len)).min(BODY_CHUNK) {
                    return Err(damaged());
                }
                next += 1;
                out.extend_from_slice(&chunk[start.saturating_sub(at)..chunk.len().min(end - at)]);
            }
            Ok(ControlFlow::Continue(()))
        };
        self.cluster.pages(&self.cluster.statements.body.read, bounds, take).await?;
        if next != last + 1 {
            return Err(StoreError::Corrupt(format!("body {body}: chunk {next} is missing")));
        }
        Ok(out.into())
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
        assert!(matches!(octets(body, -1), Err(StoreError::Corrupt(_))));
        assert_eq!(chunk_number(3).unwrap(), 3);
        assert!(matches!(chunk_number(1 << 31), Err(StoreError::TooLarge { .. })));
    }
}
