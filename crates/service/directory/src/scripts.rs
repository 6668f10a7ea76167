//! An account's Sieve scripts as they are stored: text by name. One of them may be active.
//!
//! Each script is a record of its own. The account's record names the active one and counts all
//! changes ([`crate::ScriptState`]). Delivery reads that record anyway, so it notices a change that
//! another process made, and reads scripts only after a change.
//!
//! Invariants: the script's record is written before the count, so a reader that sees the
//! count sees the script. The active script cannot be removed, also while another session activates
//! it: each side writes its record first, and then looks at the other's. Not in here: what a script
//! means.

use std::fmt::Write as _;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::AccountId;
use posthaste_store::{CommitOutcome, DirectoryPages};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::account::Account;
use crate::error::DirectoryError;
use crate::record;
use crate::records::{Records, TRIES};

/// Octets of one script at most. The largest exports of filter editors have some 100 KiB. Twice as
/// much for each of [`SCRIPTS_MAX`] would let one account fill 16 MiB of the index.
pub const SCRIPT_BYTES_MAX: usize = 256 * 1024;
/// Characters of a script's name at most: RFC 5804 §1.6 requires 128.
pub const SCRIPT_NAME_CHARS_MAX: usize = 128;
/// Scripts of one account at most: one, its drafts, and those that it includes.
pub const SCRIPTS_MAX: usize = 32;
/// Records per engine call. Scripts may be large: 8 of them are at most 2 MiB.
const PAGE: usize = 8;

/// A stored script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The name of the script.
    pub name: String,
    /// The text of the script.
    pub text: String,
}

/// Why a script was not stored, found, activated or removed.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// A name that cannot be: RFC 5804 §1.6.
    #[error(
        "a script's name has 1 to {SCRIPT_NAME_CHARS_MAX} characters, none of them a control character or a slash"
    )]
    Name,
    /// Over [`SCRIPT_BYTES_MAX`].
    #[error("the script has {0} octets: at most {SCRIPT_BYTES_MAX} are accepted")]
    TooLarge(u64),
    /// [`SCRIPTS_MAX`] are there.
    #[error("the account has {SCRIPTS_MAX} scripts: remove one first")]
    TooMany,
    /// No script has this name.
    #[error("there is no script '{0}': `sieve list` shows all")]
    NoScript(String),
    /// An active script, which may not be removed.
    #[error("script '{0}' is active: activate another or deactivate it first")]
    Active(String),
    /// The name of another.
    #[error("there is a script '{0}' already")]
    Exists(String),
    /// The account's record, or the store.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

impl From<posthaste_store::StoreError> for ScriptError {
    fn from(error: posthaste_store::StoreError) -> Self {
        Self::Directory(error.into())
    }
}

/// A script's record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptRecord {
    v: u32,
    name: String,
    text: String,
}

/// A script's record, of which only the name is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedRecord {
    #[serde(rename = "v")]
    _version: IgnoredAny,
    name: String,
    #[serde(rename = "text")]
    _text: IgnoredAny,
}

/// Before the names of all records about an account's filtering. They are removed with the account.
pub fn records_of(account: AccountId) -> String {
    format!("sieve/{account}/")
}

fn prefix(account: AccountId) -> String {
    format!("{}script/", records_of(account))
}

