//! The annotations that one user sees of the messages of one mailbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_directory::{
    AnnotationError, Before, Keeping, MESSAGE_ANNOTATION_BYTES_MAX, MESSAGE_ANNOTATIONS_MAX,
    MessageAnnotations, NewValue, OnConflict, Scope, Written,
};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{AnnotateCode, ValueChange, ValueScope};
use posthaste_mail_model::{AccountId, MailboxId, NumSet};
use posthaste_net::BytePermit;
use posthaste_store::{FlagsStored, StoreError};

use crate::heavy::Pace;
use crate::reply::{Failure, Reply};
use crate::service::{ImapService, UNRESERVED_READ_BYTES};

/// Values by message.
pub(crate) type ByUid = BTreeMap<u32, MessageAnnotations>;

/// Values that one STORE sets at most: a private and a shared one of each entry that a message may
/// have.
const CHANGES_MAX: usize = 2 * MESSAGE_ANNOTATIONS_MAX;

/// Messages whose new values are written before the accounts with values in the mailbox are read
/// again.
const WRITTEN_AT_ONCE: usize = 4096;

/// Steps of moving a value from one set to another.
pub(super) const VALUE_STEPS: u64 = 500;

/// Values that were read, and the memory for them.
pub(crate) struct ReadValues {
    pub(crate) by_uid: ByUid,
    pub(crate) paid: Option<BytePermit>,
}

/// Computes how many octets will be made of a message's values.
pub(super) type OctetsOf<'m> = dyn Fn(&MessageAnnotations) -> u64 + Sync + 'm;

/// A mailbox, and the account that reads it.
#[derive(Clone, Copy)]
pub(crate) struct AnnotationReader<'s> {
    pub(crate) service: &'s ImapService,
    /// The account that is logged in.
    pub(crate) login: AccountId,
    /// The owner of the mailbox.
    pub(crate) owner: AccountId,
    pub(crate) mailbox: MailboxId,
}

/// A change of messages within all limits, and the state that it is based on.
pub(crate) struct Planned<'s> {
    reader: AnnotationReader<'s>,
    /// The stored and the new values, for each account that keeps some of them.
    parts: Vec<(Before, Arc<[NewValue]>)>,
    /// Memory for what was read.
    _paid: Option<BytePermit>,
}

/// The new values of a command.
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

impl<'s> AnnotationReader<'s> {
    pub(super) fn is_off(self) -> bool {
        !self.service.options.annotations
    }

    /// The reader's annotations of these messages.
    pub(crate) async fn read(self, uids: &NumSet) -> Result<ReadValues, Failure> {
        self.read_for(Some(uids), &|all| all.octets() as u64).await
    }

    /// The reader's annotations of all messages.
    pub(crate) async fn read_all(self) -> Result<ReadValues, Failure> {
        self.read_for(None, &|all| all.octets() as u64).await
    }

    /// Annotations of some messages, or of all, with memory for what is made of them. A session
    /// that waits for memory holds none of them: they are read again.
    pub(super) async fn read_for(
        self,
        uids: Option<&NumSet>,
        made: &OctetsOf<'_>,
    ) -> Result<ReadValues, Failure> {
        let mut paid = None;
        loop {
            let by_uid = self.collect(uids).await?;
            let (mut octets, mut pace) = (0, Pace::default());
            for values in by_uid.values() {
                octets += values.octets() as u64 + made(values);
                pace.worked(VALUE_STEPS * (values.len() as u64 + 1)).await;
            }
            if is_paid(octets, paid.as_ref()) {
                return Ok(ReadValues { by_uid, paid });
            }
            drop((by_uid, paid.take()));
            paid = Some(self.service.reserve_to_read(self.login, octets).await?);
        }
    }

    /// The reader's annotations of these messages, in the memory of an earlier reading.
    pub(super) async fn read_again(self, uids: &NumSet) -> Result<ByUid, Failure> {
        self.collect(Some(uids)).await
    }

