//! Logins last as long as their credentials: an account that is disabled or removed loses its
//! sessions, whichever process changed it. So do those that were begun with a password, an app
//! password, a listed certificate or a token that is no longer valid. Open sessions also get other
//! changes of the account, such as its quota and its limits.
//!
//! A session holds a [`Lease`] from its login on. One task per process
//! ([`crate::Directory::watch_accounts`]) compares the accounts that have leases with their
//! records, ends the leases that no longer hold, and renews the others. While the engine's epoch
//! stays the same no other process can have changed anything, and a round costs one read of a
//! number. A change by this process is in no epoch: [`Leases::changed`]. On a cluster, which has no
//! epoch, a round reads each account that has sessions, one after the other.
//!
//! Invariants: a lease is compared at least once after it was given. Its record may have
//! changed between the login's read and the lease. No lock is held over a read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use parking_lot::{Mutex, RwLock};
use posthaste_mail_model::AccountId;
use posthaste_net::Accounts;
use posthaste_store::Engine;
use tokio::sync::watch;

use crate::account::Account;
use crate::error::Result;
use crate::grant::{By, Login};
use crate::record::Stored;
use crate::unix_time::now;

/// Records that a round reads before other tasks run: some engines never wait for a read. Records
/// have up to tens of KiB, and there may be one for each connection.
const READS_AT_ONCE: usize = 16;

/// The credential on which a login rests.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    account: AccountId,
    by: By,
    /// The number of the account's password, if the login is by that password.
    password_changes: u64,
    until: Option<u64>,
}

impl Key {
    fn of(login: &Login) -> Self {
        let password_changes = match login.by {
            By::Password => login.account.password_changes,
            _ => 0,
        };
        Self { account: login.account.id, by: login.by, password_changes, until: login.until }
    }

    /// Whether the login may go on, by the account's record.
    fn holds(&self, stored: &Stored) -> bool {
        !stored.account.disabled && self.is_of(stored)
    }

    /// Whether the account still has the credential, by its record.
    fn is_of(&self, stored: &Stored) -> bool {
        let account = &stored.account;
        account.id == self.account
            && match self.by {
                By::Password => account.password_changes == self.password_changes,
                By::AppPassword(id) => stored.app_passwords.iter().any(|one| one.id == id),
                By::ListedCertificate(one) => stored.certificates.contains(&one),
                By::Certificate(one) => stored.certificates.is_empty() || stored.certificates.contains(&one),
                By::Token => true,
            }
    }

    /// Whether the time of the login is over.
    fn has_ended(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// Whether an account still has the credential of a login, by its record.
pub(crate) fn has_credential(stored: &Stored, login: &Login) -> bool {
    Key::of(login).is_of(stored)
}

/// A login's hold on its account. Clones are of the same login.
#[derive(Clone)]
pub struct Lease {
    grant: Arc<Grant>,
    ended: watch::Receiver<bool>,
}

/// Shared by all logins that rest on the same.
struct Grant {
    /// The record as it was last read.
    account: RwLock<Arc<Account>>,
    ended: watch::Sender<bool>,
    compared: AtomicBool,
}

/// The leases that are out.
pub(crate) struct Leases {
    engine: Arc<dyn Engine>,
    given: Mutex<HashMap<Key, Weak<Grant>>>,
    /// The limits of accounts that sessions count against.
    limits: OnceLock<Accounts>,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("account", &self.grant.name()).field("ended", &self.is_ended()).finish()
    }
}

impl Lease {
    /// Whether the account, or the credential of the login, was removed.
    pub fn is_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Becomes true once that is so.
    pub fn signal(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }

    /// Returns once that is so. May be dropped and called again at any time.
    #[boxed]
    pub async fn ended(&mut self) {
        // The sender lives as long as this lease, so there is no error to see.
        let _ = self.ended.wait_for(|ended| *ended).await;
    }
}

/// Returns once a session's lease ends. Without a lease it never returns.
#[boxed]
pub async fn revoked(lease: &mut Option<Lease>) {
    match lease {
        Some(lease) => lease.ended().await,
        None => std::future::pending().await,
    }
}

impl Lease {
    /// The account, as its record was read last. Sessions that rest on the same share it.
    pub fn account(&self) -> Arc<Account> {
        Arc::clone(&self.grant.account.read())
    }

