//! The compiled scripts of an account, at one count of their changes.

use std::collections::HashMap;
use std::sync::Weak;

use posthaste_net::drop_elsewhere;

use crate::compile::Compiled;
use crate::site::SiteScripts;

/// The bytes that an account counts in addition to its scripts.
pub(crate) const ENTRY_BYTES: usize = 1024;

/// Bytes of scripts that are dropped where they are: some tens of microseconds.
const DROPPED_HERE_MAX: usize = 8 * 1024;

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
}

impl Drop for Scripts {
    /// A large script is a hundred thousand allocations. The task that drops it may hold a lock or
    /// poll a session, so another thread releases them.
    fn drop(&mut self) {
        if self.bytes > DROPPED_HERE_MAX {
            let active = std::mem::replace(&mut self.active, Err(String::new()));
            let others = std::mem::take(&mut self.others);
            drop_elsewhere((active, others));
        }
    }
}