    async fn collect(self, uids: Option<&NumSet>) -> Result<ByUid, Failure> {
        let (mut by_uid, mut pace) = (ByUid::new(), Pace::default());
        if self.is_off() {
            return Ok(by_uid);
        }
        let directory = &self.service.directory;
        let keepers = directory.message_annotations().keepers(self.owner, self.mailbox).await?;
        for (keeping, scopes) in self.keepings() {
            if !keepers.contains(&keeping.keeper) {
                continue;
            }
            let found = match uids {
                Some(uids) => directory.message_annotations().get(keeping, uids).await?,
                None => directory.message_annotations().all(keeping).await?,
            };
            for (uid, mut values) in found {
                pace.worked(VALUE_STEPS * (values.len() as u64 + 1)).await;
                values.retain(scopes);
                if !values.is_empty() {
                    by_uid.entry(uid).or_default().merge(values);
                }
            }
        }
        Ok(by_uid)
    }

    /// The accounts that keep values, each with the scopes that it keeps: one record for each.
    fn keepings(self) -> Vec<(Keeping, &'static [Scope])> {
        let by = |keeper| Keeping { keeper, owner: self.owner, mailbox: self.mailbox };
        match self.owner == self.login {
            true => vec![(by(self.owner), Scope::ALL)],
            false => vec![(by(self.login), &[Scope::Private]), (by(self.owner), &[Scope::Shared])],
        }
    }

