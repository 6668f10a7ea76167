//! Accounts made, changed, listed and removed, with everything that belongs to them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{AccountId, Id, MailboxName, Secret};
use posthaste_store::CommitOutcome;

use crate::account::{Account, AccountChange, Forward, NewAccount, QuotaRight, Referral};
use crate::address::Address;
use crate::adopted::refuse_forged;
use crate::directory::Directory;
use crate::error::{DirectoryError, Result};
use crate::forward;
use crate::group::refuse_group;
use crate::hashing::HashShare;
use crate::own_limits;
use crate::password::{self, Credentials};
use crate::record::{self, Stored};
use crate::records::{TRIES, parse_address};
use crate::unix_time;

/// Records per engine call when all of a kind are read.
const SCAN_LIMIT: usize = 256;

impl Directory {
    /// Makes an account.
    #[boxed]
    pub async fn add(&self, name: &str, password: &Secret<String>, new: NewAccount) -> Result<Account> {
        let address = parse_address(name)?;
        if let Some(account) = self.records.alias_target(address.as_str()).await? {
            return Err(DirectoryError::AliasExists { alias: address.to_string(), account });
        }
        if self.records.stored(address.as_str()).await?.is_some() {
            return Err(DirectoryError::AccountExists(address.to_string()));
        }
        refuse_group(&self.records, &address).await?;
        let credentials = self.credentials(password).await?;
        self.records.note_domain_of(&address).await?;
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
                own_limits: own_limits::boxed(new.own_limits),
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
        self.put_new(&address, stored).await
    }

    /// Stores the record of an account that must be new.
    async fn put_new(&self, address: &Address, stored: Stored) -> Result<Account> {
        match self.records.put(record::account_key(address.as_str()), 0, Some(stored.write()?)).await? {
            CommitOutcome::Done => {
                self.postmasters.accounts_changed();
                Ok(Arc::unwrap_or_clone(stored.account))
            }
            CommitOutcome::Conflict => Err(DirectoryError::AccountExists(address.to_string())),
        }
    }

    /// Makes an account of one in another directory, password, settings and Sieve scripts
    /// included, under a name and an id of its own. A certificate that another account lists by
    /// now stays with that one. A record that would harm other accounts here is refused.
    #[boxed]
    pub async fn adopt(
        &self,
        (from, account): (&Self, &str),
        name: &str,
        id: AccountId,
        right: QuotaRight,
    ) -> Result<Account> {
        let (account, address) = (parse_address(account)?, parse_address(name)?);
        let mut stored = from.records.existing(account.as_str()).await?;
        refuse_forged(&stored, self.policy)?;
        if let Some(account) = self.records.alias_target(address.as_str()).await? {
            return Err(DirectoryError::AliasExists { alias: address.to_string(), account });
        }
        refuse_group(&self.records, &address).await?;
        self.records.note_domain_of(&address).await?;
        // Scripts first: without its active script an account would get its mail unfiltered.
        self.scripts.adopt(&from.scripts, stored.account.id, id).await?;
        // A right over one domain gives no right over another.
        let sets_quotas = right == QuotaRight::Keep
            && stored.account.sets_quotas
            && stored.account.domain() == address.domain();
        // The oldest account may get the mail of postmasters.
        let created = match right {
            QuotaRight::Keep => stored.account.created,
            QuotaRight::Drop => unix_time::now_signed(),
        };
        let adopted = Arc::unwrap_or_clone(stored.account);
        let name = address.to_string();
        stored.account = Arc::new(Account { id, name, version: 1, sets_quotas, created, ..adopted });
        stored.certificates = self.certificates.free(address.as_str(), stored.certificates).await?;
        // Before the account: otherwise a crash would leave it without them permanently.
        for fingerprint in &stored.certificates {
            self.certificates.put_key(address.as_str(), fingerprint).await?;
        }
        self.put_new(&address, stored).await
    }

    /// The account of exactly this name (in any spelling); aliases and sub-addresses are not
    /// followed.
    #[boxed]
    pub async fn account(&self, name: &str) -> Result<Option<Account>> {
        let address = parse_address(name)?;
        Ok(self.records.account(address.as_str()).await?.map(Arc::unwrap_or_clone))
    }

    /// Accounts by name, those after `after`, at most `limit`.
    #[boxed]
    pub async fn accounts(&self, after: Option<&str>, limit: usize) -> Result<Vec<Account>> {
        let after = after.map(record::account_key);
        let entries = self.records.scan(record::ACCOUNT_PREFIX, after.as_deref(), limit).await?;
        let account = |entry| Stored::read(entry).map(|stored| Arc::unwrap_or_clone(stored.account));
        entries.iter().map(account).collect()
    }

