//! A message in the place of another one: clients see other bytes, so it has a new UID.
//!
//! It is added with the flags, the dates and the annotations (RFC 5257) of the old one. That one is
//! expunged after that.
//!
//! Invariants: the new message is durable before the old one is expunged. A step that is cut off
//! is finished by the next one who does the same. If two processes or nodes do the same at the
//! same time, one adds a message, and the other finds it. Meanwhile a full folder holds one
//! message over its limit.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use posthaste_directory::{AnnotationError, Copies, Directory, DirectoryError, Relocated, Scope};
use posthaste_mail_model::{AccountId, BodyId, Id, MailboxId, NumSet, Uid};
use posthaste_store::{FlagChange, IncomingMessage, Mailbox, StoreError, View};
use sha2::{Digest, Sha256};

use crate::body_change::Replacement;
use crate::deliver::Delivery;
use crate::error::DeliveryError;
use crate::long_work::WorkFor;
use crate::rich::Shape;

/// Times that a message is looked at again because others change the mailbox meanwhile.
const TRIES_MAX: usize = 20;

/// The message that another one replaces.
#[derive(Clone, Copy)]
pub(crate) struct Replaced {
    pub(crate) uid: Uid,
    pub(crate) body: BodyId,
    pub(crate) saved: i64,
}

/// Replaces messages of a mailbox of an account.
pub(crate) struct Replacer<'d> {
    delivery: &'d Delivery,
    account: AccountId,
    mailbox: Arc<Mailbox>,
    bodies: ReadBodies,
}

impl<'d> Replacer<'d> {
    pub(crate) fn new(delivery: &'d Delivery, account: AccountId, mailbox: Arc<Mailbox>) -> Self {
        Self { delivery, account, mailbox, bodies: ReadBodies::default() }
    }

    fn directory(&self) -> &Directory {
        self.delivery.directory()
    }

    /// The bodies of this mailbox that are known, which the next one need not read again.
    pub(crate) fn bodies_mut(&mut self) -> &mut ReadBodies {
        &mut self.bodies
    }

    /// Adds a message again, with the flags, dates and annotations that it has, and expunges the
    /// old one. A run before this one may have added it. `false` if the old one was expunged
    /// meanwhile.
    pub(crate) async fn replace(&mut self, old: Replaced, by: &Replacement) -> Result<bool, DeliveryError> {
        let place = MessageLocation { account: self.account, mailbox: self.mailbox.id(), uid: old.uid };
        // One of another shape is that of a run to another format. It is converted in its turn.
        let all = Shape::ALL.map(|shape| replacement_id(old.body, place, shape));
        let body = replacement_id(old.body, place, by.shape);
        let mut copies = Copies::default();
        for _ in 0..TRIES_MAX {
            let view = self.mailbox.current().await?;
            let uids = NumSet::range(old.uid.value(), old.uid.value());
            let Some((_, row)) = view.row_of_uid(old.uid) else { return Ok(false) };
            let flags: Vec<_> = view.head().keywords.flags_of(row.flags()).collect();
            let bodies = self.bodies(&view).await?;
            // The message that an earlier run added may be expunged by now.
            let mut added = all.iter().filter_map(|body| bodies.get(body)).copied();
            let new = match added.find(|uid| view.row_of_uid(*uid).is_some()) {
                Some(uid) => {
                    let new = NumSet::range(uid.value(), uid.value());
                    self.mailbox.store_flags(&new, FlagChange::Replace, &flags, None).await?;
                    uid
                }
                None => {
                    let whose = WorkFor::mailbox(self.mailbox.id());
                    let message = IncomingMessage {
                        bytes: by.stored.clone(),
                        summary: self.delivery.summary_for(whose, &by.served).await?.into(),
                        body,
                        flags,
                        date: row.date(),
                        saved: Some(old.saved),
                    };
                    // Another process or node may do the same at this moment. So this is refused if
                    // a message came whose body is not known here.
                    let next = view.head().uid_next;
                    let Some(uid) = self.mailbox.append_replacement(old.uid, next, message).await? else {
                        continue;
                    };
                    uid
                }
            };
            self.annotate(&uids, &NumSet::range(new.value(), new.value()), &mut copies).await?;
            // Only if the new one still exists, and nobody has changed the flags or annotations of
            // the old one since they were read. A STORE may have written annotations since, and not
            // have raised the mod-sequence yet. It finds that the message does not exist, and is
            // refused.
            if !self.mailbox.remove_replaced(old.uid, row.modseq(), new).await?.uids.is_empty() {
                self.forget_annotations(&uids).await;
                return Ok(true);
            }
        }
        let why = "its flags or annotations change all the time, or new messages come";
        Err(DeliveryError::Interrupted(why.to_owned()))
    }

