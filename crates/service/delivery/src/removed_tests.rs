//! Mail for accounts that are removed while it arrives.

use posthaste_directory::Account;
use posthaste_mail_model::MailboxName;
use posthaste_store::StoreError;

use crate::tests::{add, content, delivery, message};
use crate::{Delivery, DeliveryError, ErrorKind};

/// Removes an account as `posthaste account remove` does.
async fn remove(delivery: &Delivery, account: &Account) {
    delivery.directory().remove(&account.name).await.unwrap();
    delivery.store().remove_account(account.id).await.unwrap();
}

fn is_removed<T>(outcome: &Result<T, DeliveryError>) -> bool {
    matches!(outcome, Err(DeliveryError::Store(StoreError::AccountRemoved)))
}

/// It was delivered into a new INBOX, which nobody could open. Ben had no mailbox before.
#[tokio::test]
async fn mail_for_a_removed_account_is_refused_and_others_have_it() {
    let (delivery, ana) = delivery().await;
    let (ben, cy) = (add(&delivery, "ben@example.org").await, add(&delivery, "cy@example.org").await);
    delivery.mailboxes(&ana).await.unwrap();
    let mut recipients = Vec::new();
    for account in [&ana, &cy, &ben] {
        recipients.push(delivery.resolve(&account.name).await.unwrap());
    }
    for account in [&ana, &ben] {
        remove(&delivery, account).await;
    }
    let outcomes = delivery.deliver(message("hello"), &recipients).await;
    let removed: Vec<bool> = outcomes.iter().map(is_removed).collect();
    assert_eq!(removed, [true, false, true], "{outcomes:?}");
    let error = outcomes[0].as_ref().unwrap_err();
    assert!(error.kind() == ErrorKind::NoMailbox && !error.is_temporary());
    assert_eq!(content(&delivery, &cy, "INBOX").await.len(), 1);
    for account in [&ana, &ben] {
        assert!(is_removed(&delivery.mailboxes(account).await));
        assert!(delivery.store().list(account.id).await.unwrap().entries.is_empty());
    }
}

#[tokio::test]
async fn a_new_account_of_the_same_name_has_mailboxes_of_its_own() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    let before = delivery.resolve(&ana.name).await.unwrap();
    remove(&delivery, &ana).await;
    let new = add(&delivery, &ana.name).await;
    let outcomes = delivery.deliver(message("for the first"), &[before]).await;
    assert!(is_removed(&outcomes[0]), "{outcomes:?}");
    let now = delivery.resolve(&ana.name).await.unwrap();
    delivery.deliver(message("for the second"), &[now]).await.remove(0).unwrap();
    assert_eq!(content(&delivery, &new, "INBOX").await.len(), 1);
}

/// A rebuild may lose commits of a list, and leave one without mailboxes.
#[tokio::test]
async fn an_account_whose_list_was_damaged_gets_an_inbox() {
    let (delivery, ana) = delivery().await;
    delivery.store().remove_account(ana.id).await.unwrap();
    let to = [delivery.resolve(&ana.name).await.unwrap()];
    delivery.deliver(message("hello"), &to).await.remove(0).unwrap();
    let list = delivery.mailboxes(&ana).await.unwrap();
    assert_eq!(list.entries.len(), 1);
    assert!(list.find(&MailboxName::inbox()).is_some());
}
