//! Annotations of messages on the in-memory engine: values, limits, removal and copies.

use std::sync::Arc;

use posthaste_mail_model::Id;
use posthaste_store::TargetIds;

use super::*;
use crate::annotation_error::AnnotationError;
use crate::directory::Directory;
use crate::testing::directory;
use crate::{copy_annotations, same_annotations};

const ANA: AccountId = AccountId(Id::new(7, 7));
const BO: AccountId = AccountId(Id::new(6, 6));
const HERE: MailboxId = MailboxId(Id::new(1, 1));
const THERE: MailboxId = MailboxId(Id::new(2, 2));
/// Ana's values in her own mailbox.
const OWN: Keeping = Keeping { keeper: ANA, owner: ANA, mailbox: HERE };
/// Bo's values in the same mailbox.
const READER: Keeping = Keeping { keeper: BO, owner: ANA, mailbox: HERE };

fn new(scope: Scope, entry: &str, value: Option<&str>) -> NewValue {
    let value = value.map(|value| bytes::Bytes::copy_from_slice(value.as_bytes()));
    NewValue { scope, entry: entry.to_owned(), value }
}

fn comment(value: &str) -> [NewValue; 1] {
    [new(Scope::Private, "/comment", Some(value))]
}

fn one(uid: u32) -> NumSet {
    NumSet::range(uid, uid)
}

async fn before(
    directory: &Directory,
    keeping: Keeping,
    uids: &NumSet,
    values: &[NewValue],
) -> Result<Before, AnnotationError> {
    directory.message_annotations().before(keeping, uids, values, &|_| true).await
}

async fn annotate_in(
    directory: &Directory,
    keeping: Keeping,
    uid: u32,
    values: &[NewValue],
) -> Result<(), AnnotationError> {
    let before = before(directory, keeping, &one(uid), values).await?;
    let left =
        directory.message_annotations().set(&before, vec![(uid, values.into())], OnConflict::Follow).await?;
    assert!(left.left.is_empty());
    Ok(())
}

async fn annotate(directory: &Directory, uid: u32, values: &[NewValue]) -> Result<(), AnnotationError> {
    annotate_in(directory, OWN, uid, values).await
}

async fn comments(directory: &Directory, keeping: Keeping) -> Vec<(u32, String)> {
    let all = directory.message_annotations().all(keeping).await.unwrap();
    let text = |all: &MessageAnnotations| {
        let value = all.get(Scope::Private, "/comment").cloned().unwrap_or_default();
        String::from_utf8(value.to_vec()).unwrap()
    };
    all.iter().map(|(uid, all)| (*uid, text(all))).collect()
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
        let found = directory.message_annotations().get(OWN, &few).await.unwrap();
        assert_eq!(found.len() as u64, few.intersection(&NumSet::range(1, 100)).count());
        assert_eq!(found[&50].len(), 1);
        assert_eq!(found[&51].get(Scope::Private, "/comment").unwrap(), "x");
    }
    directory.message_annotations().forget(ANA, HERE, &NumSet::range(2, 100)).await.unwrap();
    let left = directory.message_annotations().all(OWN).await.unwrap();
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [1]);
    // A message without values has no record.
    annotate(&directory, 1, &[comment(None), new(Scope::Shared, "/a", None)]).await.unwrap();
    assert!(directory.records.scan("annotate/", None, 9).await.unwrap().is_empty());
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
    // Records of expunged messages make room.
    let is_there = |uid| uid == 2;
    let long = [long(MESSAGE_ANNOTATION_BYTES_MAX - 100)];
    let uids = NumSet::range(1000, 1060);
    assert!(before(&directory, OWN, &uids, &long).await.is_err());
    directory.message_annotations.orphans.lock().hurry();
    let mut left = Vec::new();
    for _ in 0..2 {
        directory.message_annotations().before(OWN, &uids, &long, &is_there).await.unwrap();
        left.push(directory.message_annotations().all(OWN).await.unwrap().len());
    }
    // The first one has only seen them.
    assert_eq!((left[0] > 60, left[1]), (true, 1));
}

