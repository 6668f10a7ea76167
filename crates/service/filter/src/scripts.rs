//! Compiled scripts, kept for each account until one of its scripts changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use posthaste_directory::{Directory, ScriptError};
use posthaste_mail_model::AccountId;

use crate::compilation::{Wanted, compile_all, on_thread};
use crate::compiled::Scripts;
use crate::permit::RunPermit;

/// Bytes of compiled scripts that a filter keeps by default. Half is for those that run at
/// delivery, half for those of mailboxes. No account has more than such a half, included scripts
/// counted.
pub const SCRIPTS_BYTES_MAX: u64 = 24 << 20;
/// The least of them: each half has room for one script full of regular expressions, which take
/// 8 MiB.
pub const SCRIPTS_BYTES_LEAST: u64 = 18 << 20;

/// The accounts' scripts.
pub(crate) struct Cache {
    contents: Mutex<Contents>,
    /// Bytes of all of them at most.
    bytes_max: AtomicUsize,
}

impl Default for Cache {
    fn default() -> Self {
        let cache = Self { contents: Mutex::default(), bytes_max: AtomicUsize::new(0) };
        cache.set_bytes_max(SCRIPTS_BYTES_MAX / 2);
        cache
    }
}

#[derive(Default)]
struct Contents {
    accounts: HashMap<AccountId, Arc<Scripts>>,
    bytes: usize,
}

impl Cache {
    /// Sets how many bytes are kept, from the next compilation on.
    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(usize::try_from(bytes).unwrap_or(usize::MAX), Ordering::Release);
    }

    /// The scripts of an account, if they are as they were when they were compiled.
    pub(crate) fn known(&self, wanted: Wanted<'_>) -> Option<Arc<Scripts>> {
        let kept = self.contents.lock();
        let scripts = kept.accounts.get(&wanted.account.id)?;
        wanted.is_met_by(scripts).then(|| Arc::clone(scripts))
    }

    /// The same; they are read and compiled if they changed since, in whichever process. The permit
    /// is the account's only one, so nobody else compiles them meanwhile.
    pub(crate) async fn of(
        self: &Arc<Self>,
        directory: &Directory,
        wanted: Wanted<'_>,
        permit: &Arc<RunPermit>,
    ) -> Result<Arc<Scripts>, ScriptError> {
        if let Some(scripts) = self.known(wanted) {
            return Ok(scripts);
        }
        let bytes_max = self.bytes_max.load(Ordering::Acquire);
        let scripts = Arc::new(compile_all(directory, wanted, permit, bytes_max).await?);
        let (cache, id, kept) = (Arc::clone(self), wanted.account.id, Arc::clone(&scripts));
        // There too: many others may go.
        on_thread(permit, move || cache.keep(id, kept, bytes_max)).await?;
        Ok(scripts)
    }

    /// Keeps scripts. Those that leave are freed without the lock: a thread of a low priority
    /// takes milliseconds for it, and sessions block on the lock.
    fn keep(&self, account: AccountId, scripts: Arc<Scripts>, bytes_max: usize) {
        let left = self.contents.lock().put(account, scripts, bytes_max);
        drop(left);
    }
}

impl Contents {
    /// Keeps scripts. Returns those that leave.
    #[must_use]
    fn put(&mut self, account: AccountId, scripts: Arc<Scripts>, bytes_max: usize) -> Vec<Arc<Scripts>> {
        let mut left: Vec<_> = self.remove(account).into_iter().collect();
        while self.bytes + scripts.bytes > bytes_max {
            // Any other goes: at this size nearly all fit, and reading one again costs little.
            let Some(other) = self.accounts.keys().next().copied() else { break };
            left.extend(self.remove(other));
        }
        self.bytes += scripts.bytes;
        self.accounts.insert(account, scripts);
        left
    }

    fn remove(&mut self, account: AccountId) -> Option<Arc<Scripts>> {
        let old = self.accounts.remove(&account)?;
        self.bytes -= old.bytes;
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(n: u64) -> AccountId {
        AccountId(posthaste_mail_model::Id::new(n, 1))
    }

    fn of(bytes: usize) -> Arc<Scripts> {
        let mut scripts = Scripts::none();
        scripts.bytes = bytes;
        Arc::new(scripts)
    }

    /// They were freed under the lock, by a thread of a low priority.
    #[test]
    fn scripts_that_leave_are_freed_by_the_caller() {
        let mut kept = Contents::default();
        let mut left = |n, bytes| {
            let left = kept.put(account(n), of(bytes), 1000);
            assert!(left.iter().all(|scripts| Arc::strong_count(scripts) == 1));
            left.iter().map(|scripts| scripts.bytes).sum::<usize>()
        };
        assert_eq!([left(1, 300), left(2, 400)], [0, 0]);
        assert_eq!(left(1, 500), 300, "what there was of the account");
        assert_eq!(left(3, 1000), 900, "both others");
    }

    #[test]
    fn kept_scripts_have_a_bound() {
        let cache = Cache::default();
        for n in 0..10 {
            cache.keep(account(n), of(300), 1000);
            cache.keep(account(n), of(400), 1000);
            assert!(cache.contents.lock().bytes <= 1000);
        }
        assert_eq!(cache.contents.lock().accounts.len(), 2);
        cache.keep(account(10), of(1000), 1000);
        let kept = cache.contents.lock();
        assert_eq!((kept.accounts.len(), kept.bytes), (1, 1000));
    }
}
