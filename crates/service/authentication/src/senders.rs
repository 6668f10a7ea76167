//! Senders of forwarded mail, with the secret of this store: the directory record `secret/srs`.
//!
//! ```text
//! {"v":1,"secret":"<base64 of 32 octets>"}
//! ```
//!
//! All nodes and a copy of the store have the same secret, so that every node recognizes a bounce.
//! The secret is made when the first message is forwarded. It is never printed or logged.

use std::sync::{Arc, OnceLock};

use async_recursion::async_recursion as boxed;
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use posthaste_store::{CommitOutcome, DirectoryChange, Engine};
use serde::{Deserialize, Serialize};

use crate::keys::KeyError;
use crate::srs::{SECRET_LEN, Srs, is_rewritten};

const NAME: &str = "secret/srs";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSecret {
    v: u32,
    secret: String,
}

/// Rewrites senders. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Senders {
    engine: Arc<dyn Engine>,
    /// Once it was read or made.
    srs: Arc<OnceLock<Srs>>,
}

impl std::fmt::Debug for Senders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Senders").finish_non_exhaustive()
    }
}

impl Senders {
    /// With the secret of a store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, srs: Arc::default() }
    }

    /// The sender under which a domain of ours sends a message on. `None` if `from` cannot be
    /// rewritten. `now` is in unix seconds.
    #[boxed]
    pub async fn rewrite(&self, from: &str, ours: &str, now: u64) -> Result<Option<String>, KeyError> {
        if self.find().await?.is_none() {
            self.make().await?;
        }
        Ok(self.find().await?.and_then(|srs| srs.rewrite(from, ours, now)))
    }

    /// The original sender of a rewritten one. `None` if this store did not make it, or if it has
    /// expired.
    #[boxed]
    pub async fn original(&self, address: &str, now: u64) -> Result<Option<String>, KeyError> {
        if !is_rewritten(address) {
            return Ok(None);
        }
        Ok(self.find().await?.and_then(|srs| srs.original(address, now)))
    }

    async fn find(&self) -> Result<Option<&Srs>, KeyError> {
        if self.srs.get().is_none()
            && let Some(entry) = self.engine.directory_entry(NAME).await?
        {
            let _ = self.srs.set(Srs::new(&read(&entry.value)?));
        }
        Ok(self.srs.get())
    }

    /// Makes the secret. If two nodes try at once, one of them succeeds: the other one finds it.
    async fn make(&self) -> Result<(), KeyError> {
        let mut secret = [0; SECRET_LEN];
        rand::fill(&mut secret).map_err(|_| damaged("no random octets for a new secret"))?;
        let record = StoredSecret { v: VERSION, secret: STANDARD.encode(secret) };
        let value = serde_json::to_vec(&record).map_err(|_| damaged("it cannot be written"))?;
        let change = DirectoryChange { name: NAME.into(), expected: 0, value: Some(Bytes::from(value)) };
        match self.engine.directory_commit(change).await? {
            CommitOutcome::Done | CommitOutcome::Conflict => Ok(()),
        }
    }
}

/// The error does not quote the record, which holds the secret.
fn read(value: &[u8]) -> Result<Vec<u8>, KeyError> {
    let record: StoredSecret = serde_json::from_slice(value)
        .map_err(|_| damaged("it is not as expected: restore it from a backup"))?;
    let secret = STANDARD.decode(record.secret).ok().filter(|secret| secret.len() == SECRET_LEN);
    match secret {
        Some(secret) if record.v == VERSION => Ok(secret),
        _ => Err(damaged("its version or its secret is not as expected: restore it from a backup")),
    }
}

fn damaged(why: &str) -> KeyError {
    KeyError::Record { record: NAME.into(), why: why.into() }
}

#[cfg(test)]
mod tests {
    use posthaste_store::MemoryEngine;

    use super::*;

    const NOW: u64 = 1_795_435_200;

    #[tokio::test]
    async fn a_secret_is_made_once_and_found_by_others() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let (one, other) = (Senders::new(Arc::clone(&engine)), Senders::new(Arc::clone(&engine)));
        let forged = "SRS0=AAAAAA=JM=c.test=far@a.test";
        assert_eq!(one.original(forged, NOW).await.unwrap(), None);
        assert!(engine.directory_entry(NAME).await.unwrap().is_none());
        let made = one.rewrite("far@c.test", "a.test", NOW).await.unwrap().unwrap();
        assert_eq!(other.original(&made, NOW).await.unwrap().as_deref(), Some("far@c.test"));
        // Another node that had found none before.
        other.make().await.unwrap();
        let again = Senders::new(engine).rewrite("far@c.test", "a.test", NOW).await.unwrap().unwrap();
        assert_eq!(again, made);
    }

    #[tokio::test]
    async fn a_damaged_secret_is_an_error_that_does_not_quote_it() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let value = Some(Bytes::from_static(b"{\"v\":1,\"secret\":\"hunter2\"}"));
        let change = DirectoryChange { name: NAME.into(), expected: 0, value };
        engine.directory_commit(change).await.unwrap();
        let error = Senders::new(engine).rewrite("far@c.test", "a.test", NOW).await.unwrap_err().to_string();
        assert!(error.contains(NAME) && error.contains("backup") && !error.contains("hunter2"), "{error}");
    }
}
