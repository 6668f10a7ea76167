//! The annotations that one user sees of the messages of one mailbox.

use std::collections::BTreeMap;

use posthaste_directory::{
    AnnotationError, Directory, MESSAGE_ANNOTATION_BYTES_MAX, MESSAGE_ANNOTATIONS_MAX, MessageAnnotations,
    NewValue, Room, Scope,
};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{AnnotateCode, ValueChange, ValueScope};
use posthaste_mail_model::{AccountId, MailboxId, NumSet};
use posthaste_net::BytePermit;

use crate::reply::{Failure, Reply};
use crate::service::ImapService;

/// Values by message.
pub(crate) type ByUid = BTreeMap<u32, MessageAnnotations>;

/// Octets of values that are read without reserving memory, as FETCH does for small messages.
const UNRESERVED_BYTES_MAX: usize = 128 * 1024;

/// Values that one STORE sets at most: a private and a shared one of each entry that a message may
/// have.
const CHANGES_MAX: usize = 2 * MESSAGE_ANNOTATIONS_MAX;

/// Messages whose values are made and written at a time.
const WRITTEN_AT_ONCE: usize = 64;

/// Values that were read, and the memory for them.
pub(crate) struct Found {
    pub(crate) by_uid: ByUid,
    pub(crate) paid: Option<BytePermit>,
}

/// A mailbox, and who reads it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'s> {
    pub(crate) service: &'s ImapService,
    /// The account that is logged in.
    pub(crate) login: AccountId,
    /// Whose mailbox it is.
    pub(crate) owner: AccountId,
    pub(crate) mailbox: MailboxId,
}

/// What one value is set to.
pub(crate) fn new_values(changes: &[ValueChange]) -> Vec<NewValue> {
    let new = |change: &ValueChange| NewValue {
        scope: scope_of(change.scope),
        entry: change.entry.as_str().to_owned(),
        value: change.value.clone(),
    };
    changes.iter().map(new).collect()
}

pub(crate) const fn scope_of(scope: ValueScope) -> Scope {
    match scope {
        ValueScope::Private => Scope::Private,
        ValueScope::Shared => Scope::Shared,
    }
}

impl<'s> Reader<'s> {
    fn is_off(self) -> bool {
        !self.service.options.annotations
    }

    /// What the reader sees of these messages.
    pub(crate) async fn read(self, uids: &NumSet) -> Result<Found, Failure> {
        if self.is_off() {
            return Ok(Found { by_uid: ByUid::new(), paid: None });
        }
        let directory = &self.service.directory;
        let found = directory.message_annotations(self.owner, self.mailbox, uids).await?;
        if self.owner == self.login {
            return self.paid(found).await;
        }
        self.paid(merged(found, directory.message_annotations(self.login, self.mailbox, uids).await?)).await
    }

    /// What the reader sees of all messages.
    pub(crate) async fn read_all(self) -> Result<Found, Failure> {
        if self.is_off() {
            return Ok(Found { by_uid: ByUid::new(), paid: None });
        }
        let directory = &self.service.directory;
        let found = directory.all_message_annotations(self.owner, self.mailbox).await?;
        if self.owner == self.login {
            return self.paid(found).await;
        }
        self.paid(merged(found, directory.all_message_annotations(self.login, self.mailbox).await?)).await
    }

    /// Waits for memory for what was read, and for as much that is made of it.
    async fn paid(self, by_uid: ByUid) -> Result<Found, Failure> {
        let octets: usize = by_uid.values().map(MessageAnnotations::octets).sum();
        let paid = match octets > UNRESERVED_BYTES_MAX {
            true => Some(self.service.room_to_read(self.login, octets as u64 * 2).await?),
            false => None,
        };
        Ok(Found { by_uid, paid })
    }

    /// The accounts that keep values, each with the scopes that it keeps: one record for each.
    fn keepers(self) -> Vec<(AccountId, &'static [Scope])> {
        match self.owner == self.login {
            true => vec![(self.owner, &[Scope::Private, Scope::Shared])],
            false => vec![(self.login, &[Scope::Private]), (self.owner, &[Scope::Shared])],
        }
    }

