//! An engine whose directory fails and waits on demand, and says what was read of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine, Result, StoreError};

/// An engine in front of another one.
pub struct FaultyDirectory {
    engine: Arc<dyn Engine>,
    state: Mutex<State>,
}

type Happens = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct State {
    broken: Option<String>,
    /// Only what would be written fails, and not what is removed.
    removes: bool,
    between: Option<String>,
    /// Scans of records that begin so fail.
    unlisted: Option<String>,
    /// So do scans and reads of these.
    unread: Option<String>,
    /// The time that each scan takes.
    slow: Option<Duration>,
    /// Reads, scans and changes.
    calls: u64,
    /// Events before the next change, or the next scan, of records that begin so.
    change: Option<(String, Happens)>,
    scan: Option<(String, Happens)>,
    /// Each read of a record, each scan with `*` at its end, each list of names with `?`.
    reads: Vec<String>,
}

impl State {
    /// An error if nothing that begins so can be read.
    fn check_read(&self, name: &str) -> Result<()> {
        match &self.unread {
            Some(begins) if name.starts_with(begins.as_str()) => {
                Err(StoreError::Unavailable("no answer in time".into()))
            }
            _ => Ok(()),
        }
    }
}

impl FaultyDirectory {
    /// Without faults.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes each change of a record that begins so fail, until `None` ends it.
    pub fn fail_on(&self, prefix: Option<&str>) {
        let mut state = self.state();
        (state.broken, state.removes) = (prefix.map(str::to_owned), false);
    }

    /// The same for records that are written. Removals are carried out, so that a test sees a
    /// wrong removal.
    pub fn fail_to_write(&self, prefix: &str) {
        let mut state = self.state();
        (state.broken, state.removes) = (Some(prefix.to_owned()), true);
    }

    /// Makes each scan of records that begin so fail, until `None` ends it.
    pub fn fail_to_list(&self, prefix: Option<&str>) {
        self.state().unlisted = prefix.map(str::to_owned);
    }

    /// Makes each read and each scan of records that begin so fail, until `None` ends it.
    pub fn fail_to_read(&self, prefix: Option<&str>) {
        self.state().unread = prefix.map(str::to_owned);
    }

    /// Has each scan take so long from now on.
    pub fn list_slowly(&self, time: Duration) {
        self.state().slow = Some(time);
    }

    /// How often the directory was read, listed and changed.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Writes again a record that begins so, as another process does, just before its next change.
    pub fn come_between(&self, prefix: &str) {
        self.state().between = Some(prefix.to_owned());
    }

    /// Has this happen just before the next change of a record that begins so.
    pub fn before_change(&self, prefix: &str, happens: impl Future<Output = ()> + Send + 'static) {
        self.state().change = Some((prefix.to_owned(), Box::pin(happens)));
    }

    /// Has this happen just before the next scan of records that begin so.
    pub fn before_scan(&self, prefix: &str, happens: impl Future<Output = ()> + Send + 'static) {
        self.state().scan = Some((prefix.to_owned(), Box::pin(happens)));
    }

    /// Whether all that was to happen before something has happened.
    pub fn has_happened(&self) -> bool {
        let state = self.state();
        state.change.is_none() && state.scan.is_none() && state.between.is_none()
    }

    /// The names that were read since the last call, of records that begin so. The name of a scan
    /// ends with `*`, that of a list of names with `?`.
    pub fn reads_of(&self, prefix: &str) -> Vec<String> {
        let reads = std::mem::take(&mut self.state().reads);
        reads.into_iter().filter(|name| name.starts_with(prefix)).collect()
    }
}

#[async_trait]
impl Layer for FaultyDirectory {
    type Inner = dyn Engine;

    fn inner(&self) -> &dyn Engine {
        &*self.engine
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        {
            let mut state = self.state();
            state.calls += 1;
            state.reads.push(name.to_owned());
            state.check_read(name)?;
        }
        self.engine.directory_entry(name).await
    }

    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let (happens, slow) = {
            let mut state = self.state();
            state.calls += 1;
            state.reads.push(format!("{prefix}*"));
            state.check_read(prefix)?;
            if state.unlisted.as_ref().is_some_and(|begins| prefix.starts_with(begins.as_str())) {
                return Err(StoreError::Unavailable("no answer in time".into()));
            }
            (state.scan.take_if(|(begins, _)| prefix.starts_with(begins.as_str())), state.slow)
        };
        if let Some((_, happens)) = happens {
            happens.await;
        }
        match slow {
            Some(time) => tokio::time::sleep(time).await,
            // As with an engine that has to read: other tasks run meanwhile.
            None => tokio::task::yield_now().await,
        }
        self.engine.directory_scan_within(prefix, after, limit, octets).await
    }

    async fn directory_names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        {
            let mut state = self.state();
            state.calls += 1;
            state.reads.push(format!("{prefix}?"));
            state.check_read(prefix)?;
        }
        self.engine.directory_names(prefix, after, limit).await
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.state().calls += 1;
        let happens = self.state().change.take_if(|(prefix, _)| change.name.starts_with(prefix.as_str()));
        if let Some((_, happens)) = happens {
            happens.await;
        }
        let begins = |prefix: &Option<String>| {
            prefix.as_ref().is_some_and(|prefix| change.name.starts_with(prefix.as_str()))
        };
        let comes_between = {
            let mut state = self.state();
            if begins(&state.broken) && !(state.removes && change.value.is_none()) {
                return Err(StoreError::Unavailable("the disk is away".into()));
            }
            begins(&state.between) && state.between.take().is_some()
        };
        if comes_between && let Some(there) = self.engine.directory_entry(&change.name).await? {
            let (expected, value) = (there.version, Some(there.value));
            self.engine
                .directory_commit(DirectoryChange { name: change.name.clone(), expected, value })
                .await?;
        }
        self.engine.directory_commit(change).await
    }
}
