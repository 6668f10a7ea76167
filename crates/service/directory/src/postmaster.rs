//! The account that gets the mail of a postmaster whose address nobody has. RFC 5321 §4.5.1 has a
//! server take mail for `postmaster`, and RFC 2142 §5 names the address at each domain.
//!
//! The account is the oldest one with rights over the accounts of the domain, else the oldest one
//! of the domain. Domains without accounts have the oldest one with such rights over another
//! domain, else the oldest one of all. Accounts without a reader of their own get no such mail:
//! those that are disabled or shared, and those whose mailboxes are on another server.
//!
//! All accounts are read to find it: a survey, of which the outcome for each domain is kept. As a
//! stranger may cause it, surveys are rare. A small directory has one after each change. A large
//! one, and one on a cluster, which does not report its changes, has at most one a minute. An
//! account that was chosen is read before it gets mail. If it has changed, there is a survey at
//! once: only an administrator can cause that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use posthaste_mail_model::AccountId;
use posthaste_store::Epoch;

use crate::account::Account;
use crate::error::Result;
use crate::record::{ACCOUNT_PREFIX, Stored};
use crate::records::{Records, parse_address};
use crate::resolve::Recipient;

/// Accounts that are read before others get a turn, a millisecond of work. A directory with no
/// more is small.
const PAGE: usize = 256;
/// Octets of the records that are in memory at a time.
const PAGE_OCTETS: usize = 256 << 10;
/// Domains whose outcome is kept, in some three megabytes if all names are as long as they may
/// be. The memory plan has them in the part of the program itself. The others count as domains
/// without accounts.
const DOMAINS_MAX: usize = 4096;
/// How long a survey is kept that may have changed.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// An account that may get such mail. The least of them gets it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Accounts with rights come first.
    has_no_rights: bool,
    created: i64,
    id: AccountId,
    name: String,
}

impl Candidate {
    /// `None` for an account without a reader of its own.
    fn of(account: &Account) -> Option<Self> {
        let is_read = !account.disabled && !account.shared && account.referral.is_none();
        is_read.then(|| Self {
            has_no_rights: !account.sets_quotas,
            created: account.created,
            id: account.id,
            name: account.name.clone(),
        })
    }
}

/// What is known about changes of accounts: those of other processes, and those of this one.
type Seen = (Epoch, u64);

/// Who gets the mail, as all accounts were when they were read.
struct Survey {
    of_domains: HashMap<String, Candidate>,
    of_all: Option<Candidate>,
    accounts: usize,
    seen: Seen,
    made: Instant,
}

impl Survey {
    fn note(&mut self, account: &Account) {
        let Some(candidate) = Candidate::of(account) else { return };
        if let Some(domain) = account.domain() {
            let has_room = self.of_domains.len() < DOMAINS_MAX;
            match self.of_domains.get_mut(domain) {
                Some(best) => {
                    if candidate < *best {
                        *best = candidate.clone();
                    }
                }
                None => {
                    if has_room {
                        self.of_domains.insert(domain.to_owned(), candidate.clone());
                    }
                }
            }
        }
        if self.of_all.as_ref().is_none_or(|best| candidate < *best) {
            self.of_all = Some(candidate);
        }
    }

    /// The account for the first of these domains that has one.
    fn best(&self, domains: &[String]) -> Option<&Candidate> {
        domains.iter().find_map(|domain| self.of_domains.get(domain)).or(self.of_all.as_ref())
    }

    /// Whether it may be used now.
    fn holds(&self, seen: Seen, now: Instant) -> bool {
        let is_unchanged = seen == self.seen && seen.0.is_some();
        let is_costly = seen.0.is_none() || self.accounts > PAGE;
        is_unchanged || (is_costly && now.saturating_duration_since(self.made) < KEPT_FOR)
    }
}

/// Finds the accounts that get the mail of postmasters.
pub(crate) struct Postmasters {
    records: Records,
    survey: Mutex<Option<Arc<Survey>>>,
    /// Surveys are made one after the other. It locks no data.
    turn: tokio::sync::Mutex<()>,
    changes: AtomicU64,
}

impl Postmasters {
    pub fn new(records: Records) -> Self {
        let (turn, changes) = (tokio::sync::Mutex::new(()), AtomicU64::new(0));
        Self { records, survey: Mutex::new(None), turn, changes }
    }