    /// Gives each of these messages the values. If one has no room for them, those before it have
    /// theirs. `is_there` says which messages the mailbox has.
    pub(crate) async fn write(
        self,
        uids: &NumSet,
        changes: &[NewValue],
        is_there: &(dyn Fn(u32) -> bool + Sync),
    ) -> Result<(), Failure> {
        if self.is_off() {
            return Err(off());
        }
        if changes.len() > CHANGES_MAX {
            return Err(refused(AnnotationError::TooMany));
        }
        let uids: Vec<u32> = uids.iter().collect();
        for (keeper, scopes) in self.keepers() {
            let kept = of_scopes(changes, scopes);
            if kept.is_empty() {
                continue;
            }
            let directory = &self.service.directory;
            let mut room = directory.message_annotation_room(keeper, self.mailbox, is_there).await?;
            // Each message has the values once while they are written.
            for batch in uids.chunks(WRITTEN_AT_ONCE) {
                let messages = batch.iter().map(|uid| (*uid, kept.clone())).collect();
                let written = directory.annotate_messages(keeper, self.mailbox, messages, room).await;
                room = written.map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Whether new messages could get these values, each its own.
    pub(crate) async fn check_new(self, all: &[Vec<NewValue>]) -> Result<(), Failure> {
        for (keeper, scopes) in self.keepers() {
            let kept: Vec<_> = all.iter().map(|changes| of_scopes(changes, scopes)).collect();
            if kept.iter().all(Vec::is_empty) {
                continue;
            }
            if self.is_off() {
                return Err(off());
            }
            let directory = &self.service.directory;
            let room = directory.message_annotation_room(keeper, self.mailbox, |_| true).await?;
            Directory::check_message_annotations(&kept, room).map_err(refused)?;
        }
        Ok(())
    }

    /// The same for messages that are there, whatever becomes of this: the client would send them
    /// again.
    pub(crate) async fn note_new(self, messages: Vec<(u32, Vec<NewValue>)>) {
        if let Err(error) = self.write_new(messages).await {
            tracing::warn!(%error, "new messages lack annotations");
        }
    }

    /// Gives new messages values for which there was room.
    pub(crate) async fn write_new(self, messages: Vec<(u32, Vec<NewValue>)>) -> Result<(), Failure> {
        let noted: NumSet = messages.iter().filter(|(_, all)| !all.is_empty()).map(|(uid, _)| *uid).collect();
        if noted.is_empty() {
            return Ok(());
        }
        for (keeper, scopes) in self.keepers() {
            let kept = messages.iter().map(|(uid, all)| (*uid, of_scopes(all, scopes)));
            let kept = kept.filter(|(_, all)| !all.is_empty()).collect();
            let directory = &self.service.directory;
            let written = directory.annotate_messages(keeper, self.mailbox, kept, Room::CHECKED).await;
            written.map_err(refused)?;
        }
        self.touch(&noted).await
    }

    /// Raises the mod-sequences of messages whose annotations have changed.
    pub(crate) async fn touch(self, uids: &NumSet) -> Result<(), Failure> {
        if !uids.is_empty() {
            self.service.store.open(self.mailbox).await?.touch(uids, None).await?;
        }
        Ok(())
    }

    /// Forgets the annotations of expunged messages. They are expunged, whatever becomes of this.
    pub(crate) async fn forget(self, uids: &NumSet) {
        if uids.is_empty() || self.is_off() {
            return;
        }
        for (keeper, _) in self.keepers() {
            let directory = &self.service.directory;
            if let Err(error) = directory.forget_message_annotations(keeper, self.mailbox, uids).await {
                tracing::warn!(%error, "annotations of expunged messages were left behind");
            }
        }
    }
}

/// The values of these scopes.
fn of_scopes(changes: &[NewValue], scopes: &[Scope]) -> Vec<NewValue> {
    changes.iter().filter(|change| scopes.contains(&change.scope)).cloned().collect()
}

/// What all share, and the reader's own.
fn merged(mut shared: ByUid, own: ByUid) -> ByUid {
    shared = shared.into_iter().map(|(uid, all)| (uid, all.only(Scope::Shared))).collect();
    for (uid, all) in own {
        shared.entry(uid).or_default().merge(all.only(Scope::Private));
    }
    shared.retain(|_, all| !all.is_empty());
    shared
}

/// The reply where the administrator has not switched annotations on.
fn off() -> Failure {
    Reply::no(Code::Cannot, "This server has no annotations of messages").into()
}

/// RFC 5257 §4.5.
fn refused(error: AnnotationError) -> Failure {
    match error {
        AnnotationError::TooLong => too_long().into(),
        AnnotationError::TooMany => {
            let text = "There are too many annotations, or they are too long together: remove some first";
            Reply::no(Code::Annotate(AnnotateCode::TooMany), text).into()
        }
        AnnotationError::Directory(error) => error.into(),
    }
}

/// The reply to a value over the limit, or to a command whose values are too long together.
pub(crate) fn too_long() -> Reply {
    let text = format!("A value has at most {MESSAGE_ANNOTATION_BYTES_MAX} octets");
    Reply::no(Code::Annotate(AnnotateCode::TooBig), text)
}
