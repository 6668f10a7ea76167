//! Follows accounts for sessions that requested reports of all changes in them (RFC 5465).

use std::sync::Arc;

use posthaste_mail_model::{AccountId, MailboxId};

use super::Store;
use crate::error::Result;
use crate::follow::AccountWatch;

/// Heads read in one call. A thousand heads are a few hundred KiB.
const HEADS_MAX: usize = 1000;
/// Heads read of followed accounts in one round of looking for changes by other processes and
/// nodes. An index on this machine reads as many in some 20 ms, a cluster in a second. With more
/// mailboxes, changes by others are seen a few rounds later.
const HEADS_PER_ROUND: usize = 20_000;
/// The cost of an account besides the heads of its mailboxes, in heads: two round trips of a
/// cluster. So a round looks at 300 accounts at most, and does not delay IDLE of others.
const HEADS_PER_ACCOUNT: usize = 64;

impl Store {
    /// Follows an account until the watch is dropped. The first that follows it has the heads of
    /// all its mailboxes read; the others share them.
    pub async fn follow(&self, account: AccountId) -> Result<AccountWatch> {
        let list = self.list(account).await?;
        let followers = &self.context().followers;
        let (watch, is_new) = followers.follow(&list, self.context().waiting());
        // The cached list may be newer than the one read above.
        followers.note_list(&self.list(account).await?);
        if is_new {
            let ids: Vec<MailboxId> = list.entries.iter().map(|entry| entry.id).collect();
            for ids in ids.chunks(HEADS_MAX) {
                let heads = self.status(ids).await?;
                let read = ids.iter().zip(heads).filter_map(|(id, head)| Some((*id, head?)));
                followers.begin(account, read);
                // An engine that answers at once would never let another task in.
                tokio::task::yield_now().await;
            }
        }
        Ok(watch)
    }

