//! IMAP steps that change mailboxes: STORE, EXPUNGE, COPY, MOVE, APPEND, CREATE, DELETE, RENAME;
//! and sending.

use posthaste_imap_client::command::quoted;
use posthaste_imap_client::{Client, listing};
use posthaste_load_workload::corpus::{Serial, serial_token};
use posthaste_load_workload::{Mailbox, Messages, Recipient};
use posthaste_mail_model::NumSet;

use super::by_append::append;
use super::failure::Failure;
use super::follow::{Follow, flag_bits};
use super::model::{DELETED, MailboxModel, Message};
use super::open_loop::Outgoing;
use super::options::SendBy;
use super::read::ANY_COUNT;
use super::session::{Expected, conclude};
use super::user::User;
use crate::target::Scheme;

fn set(messages: &[Message]) -> NumSet {
    messages.iter().map(|m| m.uid).collect()
}

impl User {
    fn known(&mut self, uids: &[u32]) -> Vec<Message> {
        let Some(mailbox) = self.model.current() else { return Vec::new() };
        uids.iter().filter_map(|uid| mailbox.by_uid(*uid).copied()).collect()
    }

    /// Before an audit: finds out which messages these are before they change, if a listing did not
    /// show it. This costs a command. Without an audit it is not done.
    async fn identify(&mut self, uids: &[u32]) -> Result<(), Failure> {
        if self.shared.ledger.is_none() {
            return Ok(());
        }
        let unknown: NumSet = self.known(uids).iter().filter(|m| m.serial == 0).map(|m| m.uid).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let line = format!("UID FETCH {unknown} (UID BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])");
        self.command(&line, Expected::default()).await.map(drop)
    }

    /// STORE. The model changes first: the answers are compared with the expected flags.
    pub async fn store(&mut self, which: &Messages, how: &str, flags: &str) -> Result<(), Failure> {
        let uids = self.pick_messages(which);
        if uids.is_empty() {
            return Ok(());
        }
        let bits = flag_bits(flags.as_bytes());
        let mut change = |apply: &dyn Fn(u8) -> Option<u8>| {
            for uid in &uids {
                if let Some(message) = self.model.current().and_then(|m| m.by_uid(*uid)) {
                    message.flags = message.flags.and_then(apply);
                }
            }
        };
        match how.chars().next() {
            Some('+') => change(&|f| Some(f | bits)),
            Some('-') => change(&|f| Some(f & !bits)),
            _ => change(&|_| Some(bits)),
        }
        let set: NumSet = uids.iter().copied().collect();
        let done = self.command(&format!("UID STORE {set} {how} ({flags})"), Expected::default()).await;
        if let Err(failure) = done {
            for uid in &uids {
                if let Some(message) = self.model.current().and_then(|m| m.by_uid(*uid)) {
                    message.flags = None;
                }
            }
            return Err(failure);
        }
        Ok(())
    }

    /// EXPUNGE: the messages known to be \Deleted must be removed, and no others.
    pub async fn expunge(&mut self) -> Result<(), Failure> {
        let Some(mailbox) = self.model.here() else { return Ok(()) };
        let may_go = |m: &&Message| m.flags.is_none_or(|f| f & DELETED != 0);
        let uids: Vec<u32> = mailbox.messages.iter().filter(may_go).map(|m| m.uid).collect();
        self.identify(&uids).await?;
        let going = self.known(&uids);
        let shared = self.shared.clone();
        if let Some(ledger) = &shared.ledger {
            going.iter().for_each(|m| ledger.removing(self.who.account, m.serial));
        }
        let outcome = self.command("EXPUNGE", Expected { expunging: true, ..Expected::default() }).await?;
        let mut left = None;
        for message in &going {
            let expunged = outcome.expunged.iter().any(|e| e.uid == message.uid);
            match &shared.ledger {
                Some(ledger) if expunged => ledger.removed(self.who.account, message.serial),
                Some(ledger) => ledger.not_removed(self.who.account, message.serial),
                None => {}
            }
            if !expunged && message.flags.is_some() {
                left = Some(message.uid);
            }
        }
        match left {
            Some(uid) => Err(Failure::Wrong(format!("EXPUNGE did not remove UID {uid}, which is \\Deleted"))),
            None => Ok(()),
        }
    }

