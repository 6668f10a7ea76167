//! Mail moved from one engine to another, cut off, moved again, compared.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{AccountId, FlagSet, MailboxId, MailboxName, ModSeq, NumSet};

use super::folder::load;
use super::{Folder, add_mailbox, check, erased, new_id};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::list::ListCommit;
use crate::transfer::{Compare, Transfer};

/// An account with a history moves, in two runs. The first is interrupted; what clients remember
/// stays true.
#[boxed(?Send)]
pub async fn mail_moves(from: Arc<dyn Engine>, to: Arc<dyn Engine>) {
    let account = AccountId(new_id());
    let (mut inbox, mut other) = lived_in(&from, account).await;
    cut_off(&from, &to, account).await;
    copied(&from, &to, account).await;
    for folder in [&inbox, &other] {
        remembered(&to, folder).await;
    }
    // A second run has nothing to do.
    let heads = [inbox.id, other.id];
    let before = to.heads(&heads).await.unwrap();
    copied(&from, &to, account).await;
    assert_eq!(to.heads(&heads).await.unwrap(), before);
    lived_on(&from, account, &mut inbox, &mut other).await;
    assert!(!audited(&from, &to, account).await.is_empty(), "the audit does not see what changed");
    copied(&from, &to, account).await;
    remembered(&to, &inbox).await;
    check(&*to).await;
    foreign_mail_is_left_alone(&from, &to).await;
    what_the_source_lost_stays(&from, &to).await;
}

/// Two mailboxes: messages with flags and keywords, some of them expunged, some in both.
async fn lived_in(from: &Arc<dyn Engine>, account: AccountId) -> (Folder, Folder) {
    let mut boxes = Vec::new();
    for _ in 0..3 {
        boxes.push(add_mailbox(&**from, account, MailboxId(new_id())).await);
    }
    let mut inbox = Folder::new(Arc::clone(from), boxes[0]);
    for _ in 0..5 {
        inbox.commit(inbox.appending(&[100; 60])).await;
    }
    inbox.commit(inbox.appending(&[700_000, 0])).await;
    inbox.commit(inbox.flagging(&NumSet::range(3, 40), FlagSet::SEEN, Some(1))).await;
    inbox.commit(inbox.expunging(&NumSet::from_ranges([(10, 20), (290, 305)]))).await;
    inbox.commit(inbox.flagging(&NumSet::range(30, 31), FlagSet::DELETED, None)).await;
    let mut other = Folder::new(Arc::clone(from), boxes[1]);
    other.commit_copies(other.copying(&inbox, &NumSet::range(1, 50)), &inbox).await;
    let list = from.load_list(account).await.unwrap();
    let subscribe = ["a", "b"].map(|name| MailboxName::new(name).unwrap()).to_vec();
    let commit = ListCommit { subscribe, ..no_change(account, list.version, list.uid_validity_last) };
    from.commit_list(commit).await.unwrap();
    (inbox, other)
}

/// Changes at the source after a first run.
async fn lived_on(from: &Arc<dyn Engine>, account: AccountId, inbox: &mut Folder, other: &mut Folder) {
    inbox.commit(inbox.flagging(&NumSet::range(1, 9), FlagSet::FLAGGED, Some(2))).await;
    inbox.commit(inbox.expunging(&NumSet::range(25, 35))).await;
    inbox.commit(inbox.appending(&[10, 20, 30])).await;
    add_mailbox(&**from, account, MailboxId(new_id())).await;
    let list = from.load_list(account).await.unwrap();
    let mut renamed = list.entries.iter().find(|entry| entry.id == inbox.id).unwrap().clone();
    renamed.name = MailboxName::new("another name").unwrap();
    let commit = ListCommit {
        upsert: vec![renamed],
        remove: vec![other.id],
        unsubscribe: vec![MailboxName::new("a").unwrap()],
        ..no_change(account, list.version, list.uid_validity_last)
    };
    from.commit_list(commit).await.unwrap();
}

fn no_change(account: AccountId, expected: ModSeq, uid_validity_last: u32) -> ListCommit {
    ListCommit {
        account,
        expected,
        version: expected.next(),
        upsert: Vec::new(),
        remove: Vec::new(),
        subscribe: Vec::new(),
        unsubscribe: Vec::new(),
        uid_validity_last,
    }
}

/// A transfer that ends in the middle, as by a crash: its progress callback panics.
async fn cut_off(from: &Arc<dyn Engine>, to: &Arc<dyn Engine>, account: AccountId) {
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    let cut = async move {
        let mut calls = 0;
        let mut progress = move |_| {
            calls += 1;
            assert!(calls < 3, "cut off, as this test wants it");
        };
        Transfer::new(&*from, &*to).copy(account, &mut progress).await
    };
    let ended = tokio::spawn(erased(cut)).await;
    assert!(ended.is_err_and(|e| e.is_panic()), "the transfer was not cut off");
}

