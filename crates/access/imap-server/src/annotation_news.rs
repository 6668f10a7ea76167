//! Wakes sessions that wait for changes of annotations (RFC 5464 §4.4): those of the account whose
//! annotations have changed in this process. If all sessions were woken, the changes of one account
//! would cost time in ten thousand sessions of others.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use posthaste_mail_model::AccountId;
use tokio::sync::watch;

/// Accounts from which on those without a waiting session are forgotten: some 100 KiB.
const FORGOTTEN_FROM: usize = 1024;

/// The accounts with sessions that wait.
#[derive(Debug, Default)]
pub(crate) struct AnnotationNews(Mutex<HashMap<AccountId, watch::Sender<()>>>);

impl AnnotationNews {
    /// Woken after each change of an account's annotations from now on.
    pub(crate) fn of(&self, account: AccountId) -> watch::Receiver<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Only at such lengths, so that the mean cost of an account stays the same.
        if all.len() >= FORGOTTEN_FROM && all.len().is_power_of_two() && !all.contains_key(&account) {
            all.retain(|_, waiting| waiting.receiver_count() > 0);
        }
        all.entry(account).or_default().subscribe()
    }

    /// Wakes the sessions of an account.
    pub(crate) fn note_change(&self, account: AccountId) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = all.get(&account) {
            waiting.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use posthaste_mail_model::Id;

    use super::*;

    fn account(n: u64) -> AccountId {
        AccountId(Id::new(n, 1))
    }

    #[test]
    fn a_change_wakes_the_sessions_of_its_account_alone() {
        let news = AnnotationNews::default();
        let (mut one, mut same, mut other) = (news.of(account(1)), news.of(account(1)), news.of(account(2)));
        news.note_change(account(1));
        news.note_change(account(3));
        let woken = [&mut one, &mut same, &mut other].map(|waiting| waiting.has_changed().unwrap());
        assert_eq!(woken, [true, true, false]);
    }

    #[test]
    fn accounts_without_sessions_are_forgotten() {
        let news = AnnotationNews::default();
        let waiting = news.of(account(0));
        for n in 1..10 * FORGOTTEN_FROM as u64 {
            drop(news.of(account(n)));
        }
        assert!(news.0.lock().unwrap().len() <= FORGOTTEN_FROM);
        news.note_change(account(0));
        assert!(waiting.has_changed().unwrap());
    }
}