/// A record takes its name, too: short values of many messages are no way around the limit.
#[tokio::test]
async fn names_of_entries_and_of_records_count() {
    let (_, directory) = directory();
    let values = [new(Scope::Private, "/a", Some(""))];
    let of_one = OWN.record(1).len() + 1 + 7 + 2;
    let most = (ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX / of_one) as u32;
    before(&directory, OWN, &NumSet::range(1, most), &values).await.unwrap();
    let refused = before(&directory, OWN, &NumSet::range(1, most + 1), &values).await;
    assert!(matches!(refused, Err(AnnotationError::TooMany)));
    // The same for what is there, and for messages that are new.
    annotate(&directory, 5, &values).await.unwrap();
    annotate_in(&directory, Keeping { mailbox: THERE, ..OWN }, 5, &values).await.unwrap();
    before(&directory, OWN, &NumSet::range(1, most - 1), &values).await.unwrap();
    assert!(before(&directory, OWN, &NumSet::range(1, most), &values).await.is_err());
    let room = directory.message_annotations().before_new(OWN).await.unwrap();
    room.check_new(&vec![values.to_vec(); most as usize - 2]).await.unwrap();
    assert!(room.check_new(&vec![values.to_vec(); most as usize - 1]).await.is_err());
}

#[tokio::test]
async fn they_follow_their_account_into_another_store() {
    let ((here, one), (there, other)) = (directory(), directory());
    annotate(&one, 3, &[new(Scope::Shared, "/a", Some("x"))]).await.unwrap();
    annotate(&one, 4, &[new(Scope::Private, "/b", Some("y"))]).await.unwrap();
    annotate_in(&one, READER, 4, &comment("bo's")).await.unwrap();
    assert!(!same_annotations(&*here, ANA, &*there).await.unwrap());
    let (account, mailbox) = (AccountId(Id::new(8, 8)), MailboxId(Id::new(9, 9)));
    let own = Keeping { keeper: account, owner: account, mailbox };
    let places = TargetIds::with_ids(account, BTreeMap::from([(HERE, mailbox)]));
    for _ in 0..2 {
        copy_annotations(&*here, ANA, &*there, &places).await.unwrap();
        let found = other.message_annotations().all(own).await.unwrap();
        assert_eq!(found, one.message_annotations().all(OWN).await.unwrap());
        // Readers have the same ids there, and are found by the owner.
        assert_eq!(comments(&other, Keeping { keeper: BO, ..own }).await, [(4, "bo's".to_owned())]);
        assert_eq!(other.message_annotations().keepers(account, mailbox).await.unwrap(), [account, BO]);
    }
    annotate(&one, 4, &[new(Scope::Private, "/b", None)]).await.unwrap();
    copy_annotations(&*here, ANA, &*there, &places).await.unwrap();
    assert_eq!(other.message_annotations().all(own).await.unwrap().len(), 1);
    let same = TargetIds::with_ids(ANA, BTreeMap::new());
    copy_annotations(&*here, ANA, &*there, &same).await.unwrap();
    assert!(same_annotations(&*here, ANA, &*there).await.unwrap());
    annotate_in(&one, READER, 4, &comment("changed")).await.unwrap();
    assert!(!same_annotations(&*here, ANA, &*there).await.unwrap());
    one.message_annotations().forget_mailbox(ANA, HERE).await.unwrap();
    assert!(one.message_annotations().all(OWN).await.unwrap().is_empty());
    // What is removed here is removed there.
    copy_annotations(&*here, ANA, &*there, &same).await.unwrap();
    assert!(same_annotations(&*here, ANA, &*there).await.unwrap());
    assert!(comments(&other, READER).await.is_empty());
}

/// Annotations of readers, too: their values must not show in a mailbox that is restored with
/// that id.
#[tokio::test]
async fn a_deleted_mailbox_leaves_nothing_of_anybody() {
    let (records, directory) = directory();
    for keeping in [OWN, READER] {
        annotate_in(&directory, keeping, 1, &comment("x")).await.unwrap();
        annotate_in(&directory, Keeping { mailbox: THERE, ..keeping }, 1, &comment("stays")).await.unwrap();
    }
    directory.message_annotations().forget_mailbox(ANA, HERE).await.unwrap();
    assert!(comments(&directory, OWN).await.is_empty() && comments(&directory, READER).await.is_empty());
    assert_eq!(comments(&directory, Keeping { mailbox: THERE, ..READER }).await, [(1, "stays".to_owned())]);
    // The same with an account, whether it owns the mailbox or reads it.
    let others = Keeping { keeper: BO, owner: BO, mailbox: MailboxId(Id::new(3, 3)) };
    annotate_in(&directory, others, 1, &comment("bo's")).await.unwrap();
    directory.remove_all_annotations(ANA).await.unwrap();
    assert_eq!(comments(&directory, others).await, [(1, "bo's".to_owned())]);
    annotate_in(&directory, Keeping { owner: BO, ..others }, 2, &comment("x")).await.unwrap();
    annotate_in(&directory, READER, 1, &comment("again")).await.unwrap();
    directory.remove_all_annotations(BO).await.unwrap();
    assert!(directory.message_annotations().keepers(ANA, HERE).await.unwrap().is_empty());
    directory.remove_all_annotations(ANA).await.unwrap();
    assert_eq!(records.dump(), "");
}

