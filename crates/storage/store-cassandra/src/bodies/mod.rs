//! Bodies: in chunks in Cassandra, or as objects of an S3-compatible store.
//!
//! A keyspace gets one of the two when it is created, and records which. Both give the same
//! guarantees. A body is written before the commit that refers to it. A part of it is read
//! without the rest, and checked against its checksum. The sweep removes nothing to which a
//! commit may still refer later.
//!
//! | | chunks | objects |
//! | --- | --- | --- |
//! | `body`, n = 0 … | 256 KiB of the body each, sealed | n = 0 alone: the object's description ([`objects::Description`]) |
//! | object | | the body as it is, `PREFIX/xx/BODY-COMMIT` |
//!
//! An object's name has the body's id and the id of the commit that wrote it. So nothing is ever
//! written under a name that a sweep is about to delete. The reference is written before both.
//! After a crash between the object and its description, it leads to the object.
//!
//! A description carries the time at which its object began to be sent. So a server that was
//! stopped in between cannot name an object that a sweep has deleted meanwhile.

pub(crate) mod backend;
mod chunked;
pub(crate) mod objects;

use std::sync::Arc;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::{BodyRange, Recodes, Result, StoreError};

use self::backend::Backend;
use self::chunked::{BODY_CHUNK, Chunked};
use self::objects::Description;
use crate::cluster::Cluster;
use crate::cluster::ids::now_us;
use crate::stored::impossible;

/// A body that is stored, as the sweep reads it.
pub(crate) struct StoredBody {
    /// Octets.
    len: u64,
    /// The object that has it; `None` in Cassandra.
    object: Option<Description>,
}

impl StoredBody {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// The bodies of a keyspace.
pub(crate) struct Bodies {
    cluster: Arc<Cluster>,
    backend: Backend,
}

impl Bodies {
    pub(crate) fn new(cluster: Arc<Cluster>, backend: Backend) -> Self {
        Self { cluster, backend }
    }

    fn chunked(&self) -> Chunked<'_> {
        Chunked { cluster: &self.cluster }
    }

    /// Writes a body whole. Its reference has been written before.
    pub(crate) async fn put(&self, commit: Id, body: BodyId, bytes: &Bytes) -> Result<()> {
        match &self.backend {
            Backend::Chunks => self.chunked().put(body, bytes).await,
            Backend::Objects(objects) => {
                let began_us = now_us();
                let description = objects.put(body, commit, bytes).await?;
                self.put_description(body, &description, began_us).await
            }
        }
    }

    pub(crate) async fn range(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        match &self.backend {
            Backend::Chunks => self.chunked().range(body, range).await,
            Backend::Objects(objects) => {
                let description = self.description(body).await?.ok_or_else(|| objects::missing(body))?;
                objects.range(body, &description, range).await
            }
        }
    }

    /// The bodies that can take another form. One chunk is one cell: it is written and read whole,
    /// so nobody gets a mixture of two forms. Of an object, the old form would take its space until
    /// its message is expunged: the sweep finds it by the commit that wrote it.
    pub(crate) fn recodes(&self) -> Recodes {
        match &self.backend {
            Backend::Chunks => Recodes::Short(BODY_CHUNK as u64),
            Backend::Objects(_) => Recodes::Nothing,
        }
    }

    /// Length and object of a body; `None` if it does not exist.
    pub(crate) async fn stored(&self, body: BodyId) -> Result<Option<StoredBody>> {
        match &self.backend {
            Backend::Chunks => {
                Ok(self.chunked().len(body).await?.map(|len| StoredBody { len, object: None }))
            }
            Backend::Objects(_) => {
                let description = self.description(body).await?;
                Ok(description.map(|d| StoredBody { len: d.len, object: Some(d) }))
            }
        }
    }

