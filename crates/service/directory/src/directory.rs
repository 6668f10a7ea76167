//! The directory's parts, and its settings while the server runs.
//!
//! A kind of record is a struct over [`Records`] in a file of its own. It knows neither the
//! directory nor the other kinds. [`Directory`] holds one struct of each kind and gives access
//! to it. Logins and changes of whole accounts are on top: `login`, `accounts`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use posthaste_net::Accounts;
use posthaste_store::Engine;
use tokio::sync::OnceCell;

use crate::acl::Acls;
use crate::aliases::Aliases;
use crate::annotations::Metadata;
use crate::app_password::AppPasswords;
use crate::certificate::Certificates;
use crate::error::Result;
use crate::grant::Login;
use crate::group::{Expansion, Groups, Target};
use crate::hashing::Hashing;
use crate::lease::{Lease, Leases};
use crate::message_annotations::MessageAnnotationRecords;
use crate::password::{KEY_LEN, Policy};
use crate::postmaster::Postmasters;
use crate::records::Records;
use crate::resolve::{Recipient, ResolveError};
use crate::scripts::Scripts;
use crate::seen::SeenFlags;
use crate::settings::LoginSettings;
use crate::shared_groups::Group;
use crate::throttle::Throttle;
use crate::url_keys::UrlKeys;
use crate::verified::Verified;

/// Decides who may log in, and where mail goes. One per process, shared by all sessions.
pub struct Directory {
    pub(crate) records: Records,
    pub(crate) policy: Policy,
    pub(crate) hashing: Hashing,
    pub(crate) verified: Verified,
    pub(crate) throttle: Mutex<Throttle>,
    pub(crate) leases: Leases,
    pub(crate) aliases: Aliases,
    pub(crate) groups: Groups,
    pub(crate) postmasters: Postmasters,
    pub(crate) certificates: Certificates,
    pub(crate) app_passwords: AppPasswords,
    pub(crate) scripts: Scripts,
    pub(crate) acls: Acls,
    pub(crate) metadata: Metadata,
    pub(crate) message_annotations: MessageAnnotationRecords,
    pub(crate) seen: SeenFlags,
    pub(crate) url_keys: UrlKeys,
    pub(crate) decoy_key: OnceCell<[u8; KEY_LEN]>,
    /// A hash that no password fits. Checking it costs as much as checking a real one.
    pub(crate) decoy_hash: OnceCell<String>,
    logins: RwLock<Arc<LoginSettings>>,
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
        let records = Records::new(engine);
        Ok(Self {
            policy,
            hashing: Hashing::new(),
            verified: Verified::new()?,
            throttle: Mutex::new(Throttle::new()),
            leases,
            aliases: Aliases::new(records.clone()),
            groups: Groups::new(records.clone()),
            postmasters: Postmasters::new(records.clone()),
            certificates: Certificates::new(records.clone()),
            app_passwords: AppPasswords::new(records.clone()),
            scripts: Scripts::new(records.clone()),
            acls: Acls::new(records.clone()),
            metadata: Metadata::new(records.clone()),
            message_annotations: MessageAnnotationRecords::new(records.clone()),
            seen: SeenFlags::new(records.clone()),
            url_keys: UrlKeys::new(records.clone()),
            decoy_key: OnceCell::new(),
            decoy_hash: OnceCell::new(),
            logins: RwLock::default(),
            records,
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
        self.groups.addresses().share_domains(domains.into_iter().collect());
    }

    /// The domains that are shared.
    pub fn shared_domains(&self) -> HashSet<String> {
        self.groups.addresses().shared_domains()
    }

    /// Finds the account that gets mail for an address. One to four reads of a record.
    pub fn resolve<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Result<Recipient, ResolveError>> {
        self.groups.addresses().resolve(address)
    }

    /// Whether mail for some address of this domain (in normal form) is or was taken here.
    pub fn is_local_domain<'a>(&'a self, domain: &'a str) -> BoxFuture<'a, Result<bool>> {
        self.groups.addresses().is_local_domain(domain)
    }

    /// Finds the account or the group that gets mail for an address: see [`Groups::target`].
    pub fn target<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Result<Target, ResolveError>> {
        self.groups.target(address)
    }

    /// Finds the account that gets the mail of the postmaster of these domains (in normal form),
    /// if nobody has that address. The first domain with accounts counts. `None` if no account
    /// takes such mail.
    pub fn postmaster<'a>(&'a self, domains: &'a [String]) -> BoxFuture<'a, Result<Option<Recipient>>> {
        self.postmasters.find(domains)
    }

    /// Finds the members of a group: see [`Groups::expand`].
    pub fn expand<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, Result<Expansion, ResolveError>> {
        self.groups.expand(group)
    }

    /// The aliases of accounts.
    pub fn aliases(&self) -> &Aliases {
        &self.aliases
    }

    /// The groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The client certificates that accounts list.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// The app passwords of accounts.
    pub fn app_passwords(&self) -> &AppPasswords {
        &self.app_passwords
    }

    /// The Sieve scripts of accounts.
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// The access control lists of mailboxes.
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// The annotations of mailboxes, and of the server: RFC 5464.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The annotations of messages: RFC 5257.
    pub fn message_annotations(&self) -> &MessageAnnotationRecords {
        &self.message_annotations
    }

    /// The flags `\Seen` of users in mailboxes of others.
    pub fn seen(&self) -> &SeenFlags {
        &self.seen
    }

    /// The keys of authorised URLs.
    pub fn url_keys(&self) -> &UrlKeys {
        &self.url_keys
    }

    /// A hold on what a login rests on, as the account's record was read then.
    pub fn lease(&self, login: &Login) -> Lease {
        self.leases.give(login)
    }

    /// Has the limits of sessions follow the records of their accounts, while
    /// [`Self::watch_accounts`] runs.
    pub fn renew_limits(&self, limits: Accounts) {
        self.leases.renew_limits(limits);
    }

    /// Ends the leases of accounts that changed, for as long as it runs, with a pause between two
    /// rounds.
    #[boxed]
    pub async fn watch_accounts(&self, pause: Duration) {
        self.leases.watch(pause).await;
    }
}
