//! Where bodies are kept: in chunks in Cassandra, or as objects of an S3-compatible store.
//!
//! Which of the two a keyspace uses is decided when it is made, and recorded in it. Both keep the same promises: a body is
//! written before the commit that refers to it, a part of it is read without the rest, what is read was checked against its
//! checksum, and what the sweep removes no commit can still come to refer to.
//!
//! | | chunks | objects |
//! | --- | --- | --- |
//! | `body`, n = 0 … | 256 KiB of the body each, sealed | n = 0 alone: the object's description ([`objects::Description`]) |
//! | object | | the body as it is, `PREFIX/xx/BODY-COMMIT` |
//!
//! An object carries the id of the commit that wrote it beside the body's. So nothing is ever written under a name that a sweep may
//! be about to delete, and what a crash left between the object and its description is found by the reference that was written before both.

mod chunked;
pub(crate) mod objects;
mod place;
mod s3;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::{BodyRange, Result};

use crate::engine::CassandraEngine;

pub(crate) use objects::Objects;
pub use place::BodyPlace;
pub use s3::S3;

/// How this keyspace keeps bodies.
pub(crate) enum Bodies {
    Chunks,
    Objects(Objects),
}

/// A body as the sweep finds it.
pub(crate) struct Kept {
    /// Octets.
    len: u64,
    /// The commit that wrote the object which holds it; `None` in Cassandra.
    object: Option<Id>,
}

impl CassandraEngine {
    /// Writes a body whole. Its reference has been written before.
    pub(crate) async fn put_body(&self, commit: Id, body: BodyId, bytes: &Bytes) -> Result<()> {
        match &self.bodies {
            Bodies::Chunks => self.put_chunks(body, bytes).await,
            Bodies::Objects(objects) => {
                let description = objects.put(body, commit, bytes).await?;
                self.put_description(body, &description).await
            }
        }
    }

    pub(crate) async fn body_range(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        match &self.bodies {
            Bodies::Chunks => self.chunks_range(body, range).await,
            Bodies::Objects(objects) => {
                let description = self.description(body).await?.ok_or_else(|| objects::missing(body))?;
                objects.range(body, &description, range).await
            }
        }
    }

    /// What there is of a body; `None` if it is gone.
    pub(crate) async fn kept_body(&self, body: BodyId) -> Result<Option<Kept>> {
        match &self.bodies {
            Bodies::Chunks => Ok(self.chunks_len(body).await?.map(|len| Kept { len, object: None })),
            Bodies::Objects(_) => {
                let description = self.description(body).await?;
                Ok(description.map(|d| Kept { len: d.len, object: Some(d.commit) }))
            }
        }
    }

    /// Removes a body that nothing refers to, the last reference having been `dead`'s; answers with the octets given back.
    /// `kept` was read before the references were, `before_us` lies before that: what was written since stays.
    pub(crate) async fn drop_body(
        &self,
        body: BodyId,
        dead: Id,
        kept: Option<Kept>,
        before_us: i64,
    ) -> Result<u64> {
        if let Bodies::Objects(objects) = &self.bodies {
            // Objects first: if this is cut off, the description still says what is left to remove.
            objects.delete(body, dead).await?;
            if let Some(object) = kept.as_ref().and_then(|kept| kept.object).filter(|object| *object != dead)
            {
                objects.delete(body, object).await?;
            }
        }
        self.database.write(&self.statements.body_delete, (before_us, &body.0.to_bytes()[..])).await?;
        Ok(kept.map_or(0, |kept| kept.len))
    }

    /// Removes what a dead commit wrote of a body that lives on, unless the body lives in it.
    pub(crate) async fn drop_leftover(&self, body: BodyId, dead: Id, kept: Option<&Kept>) -> Result<()> {
        match (&self.bodies, kept.and_then(|kept| kept.object)) {
            (Bodies::Objects(objects), object) if object != Some(dead) => objects.delete(body, dead).await,
            _ => Ok(()),
        }
    }
}
