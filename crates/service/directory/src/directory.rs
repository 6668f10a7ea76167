//! The directory itself: accounts and aliases made, changed, listed and removed.
//!
//! Each change reads a record, and writes it on the condition that nobody else has written it
//! since. A change that lost the race is made again from the present record.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use posthaste_mail_model::{AccountId, Id, Secret};
use posthaste_metrics::Counter;
use posthaste_store::{CommitOutcome, DirectoryChange, Engine};
use tokio::sync::OnceCell;

use crate::account::{Account, AccountChange, NewAccount};
use crate::address::Address;
use crate::error::{DirectoryError, Result};
use crate::grant::{AppPasswordId, Login};
use crate::hashing::Hashing;
use crate::lease::{Lease, Leases};
use crate::orphans::Orphans;
use crate::password::{self, Credentials, KEY_LEN, Policy};
use crate::recent::Recent;
use crate::record::{self, Stored};
use crate::settings::LoginSettings;
use crate::shared_groups::SharedGroups;
use crate::throttle::Throttle;
use crate::unix_time;
use crate::verified::Verified;

/// How often a change that lost a race is made again. Each loss means someone else won: sixteen in
/// a row is no accident.
pub(crate) const TRIES: usize = 16;
/// Records per engine call when all of a kind are read.
const SCAN_LIMIT: usize = 256;
/// App passwords with the time when their use was noted: 4,096 × 2 × some 50 octets. More cost a
/// read at a login.
const USES_NOTED: usize = 4096;

/// An address that belongs to an account of another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The address, in normal form.
    pub address: String,
    /// The account's name.
    pub account: String,
}

/// Decides who may log in, and where mail goes. One per process, shared by all sessions.
pub struct Directory {
    pub(crate) engine: Arc<dyn Engine>,
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
            engine,
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

    /// Makes an account.
    #[boxed]
    pub async fn add(&self, name: &str, password: &Secret<String>, new: NewAccount) -> Result<Account> {
        let address = parse(name)?;
        if let Some(account) = self.alias_target(address.as_str()).await? {
            return Err(DirectoryError::AliasExists { alias: address.to_string(), account });
        }
        if self.stored(address.as_str()).await?.is_some() {
            return Err(DirectoryError::AccountExists(address.to_string()));
        }
        self.no_group(&address).await?;
        let credentials = self.credentials(password).await?;
        self.note_domain(&address).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let randomness = u128::from_le_bytes(password::random()?);
        let stored = Stored::new(
            Account {
                id: AccountId(Id::new(now.as_millis().try_into().unwrap_or(u64::MAX), randomness)),
                name: address.to_string(),
                quota_bytes: new.quota_bytes,
                quota_messages: new.quota_messages,
                command_limits: new.command_limits,
                quota_mailboxes: new.quota_mailboxes,
                folder_limits: new.folder_limits,
                format: new.format,
                keep_original: new.keep_original,
                disabled: false,
                shared: new.shared,
                created: unix_time::seconds(now),
                password_changes: 0,
                scripts: Box::default(),
                forward: None,
                referral: None,
                mailbox_referrals: Box::default(),
                sets_quotas: new.sets_quotas,
                version: 1,
            },
            credentials,
        );
        match self.put(record::account_key(address.as_str()), 0, Some(stored.write()?)).await? {
            CommitOutcome::Done => Ok(stored.account),
            CommitOutcome::Conflict => Err(DirectoryError::AccountExists(address.to_string())),
        }
    }

    /// Makes an account of one in another directory, password, settings and Sieve scripts included,
    /// under a name and an id of its own. A certificate that another account lists by now stays
    /// with that one.
    #[boxed]
    pub async fn adopt(&self, from: &Self, account: &str, name: &str, id: AccountId) -> Result<Account> {
        let (account, address) = (parse(account)?, parse(name)?);
        let mut stored = from.existing(account.as_str()).await?;
        if let Some(account) = self.alias_target(address.as_str()).await? {
            return Err(DirectoryError::AliasExists { alias: address.to_string(), account });
        }
        self.no_group(&address).await?;
        self.note_domain(&address).await?;
        // Scripts first: without its active script an account would get its mail unfiltered.
        self.adopt_scripts(from, stored.account.id, id).await?;
        // A right over one domain gives no right over another.
        let sets_quotas = stored.account.sets_quotas && stored.account.domain() == address.domain();
        stored.account = Account { id, name: address.to_string(), version: 1, sets_quotas, ..stored.account };
        stored.certificates = self.free_certificates(address.as_str(), stored.certificates).await?;
        // Before the account, which a crash would otherwise leave without them for good.
        for fingerprint in &stored.certificates {
            self.note_certificate(address.as_str(), fingerprint).await?;
        }
        match self.put(record::account_key(address.as_str()), 0, Some(stored.write()?)).await? {
            CommitOutcome::Done => Ok(stored.account),
            CommitOutcome::Conflict => Err(DirectoryError::AccountExists(address.to_string())),
        }
    }