    /// This process has added, removed or changed an account.
    pub fn accounts_changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The account that gets the mail of the postmaster of these domains, which are in normal
    /// form. The first of them that has accounts counts. `None` if no account takes such mail.
    #[boxed]
    pub async fn find(&self, domains: &[String]) -> Result<Option<Recipient>> {
        let mut old = None;
        loop {
            let survey = self.survey(old.as_ref()).await?;
            let Some(best) = survey.best(domains) else { return Ok(None) };
            let account = self.records.account(&best.name).await?;
            match account.filter(|account| Candidate::of(account).as_ref() == Some(best)) {
                Some(account) => {
                    let address = parse_address(&account.name)?;
                    return Ok(Some(Recipient { account, address, detail: None }));
                }
                None if old.is_some() => return Ok(None),
                None => old = Some(survey),
            }
        }
    }

    /// A survey that holds, and is another one than the old one.
    async fn survey(&self, old: Option<&Arc<Survey>>) -> Result<Arc<Survey>> {
        if let Some(known) = self.known(old) {
            return Ok(known);
        }
        let _turn = self.turn.lock().await;
        // Somebody else may have made it meanwhile.
        if let Some(known) = self.known(old) {
            return Ok(known);
        }
        let made = Arc::new(self.make().await?);
        *self.survey.lock() = Some(Arc::clone(&made));
        Ok(made)
    }

    fn known(&self, old: Option<&Arc<Survey>>) -> Option<Arc<Survey>> {
        let known = self.survey.lock().clone()?;
        let is_other = old.is_none_or(|old| !Arc::ptr_eq(old, &known));
        (is_other && known.holds(self.seen(), Instant::now())).then_some(known)
    }

    fn seen(&self) -> Seen {
        (self.records.engine().epoch(), self.changes.load(Ordering::Acquire))
    }

