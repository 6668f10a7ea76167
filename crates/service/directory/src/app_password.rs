//! App passwords: additional, generated passwords of an account, one for each program or device.
//!
//! | what | |
//! | --- | --- |
//! | the password | 24 characters of 5 random bits: 120 bits. Blanks and hyphens in it do not count, nor does the case of letters |
//! | what is kept | one SHA-256 of it. Only passwords that people choose need a slow hash: 2^120 tries are impossible at any speed, and so is a table of them. So it needs no salt, and a login with it does not take 20 ms |
//! | SCRAM | no: the server would have to know which of several passwords is meant before it sends a salt |
//! | a new password of the account | leaves them as they are |
//!
//! They are a part of the account's record, so every copy of an account includes them. The time of
//! the last use is in a record of its own, `used/<account id>/<id>`, written at most once a day. In
//! the account's record, each change would make every cache read it again.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, Secret};
use posthaste_store::CommitOutcome;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::account::Account;
use crate::credential::{AppPassword, NewAppPassword, Verifier};
use crate::error::{DirectoryError, Result};
use crate::grant::{AppPasswordId, By, Client, Login, Proven};
use crate::limits::{APP_PASSWORDS_MAX, LABEL_CHARS_MAX};
use crate::login_error::{LoginError, LoginFailure, enabled};
use crate::password;
use crate::recent::Recent;
use crate::record::{self, Stored};
use crate::records::Records;
use crate::unix_time::now;

/// Letters and digits that cannot be confused when read aloud or copied by hand.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Characters of a password: 120 bits.
const LEN: usize = 24;
/// Characters between two hyphens.
const GROUP: usize = 4;
/// Between two writes of a last use, seconds.
const USE_NOTED_EVERY: u64 = 24 * 60 * 60;
/// App passwords with the time when their use was noted: 4,096 × 2 × some 50 octets. More cost a
/// read at a login.
const USES_NOTED: usize = 4096;
/// Records removed at a time.
const PAGE: usize = 256;

/// The app passwords of all accounts.
pub struct AppPasswords {
    records: Records,
    /// App passwords whose last use was noted lately, and when: unix seconds.
    uses_noted: Mutex<Recent<(AccountId, AppPasswordId), u64>>,
}

impl AppPasswords {
    pub(crate) fn new(records: Records) -> Self {
        Self { records, uses_noted: Mutex::new(Recent::new(USES_NOTED)) }
    }

    /// Makes an app password, which is shown this once.
    #[boxed]
    pub async fn add(&self, account: &str, new: NewAppPassword) -> Result<(AppPassword, Secret<String>)> {
        let chars = new.label.chars().count();
        if chars == 0 || chars > LABEL_CHARS_MAX || new.label.contains(char::is_control) {
            return Err(DirectoryError::Label);
        }
        let text = generate()?;
        let verifier = verifier(text.expose()).ok_or(DirectoryError::Label)?;
        let id = AppPasswordId(u64::from_le_bytes(password::random()?));
        let NewAppPassword { label, services, expires } = new;
        let made = AppPassword { id, label, services, created: now(), expires, verifier };
        self.records
            .try_update(account, |stored| {
                if stored.app_passwords.iter().any(|one| one.label == made.label) {
                    return Err(DirectoryError::LabelTaken(made.label.clone()));
                }
                if stored.app_passwords.len() >= APP_PASSWORDS_MAX {
                    return Err(DirectoryError::TooManyAppPasswords);
                }
                stored.app_passwords.push(made.clone());
                Ok(())
            })
            .await?;
        Ok((made, text))
    }

    /// The app passwords of an account.
    #[boxed]
    pub async fn of(&self, account: &str) -> Result<Vec<AppPassword>> {
        Ok(self.records.existing_stored(account).await?.app_passwords)
    }

    /// Removes an app password, by its label or its id. Sessions that were begun with it end.
    #[boxed]
    pub async fn remove(&self, account: &str, which: &str) -> Result<AppPassword> {
        let of = |stored: &Stored| {
            let all = &stored.app_passwords;
            all.iter()
                .position(|one| one.label == which)
                .or_else(|| all.iter().position(|one| one.id.to_string() == which))
        };
        let none = || DirectoryError::NoAppPassword(which.to_owned());
        let stored = self.records.existing_stored(account).await?;
        let removed = of(&stored).and_then(|at| stored.app_passwords.get(at)).cloned().ok_or_else(none)?;
        self.records
            .try_update(account, |stored| {
                stored.app_passwords.retain(|one| one.id != removed.id);
                Ok(())
            })
            .await?;
        let key = record::used_key(stored.account.id, removed.id);
        if let Some(entry) = self.records.entry(&key).await? {
            self.records.put(key, entry.version, None).await?;
        }
        Ok(removed)
    }