    /// The account of exactly this name (in any spelling); aliases and sub-addresses are not
    /// followed.
    #[boxed]
    pub async fn account(&self, name: &str) -> Result<Option<Account>> {
        let address = parse(name)?;
        Ok(self.stored(address.as_str()).await?.map(|stored| stored.account))
    }

    /// Accounts by name, those after `after`, at most `limit`.
    #[boxed]
    pub async fn accounts(&self, after: Option<&str>, limit: usize) -> Result<Vec<Account>> {
        let after = after.map(record::account_key);
        let entries = self.engine.directory_scan(record::ACCOUNT_PREFIX, after.as_deref(), limit).await?;
        entries.iter().map(|entry| Stored::read(entry).map(|stored| stored.account)).collect()
    }

    /// Changes an account's settings.
    #[boxed]
    pub async fn set(&self, name: &str, change: AccountChange) -> Result<Account> {
        self.update(name, |stored| {
            let account = &mut stored.account;
            account.quota_bytes = change.quota_bytes.unwrap_or(account.quota_bytes);
            account.quota_messages = change.quota_messages.unwrap_or(account.quota_messages);
            let limits = &mut account.command_limits;
            limits.process = change.command_limit.unwrap_or(limits.process);
            limits.save = change.save_limit.unwrap_or(limits.save);
            account.quota_mailboxes = change.quota_mailboxes.unwrap_or(account.quota_mailboxes);
            let folders = &mut account.folder_limits;
            folders.warn = change.folder_warn.unwrap_or(folders.warn);
            folders.max = change.folder_max.unwrap_or(folders.max);
            account.format = change.format.unwrap_or(account.format);
            account.keep_original = change.keep_original.unwrap_or(account.keep_original);
            account.disabled = change.disabled.unwrap_or(account.disabled);
            account.sets_quotas = change.sets_quotas.unwrap_or(account.sets_quotas);
        })
        .await
    }

    /// Gives an account a new password. The old one is refused from then on, in every process, and
    /// sessions that were begun with it end: see [`Directory::lease`].
    #[boxed]
    pub async fn set_password(&self, name: &str, password: &Secret<String>) -> Result<Account> {
        let credentials = self.credentials(password).await?;
        self.update(name, |stored| {
            stored.credentials = credentials.clone();
            stored.account.password_changes += 1;
        })
        .await
    }

    /// Removes an account, its aliases, scripts, annotations and rights, and returns its last
    /// record. Its mailboxes are the caller's to remove.
    #[boxed]
    pub async fn remove(&self, name: &str) -> Result<Account> {
        let address = parse(name)?;
        let stored = self.existing(address.as_str()).await?;
        // Aliases first: cut short here, the account is still there to be removed again.
        let mut after: Option<String> = None;
        loop {
            let page = self.aliases(after.as_deref(), SCAN_LIMIT).await?;
            for alias in page.iter().filter(|alias| alias.account == stored.account.name) {
                match self.remove_alias(&alias.address).await {
                    Ok(()) | Err(DirectoryError::NoAlias(_)) => {}
                    Err(e) => return Err(e),
                }
            }
            match page.last() {
                Some(last) if page.len() == SCAN_LIMIT => after = Some(last.address.clone()),
                _ => break,
            }
        }
        // A later account of that name gets no rights with it.
        self.forget_sharing(&stored.account).await?;
        for _ in 0..TRIES {
            let stored = self.existing(address.as_str()).await?;
            let key = record::account_key(address.as_str());
            if self.put(key, stored.account.version, None).await? == CommitOutcome::Done {
                self.remove_scripts(stored.account.id).await?;
                self.remove_all_annotations(stored.account.id).await?;
                self.forget_uses(stored.account.id).await?;
                for fingerprint in &stored.certificates {
                    self.forget_certificate(fingerprint).await?;
                }
                self.forget_url_keys(stored.account.id).await?;
                self.forget_seen_of(stored.account.id).await?;
                return Ok(stored.account);
            }
        }
        Err(DirectoryError::Busy(record::account_key(address.as_str())))
    }

    /// Makes an address belong to an account.
    #[boxed]
    pub async fn add_alias(&self, alias: &str, account: &str) -> Result<Alias> {
        let (address, account) = (parse(alias)?, parse(account)?);
        self.existing(account.as_str()).await?;
        if self.stored(address.as_str()).await?.is_some() {
            return Err(DirectoryError::AccountExists(address.to_string()));
        }
        self.no_group(&address).await?;
        self.note_domain(&address).await?;
        let value = record::write_alias(address.as_str(), account.as_str())?;
        match self.put(record::alias_key(address.as_str()), 0, Some(value)).await? {
            CommitOutcome::Done => Ok(Alias { address: address.to_string(), account: account.to_string() }),
            CommitOutcome::Conflict => {
                // Another process made it, and may have removed it since.
                match self.alias_target(address.as_str()).await? {
                    Some(account) => Err(DirectoryError::AliasExists { alias: address.to_string(), account }),
                    None => Err(DirectoryError::Busy(address.to_string())),
                }
            }
        }
    }

