//! Summaries and bodies: in order, by range, shared.

use std::ops::ControlFlow;

use bytes::Bytes;
use posthaste_mail_model::{FlagSet, NumSet, Uid};

use super::folder::{Folder, contents};
use super::{Factory, World, maintain, new_body_id};
use crate::change::{CommitOutcome, Content};
use crate::engine::{Holders, SummaryOf};
use crate::error::StoreError;
use crate::form::{Form, FormHeader};
use crate::row::Row;

/// Summaries of any set, in UID order, until the visitor has enough.
pub async fn summaries_come_in_uid_order(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&(0..300).collect::<Vec<_>>())).await;
    folder.commit(folder.expunging(&NumSet::from_ranges([(10, 20), (100, 150), (300, 300)]))).await;
    let sets = [
        NumSet::new(),
        NumSet::range(1, u32::MAX),
        NumSet::range(5, 5),
        NumSet::range(15, 15),
        NumSet::range(301, 4000),
        NumSet::from_ranges([(1, 12), (99, 151), (299, u32::MAX)]),
        (1..400).step_by(7).collect(),
    ];
    for set in sets {
        assert_eq!(folder.summaries(&set).await, folder.expected_summaries(&set), "{set}");
    }
    let mut seen = Vec::new();
    let mut visit = |s: crate::Stored<'_>| {
        seen.push(s.uid.value());
        if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let unreadable = world.engine.summaries(folder.id, &NumSet::range(8, 50), &mut visit).await.unwrap();
    assert!(unreadable.0.is_empty());
    assert_eq!(seen, [8, 9, 21]);
    world.check().await;
}

/// Bodies of many sizes, whole and by ranges within, across and beyond their end.
pub async fn bodies_are_read_by_range(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let mut folder = world.folder().await;
    // Around powers of two that engines like to cut at, and one of several MiB.
    let sizes = [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 262_144, 1_048_577, 5_000_000];
    folder.commit(folder.appending(&sizes)).await;
    for kept in folder.kept.values() {
        let len = kept.bytes.len() as u64;
        let ranges = [
            (0, u64::MAX),
            (0, len),
            (0, 1),
            (len / 2, len / 2 + 1000),
            (len.saturating_sub(3), len + 9),
            (len, len + 1),
            (len + 5, u64::MAX),
            (65_530, 65_540),
            (262_140, 524_300),
            (7, 7),
        ];
        for (start, end) in ranges {
            let read = world.engine.read_body(kept.body, start..end).await.unwrap();
            let (from, to) = (start.min(len), end.min(len).max(start.min(len)));
            assert!(read == kept.bytes.slice(from as usize..to as usize), "{start}..{end} of {len}");
        }
    }
    assert!(world.engine.read_body(new_body_id(), 0..1).await.is_err());
    world.check().await;
}

/// One message for several recipients: the first commit brings the body, the others find it there.
pub async fn one_body_for_many_recipients(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (body, bytes, summary) = (new_body_id(), contents(1, 9000), Bytes::from_static(b"a summary"));
    let mut folders = Vec::new();
    for flags in [FlagSet::EMPTY, FlagSet::SEEN, FlagSet::FLAGGED] {
        let mut folder = world.folder().await;
        let content = Content::New { bytes: bytes.clone(), summary: summary.clone() };
        folder.commit(folder.adding(vec![(body, 9000, flags, content)])).await;
        folders.push(folder);
    }
    for folder in &mut folders {
        folder.verify().await;
        // As each lets go of it, the others still have it.
        let all = folder.uids();
        folder.commit(folder.expunging(&all)).await;
        maintain(&*world.engine).await;
    }
    // Expunged everywhere, perhaps swept; the same message may be added again.
    for folder in &mut folders {
        let content = Content::New { bytes: bytes.clone(), summary: summary.clone() };
        folder.commit(folder.adding(vec![(body, 9000, FlagSet::EMPTY, content)])).await;
        folder.verify().await;
    }
    world.check().await;
}