async fn copied(from: &Arc<dyn Engine>, to: &Arc<dyn Engine>, account: AccountId) {
    let transfer = Transfer::new(&**from, &**to);
    let mut messages = 0;
    transfer.copy(account, &mut |n| messages += n).await.unwrap();
    assert_eq!(messages, transfer.messages(account).await.unwrap());
    assert_eq!(audited(from, to, account).await, Vec::<String>::new());
}

async fn audited(from: &Arc<dyn Engine>, to: &Arc<dyn Engine>, account: AccountId) -> Vec<String> {
    Transfer::new(&**from, &**to).audit(account, Compare::All, &mut |_| {}).await.unwrap()
}

/// Whatever mod-sequence a client stopped at, it learns at the new place all that it would have
/// learnt at the old.
async fn remembered(to: &Arc<dyn Engine>, folder: &Folder) {
    let head = to.heads(&[folder.id]).await.unwrap().remove(0).unwrap();
    assert!(head.modseq >= folder.view.modseq());
    assert_eq!((head.uid_next, head.counts), (folder.view.head().uid_next, folder.view.head().counts));
    for (since, there) in &folder.history {
        let changes = to.changes_since(folder.id, *since).await.unwrap();
        let later: Vec<_> =
            folder.view.rows(&folder.view.changed_since(*since)).map(|(_, row)| *row).collect();
        assert_eq!(changes.rows, later, "since {since}");
        assert!(changes.complete && changes.expunged.intersection(&folder.uids()).is_empty());
        assert_eq!(changes.expunged.intersection(there), there.difference(&folder.uids()), "since {since}");
    }
    // SAVEDATE and CREATEDMODSEQ, too.
    let (all, copy) = (NumSet::range(1, u32::MAX), Folder { engine: Arc::clone(to), ..folder.clone() });
    assert!(copy.summaries(&all).await == folder.expected_summaries(&all), "what the messages came with");
}

/// A mailbox that holds other mail under the same id is not written to.
async fn foreign_mail_is_left_alone(from: &Arc<dyn Engine>, to: &Arc<dyn Engine>) {
    let (account, id) = (AccountId(new_id()), MailboxId(new_id()));
    let mut ends = Vec::new();
    for (engine, sizes) in [(from, [10, 20]), (to, [10, 21])] {
        add_mailbox(&**engine, account, id).await;
        let mut folder = Folder::new(Arc::clone(engine), id);
        folder.commit(folder.appending(&sizes)).await;
        ends.push(folder);
    }
    let outcome = Transfer::new(&**from, &**to).copy(account, &mut |_| {}).await;
    assert!(matches!(outcome, Err(StoreError::Refused(_))), "{outcome:?}");
    ends[1].verify().await;
}

/// A source that went back to an earlier state removes nothing from the target, whatever it lost: a
/// message, a flag, or a mailbox.
async fn what_the_source_lost_stays(from: &Arc<dyn Engine>, to: &Arc<dyn Engine>) {
    for lost in ["nothing", "a message", "a message that was expunged", "a flag", "a mailbox"] {
        let (account, id) = (AccountId(new_id()), MailboxId(new_id()));
        add_mailbox(&**from, account, id).await;
        let mut inbox = Folder::new(Arc::clone(from), id);
        inbox.commit(inbox.appending(&[10, 20, 30])).await;
        copied(from, to, account).await;
        // The target continues as if the source had continued, and had been copied.
        let mut copy = Folder { engine: Arc::clone(to), view: load(&**to, id).await, ..inbox };
        match lost {
            "a message" => copy.commit(copy.appending(&[40])).await,
            "a message that was expunged" => {
                copy.commit(copy.appending(&[40])).await;
                copy.commit(copy.expunging(&NumSet::range(4, 4))).await;
            }
            "a flag" => copy.commit(copy.flagging(&NumSet::range(2, 2), FlagSet::SEEN, None)).await,
            "a mailbox" => drop(add_mailbox(&**to, account, MailboxId(new_id())).await),
            _ => {}
        }
        let before = (to.load_list(account).await.unwrap(), to.heads(&[id]).await.unwrap());
        let transfer = Transfer::new(&**from, &**to);
        let outcome = transfer.may_copy(account).await.and(transfer.copy(account, &mut |_| {}).await);
        let is_refused = matches!(outcome, Err(StoreError::Refused(_)));
        assert_eq!(is_refused, lost != "nothing", "the source lost {lost}: {outcome:?}");
        assert_eq!((to.load_list(account).await.unwrap(), to.heads(&[id]).await.unwrap()), before, "{lost}");
        copy.verify().await;
    }
}