    /// Ends an alias.
    #[boxed]
    pub async fn remove_alias(&self, alias: &str) -> Result<()> {
        let address = parse(alias)?;
        let key = record::alias_key(address.as_str());
        for _ in 0..TRIES {
            let entry = self.engine.directory_entry(&key).await?;
            let entry = entry.ok_or_else(|| DirectoryError::NoAlias(address.to_string()))?;
            if self.put(key.clone(), entry.version, None).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Aliases by address, those after `after`, at most `limit`.
    #[boxed]
    pub async fn aliases(&self, after: Option<&str>, limit: usize) -> Result<Vec<Alias>> {
        let after = after.map(record::alias_key);
        let entries = self.engine.directory_scan(record::ALIAS_PREFIX, after.as_deref(), limit).await?;
        let alias = |entry| {
            let account = record::read_alias(entry)?;
            let address = entry.name.strip_prefix(record::ALIAS_PREFIX).unwrap_or(&entry.name).to_owned();
            Ok(Alias { address, account })
        };
        entries.iter().map(alias).collect()
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

    /// An account's record, by its normal name.
    pub(crate) async fn stored(&self, name: &str) -> Result<Option<Stored>> {
        posthaste_metrics::count(Counter::DirectoryReads, 1);
        Stored::find(&*self.engine, name).await
    }

    /// The account an alias belongs to, if the address is one.
    pub(crate) async fn alias_target(&self, address: &str) -> Result<Option<String>> {
        posthaste_metrics::count(Counter::DirectoryReads, 1);
        let entry = self.engine.directory_entry(&record::alias_key(address)).await?;
        entry.as_ref().map(record::read_alias).transpose()
    }

    async fn existing(&self, name: &str) -> Result<Stored> {
        self.stored(name).await?.ok_or_else(|| DirectoryError::NoAccount(name.to_owned()))
    }

    /// An account's record, by its name in any spelling.
    pub(crate) async fn existing_stored(&self, name: &str) -> Result<Stored> {
        self.existing(parse(name)?.as_str()).await
    }

    /// The normal name of an account that must be there.
    pub(crate) async fn existing_name(&self, name: &str) -> Result<String> {
        Ok(self.existing_stored(name).await?.account.name)
    }

    /// Changes an account's record, again from the start if someone else did meanwhile.
    pub(crate) async fn update(&self, name: &str, change: impl Fn(&mut Stored)) -> Result<Account> {
        let change = |stored: &mut Stored| {
            change(stored);
            Ok(())
        };
        self.try_update(name, change).await
    }

    /// Like [`Self::update`], for a change that the record may not allow.
    pub(crate) async fn try_update(
        &self,
        name: &str,
        change: impl Fn(&mut Stored) -> Result<()>,
    ) -> Result<Account> {
        let address = parse(name)?;
        let key = record::account_key(address.as_str());
        for _ in 0..TRIES {
            let mut stored = self.existing(address.as_str()).await?;
            change(&mut stored)?;
            if self.put(key.clone(), stored.account.version, Some(stored.write()?)).await?
                == CommitOutcome::Done
            {
                stored.account.version += 1;
                return Ok(stored.account);
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Makes a domain (in normal form) ours, also before it has an address.
    #[boxed]
    pub async fn add_domain(&self, domain: &str) -> Result<()> {
        let value = record::write_domain(domain)?;
        // A conflict says that it is there already.
        self.put(record::domain_key(domain), 0, Some(value)).await?;
        Ok(())
    }

    /// Remembers that a domain is ours. It stays ours when its last address goes.
    async fn note_domain(&self, address: &Address) -> Result<()> {
        if let Some(domain) = address.domain() {
            self.add_domain(domain).await?;
        }
        Ok(())
    }

    async fn credentials(&self, password: &Secret<String>) -> Result<Credentials> {
        let prepared = password::prepare(password.expose())?;
        let policy = self.policy;
        self.hashing.run(move || Credentials::make(&prepared, policy)).await?
    }

    pub(crate) async fn put(
        &self,
        name: String,
        expected: u64,
        value: Option<Bytes>,
    ) -> Result<CommitOutcome> {
        Ok(self.engine.directory_commit(DirectoryChange { name, expected, value }).await?)
    }
}

fn parse(text: &str) -> Result<Address> {
    Address::parse(text).map_err(|why| DirectoryError::Address { text: text.to_owned(), why })
}
