//! The limits that an account has of its own, in place of the server's: in its record, and
//! changes of them.

use std::collections::BTreeMap;

use posthaste_net::{AccountLimit, OwnLimits};

/// Changes of an account's own limits. Those that are not named stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnLimitChanges([Option<Option<u64>>; AccountLimit::ALL.len()]);

impl OwnLimitChanges {
    /// No change.
    pub const NONE: Self = Self([None; AccountLimit::ALL.len()]);

    /// Sets a limit; `None` for the server's.
    pub const fn set(&mut self, limit: AccountLimit, own: Option<u64>) {
        self.0[limit as usize] = Some(own);
    }

    /// The limits after these changes.
    pub(crate) fn of(self, before: Option<&OwnLimits>) -> OwnLimits {
        let mut after = before.copied().unwrap_or_default();
        for (limit, change) in AccountLimit::ALL.into_iter().zip(self.0) {
            if let Some(own) = change {
                after.set(limit, own);
            }
        }
        after
    }
}

/// The limits as an account holds them: most accounts have none.
pub(crate) fn boxed(own: OwnLimits) -> Option<Box<OwnLimits>> {
    (!own.is_empty()).then(|| Box::new(own))
}

/// The limits as they are stored, by name.
pub(crate) type ByName = BTreeMap<String, u64>;

/// The limits in a form that can be stored.
pub(crate) fn to_store(own: Option<&OwnLimits>) -> ByName {
    own.into_iter().flat_map(OwnLimits::iter).map(|(limit, own)| (limit.name().to_owned(), own)).collect()
}

/// The limits of a record. `None` if this program does not know one of them.
pub(crate) fn of_stored(stored: &ByName) -> Option<OwnLimits> {
    let mut limits = OwnLimits::NONE;
    for (name, own) in stored {
        limits.set(AccountLimit::named(name)?, Some(*own));
    }
    Some(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_the_other_limits() {
        let mut first = OwnLimitChanges::NONE;
        first.set(AccountLimit::Connections, Some(5));
        first.set(AccountLimit::Sent, Some(0));
        let own = first.of(None);
        assert_eq!(own.iter().collect::<Vec<_>>(), [(AccountLimit::Connections, 5), (AccountLimit::Sent, 0)]);
        assert_eq!(OwnLimitChanges::NONE.of(Some(&own)), own);
        let mut second = OwnLimitChanges::NONE;
        second.set(AccountLimit::Connections, None);
        second.set(AccountLimit::Commands, Some(7));
        let own = second.of(Some(&own));
        assert_eq!(own.iter().collect::<Vec<_>>(), [(AccountLimit::Commands, 7), (AccountLimit::Sent, 0)]);
        assert!(boxed(own).is_some() && boxed(OwnLimits::NONE).is_none());
    }
}