    /// Changes an account's settings.
    #[boxed]
    pub async fn set(&self, name: &str, change: AccountChange) -> Result<Account> {
        let changed = self
            .records
            .update(name, |stored| {
                let account = Arc::make_mut(&mut stored.account);
                account.quota_bytes = change.quota_bytes.unwrap_or(account.quota_bytes);
                account.quota_messages = change.quota_messages.unwrap_or(account.quota_messages);
                let limits = &mut account.command_limits;
                limits.process = change.command_limit.unwrap_or(limits.process);
                limits.save = change.save_limit.unwrap_or(limits.save);
                account.quota_mailboxes = change.quota_mailboxes.unwrap_or(account.quota_mailboxes);
                let folders = &mut account.folder_limits;
                folders.warn = change.folder_warn.unwrap_or(folders.warn);
                folders.max = change.folder_max.unwrap_or(folders.max);
                account.own_limits = own_limits::boxed(change.own_limits.of(account.own_limits.as_deref()));
                account.format = change.format.unwrap_or(account.format);
                account.keep_original = change.keep_original.unwrap_or(account.keep_original);
                account.disabled = change.disabled.unwrap_or(account.disabled);
                account.sets_quotas = change.sets_quotas.unwrap_or(account.sets_quotas);
            })
            .await?;
        self.postmasters.accounts_changed();
        self.leases.changed(changed.id);
        Ok(changed)
    }

    /// Gives an account a new password. The old one is refused from then on, in every process,
    /// and sessions that were begun with it end: see [`Directory::lease`].
    #[boxed]
    pub async fn set_password(&self, name: &str, password: &Secret<String>) -> Result<Account> {
        let credentials = self.credentials(password).await?;
        let changed = self
            .records
            .update(name, |stored| {
                stored.credentials = credentials.clone();
                Arc::make_mut(&mut stored.account).password_changes += 1;
            })
            .await?;
        self.leases.changed(changed.id);
        Ok(changed)
    }

    /// Sends an account's mail on from now on, or no longer.
    #[boxed]
    pub async fn set_forward(&self, name: &str, forward: Option<Forward>) -> Result<Account> {
        forward::set_forward(&self.records, name, forward).await
    }

    /// Refers IMAP logins of an account to another server from now on, or no longer.
    #[boxed]
    pub async fn set_referral(&self, name: &str, referral: Option<Referral>) -> Result<Account> {
        forward::set_referral(&self.records, name, referral).await
    }

    /// Refers clients for a mailbox, and for all below it, to another server (`url`), or no longer.
    #[boxed]
    pub async fn set_mailbox_referral(
        &self,
        name: &str,
        mailbox: &MailboxName,
        url: Option<&str>,
    ) -> Result<Account> {
        forward::set_mailbox_referral(&self.records, name, mailbox, url).await
    }

    /// Removes an account, its aliases, scripts, annotations and rights, and returns its last
    /// record. Its mailboxes are the caller's to remove.
    #[boxed]
    pub async fn remove(&self, name: &str) -> Result<Account> {
        let address = parse_address(name)?;
        let stored = self.records.existing(address.as_str()).await?;
        // Aliases first: cut short here, the account is still there to be removed again.
        let mut after: Option<String> = None;
        loop {
            let page = self.aliases.list(after.as_deref(), SCAN_LIMIT).await?;
            for alias in page.iter().filter(|alias| alias.account == stored.account.name) {
                match self.aliases.remove(&alias.address).await {
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
        self.acls.forget(&stored.account).await?;
        for _ in 0..TRIES {
            let stored = self.records.existing(address.as_str()).await?;
            let key = record::account_key(address.as_str());
            if self.records.put(key, stored.account.version, None).await? == CommitOutcome::Done {
                self.postmasters.accounts_changed();
                self.leases.changed(stored.account.id);
                self.scripts.remove_all(stored.account.id).await?;
                self.remove_all_annotations(stored.account.id).await?;
                self.app_passwords.forget_uses(stored.account.id).await?;
                for fingerprint in &stored.certificates {
                    self.certificates.forget(fingerprint).await?;
                }
                self.url_keys.forget_all(stored.account.id).await?;
                self.seen.forget_owner(stored.account.id).await?;
                return Ok(Arc::unwrap_or_clone(stored.account));
            }
        }
        Err(DirectoryError::Busy(record::account_key(address.as_str())))
    }

    /// Removes all annotations of an account, its mailboxes and their messages.
    #[boxed]
    pub async fn remove_all_annotations(&self, account: AccountId) -> Result<()> {
        self.metadata.remove_all(account).await?;
        self.message_annotations.forget_account(account).await
    }

    /// Makes a domain (in normal form) one of this server, also before it has an address.
    #[boxed]
    pub async fn add_domain(&self, domain: &str) -> Result<()> {
        self.records.note_domain(domain).await
    }

    async fn credentials(&self, password: &Secret<String>) -> Result<Credentials> {
        let prepared = password::prepare(password.expose())?;
        let policy = self.policy;
        self.hashing.run(HashShare::Own, move || Credentials::make(&prepared, policy)).await?
    }
}
