//! Sets the content of a directory record, whatever it was before.

use bytes::Bytes;

use crate::{CommitOutcome, DirectoryChange, Engine, Result, StoreError};

/// Gives a record this content, or removes it. Nothing is written if the record has this content
/// already. [`StoreError::Busy`] if another client changes it at the same time.
pub async fn set_directory_entry(engine: &dyn Engine, name: &str, value: Option<Bytes>) -> Result<()> {
    let there = engine.directory_entry(name).await?;
    if there.as_ref().map(|there| &there.value) == value.as_ref() {
        return Ok(());
    }
    let expected = there.map_or(0, |there| there.version);
    match engine.directory_commit(DirectoryChange { name: name.to_owned(), expected, value }).await? {
        CommitOutcome::Done => Ok(()),
        CommitOutcome::Conflict => Err(StoreError::Busy),
    }
}