    /// The time when an app password was used last, unix seconds, to a day.
    #[boxed]
    pub async fn last_use(&self, account: &Account, id: AppPasswordId) -> Result<Option<u64>> {
        let entry = self.records.entry(&record::used_key(account.id, id)).await?;
        entry.as_ref().map(record::read_used).transpose()
    }

    /// The login of an account with one of its app passwords; `None` if no app password matches.
    pub(crate) async fn login(
        &self,
        stored: &Stored,
        given: &str,
        client: Client,
    ) -> Option<std::result::Result<Proven, LoginError>> {
        let found = find(stored, given)?;
        let refused = |failure| Some(Err(LoginError::at_once(failure)));
        if found.has_ended(now()) {
            return refused(LoginFailure::Expired);
        }
        if !found.is_for(client.service) {
            return refused(LoginFailure::Scope);
        }
        let account = match enabled(Arc::clone(&stored.account)) {
            Ok(account) => account,
            Err(error) => return Some(Err(error)),
        };
        if let Err(error) = self.note_use(account.id, found.id).await {
            tracing::warn!(account = account.name, %error, "the last use of an app password is not noted");
        }
        let login = Login::new(account, By::AppPassword(found.id));
        Some(Ok(Proven(Login { until: found.expires, ..login })))
    }

    /// Notes that an app password was used, once a day.
    async fn note_use(&self, account: AccountId, id: AppPasswordId) -> Result<()> {
        let (key, now) = ((account, id), now());
        let is_recent = |noted: u64| now.saturating_sub(noted) < USE_NOTED_EVERY;
        if self.uses_noted.lock().get(&key).is_some_and(is_recent) {
            return Ok(());
        }
        let name = record::used_key(account, id);
        let entry = self.records.entry(&name).await?;
        let noted = entry.as_ref().map(record::read_used).transpose()?;
        if !noted.is_some_and(is_recent) {
            let expected = entry.map_or(0, |entry| entry.version);
            // Lost to another process, which noted the same.
            let _: CommitOutcome =
                self.records.put(name.clone(), expected, Some(record::write_used(&name, now)?)).await?;
        }
        self.uses_noted.lock().insert(key, noted.filter(|noted| is_recent(*noted)).unwrap_or(now));
        Ok(())
    }

    /// Removes the records of the uses of an account's app passwords.
    pub(crate) async fn forget_uses(&self, account: AccountId) -> Result<()> {
        let prefix = record::used_prefix(account);
        loop {
            let page = self.records.scan(&prefix, None, PAGE).await?;
            for entry in &page {
                self.records.put(entry.name.clone(), entry.version, None).await?;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }
}

/// The app password of an account that was given, if it is one.
fn find<'s>(stored: &'s Stored, given: &str) -> Option<&'s AppPassword> {
    if stored.app_passwords.is_empty() {
        return None;
    }
    let given = verifier(given)?;
    // All are compared, so that the time does not reveal which one fits.
    stored
        .app_passwords
        .iter()
        .fold(None, |found, one| if bool::from(one.verifier.0.ct_eq(&given.0)) { Some(one) } else { found })
}

/// The stored hash of a password; `None` for one that cannot be ours.
fn verifier(given: &str) -> Option<Verifier> {
    // Ours have 24 characters and 5 hyphens; somebody may have typed blanks, too.
    if given.len() > 4 * LEN {
        return None;
    }
    let text: Vec<u8> =
        given.bytes().filter(|b| !matches!(b, b' ' | b'-' | b'\t')).map(|b| b.to_ascii_lowercase()).collect();
    if text.len() != LEN || !text.iter().all(|b| ALPHABET.contains(b)) {
        return None;
    }
    let mut hash = Sha256::new();
    hash.update(b"posthaste app password\0");
    hash.update(&text);
    Some(Verifier(hash.finalize().into()))
}

fn generate() -> Result<Secret<String>> {
    let random = password::random::<LEN>()?;
    let mut text = String::with_capacity(LEN + LEN / GROUP);
    for (at, octet) in random.iter().enumerate() {
        if at > 0 && at % GROUP == 0 {
            text.push('-');
        }
        text.push(char::from(*ALPHABET.get(usize::from(octet % 32)).unwrap_or(&b'a')));
    }
    Ok(Secret::new(text))
}
