//! The list of a removed account: nothing that has begun creates a mailbox in it.

use std::task::{Context as TaskContext, Poll, Waker};

use posthaste_mail_model::{MailboxName, ModSeq};

use super::*;
use crate::MemoryEngine;
use crate::error::StoreError;
use crate::list::SpecialUse;
use crate::suite::new_id;

fn store() -> (Store, AccountId) {
    (Store::new(Arc::new(MemoryEngine::new()), StoreOptions::default()), AccountId(new_id()))
}

fn name(text: &str) -> MailboxName {
    MailboxName::new(text).unwrap()
}

fn is_refused<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(StoreError::AccountRemoved))
}

/// Of an account with mailboxes, and of one that never had any.
#[tokio::test]
async fn no_mailbox_is_created_in_a_list_that_was_emptied() {
    let defaults = [(name("Sent"), SpecialUse::Sent)];
    for had_mailboxes in [true, false] {
        let (store, account) = store();
        if had_mailboxes {
            store.ensure_default_mailboxes(account, &defaults).await.unwrap();
            store.subscribe(account, &name("elsewhere")).await.unwrap();
            store.delete(account, &name("Sent")).await.unwrap();
        }
        let before = store.list(account).await.unwrap();
        assert!(!before.is_emptied());
        store.remove_account(account).await.unwrap();
        let after = store.list(account).await.unwrap();
        assert!(after.is_emptied() && after.subscribed.is_empty() && after.version > before.version);
        assert!(is_refused(&store.create(account, &name("x/y"), None).await));
        // A caller may have read the list before. It creates nothing.
        let found = store.with_default_mailboxes(Arc::clone(&before), &defaults).await;
        assert_eq!(is_refused(&found), !had_mailboxes, "{found:?}");
        assert_eq!(store.list(account).await.unwrap(), after);
    }
}

/// A rebuild may have lost commits of the list of an account that is still there.
#[tokio::test]
async fn inbox_is_made_in_a_list_that_was_emptied_before_it_was_read() {
    let (store, account) = store();
    store.remove_account(account).await.unwrap();
    let emptied = store.list(account).await.unwrap();
    assert!(emptied.version != ModSeq::ZERO);
    let list = store.with_default_mailboxes(emptied, &[(name("Sent"), SpecialUse::Sent)]).await.unwrap();
    let names: Vec<_> = list.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["INBOX"], "the user may have deleted the others");
    store.create(account, &name("x"), None).await.unwrap();
}

/// Another server removes the account after this one has read its emptied list.
#[tokio::test]
async fn a_list_that_is_emptied_again_is_left_empty() {
    let (store, account) = store();
    store.remove_account(account).await.unwrap();
    let read = store.list(account).await.unwrap();
    store.remove_account(account).await.unwrap();
    assert!(is_refused(&store.with_default_mailboxes(read, &[]).await));
    assert!(store.list(account).await.unwrap().is_emptied());
}

/// Another server removes the account after this one has read its list. The new mailbox was there,
/// so the list was not empty, and mail got an INBOX in it.
#[tokio::test]
async fn renaming_inbox_makes_no_mailbox_in_a_list_that_is_emptied_meanwhile() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let other = Store::new(Arc::clone(&engine), StoreOptions::default());
    let (store, account) = (Store::new(engine, StoreOptions::default()), AccountId(new_id()));
    store.ensure_default_mailboxes(account, &[]).await.unwrap();
    let mut removing = Some(other.remove_account(account));
    let permit = |_: &MailboxList, _: &mut ListDraft| {
        if let Some(mut removing) = removing.take() {
            let removed = removing.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
            assert!(matches!(removed, Poll::Ready(Ok(()))), "{removed:?}");
        }
        Ok(())
    };
    let renamed = store.rename_if(account, &MailboxName::inbox(), &name("old"), permit).await;
    assert!(is_refused(&renamed));
    assert!(store.list(account).await.unwrap().is_emptied());
}
