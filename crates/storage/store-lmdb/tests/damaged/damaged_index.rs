//! Records of the index that are missing or cannot be believed: each message is served from its
//! body or named, never left out.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use heed::types::Bytes;
use heed::{Database, EnvOpenOptions};
use posthaste_mail_model::{MailboxId, ModSeq, NumSet};
use posthaste_store::{Engine, StoreError, Stored, Unreadable};
use posthaste_store_lmdb::{LmdbEngine, Options};

use crate::world::{World, body, small, summarize};

/// A closed store with one mailbox of 300 messages, every seventh expunged.
async fn store(dir: &Path) -> (World, MailboxId) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let bodies: Vec<_> = (0..300).map(|n| body(1_000 + n, 900)).collect();
    world.append(&engine, inbox, &bodies).await.unwrap();
    let seventh: Vec<u32> = (7..=300).step_by(7).collect();
    world.expunge(&engine, inbox, &seventh).await.unwrap();
    (world, inbox)
}

fn key(mailbox: MailboxId, uid: u32) -> Vec<u8> {
    [&mailbox.0.to_bytes()[..], &uid.to_be_bytes()].concat()
}

/// Changes a record of the summaries of a closed store: what it answers takes the record's place,
/// `None` removes it.
fn edit(dir: &Path, mailbox: MailboxId, uids: &[u32], change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) {
    // SAFETY: no engine has the index open, so nothing changes its file but this environment.
    let env = unsafe { EnvOpenOptions::new().map_size(1 << 28).max_dbs(16).open(dir.join("index")) }.unwrap();
    let mut txn = env.write_txn().unwrap();
    let summaries: Database<Bytes, Bytes> = env.open_database(&txn, Some("summaries")).unwrap().unwrap();
    for uid in uids {
        let key = key(mailbox, *uid);
        let value = summaries.get(&txn, &key).unwrap().unwrap().to_vec();
        match change(value) {
            Some(value) => summaries.put(&mut txn, &key, &value).unwrap(),
            None => assert!(summaries.delete(&mut txn, &key).unwrap()),
        }
    }
    txn.commit().unwrap();
    env.prepare_for_closing().wait();
}

/// UID, date saved, first mod-sequence and summary of each message.
type Seen = Vec<(u32, i64, ModSeq, Vec<u8>)>;

async fn listed(engine: &LmdbEngine, mailbox: MailboxId, uids: &NumSet) -> (Seen, NumSet) {
    let mut seen = Vec::new();
    let mut visit = |stored: Stored<'_>| {
        seen.push((stored.uid.value(), stored.saved, stored.created, stored.summary.to_vec()));
        ControlFlow::Continue(())
    };
    let Unreadable(unreadable) = engine.summaries(mailbox, uids, &mut visit).await.unwrap();
    (seen, unreadable)
}

/// The expected answers of a listing: the messages except `unreadable`, those in `made` with their
/// internal dates as dates saved, and without their first mod-sequences.
fn expected(world: &World, mailbox: MailboxId, unreadable: &[u32], made: &[u32]) -> Seen {
    let held = world.boxes[&mailbox].messages.iter().filter(|(uid, _)| !unreadable.contains(uid));
    held.map(|(uid, m)| {
        let (saved, created) = match made.contains(uid) {
            true => (i64::from(m.row.date()), ModSeq::ZERO),
            false => (m.saved, m.created),
        };
        (*uid, saved, created, summarize(&m.bytes))
    })
    .collect()
}

/// A damaged record of a message that delivery did not convert: with or without the summary that
/// was added, the body that it names is believed only if the rest fits.
#[tokio::test]
async fn a_summary_that_was_added_later_is_made_again() {
    for added in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        let mut world = World::new();
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        let bodies: Vec<_> = (0..10).map(|n| body(1_000 + n, 900)).collect();
        world.append_bare(&engine, inbox, &bodies).await.unwrap();
        if added {
            assert_eq!(world.add_summaries(&engine, inbox).await.unwrap(), 10);
        }
        engine.close();
        let uids: Vec<u32> = (1..=4).collect();
        // A flip in the checksum, in the date, and in the body's id.
        for (uid, at) in [(1, 2), (2, 22), (3, 9)] {
            edit(dir.path(), inbox, &[uid], |mut record| {
                record[at] ^= 4;
                Some(record)
            });
        }
        if added {
            // And one in the summary itself.
            edit(dir.path(), inbox, &[4], |mut record| {
                record[40] ^= 4;
                Some(record)
            });
        }
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        let (seen, unreadable) = listed(&engine, inbox, &uids.iter().copied().collect()).await;
        assert_eq!(unreadable, NumSet::range(3, 3), "added: {added}");
        let whole = expected(&world, inbox, &[3], &[1, 2]);
        for ((uid, saved, created, summary), (of, was, came, made)) in seen.iter().zip(&whole) {
            let made: &[u8] = if added { made } else { b"" };
            assert_eq!((uid, saved, created, &summary[..]), (of, was, came, made), "added: {added}");
        }
        assert_eq!(seen.len(), 3);
    }
}

