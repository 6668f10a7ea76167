//! Effects that keep a message here: `keep` and `fileinto`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryError, NewMessage, SummariesHeld, SummaryMemory, WorkFor};
use posthaste_directory::{Account, DirectoryError};
use posthaste_mail_model::{Flag, Keyword, MailboxId, MailboxName, Rights};
use posthaste_queue::Success;
use posthaste_sharing::{Namespace, SharedMailbox, SharedName, find_mailbox, right_of};
use posthaste_sieve::{Effect, Outcome, Target};
use posthaste_store::{IncomingMessage, MailboxList, StoreError};

use crate::chain::DefaultFolder;
use crate::mail::Mail;
use crate::world;

/// A mailbox that a script names.
struct FilingTarget {
    mailbox: MailboxId,
    /// For a mailbox of another account: the account, and the recipient's rights in it.
    others: Option<(Account, Rights)>,
}

/// One message on its way into the mailboxes of one account.
pub(crate) struct Filing<'f> {
    pub(crate) delivery: &'f Delivery,
    pub(crate) account: &'f Account,
    pub(crate) list: Arc<MailboxList>,
    /// The message as the account keeps it; all recipients of that form share its body.
    message: &'f IncomingMessage,
    /// The message as clients see it.
    served: &'f Bytes,
    /// The message as it came.
    sent: &'f Bytes,
    /// The mailbox of `keep`.
    home: DefaultFolder,
    /// The mailboxes that have it so far, and the version in each.
    done: Vec<(MailboxId, usize)>,
    /// Messages that the account's scripts have sent because of it. A message may name the account
    /// by a thousand addresses, and the script runs for each.
    pub(crate) sends: Arc<AtomicUsize>,
}

impl<'f> Filing<'f> {
    /// Nothing is filed yet.
    pub(crate) fn new(
        delivery: &'f Delivery,
        account: &'f Account,
        list: Arc<MailboxList>,
        Mail { message, served, sent, chain, .. }: Mail<'f>,
    ) -> Self {
        let (home, done, sends) = (chain.home, Vec::new(), Arc::default());
        Self { delivery, account, list, message, served, sent, home, done, sends }
    }

    /// The success that may be reported to the sender (RFC 3461 §5.2.7). A message that was only
    /// redirected left no copy in the account.
    pub(crate) fn success(&self, outcome: &Outcome) -> Success {
        let is_sent_on = |effect: &&Effect| matches!(effect, Effect::Redirect { .. });
        match outcome.effects.iter().filter(is_sent_on).count() {
            0 => Success::Delivered,
            _ if self.is_kept() => Success::Delivered,
            1 => Success::SentOn,
            _ => Success::Expanded,
        }
    }

    /// Whether the message is in some mailbox.
    fn is_kept(&self) -> bool {
        !self.done.is_empty()
    }

    /// Files the copies that a run keeps. If some of it cannot be done, the message is kept in
    /// INBOX (RFC 5228 §2.10.6). An error says that it is nowhere.
    pub(crate) async fn file(&mut self, outcome: &Outcome) -> Result<(), DeliveryError> {
        let mut failed = None;
        for effect in &outcome.effects {
            let filed = match effect {
                Effect::Keep { flags, version, .. } => self.keep(flags, *version, outcome).await,
                Effect::FileInto { target, version } => self.file_into(target, *version, outcome).await,
                _ => Ok(()),
            };
            if let Err(error) = filed {
                failed = Some(error);
            }
        }
        match failed {
            Some(error) => {
                tracing::warn!(account = self.account.name, %error, "a message could not be filed by its Sieve script: it is stored in INBOX");
                self.keep_as_it_came().await
            }
            None => Ok(()),
        }
    }

