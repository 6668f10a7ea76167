//! Compiled scripts, kept for each account until one of its scripts changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use posthaste_directory::{Directory, SCRIPT_BYTES_MAX, ScriptError};
use posthaste_mail_model::AccountId;
use posthaste_sieve::{Capabilities, CompileErrors, Limits, Script};
use tokio::runtime::Handle;

use crate::compilation::{Wanted, compile_all, on_thread};
use crate::permit::RunPermit;
use crate::site::SiteScripts;

/// Bytes of compiled scripts that a filter keeps by default. Half is for those that run at
/// delivery, half for those of mailboxes. No account has more than such a half, included scripts
/// counted.
pub const SCRIPTS_BYTES_MAX: u64 = 24 << 20;
/// The least of them: each half has room for one script full of regular expressions, which take
/// 8 MiB.
pub const SCRIPTS_BYTES_LEAST: u64 = 18 << 20;
/// The bytes that an account counts in addition to its scripts.
pub(crate) const ENTRY_BYTES: usize = 1024;

/// Bytes of scripts that are dropped where they are: some tens of microseconds.
const DROPPED_HERE_MAX: usize = 8 * 1024;

/// The extensions that scripts may use here, and their limits.
fn capabilities() -> Capabilities {
    let limits = Limits { script_bytes_max: SCRIPT_BYTES_MAX, ..Limits::default() };
    Capabilities { limits, ..Capabilities::default() }
}

/// Compiles a script as delivery does, or says everything that is wrong with it.
pub fn compile(text: &str) -> Result<Script, CompileErrors> {
    Script::compile(text, &capabilities())
}

/// A script, or why it does not compile.
pub(crate) type Compiled = Result<Arc<Script>, String>;

/// An account's scripts at one count of changes.
pub(crate) struct Scripts {
    pub(crate) changes: u64,
    /// The name of the active script.
    pub(crate) name: String,
    pub(crate) bytes: usize,
    /// The administrator's scripts that were followed. `None` if the active script includes
    /// nothing: then they have no effect here.
    pub(crate) site: Option<Weak<SiteScripts>>,
    pub(crate) active: Compiled,
    /// The scripts that the active one may include, by name. Empty if it includes nothing.
    pub(crate) others: HashMap<String, Compiled>,
}

impl Scripts {
    /// The scripts of an account that has no active script.
    pub(crate) fn none() -> Self {
        Self {
            changes: 0,
            name: String::new(),
            bytes: 0,
            site: None,
            active: Err("there is none".to_owned()),
            others: HashMap::new(),
        }
    }

    /// Whether they are what is wanted, as it is now.
    fn are(&self, wanted: Wanted<'_>) -> bool {
        let site = || wanted.site.map(Arc::downgrade).unwrap_or_default();
        self.changes == wanted.account.scripts.changes
            && self.name == wanted.active
            && self.site.as_ref().is_none_or(|of| of.ptr_eq(&site()))
    }
}

impl Drop for Scripts {
    /// A large script is a hundred thousand allocations. The task that drops it may hold a lock or
    /// poll a session, so a thread that computes releases them.
    fn drop(&mut self) {
        if self.bytes > DROPPED_HERE_MAX
            && let Ok(runtime) = Handle::try_current()
        {
            let active = std::mem::replace(&mut self.active, Err(String::new()));
            let others = std::mem::take(&mut self.others);
            runtime.spawn_blocking(move || drop((active, others)));
        }
    }
}

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
        scripts.are(wanted).then(|| Arc::clone(scripts))
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

    fn keep(&self, account: AccountId, scripts: Arc<Scripts>, bytes_max: usize) {
        let mut kept = self.contents.lock();
        kept.remove(account);
        while kept.bytes + scripts.bytes > bytes_max {
            // Any other goes: at this size nearly all fit, and reading one again costs little.
            let Some(other) = kept.accounts.keys().next().copied() else { break };
            kept.remove(other);
        }
        kept.bytes += scripts.bytes;
        kept.accounts.insert(account, scripts);
    }
}

impl Contents {
    fn remove(&mut self, account: AccountId) {
        if let Some(old) = self.accounts.remove(&account) {
            self.bytes -= old.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_scripts_have_a_bound() {
        let cache = Cache::default();
        let account = |n| AccountId(posthaste_mail_model::Id::new(n, 1));
        let of = |bytes| {
            let mut scripts = Scripts::none();
            scripts.bytes = bytes;
            Arc::new(scripts)
        };
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