    /// The account, if its record is newer than this one.
    pub fn newer(&self, account: &Account) -> Option<Arc<Account>> {
        let now = self.grant.account.read();
        (now.version > account.version).then(|| Arc::clone(&now))
    }
}

impl Grant {
    fn name(&self) -> String {
        self.account.read().name.clone()
    }

    /// Keeps a record, unless there is a newer one or it is known. Whether it is kept.
    fn renew(&self, account: Arc<Account>) -> bool {
        let mut now = self.account.write();
        let is_newer = account.version > now.version;
        if is_newer {
            *now = account;
        }
        is_newer
    }
}

/// The leases that a round compares with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasesToCompare {
    /// All leases.
    All,
    /// The leases that were not compared since they were given.
    New,
}

impl Leases {
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, given: Mutex::default(), limits: OnceLock::new() }
    }

    /// Has these limits follow the records of accounts with sessions.
    pub fn renew_limits(&self, limits: Accounts) {
        // A process has one server, and a server one set of limits.
        let _ = self.limits.set(limits);
    }

    /// A lease for a login, based on the account's record as it was read then.
    pub fn give(&self, login: &Login) -> Lease {
        let mut all = self.given.lock();
        let key = Key::of(login);
        let grant = all.get(&key).and_then(Weak::upgrade).filter(|grant| !*grant.ended.borrow());
        let grant = grant.unwrap_or_else(|| {
            let (of, ended) = (RwLock::new(Arc::clone(&login.account)), watch::Sender::new(false));
            let grant = Arc::new(Grant { account: of, ended, compared: AtomicBool::new(false) });
            all.insert(key, Arc::downgrade(&grant));
            grant
        });
        grant.renew(Arc::clone(&login.account));
        // This login may have read an older record than the last comparison did.
        grant.compared.store(false, Ordering::Release);
        Lease { ended: grant.ended.subscribe(), grant }
    }

    /// This process has changed an account, such as by SETQUOTA. The next round compares its
    /// leases.
    pub fn changed(&self, account: AccountId) {
        let all = self.given.lock();
        let of_account = all.iter().filter(|(key, _)| key.account == account);
        for grant in of_account.filter_map(|(_, grant)| grant.upgrade()) {
            grant.compared.store(false, Ordering::Release);
        }
    }

    /// The leases that sessions hold; the others are forgotten.
    fn held(&self) -> Vec<(Key, Arc<Grant>)> {
        let mut all = self.given.lock();
        all.retain(|_, grant| grant.strong_count() > 0);
        all.iter().filter_map(|(key, grant)| Some((*key, grant.upgrade()?))).collect()
    }

    /// Ends the leases of accounts that changed, for as long as it runs, with a pause between two
    /// rounds.
    #[boxed]
    pub async fn watch(&self, pause: Duration) {
        let mut seen = None;
        loop {
            let epoch = self.engine.epoch();
            let which = match epoch.is_none() || epoch != seen {
                true => LeasesToCompare::All,
                false => LeasesToCompare::New,
            };
            match self.compare(which).await {
                Ok(()) => seen = epoch,
                // A record that cannot be read now is compared in the next round.
                Err(error) => {
                    tracing::warn!(%error, "cannot check whether accounts of sessions have changed")
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Compares leases with the records: all of them, also if some records cannot be read. The
    /// error is the first of those reads.
    #[boxed]
    pub async fn compare(&self, which: LeasesToCompare) -> Result<()> {
        let (now, mut outcome, mut reads) = (now(), Ok(()), 0_usize);
        for (key, grant) in self.held() {
            // Time changes no record.
            if key.has_ended(now) {
                grant.ended.send_replace(true);
                continue;
            }
            // Set before the read: a lease that is given meanwhile is compared again.
            if grant.compared.swap(true, Ordering::AcqRel) && which == LeasesToCompare::New {
                continue;
            }
            reads += 1;
            if reads.is_multiple_of(READS_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            let stored = match Stored::find(&*self.engine, &grant.name()).await {
                Ok(stored) => stored,
                Err(error) => {
                    grant.compared.store(false, Ordering::Release);
                    outcome = outcome.and(Err(error));
                    continue;
                }
            };
            match stored.filter(|stored| key.holds(stored)) {
                Some(stored) => {
                    if grant.renew(Arc::clone(&stored.account))
                        && let Some(limits) = self.limits.get()
                    {
                        limits.renew(stored.account.limited());
                    }
                }
                None => {
                    tracing::info!(account = grant.name(), "the account has changed: its sessions end");
                    grant.ended.send_replace(true);
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use posthaste_net::AccountLimit;

    use super::*;
    use crate::record::account_key;
    use crate::testing::{add, by_password, directory, other_process, secret};
    use crate::{AccountChange, OwnLimitChanges};

    #[tokio::test]
    async fn a_change_by_another_process_ends_the_leases_of_its_account() {
        let (records, directory) = directory();
        let other = other_process(&records);
        let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
        let quota = AccountChange { quota_bytes: Some(Some(5)), ..AccountChange::default() };
        for name in ["disabled", "removed", "again", "password", "quota"] {
            add(&directory, name, "pencil").await;
        }
        let mut leases = HashMap::new();
        for account in directory.accounts(None, 10).await.unwrap() {
            leases.insert(account.name.clone(), directory.lease(&by_password(&account)));
        }
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        assert!(leases.values().all(|lease| !lease.is_ended()));
        let old_quota = directory.account("quota").await.unwrap().unwrap();
        assert_eq!(leases["quota"].newer(&old_quota), None);
        other.set("disabled", disable).await.unwrap();
        other.remove("removed").await.unwrap();
        other.remove("again").await.unwrap();
        add(&other, "again", "pencil").await;
        other.set_password("password", &secret("pen")).await.unwrap();
        other.set("quota", quota).await.unwrap();
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        let mut ended: Vec<_> =
            leases.iter().filter(|(_, lease)| lease.is_ended()).map(|(name, _)| name.as_str()).collect();
        ended.sort_unstable();
        assert_eq!(ended, ["again", "disabled", "password", "removed"]);
        let newer = leases["quota"].newer(&old_quota).unwrap();
        assert_eq!((newer.quota_bytes, leases["quota"].newer(&newer)), (Some(5), None));
        leases.get_mut("removed").unwrap().ended().await;
        // A login after the change has a lease of its own.
        let account = directory.account("password").await.unwrap().unwrap();
        let fresh = directory.lease(&by_password(&account));
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        assert!(!fresh.is_ended());
    }

    #[tokio::test]
    async fn a_lease_given_late_is_compared_though_nothing_changed_since() {
        let (records, directory) = directory();
        let account = add(&directory, "ana", "pencil").await;
        let earlier = directory.lease(&by_password(&account));
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        other_process(&records).set_password("ana", &secret("pen")).await.unwrap();
        // The round that saw the epoch change came before this lease; the next one compares new
        // leases only.
        let late = directory.lease(&by_password(&account));
        directory.leases.compare(LeasesToCompare::New).await.unwrap();
        assert!(late.is_ended() && earlier.is_ended());
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_read_delays_no_other_account() {
        let (records, directory) = directory();
        let mut leases = Vec::new();
        for number in 0..16 {
            let account = add(&directory, &format!("a{number}"), "pencil").await;
            leases.push(directory.lease(&by_password(&account)));
        }
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
        for number in 8..16 {
            other_process(&records).set(&format!("a{number}"), disable).await.unwrap();
        }
        for number in 0..8 {
            records.put(&account_key(&format!("a{number}")), b"damaged".to_vec().into());
        }
        directory.leases.compare(LeasesToCompare::All).await.unwrap_err();
        assert!(leases[8..].iter().all(Lease::is_ended));
        assert!(!leases[..8].iter().any(Lease::is_ended));
    }

    /// SETQUOTA of an IMAP client: the epoch stays the same.
    #[tokio::test]
    async fn a_change_by_this_process_reaches_open_sessions() {
        let (_, directory) = directory();
        let account = add(&directory, "ana", "pencil").await;
        let (lease, round) = (directory.lease(&by_password(&account)), LeasesToCompare::New);
        directory.leases.compare(round).await.unwrap();
        let quota = AccountChange { quota_bytes: Some(Some(5)), ..AccountChange::default() };
        directory.set("ana", quota).await.unwrap();
        directory.leases.compare(round).await.unwrap();
        assert_eq!(lease.newer(&account).unwrap().quota_bytes, Some(5));
        let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
        directory.set("ana", disable).await.unwrap();
        directory.leases.compare(round).await.unwrap();
        assert!(lease.is_ended());
        let again = AccountChange { disabled: Some(false), ..AccountChange::default() };
        let account = directory.set("ana", again).await.unwrap();
        let lease = directory.lease(&by_password(&account));
        directory.set_password("ana", &secret("pen")).await.unwrap();
        directory.leases.compare(round).await.unwrap();
        assert!(lease.is_ended());
        let account = directory.account("ana").await.unwrap().unwrap();
        let lease = directory.lease(&by_password(&account));
        directory.leases.compare(round).await.unwrap();
        assert!(!lease.is_ended());
        directory.remove("ana").await.unwrap();
        directory.leases.compare(round).await.unwrap();
        assert!(lease.is_ended());
    }

    /// Ten thousand sessions were compared in one poll, and other tasks waited for all of them.
    #[tokio::test]
    async fn other_tasks_run_during_a_round() {
        let (_, directory) = directory();
        let account = add(&directory, "ana", "pencil").await;
        let lease = |until| directory.lease(&Login { until: Some(until), ..by_password(&account) });
        let of = |count: usize| (0..count as u64).map(|n| lease(u64::MAX - n)).collect::<Vec<_>>();
        for (count, waits) in [(READS_AT_ONCE - 1, 0), (4 * READS_AT_ONCE, 4)] {
            let leases = of(count);
            let mut round = std::pin::pin!(directory.leases.compare(LeasesToCompare::All));
            let mut waited = 0;
            std::future::poll_fn(|cx| {
                let polled = round.as_mut().poll(cx);
                waited += usize::from(polled.is_pending());
                polled
            })
            .await
            .unwrap();
            assert_eq!(waited, waits);
            assert!(!leases.iter().any(Lease::is_ended));
        }
    }

    #[tokio::test]
    async fn limits_of_an_account_reach_its_open_sessions() {
        let (records, directory) = directory();
        let (accounts, peer) = (Accounts::default(), IpAddr::from([192, 0, 2, 1]));
        directory.renew_limits(accounts.clone());
        let account = add(&directory, "ana", "pencil").await;
        let share = accounts.admit(account.limited(), peer).unwrap();
        let _lease = directory.lease(&by_password(&account));
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        let mut own_limits = OwnLimitChanges::NONE;
        own_limits.set(AccountLimit::Connections, Some(1));
        let change = AccountChange { own_limits, ..AccountChange::default() };
        let changed = other_process(&records).set("ana", change).await.unwrap();
        assert_eq!(changed.own_limits.as_deref().and_then(|own| own.get(AccountLimit::Connections)), Some(1));
        let second = accounts.admit(account.limited(), peer).unwrap();
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        // A login that read the record before the change.
        assert!(accounts.admit(account.limited(), peer).is_none());
        drop((share, second));
        assert!(accounts.admit(changed.limited(), peer).is_some());
    }

    #[tokio::test]
    async fn leases_that_nobody_holds_are_forgotten() {
        let (_, directory) = directory();
        let account = add(&directory, "ana", "pencil").await;
        let lease = directory.lease(&by_password(&account));
        assert_eq!(directory.leases.held().len(), 1);
        drop(lease);
        assert!(directory.leases.held().is_empty() && directory.leases.given.lock().is_empty());
    }
}