    /// COPY to a mailbox.
    pub async fn copy(&mut self, which: &Messages, to: &Mailbox) -> Result<(), Failure> {
        let Some((messages, target, name)) = self.pick_both(which, to).await? else { return Ok(()) };
        let shared = self.shared.clone();
        if let Some(ledger) = &shared.ledger {
            messages.iter().for_each(|m| ledger.adding(self.who.account, m.serial));
        }
        let line = format!("UID COPY {} {}", set(&messages), quoted(&name));
        let outcome = self.command(&line, Expected::default()).await;
        if let (Some(ledger), Err(failure)) = (&shared.ledger, &outcome)
            && failure.is_refusal()
        {
            messages.iter().for_each(|m| ledger.not_added(self.who.account, m.serial));
        }
        let outcome = outcome?;
        if let Some(ledger) = &shared.ledger {
            messages.iter().for_each(|m| ledger.added(self.who.account, m.serial));
        }
        self.arrived(target, &messages, Some(&outcome.completion.text))
    }

    /// MOVE to a mailbox; COPY, STORE and EXPUNGE where the server has no MOVE.
    pub async fn r#move(&mut self, which: &Messages, to: &Mailbox) -> Result<(), Failure> {
        if !self
            .link
            .client
            .as_ref()
            .is_some_and(|c| c.capabilities().has("MOVE") || c.capabilities().has("IMAP4rev2"))
        {
            self.copy(which, to).await?;
            self.store(&Messages::Same, "+FLAGS.SILENT", "\\Deleted").await?;
            return self.expunge().await;
        }
        let Some((messages, target, name)) = self.pick_both(which, to).await? else { return Ok(()) };
        for message in &messages {
            // It may be expunged from now on, also without \Deleted.
            if let Some(m) = self.model.current().and_then(|m| m.by_uid(message.uid)) {
                m.flags = None;
            }
        }
        let shared = self.shared.clone();
        if let Some(ledger) = &shared.ledger {
            messages.iter().for_each(|m| ledger.adding(self.who.account, m.serial));
        }
        let line = format!("UID MOVE {} {}", set(&messages), quoted(&name));
        let outcome = self.command(&line, Expected { expunging: true, ..Expected::default() }).await;
        if let Some(ledger) = &shared.ledger
            && outcome.as_ref().err().is_none_or(Failure::is_refusal)
        {
            messages.iter().for_each(|m| ledger.not_added(self.who.account, m.serial));
        }
        let outcome = outcome?;
        if let Some(m) = messages.iter().find(|m| !outcome.expunged.iter().any(|e| e.uid == m.uid)) {
            return Err(Failure::Wrong(format!("MOVE did not remove UID {}", m.uid)));
        }
        let text = outcome.copied.as_deref().unwrap_or(&outcome.completion.text).to_owned();
        self.arrived(target, &messages, Some(&text))
    }

    /// The messages and where they go: index and name of the target.
    async fn pick_both(
        &mut self,
        which: &Messages,
        to: &Mailbox,
    ) -> Result<Option<(Vec<Message>, usize, String)>, Failure> {
        let uids = self.pick_messages(which);
        self.identify(&uids).await?;
        let messages = self.known(&uids);
        let max = self.shared.options.workload.messages.max;
        let Some(target) = self.pick_mailbox(to, max).filter(|_| !messages.is_empty()) else {
            return Ok(None);
        };
        let name = self.model.mailboxes.get(target).map(|m| m.name.clone());
        Ok(name.map(|name| (messages, target, name)))
    }

    /// Enters copied messages into the target, with the UIDs of COPYUID if there are any.
    fn arrived(&mut self, target: usize, messages: &[Message], text: Option<&str>) -> Result<(), Failure> {
        let copied = text.and_then(listing::copy_uid);
        if let Some((_, from, to)) = &copied
            && (*from != set(messages) || from.count() != to.count())
        {
            return Err(Failure::Wrong(format!("COPYUID {from} {to} after copying {}", set(messages))));
        }
        if let (Some((validity, _, to)), Some(target)) = (&copied, self.model.mailboxes.get(target)) {
            for (message, uid) in messages.iter().zip(to.iter()) {
                self.identify_uid((&target.name, *validity), uid, message.serial)?;
            }
        }
        // RFC 9051 §7.4.1: EXISTS announces messages of the selected mailbox; a listing shows
        // them.
        if self.model.current == Some(target) {
            return Ok(());
        }
        let mut uids = copied.iter().flat_map(|(_, _, to)| to.iter());
        let Some(mailbox) = self.model.mailboxes.get_mut(target) else { return Ok(()) };
        for message in messages {
            // Copies keep the flags (RFC 9051 §6.4.7).
            mailbox.added(uids.next(), message.serial, message.flags);
        }
        Ok(())
    }

    /// For the audit: a UID that named another message before is a fault.
    fn identify_uid(&self, place: (&str, u32), uid: u32, serial: Serial) -> Result<(), Failure> {
        let other =
            self.shared.ledger.as_ref().and_then(|l| l.identified(self.who.account, place, uid, serial));
        match other {
            Some(other) => Err(Failure::Wrong(format!(
                "{}: UID {uid} was given to {} and before that to {}",
                place.0,
                serial_token(serial),
                serial_token(other)
            ))),
            None => Ok(()),
        }
    }

    /// APPEND of a new message.
    pub async fn append(&mut self, which: &Mailbox) -> Result<(), Failure> {
        let Some(at) = self.pick_mailbox(which, ANY_COUNT) else { return Ok(()) };
        let Some(name) = self.model.mailboxes.get(at).map(|m| m.name.clone()) else { return Ok(()) };
        let shared = self.shared.clone();
        let mut mail = Vec::new();
        let serial = shared.compose(&self.who.address, &self.who.address, &mut mail);
        let selected = self.model.current == Some(at);
        let client = self.link.client.as_mut().ok_or(Failure::Stopped)?;
        let follow = Follow::mailbox(self.model.mailboxes.get_mut(self.model.current.unwrap_or(usize::MAX)));
        if let Some(ledger) = &shared.ledger {
            ledger.adding(self.who.account, serial);
        }
        let done = append_with(client, &name, &mail, follow).await;
        match (&shared.ledger, &done) {
            (Some(ledger), Ok(_)) => ledger.added(self.who.account, serial),
            (Some(ledger), Err(failure)) if failure.is_refusal() => {
                ledger.not_added(self.who.account, serial)
            }
            _ => {}
        }
        let text = done?;
        if let Some((validity, uids)) = listing::append_uid(&text)
            && let Some(uid) = uids.first()
        {
            self.identify_uid((&name, validity), uid, serial)?;
        }
        if let Some(mailbox) = self.model.mailboxes.get_mut(at).filter(|_| !selected) {
            let uid = listing::append_uid(&text).and_then(|(_, uids)| uids.first());
            mailbox.added(uid, serial, None);
        }
        Ok(())
    }

    /// CREATE of a new mailbox.
    pub async fn create(&mut self) -> Result<(), Failure> {
        let name = self.model.new_name();
        self.model.uncertain_names = true;
        self.command(&format!("CREATE {}", quoted(&name)), Expected::default()).await?;
        self.model.uncertain_names = false;
        self.model.mailboxes.push(MailboxModel::created(&name));
        Ok(())
    }

    /// DELETE of a mailbox that is neither INBOX nor selected.
    pub async fn delete(&mut self) -> Result<(), Failure> {
        let Some(at) = self.model.expendable(&mut self.random) else { return Ok(()) };
        let Some(mailbox) = self.model.mailboxes.get(at).cloned() else { return Ok(()) };
        let shared = self.shared.clone();
        if let Some(ledger) = &shared.ledger {
            mailbox.messages.iter().for_each(|m| ledger.removing(self.who.account, m.serial));
        }
        self.model.uncertain_names = true;
        self.command(&format!("DELETE {}", quoted(&mailbox.name)), Expected::default()).await?;
        self.model.uncertain_names = false;
        if let Some(ledger) = &shared.ledger {
            mailbox.messages.iter().for_each(|m| ledger.removed(self.who.account, m.serial));
        }
        self.model.remove(at);
        Ok(())
    }

    /// RENAME of such a mailbox.
    pub async fn rename(&mut self) -> Result<(), Failure> {
        let Some(at) = self.model.expendable(&mut self.random) else { return Ok(()) };
        let new = self.model.new_name();
        let Some(old) = self.model.mailboxes.get(at).map(|m| m.name.clone()) else { return Ok(()) };
        self.model.uncertain_names = true;
        self.command(&format!("RENAME {} {}", quoted(&old), quoted(&new)), Expected::default()).await?;
        self.model.uncertain_names = false;
        if let Some(mailbox) = self.model.mailboxes.get_mut(at) {
            mailbox.name = new;
            // RFC 9051 §6.3.6 keeps the messages; whether UIDVALIDITY stays is the server's
            // affair.
            mailbox.validity = 0;
        }
        Ok(())
    }

    /// The way in which this user sends: APPEND is done at the user's own server, if that is one of
    /// IMAP.
    fn way(&self, way: Option<&SendBy>) -> Option<SendBy> {
        match way {
            Some(SendBy::Append(_)) if self.server().scheme == Scheme::Imap => {
                Some(SendBy::Append(self.server().clone()))
            }
            way => way.cloned(),
        }
    }

    /// Sends a new message.
    pub async fn send(&mut self, to: Recipient) -> Result<(), Failure> {
        let shared = self.shared.clone();
        let accounts = &shared.options.accounts;
        let recipient = match to {
            Recipient::Own => self.who.account,
            Recipient::Random => self.random.below(shared.options.receiving()) as u32,
            Recipient::Other => {
                let all = shared.options.receiving().max(1);
                let further = 1 + self.random.below(all.saturating_sub(1).max(1));
                ((u64::from(self.who.account) + further) % all) as u32
            }
        };
        let outside = shared.options.pools.outside.as_ref().filter(|_| to == Recipient::Random);
        let outside = outside.filter(|outside| self.random.unit() < outside.share);
        let address = match outside {
            Some(outside) => format!("user{recipient}@{}", outside.domain),
            None => accounts.address(recipient),
        };
        // Mail that leaves is in no account, so no audit will find it.
        let ledger = shared.ledger.as_ref().filter(|_| outside.is_none());
        let mut mail = Vec::new();
        let serial = shared.compose(&self.who.address, &address, &mut mail);
        self.model.last_sent = serial;
        if let Some(ledger) = ledger {
            ledger.adding(recipient, serial);
        }
        let sent = match self.way(shared.send_by()) {
            Some(way) => {
                let message = Outgoing {
                    login: (&self.who.name, &self.who.password),
                    from: &self.who.address,
                    to: &address,
                    account: recipient,
                    mail: &mail,
                    source: self.source(),
                };
                self.lane.send(&shared, &way, message).await
            }
            None => Ok((0, 0)),
        };
        match (ledger, &sent) {
            (Some(ledger), Ok(_)) => ledger.added(recipient, serial),
            (Some(ledger), Err(failure)) if failure.is_refusal() => ledger.not_added(recipient, serial),
            _ => {}
        }
        let (bytes_in, bytes_out) = sent?;
        self.used.bytes_beside.0 += bytes_in;
        self.used.bytes_beside.1 += bytes_out;
        Ok(())
    }
}

/// APPEND, with its answer checked.
async fn append_with(
    client: &mut Client,
    mailbox: &str,
    mail: &[u8],
    mut follow: Follow<'_>,
) -> Result<String, Failure> {
    let completion = append(client, mailbox, mail, &mut follow).await?;
    let line = format!("APPEND {}", quoted(mailbox));
    conclude(&line, completion, follow).map(|outcome| outcome.completion.text)
}
