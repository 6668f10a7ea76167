//! Folders with as many messages as their owner may have in one.

use posthaste_delivery::ErrorKind;

use super::*;

/// RFC 5228 §2.10.6: what a script cannot file is in INBOX. If that has no room either, the sender
/// keeps the message.
#[tokio::test]
async fn mail_for_a_full_folder_is_in_inbox_and_then_waits() {
    let world = World::new().await;
    let change = AccountChange { folder_max: Some(Some(1)), ..AccountChange::default() };
    world.directory.set(ANA, change).await.unwrap();
    world.use_script("require [\"fileinto\", \"mailbox\"]; fileinto :create \"Lists\";").await;
    let lists = MailboxName::new("Lists").unwrap();
    for there in [(1, 0), (1, 1)] {
        world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
        assert_eq!((world.messages(&lists).await, world.inbox().await), there);
    }
    let outcome = world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await;
    let is_full = |error: &Undelivered| match error {
        Undelivered::Delivery(error) => error.kind() == ErrorKind::OverQuota,
        _ => false,
    };
    assert!(outcome.as_ref().is_err_and(is_full), "{outcome:?}");
    assert_eq!((world.messages(&lists).await, world.inbox().await), (1, 1));
}
