//! Annotations of messages that are copied or moved: RFC 5257 §4.6.

use posthaste_directory::{MessageAnnotations, NewValue, Relocated, Scope};
use posthaste_mail_model::{NumSet, Rights};
use posthaste_store::{Copied, Moved};

use super::reader::{AnnotationReader, ByUid, ReadValues, VALUE_STEPS, refused};
use crate::heavy::Pace;
use crate::reply::Failure;
use crate::wire::Wire;

/// The annotations that messages take along into another mailbox.
pub(crate) struct CarriedAnnotations<'s> {
    from: AnnotationReader<'s>,
    to: AnnotationReader<'s>,
    what: CarriedValues,
}

enum CarriedValues {
    /// The user's own private values, and those that all share, as far as the rights in the target
    /// allow.
    Values(ReadValues, Rights),
    /// The annotations of all users: the messages stay in their account.
    All(&'static [Scope]),
}

/// Whether messages leave their mailbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyOrMove {
    Copy,
    Move,
}

impl<'s> CarriedAnnotations<'s> {
    /// Reads what the messages take along, and refuses a copy for which the accounts have no room.
    pub(crate) async fn read(
        from: AnnotationReader<'s>,
        uids: &NumSet,
        (to, rights): (AnnotationReader<'s>, Rights),
        way: CopyOrMove,
    ) -> Result<Self, Failure> {
        if way == CopyOrMove::Move && from.owner == to.owner {
            // The annotations take the same space as before.
            return Ok(Self::all(from, to, rights));
        }
        let (mut read, mut pace) = (from.read(uids).await?, Pace::default());
        let mut new = Vec::with_capacity(read.by_uid.len());
        for all in read.by_uid.values_mut() {
            keep_permitted(all, rights);
            new.push(values(all));
            pace.worked(VALUE_STEPS * (all.len() as u64 + 1)).await;
        }
        to.check_new(&new).await?;
        Ok(Self { from, to, what: CarriedValues::Values(read, rights) })
    }

    /// The annotations that a MOVE within the account carries.
    pub(crate) fn all(from: AnnotationReader<'s>, to: AnnotationReader<'s>, rights: Rights) -> Self {
        let scopes: &[Scope] = if rights.contains(Rights::ANNOTATE) { Scope::ALL } else { &[Scope::Private] };
        Self { from, to, what: CarriedValues::All(scopes) }
    }

    /// Gives the copies the annotations of their sources. The copies exist even if this fails.
    pub(crate) async fn copied(&self, copied: &Copied) -> Result<(), Failure> {
        match &self.what {
            CarriedValues::Values(found, _) => self.write(&found.by_uid, copied).await,
            CarriedValues::All(scopes) => self.relocate(copied, &NumSet::new(), scopes).await,
        }
    }

    /// The same for messages that have been moved. Originals lose their annotations only once those
    /// of the copies are on disk.
    pub(crate) async fn moved(&self, moved: &Moved) -> Result<(), Failure> {
        match &self.what {
            CarriedValues::Values(_, rights) => {
                // Other sessions may have set some since the first reading. All acknowledged
                // messages are there by now.
                let (mut last, mut pace) =
                    (self.from.read_again(&moved.copied.source).await?, Pace::default());
                for all in last.values_mut() {
                    keep_permitted(all, *rights);
                    pace.worked(VALUE_STEPS * (all.len() as u64 + 1)).await;
                }
                self.write(&last, &moved.copied).await?;
                self.from.forget(&moved.expunged.uids).await;
                Ok(())
            }
            CarriedValues::All(scopes) => self.relocate(&moved.copied, &moved.expunged.uids, scopes).await,
        }
    }

    async fn relocate(
        &self,
        copied: &Copied,
        expunged: &NumSet,
        scopes: &'static [Scope],
    ) -> Result<(), Failure> {
        if self.from.is_off() {
            return Ok(());
        }
        let relocated = Relocated {
            owner: self.from.owner,
            from: self.from.mailbox,
            to: self.to.mailbox,
            old: &copied.source,
            new: &copied.uids,
            scopes,
        };
        let directory = &self.from.service.directory;
        let annotated = directory.message_annotations().relocate(relocated, expunged).await;
        let annotated = annotated.map_err(refused)?;
        self.to.touch_new(&annotated.uids, &annotated.keepers).await
    }

    async fn write(&self, found: &ByUid, copied: &Copied) -> Result<(), Failure> {
        if found.is_empty() {
            return Ok(());
        }
        let (mut new, mut pace) = (Vec::with_capacity(found.len()), Pace::default());
        for (from, to) in copied.source.iter().zip(copied.uids.iter()) {
            let all = found.get(&from);
            pace.worked(VALUE_STEPS * (all.map_or(0, MessageAnnotations::len) as u64 + 1)).await;
            new.extend(all.map(|all| (to, values(all))));
        }
        self.to.write_new(new).await
    }
}

/// Removes the values that may not be set in the target.
fn keep_permitted(all: &mut MessageAnnotations, rights: Rights) {
    for (right, scope) in [(Rights::READ, Scope::Shared), (Rights::ANNOTATE, Scope::Private)] {
        if !rights.contains(right) {
            all.retain(&[scope]);
        }
    }
}

fn values(all: &MessageAnnotations) -> Vec<NewValue> {
    let new = |(scope, entry, value): (Scope, &str, &bytes::Bytes)| NewValue {
        scope,
        entry: entry.to_owned(),
        value: Some(value.clone()),
    };
    all.iter().map(new).collect()
}

/// Warns the client if annotations of new messages could not be written. The messages are there:
/// after a NO, the client would send or move them again. RFC 9051 §7.1.2: after an untagged NO, a
/// command may still succeed.
pub(crate) fn warn(written: Result<(), Failure>, wire: &mut Wire) {
    if let Err(error) = written {
        tracing::warn!(%error, "new messages lack annotations");
        wire.say_line(&["* NO The new messages lack annotations, which could not be written"]);
    }
}