#[tokio::test]
async fn a_missing_record_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    let missing = [1, 10, 20, 22, 23, 150, 299, 300];
    let missing: Vec<u32> =
        missing.into_iter().filter(|uid| world.boxes[&inbox].messages.contains_key(uid)).collect();
    edit(dir.path(), inbox, &missing, |_| None);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let there: NumSet = world.boxes[&inbox].messages.keys().copied().collect();
    let odd: NumSet = (1..=300).step_by(3).collect();
    for set in [NumSet::range(1, u32::MAX), there, odd, NumSet::range(9, 23), NumSet::range(10, 10)] {
        let (seen, unreadable) = listed(&engine, inbox, &set).await;
        let lost: Vec<u32> = missing.iter().copied().filter(|uid| set.contains(*uid)).collect();
        assert_eq!(unreadable.iter().collect::<Vec<_>>(), lost, "{set}");
        let whole = expected(&world, inbox, &missing, &[]).into_iter().filter(|(uid, ..)| set.contains(*uid));
        assert!(seen.into_iter().eq(whole), "{set}");
    }
    // Cut off: the answer speaks of what comes before the cut.
    let mut last = 0;
    let mut visit = |stored: Stored<'_>| {
        last = stored.uid.value();
        if last >= 12 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let unreadable = engine.summaries(inbox, &NumSet::range(1, 300), &mut visit).await.unwrap();
    assert_eq!((last, unreadable.0), (12, NumSet::from_ranges([(1, 1), (10, 10)])));
    let faults = engine.check(&mut |_| {}).await.unwrap().faults;
    assert!(
        missing.iter().all(|uid| faults.iter().any(|f| f.contains(&format!("UID {uid} has no summary"))))
    );
}

#[tokio::test]
async fn a_damaged_record_is_repaired_from_the_body_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let another: Vec<u8> = b"as long, and of other words ".iter().copied().cycle().take(900).collect();
    world.append(&engine, inbox, &[another.into()]).await.unwrap();
    engine.close();
    // Their checksums prove what is made again.
    edit(dir.path(), inbox, &[2, 3, 4, 100, 300], |mut value| {
        *value.last_mut().unwrap() ^= 1;
        Some(value)
    });
    edit(dir.path(), inbox, &[5], |mut value| {
        value[28..].fill(0);
        Some(value)
    });
    edit(dir.path(), inbox, &[92], |value| Some(value[..28].to_vec()));
    // A damaged kind: the bit that would make a link of it.
    edit(dir.path(), inbox, &[52], |mut value| {
        value[27] ^= 0x40;
        Some(value)
    });
    // A damaged checksum, a damaged date: the summary itself is the proof.
    edit(dir.path(), inbox, &[50], |mut value| {
        value[0] ^= 0x80;
        Some(value)
    });
    edit(dir.path(), inbox, &[51], |mut value| {
        value[22] ^= 0x40;
        Some(value)
    });
    // Nothing is proved of these: another body's id, no id, no record. The other id is the next
    // one, of a message that differs in a digit, or one of other words.
    edit(dir.path(), inbox, &[71], |mut value| {
        let next = &world.boxes[&inbox].messages[&72];
        value[4..20].copy_from_slice(&next.body.0.to_bytes());
        Some(value)
    });
    edit(dir.path(), inbox, &[72], |mut value| {
        value[4..20].fill(0xff);
        Some(value)
    });
    edit(dir.path(), inbox, &[80], |value| Some(value[..27].to_vec()));
    edit(dir.path(), inbox, &[90], |_| Some(Vec::new()));
    let other = world.boxes[&inbox].messages[&301].body.0.to_bytes();
    edit(dir.path(), inbox, &[101], |mut value| {
        value[4..20].copy_from_slice(&other);
        Some(value)
    });
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let lost = [71, 72, 80, 90, 101];
    for _ in 0..2 {
        let (seen, unreadable) = listed(&engine, inbox, &NumSet::range(1, u32::MAX)).await;
        assert_eq!(unreadable.iter().collect::<Vec<_>>(), lost);
        assert_eq!(seen, expected(&world, inbox, &lost, &[50, 51]));
    }
}