/// A name of 128 characters may have 512 octets, a record's name only 400: the key has the hash of
/// the name.
fn key(account: AccountId, name: &str) -> String {
    let mut key = prefix(account);
    for byte in &Sha256::digest(name.as_bytes())[..16] {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

/// The error of a copy, which has no other reasons.
fn plain(account: AccountId, error: ScriptError) -> DirectoryError {
    match error {
        ScriptError::Directory(error) => error,
        error => DirectoryError::Record { record: prefix(account), why: error.to_string() },
    }
}

/// RFC 5804 §1.6. A slash is refused as well: names become file names in many clients.
fn check_name(name: &str) -> Result<(), ScriptError> {
    let is_wrong = |c: char| c.is_control() || matches!(c, '/' | '\u{2028}' | '\u{2029}');
    match name.chars().count() {
        1..=SCRIPT_NAME_CHARS_MAX if !name.contains(is_wrong) => Ok(()),
        _ => Err(ScriptError::Name),
    }
}

/// The Sieve scripts of all accounts.
pub struct Scripts {
    records: Records,
}

impl Scripts {
    pub(crate) fn new(records: Records) -> Self {
        Self { records }
    }

    /// Reads the scripts of an account, in no order of their names.
    #[boxed]
    pub async fn all(&self, account: AccountId) -> Result<Vec<Script>, ScriptError> {
        let (mut scripts, mut pages) = (Vec::new(), self.pages(prefix(account)));
        while let Some(page) = pages.next().await? {
            for entry in &page {
                let record: ScriptRecord = record::parse(entry)?;
                scripts.push(Script { name: record.name, text: record.text });
            }
        }
        Ok(scripts)
    }

    fn pages(&self, prefix: String) -> DirectoryPages<'_> {
        DirectoryPages::new(self.records.engine(), prefix, PAGE)
    }

    /// The names of all scripts of an account, sorted. Their texts are skipped.
    #[boxed]
    pub async fn names(&self, account: AccountId) -> Result<Vec<String>, ScriptError> {
        let (mut names, mut pages) = (Vec::new(), self.pages(prefix(account)));
        while let Some(page) = pages.next().await? {
            for entry in &page {
                names.push(record::parse::<NamedRecord>(entry)?.name);
                // A page is up to 2 MiB: others have their turn in between.
                tokio::task::yield_now().await;
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Counts the scripts of an account, up to the limit.
    async fn count(&self, account: AccountId) -> Result<usize, ScriptError> {
        Ok(self.records.scan(&prefix(account), None, SCRIPTS_MAX).await?.len())
    }

    /// The text of one script.
    #[boxed]
    pub async fn get(&self, account: AccountId, name: &str) -> Result<String, ScriptError> {
        let entry = self.records.entry(&key(account, name)).await?;
        let entry = entry.ok_or_else(|| ScriptError::NoScript(name.to_owned()))?;
        Ok(record::parse::<ScriptRecord>(&entry)?.text)
    }

    /// Whether a script of this name and size could be stored: the limits alone.
    #[boxed]
    pub async fn has_room_for(&self, account: AccountId, name: &str, octets: u64) -> Result<(), ScriptError> {
        check_name(name)?;
        if octets > SCRIPT_BYTES_MAX as u64 {
            return Err(ScriptError::TooLarge(octets));
        }
        if self.records.entry(&key(account, name)).await?.is_none()
            && self.count(account).await? >= SCRIPTS_MAX
        {
            return Err(ScriptError::TooMany);
        }
        Ok(())
    }

    /// Stores a script under a name, in place of the one that had it. Its text is the caller's to
    /// check.
    #[boxed]
    pub async fn put(&self, account: &Account, name: &str, text: &str) -> Result<(), ScriptError> {
        self.has_room_for(account.id, name, text.len() as u64).await?;
        let (key, script) = (key(account.id, name), Some((name, text)));
        self.write(&key, script).await?;
        self.count_change(account, |_| ()).await
    }

    /// Removes a script that is not active.
    #[boxed]
    pub async fn remove(&self, account: &Account, name: &str) -> Result<(), ScriptError> {
        let text = self.get(account.id, name).await?;
        if self.is_active(account, name).await? {
            return Err(ScriptError::Active(name.to_owned()));
        }
        let key = key(account.id, name);
        self.write(&key, None).await?;
        if !self.is_active(account, name).await? {
            return self.count_change(account, |_| ()).await;
        }
        // Another session activated it in between. A conflict is one that stored it again.
        let (name, v) = (name.to_owned(), record::VERSION);
        let value = record::print(&key, &ScriptRecord { v, name: name.clone(), text })?;
        self.records.put(key, 0, Some(value)).await?;
        self.count_change(account, |_| ()).await?;
        Err(ScriptError::Active(name))
    }

    /// Gives a script another name. It stays active if it is.
    #[boxed]
    pub async fn rename(&self, account: &Account, from: &str, to: &str) -> Result<(), ScriptError> {
        check_name(to)?;
        let text = self.get(account.id, from).await?;
        if self.records.entry(&key(account.id, to)).await?.is_some() {
            return Err(ScriptError::Exists(to.to_owned()));
        }
        self.write(&key(account.id, to), Some((to, &text))).await?;
        self.count_change(account, |active| {
            if active.as_deref() == Some(from) {
                *active = Some(to.to_owned());
            }
        })
        .await?;
        // Last: a crash before leaves two scripts, and never an active one that is not there.
        self.write(&key(account.id, from), None).await?;
        if self.is_active(account, from).await? {
            // Another session activated it in between.
            self.replace_active(account, from, Some(to)).await?;
        }
        Ok(())
    }

    /// Makes a script the active one; `None`: none is.
    #[boxed]
    pub async fn activate(&self, account: &Account, name: Option<&str>) -> Result<(), ScriptError> {
        let Some(name) = name else { return self.count_change(account, |active| *active = None).await };
        self.get(account.id, name).await?;
        let before = self.active(account).await?;
        self.count_change(account, |active| *active = Some(name.to_owned())).await?;
        if self.exists(account, name).await? {
            return Ok(());
        }
        // Another session removed it in between, and perhaps the one before, too.
        self.replace_active(account, name, before.as_deref()).await?;
        if let Some(before) = before
            && !self.exists(account, &before).await?
        {
            self.replace_active(account, &before, None).await?;
        }
        Err(ScriptError::NoScript(name.to_owned()))
    }

    /// Makes another script the active one if this one is.
    async fn replace_active(
        &self,
        account: &Account,
        from: &str,
        to: Option<&str>,
    ) -> Result<(), ScriptError> {
        let replace = |active: &mut Option<String>| {
            if active.as_deref() == Some(from) {
                *active = to.map(str::to_owned);
            }
        };
        self.count_change(account, replace).await
    }

    async fn exists(&self, account: &Account, name: &str) -> Result<bool, ScriptError> {
        Ok(self.records.entry(&key(account.id, name)).await?.is_some())
    }

    async fn is_active(&self, account: &Account, name: &str) -> Result<bool, ScriptError> {
        Ok(self.active(account).await?.as_deref() == Some(name))
    }

    /// The name of the active script, as it is now.
    #[boxed]
    pub async fn active(&self, account: &Account) -> Result<Option<String>, ScriptError> {
        let stored = self.records.stored(&account.name).await?;
        Ok(stored.and_then(|stored| stored.account.scripts.active))
    }

    async fn count_change(
        &self,
        account: &Account,
        change: impl Fn(&mut Option<String>),
    ) -> Result<(), ScriptError> {
        self.records
            .update(&account.name, |stored| {
                let state = &mut stored.account.scripts;
                state.changes += 1;
                change(&mut state.active);
            })
            .await?;
        Ok(())
    }

    async fn write(&self, key: &str, script: Option<(&str, &str)>) -> Result<(), ScriptError> {
        let value = match script {
            Some((name, text)) => {
                let (name, text) = (name.to_owned(), text.to_owned());
                Some(record::print(key, &ScriptRecord { v: record::VERSION, name, text })?)
            }
            None => None,
        };
        for _ in 0..TRIES {
            let version = self.records.entry(key).await?.map_or(0, |entry| entry.version);
            if version == 0 && value.is_none() {
                return Ok(());
            }
            if self.records.put(key.to_owned(), version, value.clone()).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key.to_owned()).into())
    }

    /// Copies the scripts of an account in another directory. Each delivery reads the active one,
    /// so scripts over the limits are refused.
    pub(crate) async fn adopt(
        &self,
        from: &Self,
        account: AccountId,
        into: AccountId,
    ) -> Result<(), DirectoryError> {
        let scripts = from.sorted(account).await?;
        let is_sound =
            |script: &Script| check_name(&script.name).is_ok() && script.text.len() <= SCRIPT_BYTES_MAX;
        // Two sessions that stored scripts at the same time may have made a few more.
        if scripts.len() > 2 * SCRIPTS_MAX || !scripts.iter().all(is_sound) {
            return Err(record::over_limits(&prefix(account)));
        }
        for script in scripts {
            self.write_adopted(into, &script.name, Some(&script.text)).await?;
        }
        Ok(())
    }

    /// Makes the scripts of an account the same as in another directory, where it has the same id.
    #[boxed]
    pub async fn mirror(&self, from: &Self, account: AccountId) -> Result<(), DirectoryError> {
        let (wanted, there) = (from.sorted(account).await?, self.sorted(account).await?);
        for script in wanted.iter().filter(|script| !there.contains(script)) {
            self.write_adopted(account, &script.name, Some(&script.text)).await?;
        }
        for script in there.iter().filter(|script| wanted.iter().all(|other| other.name != script.name)) {
            self.write_adopted(account, &script.name, None).await?;
        }
        Ok(())
    }

    /// Whether an account has the same scripts in another directory, where it has the same id.
    #[boxed]
    pub async fn are_same_in(&self, from: &Self, account: AccountId) -> Result<bool, DirectoryError> {
        Ok(self.sorted(account).await? == from.sorted(account).await?)
    }

    /// Reads the scripts of an account, by their names.
    async fn sorted(&self, account: AccountId) -> Result<Vec<Script>, DirectoryError> {
        let mut scripts = self.all(account).await.map_err(|error| plain(account, error))?;
        scripts.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(scripts)
    }

    async fn write_adopted(
        &self,
        account: AccountId,
        name: &str,
        text: Option<&str>,
    ) -> Result<(), DirectoryError> {
        let script = text.map(|text| (name, text));
        self.write(&key(account, name), script).await.map_err(|error| plain(account, error))
    }

    /// Removes every record about an account's filtering: scripts, and the senders that it
    /// answered.
    pub(crate) async fn remove_all(&self, account: AccountId) -> Result<(), DirectoryError> {
        let mut pages = self.pages(records_of(account));
        while let Some(page) = pages.next().await? {
            for entry in &page {
                // A change at the same time leaves a record that is never read.
                self.records.put(entry.name.clone(), entry.version, None).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{add, directory, other_process};
    use crate::{QuotaRight, ScriptState};

    #[tokio::test]
    async fn a_change_is_in_the_account_that_every_process_reads() {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        assert_eq!(*account.scripts, ScriptState::default());
        assert!(!records.dump().contains("scripts"), "an account without scripts has its old form");
        directory.scripts().put(&account, "main", "keep;").await.unwrap();
        directory.scripts().activate(&account, Some("main")).await.unwrap();
        let other = other_process(&records);
        let seen = other.resolve("ana@example.org").await.unwrap().account.scripts;
        assert_eq!(*seen, ScriptState { active: Some("main".into()), changes: 2 });
        other.scripts().put(&account, "main", "discard;").await.unwrap();
        assert_eq!(directory.account("ana@example.org").await.unwrap().unwrap().scripts.changes, 3);
        assert_eq!(directory.scripts().get(account.id, "main").await.unwrap(), "discard;");
        assert!(matches!(directory.scripts().remove(&account, "main").await, Err(ScriptError::Active(_))));
        directory.scripts().rename(&account, "main", "first").await.unwrap();
        assert_eq!(directory.scripts().active(&account).await.unwrap().as_deref(), Some("first"));
        assert_eq!(directory.scripts().all(account.id).await.unwrap().len(), 1);
    }

    /// Whatever another session does in between, the active script is there.
    #[tokio::test]
    async fn the_active_script_is_never_removed() {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        for name in ["a", "b", "d"] {
            directory.scripts().put(&account, name, "keep;").await.unwrap();
        }
        directory.scripts().activate(&account, Some("a")).await.unwrap();
        let other = Arc::new(other_process(&records));
        let (id, active) = (account.id, || directory.scripts().active(&account));
        let activate = |name: &'static str| {
            let (other, account) = (Arc::clone(&other), account.clone());
            async move { other.scripts().activate(&account, Some(name)).await.unwrap() }
        };
        let remove = |name: &'static str| {
            let (other, account) = (Arc::clone(&other), account.clone());
            async move { other.scripts().remove(&account, name).await.unwrap() }
        };
        // It is removed while it is activated.
        records.before("account/", remove("b"));
        let done = directory.scripts().activate(&account, Some("b")).await;
        assert!(matches!(done, Err(ScriptError::NoScript(_))), "{done:?}");
        assert_eq!(active().await.unwrap().as_deref(), Some("a"));
        // It is activated while it is removed.
        records.before(&key(id, "d"), activate("d"));
        let done = directory.scripts().remove(&account, "d").await;
        assert!(matches!(done, Err(ScriptError::Active(_))), "{done:?}");
        assert_eq!(active().await.unwrap().as_deref(), Some("d"));
        assert_eq!(directory.scripts().get(id, "d").await.unwrap(), "keep;");
        // It is activated while it gets another name.
        records.before(&key(id, "a"), activate("a"));
        directory.scripts().rename(&account, "a", "c").await.unwrap();
        assert_eq!(active().await.unwrap().as_deref(), Some("c"));
        assert_eq!(directory.scripts().names(id).await.unwrap(), ["c", "d"]);
    }

    #[tokio::test]
    async fn limits_are_kept_and_say_what_to_do() {
        let (_, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        let long = "ü".repeat(SCRIPT_NAME_CHARS_MAX);
        directory.scripts().put(&account, &long, "keep;").await.unwrap();
        for name in ["", "a/b", "a\u{7f}", &"x".repeat(SCRIPT_NAME_CHARS_MAX + 1)] {
            let refused = directory.scripts().put(&account, name, "keep;").await;
            assert!(matches!(refused, Err(ScriptError::Name)), "{name:?}");
        }
        let large = " ".repeat(SCRIPT_BYTES_MAX);
        directory.scripts().put(&account, "large", &large).await.unwrap();
        let refused = directory.scripts().put(&account, "larger", &format!("{large} ")).await;
        assert!(matches!(refused, Err(ScriptError::TooLarge(_))));
        for n in 2..SCRIPTS_MAX {
            directory.scripts().put(&account, &n.to_string(), "keep;").await.unwrap();
        }
        assert!(matches!(
            directory.scripts().put(&account, "more", "keep;").await,
            Err(ScriptError::TooMany)
        ));
        directory.scripts().put(&account, "2", "stop;").await.unwrap();
        assert_eq!(directory.scripts().all(account.id).await.unwrap().len(), SCRIPTS_MAX);
        let names = directory.scripts().names(account.id).await.unwrap();
        assert!(names.len() == SCRIPTS_MAX && names.is_sorted(), "{names:?}");
    }

    #[tokio::test]
    async fn scripts_go_with_their_account_and_into_copies() {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        directory.scripts().put(&account, "main", "keep;").await.unwrap();
        directory.scripts().activate(&account, Some("main")).await.unwrap();
        let (_, copy) = crate::testing::directory();
        let from = (&directory, account.name.as_str());
        let adopted = copy.adopt(from, &account.name, account.id, QuotaRight::Keep).await.unwrap();
        assert_eq!(adopted.scripts.active.as_deref(), Some("main"));
        assert_eq!(copy.scripts().get(adopted.id, "main").await.unwrap(), "keep;");
        directory.scripts().put(&account, "more", "stop;").await.unwrap();
        copy.scripts().put(&adopted, "old", "stop;").await.unwrap();
        assert!(!copy.scripts().are_same_in(directory.scripts(), account.id).await.unwrap());
        copy.scripts().mirror(directory.scripts(), account.id).await.unwrap();
        assert!(copy.scripts().are_same_in(directory.scripts(), account.id).await.unwrap());
        directory.remove(&account.name).await.unwrap();
        assert!(!records.dump().contains("sieve/"), "{}", records.dump());
    }
}