    /// Removes a body whose last reference was `dead`'s. Returns the octets freed. `stored` was
    /// read before the references were, and `before_us` is a time before that: later writes stay.
    pub(crate) async fn remove(
        &self,
        body: BodyId,
        dead: Id,
        stored: Option<StoredBody>,
        before_us: i64,
    ) -> Result<u64> {
        if let Backend::Objects(objects) = &self.backend {
            // Objects first: if this is interrupted, the description still names the objects to
            // remove.
            objects.delete(body, dead).await?;
            let object = stored.as_ref().and_then(|stored| stored.object.as_ref());
            if let Some(object) = object.filter(|object| object.commit != dead) {
                objects.delete(body, object.commit).await?;
            }
        }
        self.cluster.write(&self.cluster.statements.body.delete, (before_us, &body.0.to_bytes()[..])).await?;
        Ok(stored.map_or(0, |stored| stored.len))
    }

    /// Removes the object that a dead commit wrote for a live body, unless the body is stored in
    /// that object. `stored` and `before_us` as in [`Self::remove`].
    ///
    /// The dead commit's server may have sent the object and been stopped before it wrote the
    /// description. The live object's description first gets a later time, and stays.
    pub(crate) async fn remove_leftover(
        &self,
        body: BodyId,
        dead: Id,
        stored: Option<&StoredBody>,
        before_us: i64,
    ) -> Result<()> {
        let Backend::Objects(objects) = &self.backend else { return Ok(()) };
        if let Some(living) = stored.and_then(|stored| stored.object.as_ref()) {
            if living.commit == dead {
                return Ok(());
            }
            self.put_description(body, living, before_us).await?;
        }
        objects.delete(body, dead).await
    }

    async fn put_description(&self, body: BodyId, description: &Description, at_us: i64) -> Result<()> {
        let len = i64::try_from(description.len)
            .map_err(|_| impossible(format!("body {body} of {} octets", description.len)))?;
        let values = (at_us, len, description.encode(body), &body.0.to_bytes()[..], 0i32);
        self.cluster.write(&self.cluster.statements.body.describe, values).await
    }

    /// `None` if there is none.
    async fn description(&self, body: BodyId) -> Result<Option<Description>> {
        type Columns = (i32, Option<i64>, Option<Vec<u8>>);
        let key = body.0.to_bytes();
        let found =
            self.cluster.read::<Columns>(&self.cluster.statements.body.read, (&key[..], 0i32, 0i32)).await?;
        let Some((_, _, Some(value))) = found.into_iter().next() else { return Ok(None) };
        let damaged = || StoreError::Corrupt(format!("the description of body {body}"));
        Description::decode(body, &value).ok_or_else(damaged).map(Some)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use object_store::memory::InMemory;

    use super::objects::Objects;
    use super::*;
    use crate::tests::Keyspace;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_description_that_comes_after_a_sweep_hides_no_living_body() {
        let Some(keyspace) = Keyspace::new("described").await else { return };
        let cluster = Arc::clone(&keyspace.engine().await.mailboxes.cluster);
        let (place, owner) = ("s3://mail/a".parse().unwrap(), cluster.new_id());
        let objects = Objects::new(Arc::new(InMemory::new()), place, "a", owner);
        let bodies = Bodies::new(Arc::clone(&cluster), Backend::Objects(objects));
        let Backend::Objects(objects) = &bodies.backend else { panic!() };
        let (body, bytes) = (BodyId(cluster.new_id()), Bytes::from_static(b"the same for two recipients"));
        let (living, late) = (cluster.new_id(), cluster.new_id());
        bodies.put(living, body, &bytes).await.unwrap();
        // Another commit brings the body, and its server is stopped before it writes the
        // description.
        let began_us = now_us();
        let description = objects.put(body, late, &bytes).await.unwrap();
        let stored = bodies.stored(body).await.unwrap();
        bodies.remove_leftover(body, late, stored.as_ref(), now_us()).await.unwrap();
        bodies.put_description(body, &description, began_us).await.unwrap();
        assert_eq!(bodies.range(body, 0..u64::MAX).await.unwrap(), bytes);
        // A later write is accepted.
        let next = cluster.new_id();
        bodies.put(next, body, &bytes).await.unwrap();
        assert_eq!(bodies.description(body).await.unwrap().unwrap().commit, next);
        assert_eq!(bodies.range(body, 0..u64::MAX).await.unwrap(), bytes);
    }
}
