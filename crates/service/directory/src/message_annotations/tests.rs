//! Annotations of messages on the in-memory engine: values, limits, removal and copies.

use std::collections::BTreeMap;

use posthaste_mail_model::Id;
use posthaste_store::Places;

use super::*;
use crate::testing::directory;
use crate::{copy_annotations, same_annotations};

const ANA: AccountId = AccountId(Id::new(7, 7));
const HERE: MailboxId = MailboxId(Id::new(1, 1));

fn new(scope: Scope, entry: &str, value: Option<&str>) -> NewValue {
    let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
    NewValue { scope, entry: entry.to_owned(), value }
}

async fn room(directory: &Directory) -> Room {
    directory.message_annotation_room(ANA, HERE, |_| true).await.unwrap()
}

async fn annotate(directory: &Directory, uid: u32, changes: &[NewValue]) -> Result<(), AnnotationError> {
    let room = room(directory).await;
    directory.annotate_messages(ANA, HERE, vec![(uid, changes.to_vec())], room).await.map(|_| ())
}

#[tokio::test]
async fn values_are_read_again_by_message() {
    let (_, directory) = directory();
    let comment = |value| new(Scope::Private, "/comment", value);
    for uid in 1..=100 {
        annotate(&directory, uid, &[comment(Some("x")), new(Scope::Shared, "/a", Some("y"))]).await.unwrap();
    }
    annotate(&directory, 50, &[comment(None)]).await.unwrap();
    for few in [NumSet::range(50, 51), NumSet::range(50, 150)] {
        let found = directory.message_annotations(ANA, HERE, &few).await.unwrap();
        assert_eq!(found.len() as u64, few.intersection(&NumSet::range(1, 100)).count());
        assert_eq!(found[&50].len(), 1);
        assert_eq!(found[&51].get(Scope::Private, "/comment").unwrap(), "x");
    }
    directory.forget_message_annotations(ANA, HERE, &NumSet::range(2, 100)).await.unwrap();
    let left = directory.all_message_annotations(ANA, HERE).await.unwrap();
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [1]);
    // A message without values has no record.
    annotate(&directory, 1, &[comment(None), new(Scope::Shared, "/a", None)]).await.unwrap();
    assert!(directory.engine.directory_scan("annotate/", None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn each_limit_is_a_limit() {
    let (_, directory) = directory();
    let long = |octets: usize| new(Scope::Private, "/long", Some(&"x".repeat(octets)));
    let refused = annotate(&directory, 1, &[long(MESSAGE_ANNOTATION_BYTES_MAX + 1)]).await;
    assert!(matches!(refused, Err(AnnotationError::TooLong)));
    annotate(&directory, 1, &[long(MESSAGE_ANNOTATION_BYTES_MAX)]).await.unwrap();
    let many: Vec<_> =
        (0..MESSAGE_ANNOTATIONS_MAX).map(|n| new(Scope::Shared, &format!("/n{n}"), Some(""))).collect();
    assert!(matches!(annotate(&directory, 1, &many).await, Err(AnnotationError::TooMany)));
    annotate(&directory, 2, &many).await.unwrap();
    assert!(matches!(annotate(&directory, 2, &[long(1)]).await, Err(AnnotationError::TooMany)));
    let uids = 3..=(ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX / MESSAGE_ANNOTATION_BYTES_MAX) as u32;
    for uid in uids {
        annotate(&directory, uid, &[long(MESSAGE_ANNOTATION_BYTES_MAX - 100)]).await.unwrap();
    }
    let mut full = None;
    for uid in 1000..1003 {
        full = annotate(&directory, uid, &[long(MESSAGE_ANNOTATION_BYTES_MAX - 100)]).await.err();
    }
    assert!(matches!(full, Some(AnnotationError::TooMany)));
    // What expunged messages left makes room.
    let room = directory.message_annotation_room(ANA, HERE, |uid| uid == 2).await.unwrap();
    assert!(room.0 > ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX - 3000, "{room:?}");
    assert_eq!(directory.all_message_annotations(ANA, HERE).await.unwrap().len(), 1);
}

#[tokio::test]
async fn they_follow_their_account_into_another_store() {
    let ((here, one), (there, other)) = (directory(), directory());
    annotate(&one, 3, &[new(Scope::Shared, "/a", Some("x"))]).await.unwrap();
    annotate(&one, 4, &[new(Scope::Private, "/b", Some("y"))]).await.unwrap();
    assert!(!same_annotations(&*here, ANA, &*there).await.unwrap());
    let (account, mailbox) = (AccountId(Id::new(8, 8)), MailboxId(Id::new(9, 9)));
    let places = Places { account, mailboxes: BTreeMap::from([(HERE, mailbox)]) };
    for _ in 0..2 {
        copy_annotations(&*here, ANA, &*there, &places).await.unwrap();
        let found = other.all_message_annotations(account, mailbox).await.unwrap();
        assert_eq!(found, one.all_message_annotations(ANA, HERE).await.unwrap());
    }
    annotate(&one, 4, &[new(Scope::Private, "/b", None)]).await.unwrap();
    copy_annotations(&*here, ANA, &*there, &places).await.unwrap();
    assert_eq!(other.all_message_annotations(account, mailbox).await.unwrap().len(), 1);
    let same = Places { account: ANA, mailboxes: BTreeMap::new() };
    copy_annotations(&*here, ANA, &*there, &same).await.unwrap();
    assert!(same_annotations(&*here, ANA, &*there).await.unwrap());
    one.forget_annotations_in(ANA, HERE).await.unwrap();
    assert!(one.all_message_annotations(ANA, HERE).await.unwrap().is_empty());
}