    async fn make(&self) -> Result<Survey> {
        // Before the first read: a change that comes meanwhile makes the survey old.
        let seen = self.seen();
        let (of_domains, made) = (HashMap::new(), Instant::now());
        let mut survey = Survey { of_domains, of_all: None, accounts: 0, seen, made };
        let mut after: Option<String> = None;
        loop {
            let engine = self.records.engine();
            let page =
                engine.directory_scan_within(ACCOUNT_PREFIX, after.as_deref(), PAGE, PAGE_OCTETS).await?;
            let Some(last) = page.last() else { return Ok(survey) };
            for entry in &page {
                // A damaged record gets no mail, and keeps it from nobody else.
                if let Ok(stored) = Stored::read(entry) {
                    survey.note(&stored.account);
                }
            }
            survey.accounts += page.len();
            after = Some(last.name.clone());
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::account_key;
    use crate::testing::{MemoryRecords, add, directory, other_process, secret};
    use crate::{AccountChange, Directory, NewAccount, Referral};

    fn domains(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    async fn found(directory: &Directory, names: &[&str]) -> Option<String> {
        let found = directory.postmaster(&domains(names)).await.unwrap();
        found.map(|recipient| recipient.account.name.clone())
    }

    /// Adds an account that was made at this time.
    async fn made_at(directory: &Directory, name: &str, created: i64) {
        add(directory, name, "pencil").await;
        let change = |stored: &mut Stored| Arc::make_mut(&mut stored.account).created = created;
        directory.records.update(name, change).await.unwrap();
        directory.postmasters.accounts_changed();
    }

    async fn set(directory: &Directory, name: &str, change: AccountChange) {
        directory.set(name, change).await.unwrap();
    }

    fn disable() -> AccountChange {
        AccountChange { disabled: Some(true), ..AccountChange::default() }
    }

    /// An outcome without an earlier survey.
    async fn fresh(records: &Arc<MemoryRecords>, names: &[&str]) -> Option<String> {
        found(&other_process(records), names).await
    }

    #[tokio::test]
    async fn the_oldest_with_rights_then_the_oldest_of_the_domain_then_of_the_server() {
        let (records, directory) = directory();
        assert_eq!(fresh(&records, &["a.test"]).await, None);
        for (name, created) in
            [("ana@a.test", 5), ("bo@a.test", 3), ("cy@a.test", 4), ("dee@b.test", 2), ("eve", 1)]
        {
            made_at(&directory, name, created).await;
        }
        for (names, expected) in [
            (&["a.test"][..], "bo@a.test"),
            (&["b.test"], "dee@b.test"),
            (&["c.test", "b.test", "a.test"], "dee@b.test"),
            (&["c.test"], "eve"),
            (&[], "eve"),
        ] {
            assert_eq!(fresh(&records, names).await.as_deref(), Some(expected), "{names:?}");
        }
        let rights = AccountChange { sets_quotas: Some(true), ..AccountChange::default() };
        set(&directory, "ana@a.test", rights).await;
        assert_eq!(fresh(&records, &["a.test"]).await.as_deref(), Some("ana@a.test"));
        assert_eq!(fresh(&records, &["c.test"]).await.as_deref(), Some("ana@a.test"));
        // Rights over one domain are none over another.
        assert_eq!(fresh(&records, &["b.test"]).await.as_deref(), Some("dee@b.test"));
        set(&directory, "cy@a.test", rights).await;
        assert_eq!(fresh(&records, &["a.test"]).await.as_deref(), Some("cy@a.test"));
    }

    #[tokio::test]
    async fn an_account_that_nobody_reads_gets_no_such_mail() {
        let (records, directory) = directory();
        let shared = NewAccount { shared: true, ..NewAccount::default() };
        directory.add("all@a.test", &secret("pencil"), shared).await.unwrap();
        assert_eq!(fresh(&records, &["a.test"]).await, None);
        for (name, created) in [("ana@a.test", 1), ("bo@a.test", 2), ("cy@a.test", 3)] {
            made_at(&directory, name, created).await;
        }
        set(&directory, "ana@a.test", disable()).await;
        let referral = Referral { url: "imap://other.test/".into(), admits: false };
        directory.set_referral("bo@a.test", Some(referral)).await.unwrap();
        records.put(&account_key("damaged@a.test"), b"{".as_slice().into());
        assert_eq!(fresh(&records, &["a.test"]).await.as_deref(), Some("cy@a.test"));
    }

    #[tokio::test]
    async fn accounts_are_read_once_until_the_chosen_one_changes() {
        let (records, directory) = directory();
        // The epoch does not show changes that were made just now.
        records.set_epoch(Some(1));
        made_at(&directory, "ana@a.test", 1).await;
        made_at(&directory, "bo@a.test", 2).await;
        assert_eq!(found(&directory, &["a.test"]).await.as_deref(), Some("ana@a.test"));
        assert!(records.scans() > 0);
        for names in [&["a.test"][..], &["b.test"], &["c.test"], &[]] {
            assert_eq!(found(&directory, names).await.as_deref(), Some("ana@a.test"));
        }
        assert_eq!(records.scans(), 0);
        let other = other_process(&records);
        set(&other, "ana@a.test", disable()).await;
        assert_eq!(found(&directory, &["a.test"]).await.as_deref(), Some("bo@a.test"));
        assert!(records.scans() > 0);
        // Nobody is left: a stranger cannot have all accounts read again and again.
        set(&other, "bo@a.test", disable()).await;
        assert_eq!(found(&directory, &["a.test"]).await, None);
        assert!(records.scans() > 0);
        assert_eq!(found(&directory, &["a.test"]).await, None);
        assert_eq!(records.scans(), 0);
        made_at(&other, "cy@a.test", 3).await;
        records.set_epoch(Some(2));
        assert_eq!(found(&directory, &["a.test"]).await.as_deref(), Some("cy@a.test"));
    }

    fn survey(accounts: usize, seen: Seen, made: Instant) -> Survey {
        Survey { of_domains: HashMap::new(), of_all: None, accounts, seen, made }
    }

    #[test]
    fn a_survey_holds_until_something_changes_or_a_minute_if_it_is_costly() {
        let now = Instant::now();
        let (soon, later) = (now + KEPT_FOR / 2, now + KEPT_FOR * 2);
        let small = survey(PAGE, (Some(7), 1), now);
        assert!(small.holds((Some(7), 1), later));
        assert!(!small.holds((Some(8), 1), soon) && !small.holds((Some(7), 2), soon));
        let large = survey(PAGE + 1, (Some(7), 1), now);
        assert!(large.holds((Some(8), 1), soon) && large.holds((Some(7), 1), later));
        assert!(!large.holds((Some(8), 1), later) && !large.holds((Some(7), 2), later));
        let on_a_cluster = survey(1, (None, 1), now);
        assert!(on_a_cluster.holds((None, 2), soon) && !on_a_cluster.holds((None, 1), later));
    }

    #[tokio::test]
    async fn the_outcome_is_kept_for_so_many_domains() {
        let account = add(&directory().1, "a", "pencil").await;
        let mut survey = survey(0, (None, 0), Instant::now());
        for number in 0..DOMAINS_MAX + 10 {
            let name = format!("a@{number}.test");
            survey.note(&Account { name, ..account.clone() });
        }
        assert_eq!(survey.of_domains.len(), DOMAINS_MAX);
        let last = [format!("{}.test", DOMAINS_MAX + 9)];
        assert_eq!(survey.best(&last), survey.of_all.as_ref());
    }
}