    /// Keeps the message in INBOX as it came, unless some version of it is there. An error says
    /// that it is nowhere.
    pub(crate) async fn keep_as_it_came(&mut self) -> Result<(), DeliveryError> {
        let inbox = self.home().await?;
        if self.done.iter().any(|(mailbox, _)| *mailbox == inbox) {
            return Ok(());
        }
        match self.append(inbox, 0, self.message.clone()).await {
            Err(error) if self.is_kept() => {
                tracing::warn!(account = self.account.name, %error, "a message could not be stored in INBOX: a Sieve script has filed it into another mailbox");
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn keep(
        &mut self,
        flags: &[String],
        version: usize,
        outcome: &Outcome,
    ) -> Result<(), DeliveryError> {
        let inbox = self.home().await?;
        let (message, _held) = self.version(version, flags, outcome).await?;
        self.append(inbox, version, message).await
    }

    pub(crate) async fn file_into(
        &mut self,
        target: &Target,
        version: usize,
        outcome: &Outcome,
    ) -> Result<(), DeliveryError> {
        let place = self.mailbox(target).await?;
        let (message, _held) = self.version(version, &target.flags, outcome).await?;
        self.append_to(&place, version, message).await
    }

    /// Whether a target is this mailbox.
    pub(crate) async fn is(&mut self, target: &Target, mailbox: MailboxId) -> Result<bool, DeliveryError> {
        Ok(self.mailbox(target).await?.mailbox == mailbox)
    }

    /// Adds the message with another header to a mailbox of the account.
    pub(crate) async fn put_edited(
        &mut self,
        mailbox: MailboxId,
        text: Bytes,
        names: &[String],
    ) -> Result<(), DeliveryError> {
        let (message, _held) = self.edited(text).await?;
        let message = IncomingMessage { flags: flags(names), date: self.message.date, ..message };
        self.put(&FilingTarget { mailbox, others: None }, message).await
    }

    /// Files another message, such as the copy of a reply.
    pub(crate) async fn file_other(&mut self, target: &Target, text: Bytes) -> Result<(), DeliveryError> {
        let place = self.mailbox(target).await?;
        let whose = WorkFor::mail_of(self.account.id);
        let message = NewMessage { bytes: text, flags: flags(&target.flags), date: None };
        let (message, _held) = self.delivery.incoming_held(whose, message, SummaryMemory::Last).await?;
        self.put(&place, message).await
    }

    /// The mailbox of `keep`: INBOX, or the junk folder, which is created if it is missing. If
    /// the account may have no more mailboxes, it is INBOX.
    async fn home(&mut self) -> Result<MailboxId, DeliveryError> {
        if self.home == DefaultFolder::Junk {
            let junk = Target {
                mailbox: "Junk".to_owned(),
                special_use: Some("\\Junk".to_owned()),
                create: true,
                ..Target::default()
            };
            match self.mailbox(&junk).await {
                Err(DeliveryError::Store(StoreError::TooManyMailboxes { limit })) => {
                    let account = self.account.name.as_str();
                    tracing::warn!(
                        account,
                        limit,
                        "the junk folder cannot be created: its message is stored in INBOX"
                    );
                }
                junk => return Ok(junk?.mailbox),
            }
        }
        Ok(self.list.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?.id)
    }

    /// The mailbox that a script names: by its id (RFC 9042 §4), by its use (RFC 8579 §4), by its
    /// name.
    async fn mailbox(&mut self, target: &Target) -> Result<FilingTarget, DeliveryError> {
        let own = |mailbox| FilingTarget { mailbox, others: None };
        let by_id = target
            .mailbox_id
            .as_deref()
            .and_then(|id| self.list.entries.iter().find(|entry| entry.id.to_string() == id));
        let wanted = target.special_use.as_deref().and_then(world::special_use);
        let by_use =
            || self.list.entries.iter().find(|entry| wanted.is_some() && entry.special_use == wanted);
        let name = MailboxName::new(&target.mailbox).map_err(StoreError::from)?;
        if let Some(entry) = by_id.or_else(by_use).or_else(|| self.list.find(&name)) {
            return Ok(own(entry.id));
        }
        if let Some(shown) = Namespace::split(&name).filter(|shown| !shown.is_among(&self.list)) {
            return self.mailbox_of_others(&shown).await;
        }
        if !target.create {
            return Err(StoreError::NoSuchName.into());
        }
        let limit = self.account.quota_mailboxes;
        let made = match self.delivery.store().create_within(self.account.id, &name, wanted, limit).await {
            // Another delivery has made it meanwhile.
            Err(StoreError::NameTaken) => None,
            made => Some(made?.id),
        };
        self.list = self.delivery.store().list(self.account.id).await?;
        match made.or_else(|| self.list.find(&name).map(|entry| entry.id)) {
            Some(id) => Ok(own(id)),
            None => Err(StoreError::NoSuchName.into()),
        }
    }

    /// A mailbox of another account, if the recipient may add messages to it: RFC 4314 §2.1, `i`,
    /// or `p`. Scripts make none there.
    async fn mailbox_of_others(&self, shown: &SharedName<'_>) -> Result<FilingTarget, DeliveryError> {
        let (directory, store) = (self.delivery.directory(), self.delivery.store());
        let found = find_mailbox(directory, store, self.account, shown).await.map_err(stored)?;
        let needed = Rights::INSERT.union(Rights::POST);
        let found = found.filter(|found| found.rights.intersects(needed));
        let SharedMailbox { owner, entry, rights } = found.ok_or(StoreError::NoSuchName)?;
        Ok(FilingTarget { mailbox: entry.id, others: Some((owner, rights)) })
    }

    /// The message with one of its headers. With another header than the one that came, it has a
    /// summary of its own, in this memory.
    async fn version(
        &self,
        version: usize,
        names: &[String],
        outcome: &Outcome,
    ) -> Result<(IncomingMessage, Option<SummariesHeld>), DeliveryError> {
        let (message, held) = match outcome.edited(version, self.served) {
            Some(edited) => {
                let (message, held) = self.edited(Bytes::from(edited)).await?;
                (message, Some(held))
            }
            None => (self.message.clone(), None),
        };
        Ok((IncomingMessage { flags: flags(names), ..message }, held))
    }

    /// The message with another header, and the memory of its summary.
    async fn edited(&self, text: Bytes) -> Result<(IncomingMessage, SummariesHeld), DeliveryError> {
        self.delivery.edited(self.account, self.sent, self.served, text).await
    }

    async fn append(
        &mut self,
        mailbox: MailboxId,
        version: usize,
        message: IncomingMessage,
    ) -> Result<(), DeliveryError> {
        self.append_to(&FilingTarget { mailbox, others: None }, version, message).await
    }

    async fn append_to(
        &mut self,
        place: &FilingTarget,
        version: usize,
        message: IncomingMessage,
    ) -> Result<(), DeliveryError> {
        // RFC 5228 §2.10.3: into one mailbox a message comes once.
        if self.done.contains(&(place.mailbox, version)) {
            return Ok(());
        }
        self.put(place, message).await?;
        self.done.push((place.mailbox, version));
        Ok(())
    }

    /// Adds a message. It counts for the account that the mailbox belongs to, and has the flags
    /// that the recipient could set there.
    async fn put(&self, place: &FilingTarget, mut message: IncomingMessage) -> Result<(), DeliveryError> {
        let mut account = self.account;
        if let Some((owner, rights)) = &place.others {
            account = owner;
            message.flags.retain(|flag| rights.contains(right_of(flag)));
        }
        let destination = self.delivery.store().destination(place.mailbox);
        self.delivery.append(account, &destination, vec![message]).await.map(|_| ())
    }
}

/// An error of the directory as one of the store.
fn stored(error: DirectoryError) -> DeliveryError {
    match error {
        DirectoryError::Store(error) => error.into(),
        DirectoryError::Busy(_) => StoreError::Busy.into(),
        error => StoreError::Corrupt(error.to_string()).into(),
    }
}

/// Flags by their names. RFC 5232 §2: names that cannot be flags are ignored.
pub(crate) fn flags(names: &[String]) -> Vec<Flag> {
    let system = [Flag::Answered, Flag::Flagged, Flag::Deleted, Flag::Seen, Flag::Draft];
    let flag = |name: &String| match name.strip_prefix('\\') {
        Some(_) => system.iter().find(|flag| flag.to_string().eq_ignore_ascii_case(name)).cloned(),
        None => Keyword::new(name).ok().map(Flag::Keyword),
    };
    names.iter().filter_map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_by_name() {
        let names = ["\\seen", "\\Recent", "$Junk", "no atom", "\\FLAGGED"].map(str::to_owned);
        assert_eq!(
            flags(&names).iter().map(Flag::to_string).collect::<Vec<_>>(),
            ["\\Seen", "$Junk", "\\Flagged"]
        );
    }
}
