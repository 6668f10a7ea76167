//! The folders that messages go to, found by their use or made.

use std::collections::BTreeMap;

use posthaste_directory::Account;
use posthaste_mail_model::{MailboxName, NumSet};
use posthaste_store::{MailboxEntry, MailboxList, SpecialUse, Store, StoreError, View};
use time::{Month, OffsetDateTime};

/// The folder with a use: the one that has it, or else one of the usual name.
pub(crate) fn of_use(list: &MailboxList, wanted: SpecialUse, usual: &str) -> Option<MailboxEntry> {
    let has_use = |entry: &&MailboxEntry| entry.special_use == Some(wanted);
    let has_name = |entry: &&MailboxEntry| entry.special_use.is_none() && entry.name.as_str() == usual;
    list.entries.iter().find(has_use).or_else(|| list.entries.iter().find(has_name)).cloned()
}

/// Whether a folder is `parent` or below it.
pub(crate) fn is_within(name: &MailboxName, parent: &MailboxName) -> bool {
    name.as_str().strip_prefix(parent.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The folder of this name, which is made if it is not there and the account may have one more.
pub(crate) async fn find_or_create(
    store: &Store,
    account: &Account,
    name: &MailboxName,
    wanted: Option<SpecialUse>,
) -> Result<MailboxEntry, StoreError> {
    let list = store.list(account.id).await?;
    if let Some(entry) = list.find(name) {
        return Ok(entry.clone());
    }
    match store.create_within(account.id, name, wanted, account.quota_mailboxes).await {
        // A client has made it meanwhile.
        Err(StoreError::NameTaken) => {
            let list = store.list(account.id).await?;
            list.find(name).cloned().ok_or(StoreError::NoSuchName)
        }
        made => made,
    }
}

/// The chosen messages by the month of their internal date (UTC), as `2026-11`.
pub(crate) fn by_month(view: &View, uids: &NumSet) -> BTreeMap<String, NumSet> {
    let mut months = BTreeMap::<(i32, Month), NumSet>::new();
    for (_, row) in view.rows_of_uids(uids) {
        // Every u32 of seconds is a date.
        let Ok(date) = OffsetDateTime::from_unix_timestamp(i64::from(row.date())) else { continue };
        months.entry((date.year(), date.month())).or_default().push(row.uid().value());
    }
    months.into_iter().map(|((year, month), uids)| (format!("{year:04}-{:02}", month as u8), uids)).collect()
}