    /// Checks that each of these messages may get the values, in all accounts that keep them.
    /// `is_there` says which messages the mailbox has. As in [`Self::read_for`], nothing is held
    /// during the wait for memory.
    pub(crate) async fn plan(
        self,
        uids: &NumSet,
        changes: &[NewValue],
        is_there: &(dyn Fn(u32) -> bool + Sync),
    ) -> Result<Planned<'s>, Failure> {
        if self.is_off() {
            return Err(off());
        }
        if changes.len() > CHANGES_MAX {
            return Err(refused(AnnotationError::TooMany));
        }
        let mut paid = None;
        loop {
            let (mut parts, mut octets) = (Vec::new(), 0);
            for (keeping, scopes) in self.keepings() {
                let kept = of_scopes(changes, scopes);
                if kept.is_empty() {
                    continue;
                }
                let directory = &self.service.directory;
                let before = directory.message_annotations().before(keeping, uids, &kept, is_there).await;
                let before = before.map_err(refused)?;
                octets += before.octets() as u64;
                parts.push((before, kept.into()));
            }
            if is_paid(octets, paid.as_ref()) {
                return Ok(Planned { reader: self, parts, _paid: paid });
            }
            drop((parts, paid.take()));
            paid = Some(self.service.reserve_to_read(self.login, octets).await?);
        }
    }

    /// Whether new messages could get these values, each its own.
    pub(crate) async fn check_new(self, all: &[Vec<NewValue>]) -> Result<(), Failure> {
        let mut pace = Pace::default();
        for (keeping, scopes) in self.keepings() {
            let mut kept = Vec::with_capacity(all.len());
            for changes in all {
                kept.push(of_scopes(changes, scopes));
                pace.worked(VALUE_STEPS * (changes.len() as u64 + 1)).await;
            }
            if kept.iter().all(Vec::is_empty) {
                continue;
            }
            if self.is_off() {
                return Err(off());
            }
            let before =
                self.service.directory.message_annotations().before_new(keeping).await.map_err(refused)?;
            before.check_new(&kept).await.map_err(refused)?;
        }
        Ok(())
    }

    /// Gives new messages values for which there was room.
    pub(crate) async fn write_new(self, messages: Vec<(u32, Vec<NewValue>)>) -> Result<(), Failure> {
        let noted: NumSet = messages.iter().filter(|(_, all)| !all.is_empty()).map(|(uid, _)| *uid).collect();
        if noted.is_empty() {
            return Ok(());
        }
        let mut pace = Pace::default();
        for (keeping, scopes) in self.keepings() {
            let mut kept = Vec::with_capacity(messages.len());
            for (uid, all) in &messages {
                pace.worked(VALUE_STEPS * (all.len() as u64 + 1)).await;
                let all = of_scopes(all, scopes);
                if !all.is_empty() {
                    kept.push((*uid, all.into()));
                }
            }
            let before = Before::of_new_messages(keeping);
            let directory = &self.service.directory;
            directory.message_annotations().set(&before, kept, OnConflict::Follow).await.map_err(refused)?;
        }
        self.touch_new(&noted, &[]).await
    }

    /// The same as [`Self::touch`] for new messages. One that was removed or moved meanwhile has no
    /// annotations here: a later change removes their remains.
    pub(super) async fn touch_new(self, uids: &NumSet, keepers: &[AccountId]) -> Result<(), Failure> {
        match self.touch(uids, keepers).await {
            Ok(Some(touched)) if touched.view.existing(uids) != *uids => Err(expunged()),
            // No session here has it open: the first one that has it finds the values.
            Ok(_) | Err(Failure::Store(StoreError::TooManyOpen)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Raises the mod-sequences of messages whose annotations have changed, those of the reader or
    /// of other keepers. Its view says which of them are still there.
    pub(crate) async fn touch(
        self,
        uids: &NumSet,
        keepers: &[AccountId],
    ) -> Result<Option<FlagsStored>, Failure> {
        if uids.is_empty() {
            return Ok(None);
        }
        let touched = match self.service.store.open_for(self.login, self.mailbox).await {
            Ok(mailbox) => mailbox.touch(uids, None).await,
            Err(error) => Err(error),
        };
        if let Err(StoreError::NoMailbox(_)) = &touched {
            // The mailbox may have been deleted before the values were written: they are removed.
            let all: Vec<_> = [self.login, self.owner].iter().chain(keepers).copied().collect();
            self.service
                .directory
                .message_annotations()
                .forget_keepers(self.owner, self.mailbox, &all)
                .await?;
        }
        Ok(Some(touched?))
    }

    /// Forgets the annotations of expunged messages, those of all users. A failure
    /// here does not undo the EXPUNGE.
    pub(crate) async fn forget(self, uids: &NumSet) {
        if uids.is_empty() || self.is_off() {
            return;
        }
        let directory = &self.service.directory;
        if let Err(error) = directory.message_annotations().forget(self.owner, self.mailbox, uids).await {
            tracing::warn!(%error, "annotations of expunged messages were not removed");
        }
    }
}

impl Planned<'_> {
    /// Gives messages of the plan the values. Returns the outcome for each account that keeps
    /// some.
    pub(crate) async fn write(&self, uids: &NumSet, others: OnConflict) -> Result<Vec<Written>, Failure> {
        let (mut all, mut left) = (Vec::with_capacity(self.parts.len()), NumSet::new());
        let directory = &self.reader.service.directory;
        for (before, kept) in &self.parts {
            let (mut wanted, mut part) = (uids.difference(&left), Written::default());
            if kept.iter().all(|one| one.value.is_none()) {
                // Other messages have no values to remove.
                wanted = wanted.intersection(&before.uids());
            }
            let wanted: Vec<u32> = wanted.iter().collect();
            for batch in wanted.chunks(WRITTEN_AT_ONCE) {
                let messages = batch.iter().map(|uid| (*uid, Arc::clone(kept))).collect();
                let written = directory.message_annotations().set(before, messages, others).await;
                let written = written.map_err(refused)?;
                left = left.union(&written.left);
                part.left = part.left.union(&written.left);
                part.made = part.made.union(&written.made);
            }
            all.push(part);
        }
        Ok(all)
    }

    /// Withdraws the values of messages that were removed before they had them.
    pub(crate) async fn withdraw(&self, written: &[Written], missing: &NumSet) {
        let directory = &self.reader.service.directory;
        for ((before, _), written) in self.parts.iter().zip(written) {
            if let Err(error) = directory.message_annotations().withdraw(before, written, missing).await {
                tracing::warn!(%error, "annotations of expunged messages were not removed");
            }
        }
    }
}

/// Whether values of this many octets may be held with this memory. Few need none.
fn is_paid(octets: u64, paid: Option<&BytePermit>) -> bool {
    octets <= paid.map_or(2 * UNRESERVED_READ_BYTES, |paid| paid.bytes() as u64)
}

/// The values of these scopes.
fn of_scopes(changes: &[NewValue], scopes: &[Scope]) -> Vec<NewValue> {
    changes.iter().filter(|change| scopes.contains(&change.scope)).cloned().collect()
}

/// The reply where the administrator has not switched annotations on.
fn off() -> Failure {
    Reply::no(Code::Cannot, "This server has no annotations of messages").into()
}

/// The failure where messages were removed again before they had their annotations.
fn expunged() -> Failure {
    Reply::no(Code::ExpungeIssued, "Some of these messages were expunged").into()
}

/// RFC 5257 §4.5.
pub(super) fn refused(error: AnnotationError) -> Failure {
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

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use bytes::Bytes;
    use posthaste_directory::NewAccount;
    use posthaste_mail_model::{MailboxName, Secret};

    use super::*;
    use crate::annotate::reported::ReportedAnnotations;
    use crate::size_tests::service;

    /// The INBOX of a new account with messages whose comments have this many octets each.
    async fn inbox(service: &ImapService, messages: u32, octets: usize) -> AnnotationReader<'_> {
        let password = Secret::new("correct horse".to_owned());
        let ana = service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        let to = [service.delivery.resolve(&ana.name).await.unwrap()];
        for _ in 0..messages {
            let text = Bytes::from_static(b"Subject: x\r\n\r\nx\r\n");
            service.delivery.deliver(text, &to).await.remove(0).unwrap();
        }
        let list = service.store.list(ana.id).await.unwrap();
        let mailbox = list.find(&MailboxName::inbox()).unwrap().id;
        let reader = AnnotationReader { service, login: ana.id, owner: ana.id, mailbox };
        let comment = vec![comment(octets)];
        reader.write_new((1..=messages).map(|uid| (uid, comment.clone())).collect()).await.unwrap();
        reader
    }

    fn comment(octets: usize) -> NewValue {
        let value = Some(Bytes::from(vec![b'x'; octets]));
        NewValue { scope: Scope::Private, entry: "/comment".to_owned(), value }
    }

    /// Each session of an account held up to 8 MiB while it waited.
    #[tokio::test]
    async fn values_are_read_again_after_the_wait_for_memory() {
        let service = service();
        let reader = inbox(&service, 3, 60_000).await;
        let held = service.reserve_to_read(reader.login, service.reads.largest() as u64).await.unwrap();
        let uids = NumSet::range(1, 3);
        let mut reading = pin!(reader.read(&uids));
        assert!(poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx).is_pending())).await);
        let second = NumSet::range(2, 2);
        let planned = reader.plan(&second, &[comment(5)], &|_| true).await.unwrap();
        planned.write(&second, OnConflict::Follow).await.unwrap();
        drop(held);
        let read = reading.await.unwrap();
        assert!(read.paid.is_some());
        let octets = |uid: u32| read.by_uid.get(&uid).map(MessageAnnotations::octets);
        let name = "/comment".len();
        assert_eq!([1, 2, 3].map(octets), [60_000, 5, 60_000].map(|value| Some(name + value)));
    }

    /// The memory was given back when the values were read, and not when they were dropped.
    #[tokio::test]
    async fn memory_is_held_as_long_as_values() {
        let service = service();
        let reader = inbox(&service, 60, 60_000).await;
        let (total, mut was_paid) = (service.reads.available(), false);
        {
            // It pauses while it compares the values.
            let mut reading = pin!(ReportedAnnotations::read(reader));
            while poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx).is_pending())).await {
                was_paid |= service.reads.available() < total;
                tokio::task::yield_now().await;
            }
        }
        assert!(was_paid);
        assert_eq!(service.reads.available(), total);
    }
}