/// Copies, also within one mailbox and of copies, outlive their originals. Expunged messages
/// cannot be copied.
pub async fn copies_share_their_body(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (mut a, mut b) = (world.folder().await, world.folder().await);
    a.commit(a.appending(&[100, 70_000, 300, 400])).await;
    a.commit(a.flagging(&NumSet::range(2, 3), FlagSet::SEEN, None)).await;
    b.commit_copies(b.copying(&a, &NumSet::range(1, 3)), &a).await;
    a.commit(a.copying(&a, &NumSet::range(2, 2))).await;
    a.verify().await;
    b.verify().await;
    a.commit(a.expunging(&NumSet::range(1, 4))).await;
    maintain(&*world.engine).await;
    a.verify().await;
    b.verify().await;
    let of_expunged = {
        let mut then = a.clone();
        then.view = a.view.clone();
        let content = Content::CopyOf { mailbox: a.id, uid: posthaste_mail_model::Uid::MIN };
        b.adding(vec![(b.kept.values().next().unwrap().body, 100, FlagSet::EMPTY, content)])
    };
    assert_eq!(world.engine.commit(of_expunged).await.unwrap(), CommitOutcome::Conflict);
    b.verify().await;
    // Back again, from the copy of the copy.
    let mut c = world.folder().await;
    c.commit_copies(c.copying(&b, &NumSet::range(1, 3)), &b).await;
    let all = b.uids();
    b.commit(b.expunging(&all)).await;
    maintain(&*world.engine).await;
    c.verify().await;
    a.commit_copies(a.copying(&c, &NumSet::range(2, 3)), &c).await;
    a.verify().await;
    world.check().await;
    c.verify().await;
}

/// A body takes another form and the first one again, also after its neighbours were moved. Engines
/// that cannot do this say so.
pub async fn a_body_takes_another_form(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[3_000, 200_000, 100])).await;
    let kept: Vec<_> = folder.kept.values().map(|kept| (kept.body, kept.bytes.clone())).collect();
    let (body, bytes) = &kept[1];
    let header = FormHeader { form: Form::Plain, served_len: bytes.len() as u32, digest: [7; 8] };
    let other = header.before(b"shorter");
    match world.engine.recode(*body, other.clone(), Holders::Any).await {
        Err(StoreError::Refused(_)) => return,
        outcome => assert_eq!(outcome.unwrap(), CommitOutcome::Done),
    }
    for again in [&other, bytes, &header.before(bytes), bytes] {
        assert_eq!(
            world.engine.recode(*body, again.clone(), Holders::Any).await.unwrap(),
            CommitOutcome::Done
        );
        assert!(world.engine.read_body(*body, 0..u64::MAX).await.unwrap() == *again);
        assert!(world.engine.read_body(*body, 5..9).await.unwrap() == again.slice(5..9));
        maintain(&*world.engine).await;
        world.check().await;
        for (body, bytes) in [&kept[0], &kept[2]] {
            assert!(world.engine.read_body(*body, 0..u64::MAX).await.unwrap() == *bytes);
        }
    }
    let none = world.engine.recode(new_body_id(), other.clone(), Holders::Any).await.unwrap();
    assert_eq!(none, CommitOutcome::Conflict);
    // A body of two folders has its references in each form, and is removed with the last of them.
    let mut second = world.folder().await;
    let content = Content::New { bytes: bytes.clone(), summary: Bytes::from_static(b"a summary") };
    second.commit(second.adding(vec![(*body, bytes.len() as u32, FlagSet::EMPTY, content)])).await;
    for form in [&other, bytes] {
        let recoded = world.engine.recode(*body, form.clone(), Holders::Any).await.unwrap();
        assert_eq!(recoded, CommitOutcome::Done);
        assert_eq!(world.engine.references(*body).await.unwrap(), 2);
    }
    for (folder, left) in [(&mut folder, 1), (&mut second, 0)] {
        let all = folder.uids();
        folder.commit(folder.expunging(&all)).await;
        maintain(&*world.engine).await;
        assert_eq!(world.engine.references(*body).await.unwrap(), left);
    }
    assert!(world.engine.read_body(*body, 0..1).await.is_err(), "it is removed");
    world.check().await;
}

/// A form that loses something is refused if more messages have the body than its caller counted,
/// also if they were copied just now. A further recipient who brings the original has it.
pub async fn a_form_that_loses_something_meets_no_other_message(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (mut a, mut b) = (world.folder().await, world.folder().await);
    let (seen, body) = (contents(1, 5_000), new_body_id());
    let header = FormHeader { form: Form::Rich, served_len: seen.len() as u32, digest: [7; 8] };
    let rich = header.before(b"as it was sent");
    let delivered = || {
        let content = Content::New { bytes: rich.clone(), summary: Bytes::from_static(b"a summary") };
        vec![(body, seen.len() as u32, FlagSet::EMPTY, content)]
    };
    a.commit(a.adding(delivered())).await;
    let counted = world.engine.references(body).await.unwrap();
    b.commit_copies(b.copying(&a, &NumSet::range(1, 1)), &a).await;
    match world.engine.recode(body, seen.clone(), Holders::AtMost(counted)).await {
        Err(StoreError::Refused(_)) => return,
        outcome => assert_eq!(outcome.unwrap(), CommitOutcome::Conflict),
    }
    let stored = async || world.engine.read_body(body, 0..u64::MAX).await.unwrap();
    assert!(stored().await == rich);
    let counted = world.engine.references(body).await.unwrap();
    let recoded = world.engine.recode(body, seen.clone(), Holders::AtMost(counted)).await.unwrap();
    assert_eq!((counted, recoded), (2, CommitOutcome::Done));
    assert!(stored().await == seen);
    b.commit(b.adding(delivered())).await;
    assert!(stored().await == rich);
    maintain(&*world.engine).await;
    assert!(stored().await == rich);
    // Not the other way round: what has the original keeps it.
    let plain = Content::New { bytes: seen.clone(), summary: Bytes::from_static(b"a summary") };
    a.commit(a.adding(vec![(body, seen.len() as u32, FlagSet::EMPTY, plain)])).await;
    assert!(stored().await == rich);
    assert_eq!(world.engine.references(body).await.unwrap(), 4);
    world.check().await;
}