    /// Gives the new message the annotations of the old one. They are on disk before that one is
    /// expunged.
    async fn annotate(&self, old: &NumSet, new: &NumSet, copies: &mut Copies) -> Result<(), DeliveryError> {
        let (owner, mailbox) = (self.account, self.mailbox.id());
        let relocated = Relocated { owner, from: mailbox, to: mailbox, old, new, scopes: Scope::ALL };
        let copied = self.directory().message_annotations().copy(relocated, copies).await;
        let annotated = copied.map_err(|error| match error {
            AnnotationError::Directory(DirectoryError::Store(error)) => error.into(),
            error => DeliveryError::Interrupted(error.to_string()),
        })?;
        if annotated.uids.is_empty() {
            return Ok(());
        }
        let touched = self.mailbox.touch(&annotated.uids, None).await;
        if let Err(StoreError::NoMailbox(_)) = &touched {
            // Its deletion may have come before the annotations of the new message.
            let (directory, keepers) = (self.directory(), &annotated.keepers);
            let forgotten = directory.message_annotations().forget_keepers(owner, mailbox, keepers).await;
            if let Err(error) = forgotten {
                tracing::warn!(%error, "annotations of messages in a deleted mailbox were not removed");
            }
        }
        touched?;
        Ok(())
    }

    /// Removes the annotations of expunged messages. The messages stay expunged even if this
    /// fails.
    async fn forget_annotations(&self, uids: &NumSet) {
        let forgotten =
            self.directory().message_annotations().forget(self.account, self.mailbox.id(), uids).await;
        if let Err(error) = forgotten {
            tracing::warn!(%error, "annotations of a converted message were not removed");
        }
    }

    /// The bodies of the messages of a view: what an earlier run or another process added is among
    /// them. Only those are read that came since the last call.
    async fn bodies(&mut self, view: &View) -> Result<&HashMap<BodyId, Uid>, DeliveryError> {
        let ReadBodies { next, by_id } = &mut self.bodies;
        let (first, next_now) = (next.value(), view.head().uid_next);
        if next_now > *next {
            let mut more = Vec::new();
            let mut visit = |stored: posthaste_store::Stored<'_>| {
                more.push((stored.body, stored.uid));
                ControlFlow::Continue(())
            };
            let uids = NumSet::range(first, next_now.value() - 1);
            // Without all of them, what an earlier run added would be added again.
            self.mailbox.summaries(&uids, &mut visit).await?.refuse()?;
            for (body, uid) in more {
                let known = by_id.entry(body).or_insert(uid);
                if view.row_of_uid(*known).is_none() {
                    *known = uid;
                }
            }
            *next = next_now;
        }
        Ok(by_id)
    }
}

/// The bodies of the messages of a mailbox that have UIDs below the next one to be read. Some 40
/// bytes for each message.
pub(crate) struct ReadBodies {
    next: Uid,
    by_id: HashMap<BodyId, Uid>,
}

impl ReadBodies {
    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }
}

impl Default for ReadBodies {
    fn default() -> Self {
        Self { next: Uid::MIN, by_id: HashMap::new() }
    }
}

/// The location of a message.
#[derive(Clone, Copy)]
pub(crate) struct MessageLocation {
    pub(crate) account: AccountId,
    pub(crate) mailbox: MailboxId,
    pub(crate) uid: Uid,
}

/// The id of the body of the message that takes another one's place. It is always the same, so that
/// a run that goes on after an interruption finds it. It is that of no other message and of no
/// other stored bytes: messages with one body may be in one mailbox, and in several accounts.
pub(crate) fn replacement_id(body: BodyId, place: MessageLocation, shape: Shape) -> BodyId {
    let mut id = body.0.to_bytes();
    let hash = Sha256::new()
        .chain_update(b"posthaste: converted ")
        .chain_update(id)
        .chain_update(place.account.0.to_bytes())
        .chain_update(place.mailbox.0.to_bytes())
        .chain_update(place.uid.value().to_be_bytes())
        .chain_update([shape as u8])
        .finalize();
    // The first six bytes are the time.
    id.iter_mut().skip(6).zip(hash).for_each(|(byte, random)| *byte = random);
    BodyId(Id::from_bytes(id))
}