#[tokio::test]
async fn an_expunged_message_leaves_nothing_of_anybody() {
    let (_, directory) = directory();
    for uid in [1, 2, 3] {
        annotate_in(&directory, OWN, uid, &comment("x")).await.unwrap();
        annotate_in(&directory, READER, uid, &comment("y")).await.unwrap();
    }
    for (gone, left) in [(one(1), 2), (NumSet::range(2, 200), 0)] {
        directory.message_annotations().forget(ANA, HERE, &gone).await.unwrap();
        assert_eq!(comments(&directory, OWN).await.len(), left);
        assert_eq!(comments(&directory, READER).await.len(), left);
    }
}

#[tokio::test]
async fn moved_messages_take_along_what_all_keep() {
    let (records, directory) = directory();
    annotate(&directory, 4, &[new(Scope::Shared, "/a", Some("ours"))]).await.unwrap();
    for keeping in [OWN, READER] {
        annotate_in(&directory, keeping, 2, &comment("two")).await.unwrap();
        annotate_in(&directory, keeping, 4, &comment("four")).await.unwrap();
    }
    let (old, new) = (NumSet::range(1, 4), NumSet::range(11, 14));
    let moved = Relocated { owner: ANA, from: HERE, to: THERE, old: &old, new: &new, scopes: Scope::ALL };
    // Without the copies, the originals stay.
    records.fail_on("annotate/");
    assert!(directory.message_annotations().relocate(moved, &old).await.is_err());
    records.fail_on("");
    assert_eq!(comments(&directory, READER).await.len(), 2);
    let annotated = directory.message_annotations().relocate(moved, &old).await.unwrap();
    assert_eq!((annotated.uids.to_string(), annotated.keepers), ("12,14".to_owned(), vec![ANA, BO]));
    for keeping in [OWN, READER] {
        assert!(comments(&directory, keeping).await.is_empty());
        let there = comments(&directory, Keeping { mailbox: THERE, ..keeping }).await;
        assert_eq!(there, [(12, "two".to_owned()), (14, "four".to_owned())]);
    }
    // Without the right to change them, shared values stay behind.
    let moved = Relocated { from: THERE, to: HERE, old: &new, new: &old, scopes: &[Scope::Private], ..moved };
    directory.message_annotations().relocate(moved, &new).await.unwrap();
    let found = directory.message_annotations().all(OWN).await.unwrap();
    assert_eq!((found[&2].len(), found[&4].len()), (1, 1));
}

