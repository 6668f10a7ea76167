//! Annotations of messages that are copied or moved: RFC 5257 §4.6.

use posthaste_directory::{NewValue, Scope};
use posthaste_mail_model::{NumSet, Rights};
use posthaste_store::Copied;

use super::reader::{ByUid, Found, Reader};
use crate::reply::Failure;

/// What messages take along: the user's own private values, and those that all share, as far as the
/// rights in the target allow.
pub(crate) struct Carried<'s> {
    to: Reader<'s>,
    found: ByUid,
}

/// Whether messages leave their mailbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Copy,
    Move,
}

impl<'s> Carried<'s> {
    /// Reads what the messages take along, and refuses a copy for which the accounts have no room.
    pub(crate) async fn read(
        from: Reader<'s>,
        uids: &NumSet,
        (to, rights): (Reader<'s>, Rights),
        way: Way,
    ) -> Result<Self, Failure> {
        let Found { by_uid: mut found, .. } = from.read(uids).await?;
        for (right, scope) in [(Rights::READ, Scope::Shared), (Rights::ANNOTATE, Scope::Private)] {
            if !rights.contains(right) {
                found = found.into_iter().map(|(uid, all)| (uid, all.only(scope))).collect();
            }
        }
        found.retain(|_, all| !all.is_empty());
        let carried = Self { to, found };
        // A move within an account takes no more room than before.
        if way == Way::Copy || from.owner != to.owner {
            let all: Vec<_> = carried.found.keys().map(|uid| carried.values(*uid)).collect();
            to.check_new(&all).await?;
        }
        Ok(carried)
    }

    /// What was read of messages that are moved within their account.
    pub(crate) fn of(to: Reader<'s>, found: ByUid) -> Self {
        Self { to, found }
    }

    fn values(&self, uid: u32) -> Vec<NewValue> {
        let Some(all) = self.found.get(&uid) else { return Vec::new() };
        let new = |(scope, entry, value): (Scope, &str, &bytes::Bytes)| NewValue {
            scope,
            entry: entry.to_owned(),
            value: Some(value.clone()),
        };
        all.iter().map(new).collect()
    }

    /// Gives the copies what their originals had. They are there, whatever becomes of this.
    pub(crate) async fn note(self, copied: &Copied) {
        if self.found.is_empty() {
            return;
        }
        if let Err(error) = self.write(copied).await {
            tracing::warn!(%error, "copies of messages lack annotations");
        }
    }

    async fn write(&self, copied: &Copied) -> Result<(), Failure> {
        let pairs = copied.source.iter().zip(copied.uids.iter());
        self.to.write_new(pairs.map(|(from, to)| (to, self.values(from))).collect()).await
    }
}
