//! Commits: applied whole or not at all, durable, and ordered by mod-sequence.

use std::sync::Arc;

use posthaste_mail_model::{FlagSet, ModSeq, NumSet, Uid};

use super::folder::load;
use super::{Factory, World, modseq};
use crate::change::CommitOutcome;
use crate::head::MailboxHead;

/// A mailbox never committed to has the default head, no rows and no history.
pub async fn a_new_mailbox_is_empty(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let folder = world.folder().await;
    folder.verify().await;
    assert_eq!(load(&*world.engine, folder.id).await.head(), &MailboxHead::default());
    let changes = world.engine.changes_since(folder.id, ModSeq::ZERO).await.unwrap();
    assert!(changes.rows.is_empty() && changes.expunged.is_empty() && changes.complete);
    world.check().await;
}

/// Appends, flags, keywords and expunges, each found again, and as a difference from every earlier
/// state.
pub async fn changes_add_up(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[100, 0, 3000, 1, 77])).await;
    folder.verify().await;
    folder.commit(folder.flagging(&NumSet::range(2, 4), FlagSet::SEEN, None)).await;
    folder.commit(folder.flagging(&NumSet::range(3, 3), FlagSet::DELETED, Some(1))).await;
    folder.verify().await;
    folder.commit(folder.expunging(&NumSet::range(3, 4))).await;
    folder.verify().await;
    folder.commit(folder.appending(&[500; 20])).await;
    folder.commit(folder.flagging(&NumSet::range(1, 10), FlagSet::FLAGGED, Some(2))).await;
    folder.commit(folder.expunging(&NumSet::from_ranges([(1, 1), (9, 12), (25, 25)]))).await;
    folder.verify().await;
    folder.verify_changes().await;
    // The last message went: its UID must not come back.
    folder.commit(folder.appending(&[5])).await;
    assert_eq!(folder.view.last_uid(), Uid::new(26));
    // All in one commit, with a mod-sequence for each change and a gap in both numbers.
    folder.commit(everything_at_once(&folder)).await;
    folder.verify().await;
    folder.verify_changes().await;
    let all = folder.uids();
    folder.commit(folder.expunging(&all)).await;
    folder.verify().await;
    folder.verify_changes().await;
    world.check().await;
    folder.verify().await;
}

fn everything_at_once(folder: &super::Folder) -> crate::MailboxCommit {
    let mut next = folder.clone();
    let append = next.appending(&[10, 20]);
    next.view = next.view.apply(&append);
    let flags = next.flagging(&NumSet::range(13, 15), FlagSet::ANSWERED, None);
    next.view = next.view.apply(&flags);
    let expunge = next.expunging(&NumSet::range(16, 17));
    next.view = next.view.apply(&expunge);
    let second = next.expunging(&NumSet::range(19, 19));
    let mut head = second.head.clone();
    // Mod-sequences may be skipped, and so may UIDs.
    head.modseq = ModSeq::new(head.modseq.value() + 7).unwrap();
    head.uid_next = Uid::new(head.uid_next.value() + 5).unwrap();
    head.first_recent = Uid::new(20).unwrap();
    crate::MailboxCommit {
        mailbox: folder.id,
        expected: folder.view.modseq(),
        head,
        appended: append.appended,
        changed: flags.changed,
        expunged: expunge.expunged.into_iter().chain(second.expunged).collect(),
    }
}

/// A commit made against another state answers `Conflict`, and nothing of it is ever seen.
pub async fn a_conflict_leaves_no_trace(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let mut folder = world.folder().await;
    let early = folder.appending(&[9, 9, 9]);
    folder.commit(folder.appending(&[10, 20, 30])).await;
    let stale = [
        folder.appending(&[1, 2]),
        folder.flagging(&NumSet::range(1, 3), FlagSet::SEEN, Some(3)),
        folder.expunging(&NumSet::range(1, 2)),
    ];
    folder.commit(folder.flagging(&NumSet::range(1, 1), FlagSet::FLAGGED, None)).await;
    for commit in stale.into_iter().chain([early]) {
        assert_eq!(world.engine.commit(commit).await.unwrap(), CommitOutcome::Conflict);
        folder.verify().await;
    }
    // A commit on a mod-sequence of the future conflicts, too.
    let mut next = folder.flagging(&NumSet::range(2, 2), FlagSet::SEEN, None);
    next.expected = modseq(50);
    next.head.modseq = modseq(51);
    assert_eq!(world.engine.commit(next).await.unwrap(), CommitOutcome::Conflict);
    folder.verify().await;
    folder.verify_changes().await;
    world.check().await;
}

/// Heads of many mailboxes, in the order of the ids; `None` for those removed.
pub async fn heads_come_in_the_order_asked(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (mut a, mut b, c) = (world.folder().await, world.folder().await, world.folder().await);
    a.commit(a.appending(&[1])).await;
    b.commit(b.appending(&[1, 2, 3])).await;
    b.commit(b.flagging(&NumSet::range(2, 3), FlagSet::SEEN.union(FlagSet::DELETED), Some(1))).await;
    let heads = world.engine.heads(&[c.id, b.id, a.id, b.id]).await.unwrap();
    let expected = [&c, &b, &a, &b].map(|folder| Some(folder.view.head().clone()));
    assert_eq!(heads, expected);
    let counts = world.engine.counts(&[c.id, b.id, a.id, b.id]).await.unwrap();
    assert_eq!(counts, expected.map(|head| head.map(|head| head.counts)));
    assert!(world.engine.heads(&[]).await.unwrap().is_empty());
    world.check().await;
}

/// Acknowledged changes are there after the store is opened again.
pub async fn what_was_done_survives(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[40_000, 10, 0, 5000])).await;
    folder.commit(folder.flagging(&NumSet::range(1, 2), FlagSet::SEEN, Some(4))).await;
    folder.commit(folder.expunging(&NumSet::range(3, 3))).await;
    let account = world.account;
    let list = world.engine.load_list(account).await.unwrap();
    let World { engine, .. } = world;
    let nothing: Arc<dyn crate::Engine> = Arc::new(crate::MemoryEngine::new());
    drop(std::mem::replace(&mut folder.engine, nothing));
    let engine = factory.reopen(engine).await;
    folder.engine = Arc::clone(&engine);
    folder.verify().await;
    folder.verify_changes().await;
    assert_eq!(engine.load_list(account).await.unwrap(), list);
    folder.commit(folder.appending(&[8])).await;
    folder.verify().await;
    super::check(&*engine).await;
}

/// Twelve thousand messages: appended in several commits, all flagged in one, half of them expunged
/// in one.
pub async fn large_mailboxes(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (mut folder, mut copy) = (world.folder().await, world.folder().await);
    for _ in 0..4 {
        folder.commit(folder.appending(&[60; 3000])).await;
    }
    folder.verify().await;
    let all = folder.uids();
    folder.commit(folder.flagging(&all, FlagSet::SEEN, None)).await;
    folder.verify().await;
    copy.commit_copies(copy.copying(&folder, &NumSet::range(2001, 7000)), &folder).await;
    let odd: NumSet = (1..12_000).step_by(2).collect();
    folder.commit(folder.expunging(&odd)).await;
    folder.verify().await;
    folder.verify_changes().await;
    world.check().await;
    copy.verify().await;
    folder.verify().await;
}
