//! Bodies: in chunks in Cassandra, or as objects of an S3-compatible store.
//!
//! A keyspace gets one of the two when it is made, and records which. Both keep the same promises.
//! A body is written before the commit that refers to it. A part of it is read without the rest,
//! and checked against its checksum. The sweep removes nothing to which a commit may still refer
//! later.
//!
//! | | chunks | objects |
//! | --- | --- | --- |
//! | `body`, n = 0 … | 256 KiB of the body each, sealed | n = 0 alone: the object's description ([`objects::Description`]) |
//! | object | | the body as it is, `PREFIX/xx/BODY-COMMIT` |
//!
//! An object's name has the id of the commit that wrote it, beside the body's. So nothing is ever
//! written under a name that a sweep is about to delete. The reference is written before both.
//! After a crash between the object and its description, it leads to the object.

pub(crate) mod backend;
mod chunked;
pub(crate) mod objects;

use std::sync::Arc;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::{BodyRange, Result, StoreError};

use self::backend::Backend;
use self::chunked::Chunked;
use self::objects::Description;
use crate::cluster::Cluster;
use crate::stored::impossible;

/// A body that is stored, as the sweep reads it.
pub(crate) struct StoredBody {
    /// Octets.
    len: u64,
    /// The commit that wrote the object which holds it; `None` in Cassandra.
    object: Option<Id>,
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
                let description = objects.put(body, commit, bytes).await?;
                self.put_description(body, &description).await
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

    /// Length and object of a body; `None` if it does not exist.
    pub(crate) async fn stored(&self, body: BodyId) -> Result<Option<StoredBody>> {
        match &self.backend {
            Backend::Chunks => {
                Ok(self.chunked().len(body).await?.map(|len| StoredBody { len, object: None }))
            }
            Backend::Objects(_) => {
                let description = self.description(body).await?;
                Ok(description.map(|d| StoredBody { len: d.len, object: Some(d.commit) }))
            }
        }
    }

    /// Removes a body whose last reference was `dead`'s; answers with the octets given back.
    /// `stored` was read before the references were, and `before_us` is a time before that: later
    /// writes stay.
    pub(crate) async fn remove(
        &self,
        body: BodyId,
        dead: Id,
        stored: Option<StoredBody>,
        before_us: i64,
    ) -> Result<u64> {
        if let Backend::Objects(objects) = &self.backend {
            // Objects first: if this is cut off, the description still names the rest to remove.
            objects.delete(body, dead).await?;
            if let Some(object) =
                stored.as_ref().and_then(|stored| stored.object).filter(|object| *object != dead)
            {
                objects.delete(body, object).await?;
            }
        }
        self.cluster.write(&self.cluster.statements.body.delete, (before_us, &body.0.to_bytes()[..])).await?;
        Ok(stored.map_or(0, |stored| stored.len))
    }

    /// Removes the objects of a dead commit for a body that lives on, unless the body lives in one
    /// of them.
    pub(crate) async fn remove_leftover(
        &self,
        body: BodyId,
        dead: Id,
        stored: Option<&StoredBody>,
    ) -> Result<()> {
        match (&self.backend, stored.and_then(|stored| stored.object)) {
            (Backend::Objects(objects), object) if object != Some(dead) => objects.delete(body, dead).await,
            _ => Ok(()),
        }
    }

    async fn put_description(&self, body: BodyId, description: &Description) -> Result<()> {
        let len = i64::try_from(description.len)
            .map_err(|_| impossible(format!("body {body} of {} octets", description.len)))?;
        let values = (len, description.encode(body), &body.0.to_bytes()[..], 0i32);
        self.cluster.write(&self.cluster.statements.body.put, values).await
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