#[tokio::test]
async fn copies_outlive_the_summary_they_link_to() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let copies = world.create(&engine, "Copies").await.unwrap();
    let uids: Vec<u32> = world.boxes[&inbox].messages.keys().copied().take(100).collect();
    world.copy(&engine, inbox, &uids, copies).await.unwrap();
    engine.close();
    // Origins of copies 10 and 50 are lost, that of copy 20 is damaged; the record of copy 30 is
    // damaged itself.
    edit(dir.path(), inbox, &[uids[9], uids[49]], |_| None);
    edit(dir.path(), inbox, &[uids[19]], |mut value| {
        *value.last_mut().unwrap() ^= 1;
        Some(value)
    });
    edit(dir.path(), copies, &[30], |mut value| {
        value[0] ^= 1;
        Some(value)
    });
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let (seen, unreadable) = listed(&engine, copies, &NumSet::range(1, u32::MAX)).await;
    assert!(unreadable.is_empty(), "{unreadable}");
    assert_eq!(seen, expected(&world, copies, &[], &[30]));
    let (seen, unreadable) = listed(&engine, inbox, &NumSet::range(1, u32::MAX)).await;
    assert_eq!(unreadable.iter().collect::<Vec<_>>(), [uids[9], uids[49]]);
    assert_eq!(seen, expected(&world, inbox, &[uids[9], uids[49]], &[]));
}

#[tokio::test]
async fn a_few_messages_with_damaged_summaries_are_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let options = || Options { links_from: 32, ..small() };
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    let linked = world.create(&engine, "Linked").await.unwrap();
    let copies = world.create(&engine, "Copies").await.unwrap();
    let uids: Vec<u32> = world.boxes[&inbox].messages.keys().copied().take(40).collect();
    world.copy(&engine, inbox, &uids, linked).await.unwrap();
    engine.close();
    let in_summary = |mut value: Vec<u8>| {
        *value.last_mut().unwrap() ^= 1;
        Some(value)
    };
    let in_checksum = |mut value: Vec<u8>| {
        value[0] ^= 1;
        Some(value)
    };
    let lost = |mut value: Vec<u8>| {
        value[4..20].fill(0xff);
        Some(value)
    };
    edit(dir.path(), inbox, &[uids[2], uids[3], uids[20]], in_summary);
    edit(dir.path(), inbox, &[uids[4]], in_checksum);
    edit(dir.path(), linked, &[10], in_checksum);
    edit(dir.path(), inbox, &[uids[30]], lost);
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    // Damaged summaries, links to them (UID 21), a damaged link (UID 10).
    world.copy(&engine, inbox, &uids[..10], copies).await.unwrap();
    world.copy(&engine, linked, &[1, 2, 3, 21], copies).await.unwrap();
    world.copy(&engine, linked, &[9, 10, 11], copies).await.unwrap();
    // An unreadable message is not copied, nor are the others of its copy.
    let refusal = world.copy(&engine, inbox, &uids[28..32], copies).await;
    assert!(matches!(refusal, Err(StoreError::Corrupt(_))), "{refusal:?}");
    world.doubt = None;
    let (seen, unreadable) = listed(&engine, copies, &NumSet::range(1, u32::MAX)).await;
    assert!(unreadable.is_empty());
    assert_eq!(seen, expected(&world, copies, &[], &[]));
    engine.close();
    // The copies are whole: damage is found only in the other mailboxes.
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    let faults = engine.check(&mut |_| {}).await.unwrap().faults;
    assert!(
        faults.len() > 3 && !faults.iter().any(|fault| fault.contains(&copies.to_string())),
        "{faults:?}"
    );
}

