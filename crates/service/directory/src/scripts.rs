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

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::AccountId;
use posthaste_store::{CommitOutcome, DirectoryPages};

use crate::account::Account;
use crate::error::DirectoryError;
use crate::record::{Stored, over_limits};
use crate::records::{Records, TRIES};
use crate::script_record::{
    self, RECORD_BYTES_MAX, SCRIPT_BYTES_MAX, Script, ScriptKeys, key, prefix, records_of,
};

/// Characters of a script's name at most: RFC 5804 §1.6 requires 128.
pub const SCRIPT_NAME_CHARS_MAX: usize = 128;
/// Scripts of one account at most: one, its drafts, and those that it includes.
pub const SCRIPTS_MAX: usize = 32;
/// Names of records per engine call: more than an account has scripts.
const KEYS_PAGE: usize = 2 * SCRIPTS_MAX;
/// Records per engine call, of those that are no scripts. They are short.
const PAGE: usize = 64;

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
    /// Its record would be over `RECORD_BYTES_MAX`.
    #[error("the script has too many control characters: remove them")]
    ControlCharacters,
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

    /// The scripts that an account has. None of them is read.
    #[boxed]
    pub async fn keys(&self, account: AccountId) -> Result<ScriptKeys, ScriptError> {
        let (prefix, mut keys) = (prefix(account), Vec::<String>::new());
        loop {
            let after = keys.last().map(String::as_str);
            let page = self.records.names(&prefix, after, KEYS_PAGE).await?;
            let is_last = page.len() < KEYS_PAGE;
            keys.extend(page);
            if is_last {
                return Ok(ScriptKeys::new(account, keys));
            }
        }
    }

    /// Reads all scripts of an account, in no order of their names: up to 8 MiB. So this is for
    /// commands of the administrator. The server reads one script at a time.
    #[boxed]
    pub async fn all(&self, account: AccountId) -> Result<Vec<Script>, ScriptError> {
        let (keys, mut scripts) = (self.keys(account).await?, Vec::new());
        for key in keys.iter() {
            // It may have been removed meanwhile.
            if let Some(entry) = self.records.entry(key).await? {
                scripts.push(script_record::read(&entry)?);
            }
            tokio::task::yield_now().await;
        }
        Ok(scripts)
    }

    /// The names of all scripts of an account, sorted. Their texts are skipped.
    #[boxed]
    pub async fn names(&self, account: AccountId) -> Result<Vec<String>, ScriptError> {
        let (keys, mut names) = (self.keys(account).await?, Vec::new());
        for key in keys.iter() {
            if let Some(entry) = self.records.entry(key).await? {
                names.push(script_record::read_name(&entry)?);
            }
            // A record has up to half a MiB: others have their turn in between.
            tokio::task::yield_now().await;
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The text of one script.
    #[boxed]
    pub async fn get(&self, account: AccountId, name: &str) -> Result<String, ScriptError> {
        let entry = self.records.entry(&key(account, name)).await?;
        let entry = entry.ok_or_else(|| ScriptError::NoScript(name.to_owned()))?;
        Ok(script_record::read(&entry)?.text)
    }

    /// Whether a script of this name and size could be stored: the limits alone. Reads no script.
    #[boxed]
    pub async fn has_room_for(&self, account: AccountId, name: &str, octets: u64) -> Result<(), ScriptError> {
        check_name(name)?;
        if octets > SCRIPT_BYTES_MAX as u64 {
            return Err(ScriptError::TooLarge(octets));
        }
        let keys = self.keys(account).await?;
        if keys.count() >= SCRIPTS_MAX && !keys.has(name) {
            return Err(ScriptError::TooMany);
        }
        Ok(())
    }

    /// Stores a script under a name, in place of the one that had it. Its text is the caller's to
    /// check.
    #[boxed]
    pub async fn put(&self, account: &Account, name: &str, text: &str) -> Result<(), ScriptError> {
        self.has_room_for(account.id, name, text.len() as u64).await?;
        let key = key(account.id, name);
        let value = script_record::print(&key, name, text)?;
        if value.len() > RECORD_BYTES_MAX {
            return Err(ScriptError::ControlCharacters);
        }
        self.write(&key, Some(value)).await?;
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
        let value = script_record::print(&key, name, &text)?;
        self.records.put(key, 0, Some(value)).await?;
        self.count_change(account, |_| ()).await?;
        Err(ScriptError::Active(name.to_owned()))
    }

    /// Gives a script another name. It stays active if it is.
    #[boxed]
    pub async fn rename(&self, account: &Account, from: &str, to: &str) -> Result<(), ScriptError> {
        check_name(to)?;
        let text = self.get(account.id, from).await?;
        if self.records.entry(&key(account.id, to)).await?.is_some() {
            return Err(ScriptError::Exists(to.to_owned()));
        }
        self.write_script(account.id, to, &text).await?;
        self.count_change(account, |active| {
            if active.as_deref() == Some(from) {
                *active = Some(to.to_owned());
            }
        })
        .await?;
        // Last: a crash before leaves two scripts, and never an active one that is not there.
        self.write(&key(account.id, from), None).await?;
        // This counts once more: a delivery may have read the script under its old name, for one
        // that includes it. And another session may have activated that name in between.
        self.replace_active(account, from, Some(to)).await
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
        let account = self.records.account(&account.name).await?;
        Ok(account.and_then(|account| account.scripts.active.clone()))
    }

    async fn count_change(
        &self,
        account: &Account,
        change: impl Fn(&mut Option<String>),
    ) -> Result<(), ScriptError> {
        let count = |stored: &mut Stored| {
            // A removed account may have a successor of the same name.
            if stored.account.id != account.id {
                return Err(DirectoryError::NoAccount(account.name.clone()));
            }
            let state = &mut Arc::make_mut(&mut stored.account).scripts;
            state.changes += 1;
            change(&mut state.active);
            Ok(())
        };
        self.records.try_update(&account.name, count).await?;
        Ok(())
    }

    /// Writes a script that is stored already, under another name or in another directory. Its
    /// record may be longer than one of a new script, if an earlier version stored it.
    async fn write_script(&self, account: AccountId, name: &str, text: &str) -> Result<(), ScriptError> {
        let key = key(account, name);
        let value = script_record::print(&key, name, text)?;
        self.write(&key, Some(value)).await
    }

    async fn write(&self, key: &str, value: Option<Bytes>) -> Result<(), ScriptError> {
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
            return Err(over_limits(&prefix(account)));
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
        let written = match text {
            Some(text) => self.write_script(account, name, text).await,
            None => self.write(&key(account, name), None).await,
        };
        written.map_err(|error| plain(account, error))
    }

    /// Removes every record about an account's filtering: scripts, and the senders that it
    /// answered.
    pub(crate) async fn remove_all(&self, account: AccountId) -> Result<(), DirectoryError> {
        // One by one: a page of them would be long.
        for key in self.keys(account).await.map_err(|error| plain(account, error))?.iter() {
            self.write(key, None).await.map_err(|error| plain(account, error))?;
        }
        let mut pages = DirectoryPages::new(self.records.engine(), records_of(account), PAGE);
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
    use std::sync::atomic::{AtomicU64, Ordering};

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
        let seen = other.resolve("ana@example.org").await.unwrap().account.scripts.clone();
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

    /// Compiled scripts are kept under the count, and other scripts may include this one.
    #[tokio::test]
    async fn a_script_that_is_read_before_it_changes_is_not_kept() {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        let scripts = directory.scripts();
        scripts.put(&account, "a", "keep;").await.unwrap();
        for step in 0..3 {
            let name = if step < 2 { "a" } else { "b" };
            // A delivery just before the script of this name changes.
            let (other, seen) = (other_process(&records), Arc::new(AtomicU64::new(0)));
            let note = Arc::clone(&seen);
            records.before(&key(account.id, name), async move {
                let account = other.account("ana@example.org").await.unwrap().unwrap();
                note.store(account.scripts.changes, Ordering::SeqCst);
            });
            match step {
                0 => scripts.put(&account, "a", "stop;").await.unwrap(),
                1 => scripts.rename(&account, "a", "b").await.unwrap(),
                _ => scripts.remove(&account, "b").await.unwrap(),
            }
            let now = directory.account("ana@example.org").await.unwrap().unwrap().scripts.changes;
            let before = seen.load(Ordering::SeqCst);
            assert!(before > 0 && now > before, "{step}: {before} and {now}");
        }
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

    /// Comments may hold any character. JSON makes six octets of a control character.
    const CONTROL: &str = "\u{1}";

    #[tokio::test]
    async fn a_stored_script_has_a_bounded_record() {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        let scripts = directory.scripts();
        let controls = format!("#{}", CONTROL.repeat(SCRIPT_BYTES_MAX - 1));
        scripts.has_room_for(account.id, "odd", controls.len() as u64).await.unwrap();
        let refused = scripts.put(&account, "odd", &controls).await;
        assert!(matches!(refused, Err(ScriptError::ControlCharacters)), "{refused:?}");
        // Some are no fault.
        scripts.put(&account, "odd", &format!("#{}", CONTROL.repeat(1000))).await.unwrap();
        scripts.put(&account, "quotes", &"\"".repeat(SCRIPT_BYTES_MAX)).await.unwrap();
        let lengths = records.lengths(&prefix(account.id));
        assert!(lengths.len() == 2 && lengths.iter().all(|len| *len <= RECORD_BYTES_MAX), "{lengths:?}");
    }

    /// Earlier versions stored them. They stay readable, and go into copies.
    #[tokio::test]
    async fn long_records_of_earlier_versions_stay() {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        let controls = format!("#{}", CONTROL.repeat(SCRIPT_BYTES_MAX - 1));
        let key = key(account.id, "old");
        records.put(&key, script_record::print(&key, "old", &controls).unwrap());
        let scripts = directory.scripts();
        scripts.activate(&account, Some("old")).await.unwrap();
        assert_eq!(scripts.names(account.id).await.unwrap(), ["old"]);
        scripts.rename(&account, "old", "new").await.unwrap();
        assert!(scripts.get(account.id, "new").await.unwrap() == controls);
        let (_, copy) = crate::testing::directory();
        copy.scripts().mirror(scripts, account.id).await.unwrap();
        assert!(copy.scripts().are_same_in(scripts, account.id).await.unwrap());
    }

    /// A command of 17 octets read 50 MB.
    #[tokio::test]
    async fn no_script_is_read_to_count_them() {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let account = directory.account("ana@example.org").await.unwrap().unwrap();
        for n in 1..SCRIPTS_MAX {
            directory.scripts().put(&account, &n.to_string(), "keep;").await.unwrap();
        }
        records.octets_read();
        for (name, octets) in [("1", 5), ("new", 5), ("new", SCRIPT_BYTES_MAX as u64)] {
            directory.scripts().has_room_for(account.id, name, octets).await.unwrap();
        }
        let keys = directory.scripts().keys(account.id).await.unwrap();
        assert!(keys.has("1") && !keys.has("new"));
        assert_eq!(records.octets_read(), 0);
        // One script is read for one.
        directory.scripts().get(account.id, "1").await.unwrap();
        assert_eq!(vec![records.octets_read()], records.lengths(&key(account.id, "1")));
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
