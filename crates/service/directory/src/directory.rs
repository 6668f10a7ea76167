//! The directory's parts, and its settings while the server runs.
//!
//! The module `accounts` is on top: it makes and removes an account with all that belongs to
//! it. Between the two is a module for each kind of record. These use `records`, and not
//! `accounts`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use parking_lot::{Mutex, RwLock};
use posthaste_mail_model::AccountId;
use posthaste_store::Engine;
use tokio::sync::OnceCell;

use crate::error::Result;
use crate::grant::{AppPasswordId, Login};
use crate::hashing::Hashing;
use crate::lease::{Lease, Leases};
use crate::orphans::Orphans;
use crate::password::{KEY_LEN, Policy};
use crate::recent::Recent;
use crate::records::Records;
use crate::settings::LoginSettings;
use crate::shared_groups::SharedGroups;
use crate::throttle::Throttle;
use crate::verified::Verified;

/// App passwords with the time when their use was noted: 4,096 × 2 × some 50 octets. More cost a
/// read at a login.
const USES_NOTED: usize = 4096;

/// Decides who may log in, and where mail goes. One per process, shared by all sessions.
pub struct Directory {
    pub(crate) records: Records,
    pub(crate) policy: Policy,
    pub(crate) hashing: Hashing,
    pub(crate) verified: Verified,
    pub(crate) throttle: Mutex<Throttle>,
    pub(crate) leases: Leases,
    pub(crate) groups: SharedGroups,
    pub(crate) decoy_key: OnceCell<[u8; KEY_LEN]>,
    /// A hash that no password fits. Checking it costs as much as checking a real one.
    pub(crate) decoy_hash: OnceCell<String>,
    /// Domains, in normal form, whose unknown recipients another server has.
    pub(crate) shared_domains: RwLock<HashSet<String>>,
    logins: RwLock<Arc<LoginSettings>>,
    /// App passwords whose last use was noted lately, and when: unix seconds.
    pub(crate) uses_noted: Mutex<Recent<(AccountId, AppPasswordId), u64>>,
    /// Annotations of messages that do not exist any more.
    pub(crate) orphans: Mutex<Orphans>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Directory {
    /// The directory in a store.
    pub fn new(engine: Arc<dyn Engine>) -> Result<Self> {
        Self::with_policy(engine, Policy::default())
    }

    /// The directory in a store, with other costs for new passwords. Fails only if the system has
    /// no randomness.
    pub fn with_policy(engine: Arc<dyn Engine>, policy: Policy) -> Result<Self> {
        let leases = Leases::new(Arc::clone(&engine));
        Ok(Self {
            records: Records::new(engine),
            policy,
            hashing: Hashing::new(),
            verified: Verified::new()?,
            throttle: Mutex::new(Throttle::new()),
            leases,
            groups: SharedGroups::default(),
            decoy_key: OnceCell::new(),
            decoy_hash: OnceCell::new(),
            shared_domains: RwLock::default(),
            logins: RwLock::default(),
            uses_noted: Mutex::new(Recent::new(USES_NOTED)),
            orphans: Mutex::default(),
        })
    }

    /// Turns ways to log in on and off, except passwords. Open sessions continue.
    pub fn set_logins(&self, settings: LoginSettings) {
        *self.logins.write() = Arc::new(settings);
    }

    /// The ways to log in other than passwords.
    pub(crate) fn logins(&self) -> Arc<LoginSettings> {
        Arc::clone(&self.logins.read())
    }

    /// Names the domains, in normal form, that are shared with another server: it has the
    /// recipients that this one does not know. They take the place of those named before.
    pub fn share_domains(&self, domains: impl IntoIterator<Item = String>) {
        *self.shared_domains.write() = domains.into_iter().collect();
    }

    /// The domains that are shared.
    pub fn shared_domains(&self) -> HashSet<String> {
        self.shared_domains.read().clone()
    }

    /// A hold on what a login rests on, as the account's record was read then.
    pub fn lease(&self, login: &Login) -> Lease {
        self.leases.give(login)
    }

    /// Ends the leases of accounts that changed, for as long as it runs, with a pause between two
    /// rounds.
    #[boxed]
    pub async fn watch_accounts(&self, pause: Duration) {
        self.leases.watch(pause).await;
    }
}
