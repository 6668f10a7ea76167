//! Names of records, and walks over them.

use posthaste_mail_model::{AccountId, Id, MailboxId};
use posthaste_store::{DirectoryEntry, Engine};

use crate::error::Result;

/// Records per engine call, and between two pauses for other tasks. A list of the most entries with
/// short names has 6 KiB, and with the longest 80 KiB.
const PAGE: usize = 32;

pub(super) fn prefix(account: AccountId) -> String {
    format!("acl/{account}/")
}

pub(super) fn key(account: AccountId, mailbox: MailboxId) -> String {
    format!("{}{mailbox}", prefix(account))
}

pub(super) fn mailbox_of(account: AccountId, name: &str) -> Option<MailboxId> {
    Id::parse(name.strip_prefix(&prefix(account))?).map(MailboxId)
}

/// Reads the records below a prefix, a page at a time.
pub(super) async fn scan(
    engine: &dyn Engine,
    prefix: &str,
    mut each: impl FnMut(&DirectoryEntry) -> Result<()>,
) -> Result<()> {
    let mut after: Option<String> = None;
    loop {
        let page = engine.directory_scan(prefix, after.as_deref(), PAGE).await?;
        page.iter().try_for_each(&mut each)?;
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.name.clone()),
            _ => return Ok(()),
        }
        // An engine that answers at once would never let another task in.
        tokio::task::yield_now().await;
    }
}