/// A message gets the summary that it lacks, once, and so do copies that share it. Nothing else
/// changes. It is there in another process, or is still empty.
pub async fn a_summary_is_added_later(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (mut a, mut b) = (world.folder().await, world.folder().await);
    let sent = Bytes::from_static(b"as it was sent");
    let header = FormHeader { form: Form::Unconverted, served_len: sent.len() as u32, digest: [3; 8] };
    let bare = |_| {
        let content = Content::New { bytes: header.before(&sent), summary: Bytes::new() };
        (new_body_id(), Row::WITHOUT_ITEMS + sent.len() as u32, FlagSet::SEEN, content)
    };
    a.commit(a.appending(&[100, 5_000])).await;
    a.commit(a.adding((0..40).map(bare).collect())).await;
    a.verify().await;
    assert_eq!(a.view.counts().without_items(), 40);
    assert_eq!(a.view.counts().octets(), 5_100 + 40 * sent.len() as u64);
    b.commit_copies(b.copying(&a, &NumSet::range(2, 42)), &a).await;
    b.verify().await;
    let of = |folder: &Folder, uid: u32| {
        let uid = Uid::new(uid).unwrap();
        SummaryOf { mailbox: folder.id, uid, body: folder.kept[&uid].body }
    };
    let add = async |message: SummaryOf, text: &'static [u8]| {
        world.engine.add_summary(message, Bytes::from_static(text)).await.unwrap()
    };
    let (first, has_one) = (of(&a, 3), of(&a, 1));
    assert_eq!(add(SummaryOf { body: has_one.body, ..first }, b"other body").await, CommitOutcome::Conflict);
    assert_eq!(add(has_one, b"a second one").await, CommitOutcome::Conflict);
    assert_eq!(add(first, b"made of the body").await, CommitOutcome::Done);
    assert_eq!(add(first, b"made once more").await, CommitOutcome::Conflict);
    a.kept.get_mut(&first.uid).unwrap().summary = Bytes::from_static(b"made of the body");
    a.verify().await;
    a.verify_changes().await;
    // The copies of it may share it, or have an empty one of their own.
    let copy = of(&b, 2);
    add(copy, b"made of the body").await;
    b.kept.get_mut(&copy.uid).unwrap().summary = Bytes::from_static(b"made of the body");
    b.verify().await;
    a.commit(a.expunging(&NumSet::range(3, 3))).await;
    let expunged = add(SummaryOf { uid: Uid::new(900).unwrap(), ..copy }, b"of no message").await;
    assert_eq!(expunged, CommitOutcome::Conflict);
    maintain(&*world.engine).await;
    a.verify().await;
    b.verify().await;
    world.check().await;
}

/// Each message that has a body counts, also a copy of a copy that was just made. Expunged ones do
/// not.
pub async fn references_are_counted(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (mut a, mut b) = (world.folder().await, world.folder().await);
    a.commit(a.appending(&[100, 70_000])).await;
    let bodies: Vec<_> = a.kept.values().map(|kept| kept.body).collect();
    let count = async |n: usize| world.engine.references(bodies[n]).await.unwrap();
    assert_eq!((count(0).await, count(1).await), (1, 1));
    b.commit_copies(b.copying(&a, &NumSet::range(1, 1)), &a).await;
    assert_eq!((count(0).await, count(1).await), (2, 1));
    a.commit_copies(a.copying(&b, &NumSet::range(1, 1)), &b).await;
    a.commit_copies(a.copying(&b, &NumSet::range(1, 1)), &b).await;
    assert_eq!((count(0).await, count(1).await), (4, 1));
    b.commit(b.expunging(&NumSet::range(1, 1))).await;
    assert_eq!((count(0).await, count(1).await), (3, 1));
    assert_eq!(world.engine.references(new_body_id()).await.unwrap(), 0);
    world.check().await;
}
