//! Compiled scripts, kept for each account until one of its scripts changes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_directory::{Account, Directory, SCRIPT_BYTES_MAX, ScriptError};
use posthaste_mail_model::AccountId;
use posthaste_sieve::{Capabilities, CompileErrors, Extension, Limits, Script, log_line};
use tokio::runtime::Handle;

use crate::permit::RunPermit;

/// Octets of source and of regular expressions whose compiled forms are kept. A compiled script
/// takes some times its source: twice as much would be a share of the server's memory that its plan
/// does not count.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Bytes of compiled scripts that one account may have, included ones counted. That is four scripts
/// full of regular expressions, or the largest number of scripts without them.
const ACCOUNT_BYTES_MAX: usize = 32 << 20;
/// The bytes that an account counts in addition to its source.
const ENTRY_BYTES: usize = 1024;

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
#[derive(Default)]
pub(crate) struct Cache {
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    accounts: HashMap<AccountId, Arc<Scripts>>,
    bytes: usize,
}

impl Cache {
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
            let scripts = Arc::new(compile_all(all, &active, changes));
            cache.keep(id, Arc::clone(&scripts));
            scripts
        });
        work.await.map_err(|_| ScriptError::NoScript("that compiles".into()))
    }

    fn keep(&self, account: AccountId, scripts: Arc<Scripts>) {
        let mut kept = self.contents.lock();
        kept.bytes += scripts.bytes;
        if let Some(old) = kept.accounts.insert(account, scripts) {
            kept.bytes -= old.bytes;
        }
        while kept.bytes > KEPT_BYTES_MAX {
            // Any other goes: at this size nearly all fit, and reading one again costs little.
            let Some(other) = kept.accounts.keys().copied().find(|id| *id != account) else { break };
            if let Some(old) = kept.accounts.remove(&other) {
                kept.bytes -= old.bytes;
            }
        }
    }
}

fn compile_all(all: Vec<posthaste_directory::Script>, active: &str, changes: u64) -> Scripts {
    let compiled = |text: &str| compile(text).map(Arc::new).map_err(|errors| log_line(&errors.to_string()));
    let text = all.iter().find(|script| script.name == active).map(|script| script.text.as_str());
    let mut bytes = ENTRY_BYTES + text.map_or(0, str::len);
    let script = text.map_or_else(|| Err("it is not there".to_owned()), compiled);
    bytes += script.as_ref().map_or(0, |script| script.regex_bytes_max());
    let includes = script.as_ref().is_ok_and(|script| script.extensions().has(Extension::Include));
    let mut others = HashMap::new();
    if includes {
        for script in all {
            bytes += script.text.len();
            let included = match bytes {
                ..=ACCOUNT_BYTES_MAX => compiled(&script.text),
                _ => Err("the account's scripts together have too many regular expressions".to_owned()),
            };
            bytes += included.as_ref().map_or(0, |script| script.regex_bytes_max());
            others.insert(script.name, included);
        }
    }
    Scripts { changes, name: active.to_owned(), bytes, active: script, others }
}