/// The log's tail copies messages whose summaries are damaged in the index. A redo of it makes them
/// from the bodies: the store opens.
#[tokio::test]
async fn a_tail_with_copies_of_damaged_summaries_is_redone() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let options = || Options { links_from: 32, ..small() };
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    let copies = world.create(&engine, "Copies").await.unwrap();
    engine.close();
    let saved = std::fs::read(dir.path().join("index/data.mdb")).unwrap();
    let uids: Vec<u32> = world.boxes[&inbox].messages.keys().copied().take(40).collect();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    // A few are made over; many are linked.
    world.copy(&engine, inbox, &uids[..3], copies).await.unwrap();
    world.copy(&engine, inbox, &uids, copies).await.unwrap();
    engine.close();
    std::fs::write(dir.path().join("index/data.mdb"), saved).unwrap();
    edit(dir.path(), inbox, &[uids[1], uids[20]], |mut value| {
        *value.last_mut().unwrap() ^= 1;
        Some(value)
    });
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    assert!(engine.loss().is_none(), "{:?}", engine.loss());
    let (seen, unreadable) = listed(&engine, copies, &NumSet::range(1, u32::MAX)).await;
    assert!(unreadable.is_empty(), "{unreadable}");
    assert_eq!(seen, expected(&world, copies, &[], &[]));
    world.append(&engine, inbox, &[body(9_000, 100)]).await.unwrap();
}

/// The threads that have rebuilt summaries.
static REBUILT_BY: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

fn summarize_and_note(bytes: &[u8]) -> Vec<u8> {
    REBUILT_BY.lock().unwrap().push(thread::current().id());
    summarize(bytes)
}

/// Each was rebuilt from a whole message in the poll of the listing.
#[tokio::test(flavor = "multi_thread")]
async fn summaries_are_rebuilt_on_another_thread() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    edit(dir.path(), inbox, &[2, 3, 100], |mut value| {
        *value.last_mut().unwrap() ^= 1;
        Some(value)
    });
    let options = Options { summarize: summarize_and_note, ..small() };
    let engine = LmdbEngine::open(dir.path(), options).unwrap();
    REBUILT_BY.lock().unwrap().clear();
    let (seen, unreadable) = listed(&engine, inbox, &NumSet::range(1, u32::MAX)).await;
    assert!(unreadable.is_empty(), "{unreadable}");
    assert_eq!(seen, expected(&world, inbox, &[], &[]));
    let by = REBUILT_BY.lock().unwrap();
    assert_eq!(by.len(), 3);
    assert!(!by.contains(&thread::current().id()), "the task of the listing rebuilt them itself");
}

/// Without a further thread, other tasks run between two of them.
#[tokio::test]
async fn a_listing_rests_between_rebuilt_summaries() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    let hit = [1, 2, 50, 299, 300];
    edit(dir.path(), inbox, &hit, |mut value| {
        *value.last_mut().unwrap() ^= 1;
        Some(value)
    });
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for (uids, polls_least) in [(NumSet::range(1, u32::MAX), 6), (NumSet::range(3, 49), 1)] {
        let mut listing = pin!(listed(&engine, inbox, &uids));
        let mut polls = 0;
        let (seen, unreadable) = poll_fn(|context| {
            polls += 1;
            listing.as_mut().poll(context)
        })
        .await;
        assert!(unreadable.is_empty(), "{unreadable}");
        let whole = expected(&world, inbox, &[], &[]).into_iter().filter(|(uid, ..)| uids.contains(*uid));
        assert!(seen.into_iter().eq(whole), "{uids}");
        assert_eq!(polls, polls_least, "{uids}");
    }
}

/// More than are looked for at once.
#[tokio::test]
async fn each_of_many_missing_records_is_named() {
    const MESSAGES: u32 = 2_500;
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let bodies: Vec<_> = (0..MESSAGES).map(|n| body(n, 30)).collect();
    world.append(&engine, inbox, &bodies).await.unwrap();
    engine.close();
    let missing: Vec<u32> = (1..=MESSAGES).filter(|uid| uid % 1_000 != 0).collect();
    edit(dir.path(), inbox, &missing, |_| None);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for set in [NumSet::range(1, u32::MAX), NumSet::from_ranges([(1, 900), (999, 1_001), (1_500, 2_400)])] {
        let (seen, unreadable) = listed(&engine, inbox, &set).await;
        let lost: NumSet = missing.iter().copied().filter(|uid| set.contains(*uid)).collect();
        assert_eq!(unreadable, lost, "{set}");
        let there = (1..=MESSAGES).filter(|uid| uid % 1_000 == 0 && set.contains(*uid));
        assert!(seen.iter().map(|(uid, ..)| *uid).eq(there), "{set}");
    }
}