    /// Checks whether other processes or nodes changed mailboxes of followed accounts, after the
    /// account `after`. Returns the last account that was checked, or `None` once all are.
    pub(super) async fn check_followed(&self, after: Option<AccountId>) -> Result<Option<AccountId>> {
        let followers = Arc::clone(&self.context().followers);
        let mut last = after;
        let mut left = HEADS_PER_ROUND;
        loop {
            let Some((account, _)) = followers.accounts_after(last, 1).pop() else { return Ok(None) };
            // Also notes the list.
            self.read_list(account).await?;
            let ids = followers.accounts_after(last, 1).pop().map(|(_, ids)| ids).unwrap_or_default();
            for ids in ids.chunks(HEADS_MAX) {
                let heads = self.engine().heads(ids).await?;
                for (id, head) in ids.iter().zip(heads) {
                    if let Some(head) = head {
                        followers.note(*id, &head);
                    }
                }
                tokio::task::yield_now().await;
            }
            last = Some(account);
            left = left.saturating_sub(ids.len() + HEADS_PER_ACCOUNT);
            if left == 0 {
                return Ok(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use posthaste_mail_model::{Flag, MailboxName, NumSet};

    use super::*;
    use crate::suite::new_id;
    use crate::{FlagChange, IncomingMessage, MemoryEngine, OwnArrivals, StoreOptions};

    fn name(text: &str) -> MailboxName {
        MailboxName::new(text).unwrap()
    }

    /// Two nodes on one engine, and an account with these mailboxes.
    async fn world(mailboxes: &[&str]) -> (Store, Store, AccountId) {
        let engine = Arc::new(MemoryEngine::new());
        let store = || Store::new(Arc::clone(&engine) as Arc<dyn crate::Engine>, StoreOptions::default());
        let (here, there, account) = (store(), store(), AccountId(new_id()));
        for mailbox in mailboxes {
            here.create(account, &name(mailbox), None).await.unwrap();
        }
        (here, there, account)
    }

    async fn append(store: &Store, account: AccountId, mailbox: &str, count: usize) -> OwnArrivals {
        let mailbox = store.list(account).await.unwrap().find(&name(mailbox)).unwrap().id;
        let message = || IncomingMessage {
            bytes: bytes::Bytes::from_static(b"x"),
            summary: bytes::Bytes::new(),
            body: store.new_body_id(),
            flags: Vec::new(),
            date: 1,
            saved: Some(4),
        };
        let messages = std::iter::repeat_with(message).take(count).collect();
        let appended = store.destination(mailbox).append(messages).await.unwrap();
        OwnArrivals { mailbox, modseq: appended.modseq, count: count as u32, touched: None }
    }

    /// The changes, as `name messages` or `name flags`.
    fn taken(watch: &mut AccountWatch, own: &[OwnArrivals]) -> Vec<String> {
        let news = watch.take(usize::MAX, own);
        let kind = |messages| if messages { "messages" } else { "flags" };
        news.mailboxes.iter().map(|news| format!("{} {}", news.entry.name, kind(news.messages))).collect()
    }

    /// The heads of ten thousand mailboxes were read in one poll.
    #[tokio::test]
    async fn other_tasks_run_after_some_heads() {
        let (_, there, account) = world(&["a"]).await;
        let mut context = Context::from_waker(Waker::noop());
        let mut following = pin!(there.follow(account));
        assert!(following.as_mut().poll(&mut context).is_pending());
        let _watch = following.await.unwrap();
        let mut checking = pin!(there.check_followed(None));
        assert!(checking.as_mut().poll(&mut context).is_pending());
        assert_eq!(checking.await.unwrap(), None);
    }

    #[tokio::test]
    async fn changes_are_reported_once_and_mailboxes_once_each() {
        let (here, _, account) = world(&["a", "b", "c"]).await;
        append(&here, account, "a", 1).await;
        let mut watch = here.follow(account).await.unwrap();
        let mut other = here.follow(account).await.unwrap();
        assert!(!watch.has_changed());
        assert!(taken(&mut watch, &[]).is_empty());
        append(&here, account, "b", 1).await;
        append(&here, account, "a", 1).await;
        append(&here, account, "b", 2).await;
        watch.changed().await;
        assert!(watch.has_changed());
        assert_eq!(taken(&mut watch, &[]), ["a messages", "b messages"]);
        assert!(!watch.has_changed() && taken(&mut watch, &[]).is_empty());
        let opened = here.open(here.list(account).await.unwrap().find(&name("b")).unwrap().id).await.unwrap();
        opened.store_flags(&NumSet::range(1, 2), FlagChange::Add, &[Flag::Seen], None).await.unwrap();
        assert_eq!(taken(&mut watch, &[]), ["b flags"]);
        // A later look reports the same mailboxes, not each change.
        assert_eq!(taken(&mut other, &[]), ["a messages", "b messages"]);
        append(&here, account, "c", 1).await;
        append(&here, account, "a", 1).await;
        let news = watch.take(1, &[]);
        assert!(news.overflow && news.mailboxes.len() == 1);
        assert!(taken(&mut watch, &[]).is_empty());
    }

    #[tokio::test]
    async fn own_arrivals_are_left_out_where_nothing_else_happened() {
        let (here, _, account) = world(&["a"]).await;
        let mut watch = here.follow(account).await.unwrap();
        let own = append(&here, account, "a", 2).await;
        assert!(taken(&mut watch, &[own]).is_empty());
        append(&here, account, "a", 1).await;
        let own = append(&here, account, "a", 1).await;
        assert_eq!(taken(&mut watch, &[own]), ["a messages"]);
        let own = append(&here, account, "a", 1).await;
        append(&here, account, "a", 1).await;
        assert_eq!(taken(&mut watch, &[own]), ["a messages"]);
    }

    /// As `\Seen` flags that a user has in a mailbox of another one.
    #[tokio::test]
    async fn own_changes_of_own_arrivals_are_left_out_too() {
        let (here, _, account) = world(&["a"]).await;
        let mut watch = here.follow(account).await.unwrap();
        let id = here.list(account).await.unwrap().find(&name("a")).unwrap().id;
        let mailbox = here.open(id).await.unwrap();
        let own = append(&here, account, "a", 2).await;
        let touched = mailbox.touch(&NumSet::range(1, 1), None).await.unwrap();
        let own = OwnArrivals { touched: Some(touched.modseq), ..own };
        assert!(taken(&mut watch, &[own]).is_empty());
        // Others have changed something between both changes, before them, or after them.
        let (one, flags) = (NumSet::range(1, 1), [Flag::Seen]);
        let change = |change| mailbox.store_flags(&one, change, &flags, None);
        change(FlagChange::Add).await.unwrap();
        assert_eq!(taken(&mut watch, &[own]), ["a flags"]);
        let own = append(&here, account, "a", 1).await;
        change(FlagChange::Remove).await.unwrap();
        let touched = mailbox.touch(&NumSet::range(3, 3), None).await.unwrap();
        let own = OwnArrivals { touched: Some(touched.modseq), ..own };
        assert_eq!(taken(&mut watch, &[own]), ["a messages"]);
        change(FlagChange::Add).await.unwrap();
        let own = append(&here, account, "a", 1).await;
        let touched = mailbox.touch(&NumSet::range(4, 4), None).await.unwrap();
        let own = OwnArrivals { touched: Some(touched.modseq), ..own };
        assert_eq!(taken(&mut watch, &[own]), ["a messages"]);
        let own = append(&here, account, "a", 1).await;
        let touched = mailbox.touch(&NumSet::range(5, 5), None).await.unwrap();
        change(FlagChange::Remove).await.unwrap();
        let own = OwnArrivals { touched: Some(touched.modseq), ..own };
        assert_eq!(taken(&mut watch, &[own]), ["a messages"]);
    }

    #[tokio::test]
    async fn mailboxes_come_and_go() {
        let (here, _, account) = world(&["a"]).await;
        let mut watch = here.follow(account).await.unwrap();
        let before = watch.list();
        here.create(account, &name("b"), None).await.unwrap();
        assert!(watch.has_changed());
        let news = watch.take(9, &[]);
        assert!(news.mailboxes.is_empty() && news.list.version > before.version);
        append(&here, account, "b", 1).await;
        assert_eq!(taken(&mut watch, &[]), ["b messages"]);
        append(&here, account, "a", 1).await;
        here.rename(account, &name("a"), &name("z")).await.unwrap();
        here.delete(account, &name("b")).await.unwrap();
        assert_eq!(taken(&mut watch, &[]), ["z messages"]);
    }

    /// A mailbox is created while the heads of the others are read.
    #[tokio::test]
    async fn a_new_mailbox_changes_nothing_of_the_others() {
        let (here, _, account) = world(&["a"]).await;
        append(&here, account, "a", 1).await;
        let list = here.list(account).await.unwrap();
        let id = list.find(&name("a")).unwrap().id;
        let head = here.status(&[id]).await.unwrap().remove(0).unwrap();
        let followers = Arc::clone(&here.context().followers);
        let (mut watch, is_new) = followers.follow(&list, here.context().waiting());
        here.create(account, &name("b"), None).await.unwrap();
        followers.begin(account, [(id, head.clone())].into_iter());
        followers.note(id, &head);
        assert!(is_new && taken(&mut watch, &[]).is_empty());
        append(&here, account, "b", 1).await;
        append(&here, account, "a", 1).await;
        assert_eq!(taken(&mut watch, &[]), ["b messages", "a messages"]);
    }

    #[tokio::test]
    async fn changes_of_other_nodes_are_seen_by_looking() {
        let (here, there, account) = world(&["a", "b"]).await;
        let mut watch = here.follow(account).await.unwrap();
        append(&there, account, "b", 1).await;
        there.create(account, &name("c"), None).await.unwrap();
        append(&there, account, "c", 1).await;
        assert!(!watch.has_changed());
        assert_eq!(here.check_followed(None).await.unwrap(), None);
        let mut reported = taken(&mut watch, &[]);
        reported.sort();
        assert_eq!(reported, ["b messages", "c messages"]);
        assert_eq!(here.check_followed(None).await.unwrap(), None);
        assert!(!watch.has_changed());
        there.delete(account, &name("b")).await.unwrap();
        here.check_followed(None).await.unwrap();
        assert!(watch.has_changed() && watch.take(9, &[]).list.find(&name("b")).is_none());
    }

    #[tokio::test]
    async fn nothing_is_kept_once_nobody_follows() {
        let (here, _, account) = world(&["a"]).await;
        let (one, two) = (here.follow(account).await.unwrap(), here.follow(account).await.unwrap());
        let followers = Arc::clone(&here.context().followers);
        assert_eq!(followers.accounts_after(None, 9).len(), 1);
        drop(one);
        assert_eq!(followers.accounts_after(None, 9).len(), 1);
        drop(two);
        assert!(followers.accounts_after(None, 9).is_empty());
        append(&here, account, "a", 1).await;
        assert!(followers.is_idle());
        assert!(taken(&mut here.follow(account).await.unwrap(), &[]).is_empty());
    }
}