/// RFC 7162 §3.1.3: a change on a condition is not made over another one.
#[tokio::test]
async fn a_change_that_came_between_is_found() {
    let (_, directory) = directory();
    annotate(&directory, 1, &comment("read")).await.unwrap();
    let mine: Arc<[NewValue]> = comment("mine").into();
    let both = |others| {
        let (directory, mine) = (&directory, Arc::clone(&mine));
        async move {
            let before = before(directory, OWN, &NumSet::range(1, 3), &mine).await.unwrap();
            annotate(directory, 1, &comment("theirs")).await.unwrap();
            annotate(directory, 2, &comment("theirs")).await.unwrap();
            let messages = (1..=3).map(|uid| (uid, Arc::clone(&mine))).collect();
            directory.message_annotations().set(&before, messages, others).await.unwrap().left
        }
    };
    assert_eq!(both(OnConflict::Refuse).await.to_string(), "1:2");
    let all = |values: [&str; 3]| (1..).zip(values.map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(comments(&directory, OWN).await, all(["theirs", "theirs", "mine"]));
    assert!(both(OnConflict::Follow).await.is_empty());
    assert_eq!(comments(&directory, OWN).await, all(["mine", "mine", "mine"]));
}

#[tokio::test]
async fn a_mailbox_has_so_many_keepers() {
    let (_, directory) = directory();
    let keeping = |n| Keeping { keeper: AccountId(Id::new(100, n)), ..OWN };
    for n in 0..ANNOTATING_ACCOUNTS_MAX as u128 {
        annotate_in(&directory, keeping(n), 1, &comment("x")).await.unwrap();
    }
    let refused = annotate_in(&directory, keeping(1000), 1, &comment("x")).await;
    assert!(matches!(refused, Err(AnnotationError::TooMany)));
    annotate_in(&directory, OWN, 1, &comment("the owner's")).await.unwrap();
    directory.remove_all_annotations(keeping(3).keeper).await.unwrap();
    annotate_in(&directory, keeping(1000), 1, &comment("x")).await.unwrap();
}

/// A session may see the new message, and annotate it, before the copy comes.
#[tokio::test]
async fn a_value_that_was_set_meanwhile_stays() {
    let (_, directory) = directory();
    let there = Keeping { mailbox: MailboxId(Id::new(8, 8)), ..OWN };
    annotate_in(&directory, OWN, 1, &comment("old")).await.unwrap();
    annotate_in(&directory, there, 9, &comment("new")).await.unwrap();
    let (old, new) = (NumSet::range(1, 1), NumSet::range(9, 9));
    let relocated = Relocated {
        owner: OWN.owner,
        from: OWN.mailbox,
        to: there.mailbox,
        old: &old,
        new: &new,
        scopes: Scope::ALL,
    };
    directory.message_annotations().relocate(relocated, &old).await.unwrap();
    assert_eq!(comments(&directory, there).await, [(9, "new".to_owned())]);
    assert!(comments(&directory, OWN).await.is_empty());
}

/// A MOVE takes the message away first, and its values then. Between both, no other change of the
/// mailbox may take them for what a crash has left.
#[tokio::test]
async fn values_on_their_way_are_not_taken_for_orphans() {
    let (_, directory) = directory();
    for uid in [1, 2] {
        annotate(&directory, uid, &comment("moved")).await.unwrap();
    }
    let gone = |uid| uid > 1;
    directory.message_annotations().before(OWN, &one(2), &comment("x"), &gone).await.unwrap();
    let (old, new) = (one(1), one(9));
    let moved = Relocated { owner: ANA, from: HERE, to: THERE, old: &old, new: &new, scopes: Scope::ALL };
    directory.message_annotations().relocate(moved, &old).await.unwrap();
    let there = comments(&directory, Keeping { mailbox: THERE, ..OWN }).await;
    assert_eq!(there, [(9, "moved".to_owned())]);
}

/// The message was expunged before. The earlier values stay: a MOVE may carry them.
#[tokio::test]
async fn a_change_of_expunged_messages_is_withdrawn() {
    let (_, directory) = directory();
    annotate(&directory, 1, &comment("before")).await.unwrap();
    let mine: Arc<[NewValue]> = comment("mine").into();
    let uids = NumSet::range(1, 3);
    let before = before(&directory, OWN, &uids, &mine).await.unwrap();
    let messages = (1..=3).map(|uid| (uid, Arc::clone(&mine))).collect();
    let written = directory.message_annotations().set(&before, messages, OnConflict::Follow).await.unwrap();
    assert_eq!(written.made.to_string(), "2:3");
    // Another session of the same user has followed.
    annotate(&directory, 2, &[new(Scope::Private, "/other", Some("x"))]).await.unwrap();
    directory.message_annotations().withdraw(&before, &written, &NumSet::range(1, 2)).await.unwrap();
    let left = comments(&directory, OWN).await;
    assert_eq!(left, [(1, "mine".to_owned()), (3, "mine".to_owned())]);
}

/// A value may come after the deletion has looked for values.
#[tokio::test]
async fn a_value_that_comes_after_a_deletion_is_found() {
    let (records, directory) = directory();
    let directory = Arc::new(directory);
    annotate(&directory, 1, &comment("x")).await.unwrap();
    let deletion = Arc::clone(&directory);
    records.before("annotate/", async move {
        deletion.message_annotations().forget_mailbox(ANA, HERE).await.unwrap()
    });
    annotate(&directory, 2, &comment("y")).await.unwrap();
    assert_eq!(comments(&directory, OWN).await.len(), 1);
    assert!(directory.message_annotations().keepers(ANA, HERE).await.unwrap().is_empty());
    directory.message_annotations().forget_keepers(ANA, HERE, &[ANA]).await.unwrap();
    assert_eq!(records.dump(), "");
    // If the process ends before that, a later change elsewhere removes it.
    annotate(&directory, 1, &comment("x")).await.unwrap();
    let deletion = Arc::clone(&directory);
    records.before("annotate/", async move {
        deletion.message_annotations().forget_mailbox(ANA, HERE).await.unwrap()
    });
    annotate(&directory, 2, &comment("y")).await.unwrap();
    annotate_in(&directory, Keeping { mailbox: THERE, ..OWN }, 1, &comment("elsewhere")).await.unwrap();
    assert!(comments(&directory, OWN).await.is_empty());
    assert_eq!(comments(&directory, Keeping { mailbox: THERE, ..OWN }).await.len(), 1);
}

/// A set of many messages reads only the records between them.
#[tokio::test]
async fn only_the_records_around_the_messages_are_read() {
    let (records, directory) = directory();
    for uid in (0..3000).map(|n| 1 + n * 2) {
        let value = [new(Scope::Private, "/c", Some(""))];
        let before = Before::of_new_messages(OWN);
        let written =
            directory.message_annotations().set(&before, vec![(uid, value.into())], OnConflict::Follow);
        written.await.unwrap();
    }
    let read = async |ranges: &[(u32, u32)]| {
        let uids = NumSet::from_ranges(ranges.iter().copied());
        records.scans();
        let found: Vec<u32> =
            directory.message_annotations().get(OWN, &uids).await.unwrap().into_keys().collect();
        let there = uids.intersection(&NumSet::range(1, 6000));
        let wanted: Vec<u32> = there.iter().filter(|uid| uid % 2 == 1).collect();
        assert_eq!(found, wanted, "{uids}");
        records.scans()
    };
    // 20 records, and two that begin and end within a page.
    assert_eq!(read(&[(3001, 3040)]).await, 1);
    assert_eq!(read(&[(1, 20), (5900, 5920)]).await, 2);
    // 50 records take two pages, wherever they are.
    assert_eq!(read(&[(101, 200)]).await, 2);
    assert_eq!(read(&[(5970, 9000)]).await, 1);
    assert_eq!(read(&[(6001, u32::MAX)]).await, 1);
    // As many pages as all records fill, and one that is not full.
    assert_eq!(read(&[(1, u32::MAX)]).await, 3000 / PAGE + 1);
    let every_tenth: Vec<_> = (0..600).map(|n| (1 + n * 10, 1 + n * 10)).collect();
    assert!(read(&every_tenth).await <= 3000 / PAGE + 1);
}

/// A conversion that copies again knows what it has copied, and what a user has set since.
#[tokio::test]
async fn a_value_that_a_user_sets_between_two_copies_stays() {
    let (_, directory) = directory();
    let values =
        |a: Option<&str>, b: Option<&str>| [new(Scope::Private, "/a", a), new(Scope::Private, "/b", b)];
    annotate(&directory, 1, &values(Some("1"), Some("1"))).await.unwrap();
    let (old, fresh) = (one(1), one(2));
    let same = Relocated { owner: ANA, from: HERE, to: HERE, old: &old, new: &fresh, scopes: Scope::ALL };
    let mut copies = Copies::default();
    directory.message_annotations().copy(same, &mut copies).await.unwrap();
    // The old message changes, and the new one too.
    annotate(&directory, 1, &values(Some("2"), None)).await.unwrap();
    annotate(&directory, 2, &[new(Scope::Private, "/c", Some("mine"))]).await.unwrap();
    directory.message_annotations().copy(same, &mut copies).await.unwrap();
    annotate(&directory, 2, &[new(Scope::Private, "/a", Some("mine"))]).await.unwrap();
    directory.message_annotations().copy(same, &mut copies).await.unwrap();
    let text = |all: &MessageAnnotations, entry: &str| all.get(Scope::Private, entry).cloned();
    let found = directory.message_annotations().get(OWN, &fresh).await.unwrap().remove(&2).unwrap();
    assert_eq!(
        ["/a", "/b", "/c"].map(|entry| text(&found, entry)),
        [Some("mine".into()), None, Some("mine".into())]
    );
    // A later run does not know: what the old message has is taken for the newer one.
    directory.message_annotations().copy(same, &mut Copies::default()).await.unwrap();
    let found = directory.message_annotations().get(OWN, &fresh).await.unwrap().remove(&2).unwrap();
    assert_eq!(["/a", "/c"].map(|entry| text(&found, entry)), [Some("2".into()), Some("mine".into())]);
}
