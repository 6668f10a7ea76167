//! Reads and compiles the scripts that a message for an account may run: the active one, and
//! those that it may include (RFC 6609). Other scripts of the account are not read.
//!
//! One script is read at a time. It takes the memory of its record and its text: 513 and 256 KiB,
//! or 1.5 MiB in all if an earlier version stored it. The permit of the run pays for that
//! ([`RunPermit`]), since the run itself has not begun. Compiled scripts count in their cache.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use posthaste_directory::{Account, Directory, ScriptError, ScriptKeys};
use posthaste_net::on_compute_thread_with;
use posthaste_sieve::{Extension, Location, Script, log_line};

use crate::compile::{Compiled, compile};
use crate::compiled::{ENTRY_BYTES, Scripts};
use crate::permit::RunPermit;
use crate::site::SiteScripts;

/// Bytes of a compiled script for each of its source, without its regular expressions.
const SOURCE_FACTOR: usize = 3;
/// Why a script of an account is not compiled.
const TOO_MANY: &str = "the account's scripts together take too much memory";

/// The scripts that a message needs.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'w> {
    /// The account, which also counts the changes of its scripts.
    pub(crate) account: &'w Account,
    /// The name of the script that runs.
    pub(crate) active: &'w str,
    /// The scripts of the administrator, by way of which it may include more of its account.
    pub(crate) site: Option<&'w Arc<SiteScripts>>,
}

impl Wanted<'_> {
    /// Whether scripts that were compiled are these, as they are now.
    pub(crate) fn is_met_by(self, scripts: &Scripts) -> bool {
        let site = || self.site.map(Arc::downgrade).unwrap_or_default();
        scripts.changes == self.account.scripts.changes
            && scripts.name == self.active
            && scripts.site.as_ref().is_none_or(|of| of.ptr_eq(&site()))
    }
}

/// Does something on a thread that computes. The thread holds the permit, not the task that waits
/// for it.
pub(crate) async fn on_thread<T: Send + 'static>(
    permit: &Arc<RunPermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ScriptError> {
    let done = on_compute_thread_with(Arc::clone(permit), work);
    done.await.map_err(|_| ScriptError::NoScript("that compiles".into()))
}

/// Reads and compiles what is wanted, in at most this many bytes.
pub(crate) async fn compile_all(
    directory: &Directory,
    wanted: Wanted<'_>,
    permit: &Arc<RunPermit>,
    bytes_max: usize,
) -> Result<Scripts, ScriptError> {
    let (stored, account) = (directory.scripts(), wanted.account.id);
    let mut work = Compilation::new(wanted, bytes_max);
    let text = found(stored.get(account, wanted.active).await)?;
    work = on_thread(permit, move || work.with_active(text.as_deref())).await?;
    if work.may_include() {
        let keys = stored.keys(account).await?;
        work = on_thread(permit, move || work.with_keys(keys)).await?;
        while let Some(name) = work.missing.pop_front() {
            let text = found(stored.get(account, &name).await)?;
            work = on_thread(permit, move || work.with(name, text.as_deref())).await?;
        }
    }
    Ok(work.scripts)
}

