//! Annotations of one account, in the store.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

use posthaste_mail_model::Id;
use posthaste_store::TargetIds;

use super::*;
use crate::testing::{add, directory, other_process};

fn mailbox(n: u64) -> MailboxId {
    MailboxId(Id::new(n, 1))
}

fn of(n: u64) -> Annotated {
    Annotated::Mailbox(mailbox(n))
}

fn value(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn records_have_the_names_of_the_table() {
    let account = AccountId(Id::new(7, 7));
    assert_eq!(key(account, of(1)), format!("metadata/{account}/{}", mailbox(1)));
    let others = [key(account, Annotated::Server), changes_key(account), prefix(account)];
    assert_eq!(others, ["server", "changes", ""].map(|end| format!("metadata/{account}/{end}")));
}

#[tokio::test]
async fn every_process_sees_a_change_and_its_count() {
    let (records, directory) = directory();
    let other = other_process(&records);
    let account = AccountId(Id::new(7, 7));
    assert_eq!(other.metadata().changes(account).await.unwrap(), 0);
    directory
        .metadata()
        .set(account, of(1), &[("/private/a", value("x")), ("/shared/b", value(""))])
        .await
        .unwrap();
    let seen = other.metadata().changes(account).await.unwrap();
    assert_ne!(seen, 0);
    let annotations = other.metadata().get(account, of(1)).await.unwrap();
    assert_eq!(annotations.get("/PRIVATE/A").unwrap(), "x");
    assert_eq!(annotations.get("/shared/b").unwrap(), "");
    assert!(other.metadata().get(account, of(2)).await.unwrap().is_empty());
    assert!(other.metadata().get(account, Annotated::Server).await.unwrap().is_empty());
    // A write that changes nothing is not counted.
    other.metadata().set(account, of(1), &[("/private/a", value("x")), ("/private/z", None)]).await.unwrap();
    assert_eq!(directory.metadata().changes(account).await.unwrap(), seen);
    other.metadata().set(account, of(1), &[("/private/A", None), ("/shared/b", None)]).await.unwrap();
    assert_ne!(directory.metadata().changes(account).await.unwrap(), seen);
    assert!(other.metadata().get(account, of(1)).await.unwrap().is_empty());
}

/// The records of ten thousand mailboxes were counted in one poll.
#[tokio::test]
async fn other_tasks_run_while_the_octets_of_an_account_are_counted() {
    let (_, directory) = directory();
    let account = AccountId(Id::new(7, 7));
    let changes = [("/private/a", value("x"))];
    directory.metadata().set(account, of(1), &changes).await.unwrap();
    let mut setting = directory.metadata().set(account, of(2), &changes);
    let polled = setting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "others have their turn");
    setting.await.unwrap();
    assert_eq!(directory.metadata().get(account, of(2)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_change_that_lost_a_race_is_made_again() {
    let (records, directory) = directory();
    let account = AccountId(Id::new(7, 7));
    records.conflict(3);
    directory.metadata().set(account, of(1), &[("/private/a", value("x"))]).await.unwrap();
    records.conflict(usize::MAX);
    let refused = directory.metadata().set(account, of(1), &[("/private/a", value("y"))]).await;
    assert!(matches!(refused, Err(AnnotationError::Directory(DirectoryError::Busy(_)))));
}

#[tokio::test]
async fn limits_are_kept_and_nothing_of_a_refused_change_is_done() {
    let (_, directory) = directory();
    let account = AccountId(Id::new(7, 7));
    let longest = value(&"x".repeat(ANNOTATION_BYTES_MAX));
    let longer = value(&"x".repeat(ANNOTATION_BYTES_MAX + 1));
    let refused =
        directory.metadata().set(account, of(1), &[("/private/a", value("x")), ("/private/b", longer)]).await;
    assert!(matches!(refused, Err(AnnotationError::TooLong)));
    assert!(directory.metadata().get(account, of(1)).await.unwrap().is_empty());

    for n in 0..ANNOTATIONS_MAX {
        directory.metadata().set(account, of(1), &[(&format!("/private/{n}"), value("x"))]).await.unwrap();
    }
    let refused = directory.metadata().set(account, of(1), &[("/private/more", value("x"))]).await;
    assert!(matches!(refused, Err(AnnotationError::TooMany)));
    directory
        .metadata()
        .set(account, of(1), &[("/private/0", None), ("/private/more", value("x"))])
        .await
        .unwrap();

    for n in 0..3 {
        directory
            .metadata()
            .set(account, of(2), &[(&format!("/private/{n}"), longest.clone())])
            .await
            .unwrap();
    }
    let refused = directory.metadata().set(account, of(2), &[("/private/3", longest.clone())]).await;
    assert!(matches!(refused, Err(AnnotationError::TooMany)), "the names are too much");

    let mut full = 3;
    while directory.metadata().set(account, of(full), &[("/private/0", longest.clone())]).await.is_ok() {
        full += 1;
        assert!(full < 100, "an account has no limit");
    }
    directory.metadata().set(account, of(2), &[("/private/0", None)]).await.unwrap();
    directory.metadata().set(account, of(full), &[("/private/0", longest)]).await.unwrap();
}

/// What an account had set in mailboxes of others counted for ever after these were deleted.
#[tokio::test]
async fn annotations_of_removed_mailboxes_make_room_for_others() {
    let (records, directory) = directory();
    let account = AccountId(Id::new(7, 7));
    let changes = [("/private/0", value(&"x".repeat(ANNOTATION_BYTES_MAX)))];
    let mut full = 1;
    while directory.metadata().set(account, of(full), &changes).await.is_ok() {
        full += 1;
        assert!(full < 100, "an account has no limit");
    }
    records.remove_mailbox(mailbox(2));
    directory.metadata().set(account, of(full), &changes).await.unwrap();
    for (n, is_empty) in [(1, false), (2, true), (3, false), (full, false)] {
        assert_eq!(directory.metadata().get(account, of(n)).await.unwrap().is_empty(), is_empty, "{n}");
    }
    let refused = directory.metadata().set(account, of(full + 1), &changes).await;
    assert!(matches!(refused, Err(AnnotationError::TooMany)));
}

/// An emptied record counted one octet, so an account could have millions.
#[tokio::test]
async fn records_count_with_their_names() {
    const RECORDS: u64 = 1000;
    let (records, directory) = directory();
    let account = AccountId(Id::new(7, 7));
    let name_len = key(account, of(0)).len();
    let len = ACCOUNT_ANNOTATION_BYTES_MAX / RECORDS as usize - name_len;
    for n in 0..RECORDS {
        records.put(&key(account, of(n)), Bytes::from(vec![0; len]));
    }
    let set = async |text: &str| {
        directory.metadata().set(account, of(RECORDS), &[("/private/0", value(text))]).await
    };
    let refused = set(&"x".repeat(RECORDS as usize)).await;
    assert!(matches!(refused, Err(AnnotationError::TooMany)));
    set("x").await.unwrap();
}

#[tokio::test]
async fn they_go_with_their_mailbox_and_with_their_account() {
    let (records, directory) = directory();
    let account = add(&directory, "ana@example.org", "pencil").await.id;
    let other = AccountId(Id::new(7, 7));
    for (account, of) in [(account, of(1)), (account, of(2)), (account, Annotated::Server), (other, of(3))] {
        directory.metadata().set(account, of, &[("/private/a", value("x"))]).await.unwrap();
    }
    directory.metadata().copy(account, mailbox(1), mailbox(9)).await.unwrap();
    directory.metadata().remove(account, mailbox(1)).await.unwrap();
    directory.metadata().remove(account, mailbox(1)).await.unwrap();
    let left: Vec<_> =
        directory.metadata().all(account).await.unwrap().into_iter().map(|(of, _)| of).collect();
    assert_eq!(left.len(), 3);
    assert!(left.contains(&of(2)) && left.contains(&of(9)) && left.contains(&Annotated::Server));
    directory.remove("ana@example.org").await.unwrap();
    assert!(!records.dump().contains(&format!("metadata/{account}/")), "{}", records.dump());
    assert_eq!(directory.metadata().all(other).await.unwrap().len(), 1);
}

#[tokio::test]
async fn each_place_is_shown_until_it_is_enough() {
    let (_, directory) = directory();
    let account = AccountId(Id::new(7, 7));
    for n in 0..40 {
        directory.metadata().set(account, of(n), &[("/private/a", value("x"))]).await.unwrap();
    }
    for most in [25, 100] {
        let mut shown = Vec::new();
        let each = |of, annotations: &Annotations| {
            assert_eq!(annotations.len(), 1);
            shown.push(of);
            if shown.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        directory.metadata().each(account, each).await.unwrap();
        shown.dedup();
        assert_eq!(shown.len(), most.min(40));
    }
}

#[tokio::test]
async fn a_copy_is_the_same_at_other_places() {
    let ((here, directory), (there, copied)) = (directory(), directory());
    let (account, new) = (AccountId(Id::new(7, 7)), AccountId(Id::new(8, 8)));
    directory.metadata().set(account, of(1), &[("/private/a", value("x"))]).await.unwrap();
    directory.metadata().set(account, Annotated::Server, &[("/private/s", value("y"))]).await.unwrap();
    copied.metadata().set(new, of(5), &[("/private/old", value("z"))]).await.unwrap();
    let places = TargetIds::with_ids(new, BTreeMap::from([(mailbox(1), mailbox(2))]));
    copy_annotations(&*here, account, &*there, &places).await.unwrap();
    assert_eq!(copied.metadata().get(new, of(2)).await.unwrap().get("/private/a").unwrap(), "x");
    assert_eq!(copied.metadata().get(new, Annotated::Server).await.unwrap().get("/private/s").unwrap(), "y");
    assert!(copied.metadata().get(new, of(5)).await.unwrap().is_empty());

    let same = TargetIds::with_ids(account, BTreeMap::new());
    assert!(!same_annotations(&*here, account, &*there).await.unwrap());
    copy_annotations(&*here, account, &*there, &same).await.unwrap();
    assert!(same_annotations(&*here, account, &*there).await.unwrap());
}
