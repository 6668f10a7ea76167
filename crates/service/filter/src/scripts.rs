//! Compiled scripts, kept for each account until one of its scripts changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use posthaste_directory::{Account, Directory, SCRIPT_BYTES_MAX, ScriptError};
use posthaste_mail_model::AccountId;
use posthaste_sieve::{Capabilities, CompileErrors, Extension, Limits, Script, log_line};
use tokio::runtime::Handle;

use crate::permit::RunPermit;

/// Bytes of compiled scripts that a filter keeps by default. Half is for those that run at
/// delivery, half for those of mailboxes. No account has more than such a half, included scripts
/// counted.
pub const SCRIPTS_BYTES_MAX: u64 = 24 << 20;
/// The least of them: each half has room for one script full of regular expressions, which take
/// 8 MiB.
pub const SCRIPTS_BYTES_LEAST: u64 = 18 << 20;
/// Bytes of a compiled script for each of its source, without its regular expressions.
const SOURCE_FACTOR: usize = 3;
/// The bytes that an account counts in addition to its scripts.
const ENTRY_BYTES: usize = 1024;
/// Why a script of an account is not compiled.
const TOO_MANY: &str = "the account's scripts together take too much memory";

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
    changes: u64,
    /// The name of the active script.
    name: String,
    bytes: usize,
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
            active: Err("there is none".to_owned()),
            others: HashMap::new(),
        }
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

    /// The scripts of an account, whose active one has this name, if they are as they were when
    /// they were compiled.
    pub(crate) fn known(&self, account: &Account, active: &str) -> Option<Arc<Scripts>> {
        let kept = self.contents.lock();
        let scripts = kept.accounts.get(&account.id)?;
        let is_same = scripts.changes == account.scripts.changes && scripts.name == active;
        is_same.then(|| Arc::clone(scripts))
    }

    /// The same; they are read and compiled if they changed since, in whichever process. The permit
    /// is the account's only one, so nobody else compiles them meanwhile.
    pub(crate) async fn of(
        self: &Arc<Self>,
        directory: &Directory,
        account: &Account,
        active: &str,
        permit: &Arc<RunPermit>,
    ) -> Result<Arc<Scripts>, ScriptError> {
        if let Some(scripts) = self.known(account, active) {
            return Ok(scripts);
        }
        let all = directory.scripts().all(account.id).await?;
        let (id, changes, active) = (account.id, account.scripts.changes, active.to_owned());
        let (cache, permit) = (Arc::clone(self), Arc::clone(permit));
        let work = tokio::task::spawn_blocking(move || {
            // The thread holds the permit, not the task that waits for it.
            let _permit = permit;
            let bytes_max = cache.bytes_max.load(Ordering::Acquire);
            let scripts = Arc::new(compile_all(all, &active, changes, bytes_max));
            cache.keep(id, Arc::clone(&scripts), bytes_max);
            scripts
        });
        work.await.map_err(|_| ScriptError::NoScript("that compiles".into()))
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

/// Compiles what an account needs, in at most this many bytes.
fn compile_all(
    all: Vec<posthaste_directory::Script>,
    active: &str,
    changes: u64,
    bytes_max: usize,
) -> Scripts {
    let mut bytes = ENTRY_BYTES;
    let mut compiled = |text: &str| -> Compiled {
        let source = SOURCE_FACTOR * text.len();
        if bytes + source > bytes_max {
            return Err(TOO_MANY.to_owned());
        }
        let script = compile(text).map_err(|errors| log_line(&errors.to_string()))?;
        let taken = source + script.regex_bytes_max();
        if bytes + taken > bytes_max {
            return Err(TOO_MANY.to_owned());
        }
        bytes += taken;
        Ok(Arc::new(script))
    };
    let text = all.iter().find(|script| script.name == active).map(|script| script.text.as_str());
    let script = text.map_or_else(|| Err("it is not there".to_owned()), &mut compiled);
    let includes = script.as_ref().is_ok_and(|script| script.extensions().has(Extension::Include));
    let mut others = HashMap::new();
    if includes {
        for one in all {
            let included = if one.name == active { script.clone() } else { compiled(&one.text) };
            others.insert(one.name, included);
        }
    }
    Scripts { changes, name: active.to_owned(), bytes, active: script, others }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(name: &str, text: String) -> posthaste_directory::Script {
        posthaste_directory::Script { name: name.to_owned(), text }
    }

    #[test]
    fn the_scripts_of_an_account_take_no_more_than_all_may() {
        const BYTES_MAX: usize = 64 * 1024;
        let plain = |len: usize| format!("# {}\r\nkeep;\r\n", "x".repeat(len));
        let mut all = vec![script("main", "require \"include\"; include \"a\";".to_owned())];
        all.extend(["a", "b", "c", "d"].map(|name| script(name, plain(8 * 1024))));
        let scripts = compile_all(all, "main", 1, BYTES_MAX);
        assert!(scripts.active.is_ok() && scripts.bytes <= BYTES_MAX, "{} bytes", scripts.bytes);
        let refused = scripts.others.values().filter(|one| one.as_ref().is_err_and(|why| why == TOO_MANY));
        assert_eq!((scripts.others.len(), refused.count()), (5, 2));
        // Alone it is too large, too.
        let scripts = compile_all(vec![script("main", plain(32 * 1024))], "main", 1, BYTES_MAX);
        assert!(scripts.active.as_ref().is_err_and(|why| why == TOO_MANY));
        assert_eq!(scripts.bytes, ENTRY_BYTES);
    }

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
