//! Effects that keep a message here: `keep` and `fileinto`.

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryError};
use posthaste_directory::Account;
use posthaste_mail_model::{Flag, Keyword, MailboxId, MailboxName};
use posthaste_sieve::{Effect, Outcome, Target};
use posthaste_store::{IncomingMessage, MailboxList, StoreError};
use std::sync::Arc;

use crate::world;

/// Where a message is kept if no script files it elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    Inbox,
    /// Its author's domain wants it there.
    Junk,
}

/// One message on its way into the mailboxes of one account.
pub(crate) struct Filing<'f> {
    pub(crate) delivery: &'f Delivery,
    pub(crate) account: &'f Account,
    pub(crate) list: Arc<MailboxList>,
    /// The message as it came; all recipients share its body.
    pub(crate) message: &'f IncomingMessage,
    /// The mailbox of `keep`.
    home: Home,
    /// Where it is by now, and which version of it.
    done: Vec<(MailboxId, usize)>,
}

impl<'f> Filing<'f> {
    /// Nothing is filed yet.
    pub(crate) fn new(
        delivery: &'f Delivery,
        account: &'f Account,
        list: Arc<MailboxList>,
        message: &'f IncomingMessage,
        home: Home,
    ) -> Self {
        Self { delivery, account, list, message, home, done: Vec::new() }
    }

    /// Whether the message is in some mailbox.
    pub(crate) fn is_kept(&self) -> bool {
        !self.done.is_empty()
    }

    /// Does what a run wants kept. If some of it cannot be done, the message is kept in INBOX (RFC
    /// 5228 §2.10.6). An error says that it is nowhere.
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
                tracing::warn!(account = self.account.name, %error, "a message could not be filed as its script wants");
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
                tracing::warn!(account = self.account.name, %error, "a message is in a mailbox, but not in INBOX");
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
        let message = self.version(version, flags, outcome).await?;
        self.append(inbox, version, message).await
    }

    async fn file_into(
        &mut self,
        target: &Target,
        version: usize,
        outcome: &Outcome,
    ) -> Result<(), DeliveryError> {
        let mailbox = self.mailbox(target).await?;
        let message = self.version(version, &target.flags, outcome).await?;
        self.append(mailbox, version, message).await
    }

    /// Files another message, such as the copy of a reply.
    pub(crate) async fn file_other(&mut self, target: &Target, text: Vec<u8>) -> Result<(), DeliveryError> {
        let mailbox = self.mailbox(target).await?;
        let message = self.delivery.incoming(Bytes::from(text), flags(&target.flags), None).await?;
        let mailbox = self.delivery.store().destination(mailbox);
        self.delivery.append(self.account, &mailbox, vec![message]).await.map(|_| ())
    }

    /// The mailbox of `keep`: INBOX, or the junk folder, which is made if there is none.
    async fn home(&mut self) -> Result<MailboxId, DeliveryError> {
        if self.home == Home::Junk {
            let junk = Target {
                mailbox: "Junk".to_owned(),
                special_use: Some("\\Junk".to_owned()),
                create: true,
                ..Target::default()
            };
            return self.mailbox(&junk).await;
        }
        Ok(self.list.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?.id)
    }

    /// The mailbox that a script names: by its id (RFC 9042 §4), by its use (RFC 8579 §4), by its
    /// name.
    async fn mailbox(&mut self, target: &Target) -> Result<MailboxId, DeliveryError> {
        let by_id = target
            .mailbox_id
            .as_deref()
            .and_then(|id| self.list.entries.iter().find(|entry| entry.id.to_string() == id));
        let wanted = target.special_use.as_deref().and_then(world::special_use);
        let by_use =
            || self.list.entries.iter().find(|entry| wanted.is_some() && entry.special_use == wanted);
        let name = MailboxName::new(&target.mailbox).map_err(StoreError::from)?;
        if let Some(entry) = by_id.or_else(by_use).or_else(|| self.list.find(&name)) {
            return Ok(entry.id);
        }
        if !target.create {
            return Err(StoreError::NoSuchName.into());
        }
        let made = match self.delivery.store().create(self.account.id, &name, wanted).await {
            // Another delivery has made it meanwhile.
            Err(StoreError::NameTaken) => None,
            made => Some(made?.id),
        };
        self.list = self.delivery.store().list(self.account.id).await?;
        match made.or_else(|| self.list.find(&name).map(|entry| entry.id)) {
            Some(id) => Ok(id),
            None => Err(StoreError::NoSuchName.into()),
        }
    }

    /// The message with one of its headers.
    async fn version(
        &self,
        version: usize,
        names: &[String],
        outcome: &Outcome,
    ) -> Result<IncomingMessage, DeliveryError> {
        match outcome.edited(version, &self.message.bytes) {
            Some(edited) => self.delivery.incoming(Bytes::from(edited), flags(names), None).await,
            None => Ok(IncomingMessage { flags: flags(names), ..self.message.clone() }),
        }
    }

    async fn append(
        &mut self,
        mailbox: MailboxId,
        version: usize,
        message: IncomingMessage,
    ) -> Result<(), DeliveryError> {
        // RFC 5228 §2.10.3: into one mailbox a message comes once.
        if self.done.contains(&(mailbox, version)) {
            return Ok(());
        }
        let destination = self.delivery.store().destination(mailbox);
        self.delivery.append(self.account, &destination, vec![message]).await?;
        self.done.push((mailbox, version));
        Ok(())
    }
}

/// Flags by their names. RFC 5232 §2: names that cannot be flags are ignored.
fn flags(names: &[String]) -> Vec<Flag> {
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
