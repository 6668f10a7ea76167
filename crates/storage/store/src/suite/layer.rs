//! Engines for tests that wrap another engine and change some of its calls.

use std::pin::Pin;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq, NumSet};

use crate::change::{CommitOutcome, MailboxCommit};
use crate::engine::{
    BodyRange, Changes, DirectoryChange, DirectoryEntry, Engine, Epoch, Holders, Recodes, Report, SummaryOf,
    Unreadable, Visit,
};
use crate::error::Result;
use crate::head::MailboxHead;
use crate::list::{ListCommit, MailboxList};
use crate::row::Row;

/// What `async_trait` makes of `async fn`: an implementation may be either.
type BoxedResult<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Makes the trait and the engine of these calls. Both hand on the future of the engine behind
/// them. With an `async fn` for each, every layer would have thirty futures of its own to compile.
macro_rules! layer_of {
    ($($name:ident <$($life:lifetime),*> ($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {
        /// An engine in front of [`Layer::inner`]. Each call goes there unless the layer has one of
        /// its own, which is an `async fn` below `#[async_trait]`.
        ///
        /// Whatever implements this is an [`Engine`].
        #[allow(missing_docs, reason = "each is the call of `Engine` that has its name")]
        pub trait Layer: Send + Sync + 'static {
            type Inner: Engine + ?Sized;
            /// The wrapped engine.
            fn inner(&self) -> &Self::Inner;

            fn epoch(&self) -> Epoch {
                self.inner().epoch()
            }
            fn commits_pairs(&self) -> bool {
                self.inner().commits_pairs()
            }
            fn recodes(&self) -> Recodes {
                self.inner().recodes()
            }
            $(
                fn $name<'this, $($life,)* 'all>(&'this self, $($argument: $kind),*) -> BoxedResult<'all, $answer>
                where
                    'this: 'all,
                    $($life: 'all,)*
                    Self: 'all,
                {
                    self.inner().$name($($argument),*)
                }
            )+
        }

        impl<L: Layer> Engine for L {
            fn epoch(&self) -> Epoch {
                Layer::epoch(self)
            }
            fn commits_pairs(&self) -> bool {
                Layer::commits_pairs(self)
            }
            fn recodes(&self) -> Recodes {
                Layer::recodes(self)
            }
            $(
                fn $name<'this, $($life,)* 'all>(&'this self, $($argument: $kind),*) -> BoxedResult<'all, $answer>
                where
                    'this: 'all,
                    $($life: 'all,)*
                    Self: 'all,
                {
                    Layer::$name(self, $($argument),*)
                }
            )+
            fn maintain<'this, 'all>(&'this self) -> BoxedResult<'all, Report>
            where
                'this: 'all,
                Self: 'all,
            {
                self.inner().maintain()
            }
            fn check<'this, 'progress, 'all>(
                &'this self,
                progress: &'progress mut (dyn FnMut(f64) + Send),
            ) -> BoxedResult<'all, Report>
            where
                'this: 'all,
                'progress: 'all,
                Self: 'all,
            {
                self.inner().check(progress)
            }
        }
    };
}

layer_of! {
    directory_entry<'name>(name: &'name str) -> Option<DirectoryEntry>;
    directory_scan_within<'prefix, 'after>(
        prefix: &'prefix str,
        after: Option<&'after str>,
        limit: usize,
        octets: usize
    ) -> Vec<DirectoryEntry>;
    directory_names<'prefix, 'after>(prefix: &'prefix str, after: Option<&'after str>, limit: usize)
        -> Vec<String>;
    directory_commit<>(change: DirectoryChange) -> CommitOutcome;
    load_list<>(account: AccountId) -> MailboxList;
    commit_list<>(commit: ListCommit) -> CommitOutcome;
    may_be_of_another<>(account: AccountId, mailbox: MailboxId) -> bool;
    heads<'mailboxes>(mailboxes: &'mailboxes [MailboxId]) -> Vec<Option<MailboxHead>>;
    load<'rows>(mailbox: MailboxId, rows: &'rows mut (dyn for<'r> FnMut(&'r [Row]) + Send)) -> MailboxHead;
    changes_since<>(mailbox: MailboxId, since: ModSeq) -> Changes;
    commit<>(commit: MailboxCommit) -> CommitOutcome;
    commit_pair<>(pair: [MailboxCommit; 2]) -> CommitOutcome;
    summaries<'uids, 'visit, 'called>(
        mailbox: MailboxId, uids: &'uids NumSet, visit: &'visit mut Visit<'called>
    ) -> Unreadable;
    read_body<>(body: BodyId, range: BodyRange) -> Bytes;
    recode<>(body: BodyId, bytes: Bytes, holders: Holders) -> CommitOutcome;
    add_summary<>(message: SummaryOf, summary: Bytes) -> CommitOutcome;
    references<>(body: BodyId) -> u64;
}
