//! Groups in memory. Sessions that use the same group at the same time share one copy.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// An address with members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The group's address in normal form; `@example.org` for all others of a domain.
    pub address: String,
    /// The group's members: accounts, aliases and groups here, and addresses elsewhere.
    pub members: Vec<String>,
    /// The address for reports about mail that a member does not get. Without one its sender gets
    /// them.
    pub owner: Option<String>,
}

/// The groups that somebody has just now, by address.
#[derive(Debug, Default)]
pub(crate) struct SharedGroups(pub(crate) Mutex<HashMap<String, Weak<Group>>>);

impl SharedGroups {
    /// Groups that are noted before those that nobody has any more are forgotten.
    pub(crate) const NOTED_MAX: usize = 64;

    /// The group that somebody has, if it is still the same; else this one.
    pub(crate) fn share(&self, group: Group) -> Arc<Group> {
        let mut groups = self.0.lock();
        if let Some(known) = groups.get(&group.address).and_then(Weak::upgrade)
            && *known == group
        {
            return known;
        }
        if groups.len() >= Self::NOTED_MAX && groups.len() == groups.capacity() {
            groups.retain(|_, group| group.strong_count() > 0);
        }
        let group = Arc::new(group);
        groups.insert(group.address.clone(), Arc::downgrade(&group));
        group
    }
}