/// A script may be removed at any time.
fn found(read: Result<String, ScriptError>) -> Result<Option<String>, ScriptError> {
    match read {
        Err(ScriptError::NoScript(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// An account's scripts, as far as they are read and compiled.
struct Compilation {
    scripts: Scripts,
    bytes_max: usize,
    site: Option<Arc<SiteScripts>>,
    /// The scripts that there are. A script may name thousands of others.
    keys: Option<ScriptKeys>,
    /// Those that may be included, and those of them that were not read yet.
    included: HashSet<String>,
    missing: VecDeque<String>,
    /// The scripts of the administrator that may be included.
    of_site: HashSet<String>,
}

impl Compilation {
    fn new(wanted: Wanted<'_>, bytes_max: usize) -> Self {
        let scripts = Scripts {
            changes: wanted.account.scripts.changes,
            name: wanted.active.to_owned(),
            bytes: ENTRY_BYTES,
            site: None,
            active: Err("it is not there".to_owned()),
            others: HashMap::new(),
        };
        let (included, missing, of_site) = (HashSet::new(), VecDeque::new(), HashSet::new());
        Self { scripts, bytes_max, site: wanted.site.cloned(), keys: None, included, missing, of_site }
    }

    /// With the text of the active script, if there is one.
    fn with_active(mut self, text: Option<&str>) -> Self {
        if let Some(text) = text {
            self.scripts.active = self.compiled(text);
        }
        self
    }

    /// Whether the active script may include others.
    fn may_include(&self) -> bool {
        self.scripts.active.as_ref().is_ok_and(|script| script.extensions().has(Extension::Include))
    }

    /// With the scripts that there are. Those that may be included are missing then.
    fn with_keys(mut self, keys: ScriptKeys) -> Self {
        self.keys = Some(keys);
        self.scripts.site = Some(self.site.as_ref().map(Arc::downgrade).unwrap_or_default());
        let (name, active) = (self.scripts.name.clone(), self.scripts.active.clone());
        self.included.insert(name.clone());
        if let Ok(script) = &active {
            self.follow(script);
        }
        self.scripts.others.insert(name, active);
        // These run before and after the account's own.
        if let Some(site) = self.site.clone() {
            self.follow(&site.with_own);
        }
        self
    }

    /// With an included script, if there is one.
    fn with(mut self, name: String, text: Option<&str>) -> Self {
        if let Some(text) = text {
            let script = self.compiled(text);
            if let Ok(script) = &script {
                self.follow(script);
            }
            self.scripts.others.insert(name, script);
        }
        self
    }

    fn compiled(&mut self, text: &str) -> Compiled {
        let source = SOURCE_FACTOR * text.len();
        if self.scripts.bytes + source > self.bytes_max {
            return Err(TOO_MANY.to_owned());
        }
        let script = compile(text).map_err(|errors| log_line(&errors.to_string()))?;
        let taken = source + script.regex_bytes_max();
        if self.scripts.bytes + taken > self.bytes_max {
            return Err(TOO_MANY.to_owned());
        }
        self.scripts.bytes += taken;
        Ok(Arc::new(script))
    }

    /// Notes the scripts of the account that a script may include, also by way of those of the
    /// administrator.
    fn follow(&mut self, script: &Script) {
        let site = self.site.clone();
        let mut open = vec![script];
        while let Some(script) = open.pop() {
            for (location, name) in script.includes() {
                match location {
                    Location::Personal => self.include(name),
                    Location::Global => {
                        let script = site.as_ref().and_then(|site| site.scripts.get(name));
                        if let Some(script) = script
                            && self.of_site.insert(name.to_owned())
                        {
                            open.push(script);
                        }
                    }
                }
            }
        }
    }

    /// Notes a script of the account, if there is one.
    fn include(&mut self, name: &str) {
        let exists = || self.keys.as_ref().is_some_and(|keys| keys.has(name));
        if !self.included.contains(name) && exists() {
            self.included.insert(name.to_owned());
            self.missing.push_back(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_directory::{NewAccount, Policy};
    use posthaste_mail_model::Secret;
    use posthaste_net::ByteBudget;
    use posthaste_store::{Engine, MemoryEngine};

    use super::*;
    use crate::permit::Runs;

    /// The compiled scripts of an account whose active script is the first one.
    async fn compile_texts(texts: &[(&str, String)], bytes_max: usize) -> Scripts {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let directory = Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap();
        let password = Secret::new("pencil".to_owned());
        let account = directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        for (name, text) in texts {
            directory.scripts().put(&account, name, text).await.unwrap();
        }
        let permit = Runs::new().permit(&ByteBudget::new(64 << 20), account.id, 0).await.unwrap();
        let wanted = Wanted { account: &account, active: texts[0].0, site: None };
        compile_all(&directory, wanted, &permit, bytes_max).await.unwrap()
    }

    #[tokio::test]
    async fn the_scripts_of_an_account_take_no_more_than_all_may() {
        const BYTES_MAX: usize = 64 * 1024;
        let plain = |len: usize| format!("# {}\r\nkeep;\r\n", "x".repeat(len));
        let main = "require \"include\"; include \"a\"; include \"b\"; include \"c\"; include \"d\";";
        let mut all = vec![("main", main.to_owned())];
        all.extend(["a", "b", "c", "d"].map(|name| (name, plain(8 * 1024))));
        let scripts = compile_texts(&all, BYTES_MAX).await;
        assert!(scripts.active.is_ok() && scripts.bytes <= BYTES_MAX, "{} bytes", scripts.bytes);
        let refused = scripts.others.values().filter(|one| one.as_ref().is_err_and(|why| why == TOO_MANY));
        assert_eq!((scripts.others.len(), refused.count()), (5, 2));
        // Alone it is too large, too.
        let scripts = compile_texts(&[("main", plain(32 * 1024))], BYTES_MAX).await;
        assert!(scripts.active.as_ref().is_err_and(|why| why == TOO_MANY));
        assert_eq!(scripts.bytes, ENTRY_BYTES);
    }

    #[tokio::test]
    async fn scripts_that_nothing_includes_are_left_out() {
        let script = |name, text: &str| (name, text.to_owned());
        let all = [
            script("main", "require \"include\"; include \"a\"; include \"main\"; include \"none\";"),
            script("a", "require \"include\"; include :optional \"b\"; include \"wrong\";"),
            script("b", "keep;"),
            script("c", "keep;"),
            script("wrong", "nonsense"),
        ];
        let scripts = compile_texts(&all, 64 * 1024).await;
        let mut others: Vec<_> = scripts.others.iter().map(|(name, one)| (&name[..], one.is_ok())).collect();
        others.sort_unstable();
        assert_eq!(others, [("a", true), ("b", true), ("main", true), ("wrong", false)]);
        let scripts = compile_texts(&[script("b", "keep;"), script("c", "keep;")], 64 * 1024).await;
        assert!(scripts.active.is_ok() && scripts.others.is_empty());
    }
}
