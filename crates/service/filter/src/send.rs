//! Effects that send mail: `redirect`, `vacation`, `notify`, and the report of a `reject` that the
//! protocol cannot transmit.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_authentication::{Origin, changing_header, results};
use posthaste_delivery::DeliveryError;
use posthaste_directory::{Forward, Recipient, ResolveError, Target, unix_time};
use posthaste_net::{SubmissionRefused, freed_elsewhere, joined};
use posthaste_queue::{self as queue, Refusal, Success, date_time};
use posthaste_sieve::{Effect, Notification, Outcome, VacationReply};
use posthaste_store::StoreError;

use crate::chain::{Chain, DefaultFolder, SENDS_MAX};
use crate::compose::{self, Frame, Refused};
use crate::file::Filing;
use crate::filter::{Delivered, Envelope, Filter, Refusals, Undelivered};
use crate::header::reading;
use crate::mail::{Mail, RemoteClient, Trigger};
use crate::memory::{self, Key};
use crate::required_extensions::RequiredExtensions;
use crate::script_refusal::RefusalReports;

/// The field that names an account or a group that has sent a message on.
const REDIRECTED: &str = "X-Sieve-Redirected-From";

/// Why a message is not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSent {
    #[error("the message comes back to a script that has sent it on: it goes round in a loop")]
    Loop,
    #[error(
        "scripts have sent {SENDS_MAX} messages because of this one or of one command, which is the limit"
    )]
    TooMany,
    #[error(
        "{0} is in another domain, and this server sends no mail there (`posthaste domain add`, or `relay.enabled`)"
    )]
    NoRelay(String),
    #[error("{0}: {1}")]
    Address(String, ResolveError),
    #[error("its From, Sender or Resent field names another author or sender than the account")]
    Author,
    #[error(
        "its From, Sender or Resent field names another author or sender than {0}, who may have written it"
    )]
    Submitter(String),
    #[error("{0} has only changed its flags: others may have written its From, Sender or Resent field")]
    Reader(String),
    #[error(
        "the user has submitted {} messages or recipients in the current hour or day, and may submit no more (`{}`)",
        .0.count,
        .0.limit.setting()
    )]
    Submission(SubmissionRefused),
    #[error("it was judged to be junk, and {0} is in another domain: junk does not leave this server")]
    Junk(String),
    #[error(
        "the account has sent {} messages to other domains in the current hour or day, and may send no more (`{}`)",
        .0.count,
        .0.limit.setting()
    )]
    Limit(SubmissionRefused),
    #[error(transparent)]
    Relay(#[from] Refusal),
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Filter {
    /// Sends the mail of a run. An error is a redirect that failed; a reply or a notification
    /// that fails is logged, because the message itself is not in danger.
    pub(crate) async fn send_all(
        &self,
        filing: &mut Filing<'_>,
        recipient: &Recipient,
        outcome: &Outcome,
        mail: Mail<'_>,
    ) -> Result<(), NotSent> {
        let failed = self.redirect_all(recipient, outcome, mail).await;
        for effect in &outcome.effects {
            match effect {
                // The sender of junk may be forged. RFC 3834 §2 requires no response then.
                Effect::Vacation(_) if mail.chain.home == DefaultFolder::Junk => {}
                Effect::Vacation(reply) => {
                    let sent = self.answer(filing, recipient, reply, mail).await;
                    log(recipient, "vacation reply", sent);
                }
                Effect::Notify(notification) => {
                    let sent = self.notify(filing, recipient, notification, mail).await;
                    log(recipient, "notification", sent);
                }
                _ => {}
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sends the message to all addresses to which a run redirects it. Accounts here get each
    /// version of it in one delivery. So it comes into one mailbox once, also if the script names
    /// several addresses of an account. Returns the failure of one of them.
    async fn redirect_all(
        &self,
        recipient: &Recipient,
        outcome: &Outcome,
        mail: Mail<'_>,
    ) -> Option<NotSent> {
        let (mut failed, mut here) = (None, BTreeMap::<usize, Vec<Recipient>>::new());
        let text_of = |version| {
            let edited = outcome.edited(version, mail.served).map(Bytes::from);
            edited.unwrap_or_else(|| mail.sent.clone())
        };
        for effect in &outcome.effects {
            let Effect::Redirect { address, version } = effect else { continue };
            if let Err(error) = self.admit_redirect(address, outcome.header(*version), mail).await {
                failed = Some(error);
                continue;
            }
            if let Ok(Target::Account(to)) = self.target(address).await {
                here.entry(*version).or_default().push(to);
                continue;
            }
            let sent = self.redirect(recipient, address, text_of(*version), mail).await;
            failed = sent.err().or(failed);
        }
        for (version, to) in here {
            let sent = self.redirect_here(recipient, &to, text_of(version), mail).await;
            failed = sent.err().or(failed);
        }
        failed
    }

    /// Stores the records of a run. A failure is logged: the message is delivered.
    pub(crate) async fn remember_all(&self, recipient: &Recipient, outcome: &Outcome) {
        for effect in &outcome.effects {
            let Effect::Remember { key, seconds } = effect else { continue };
            let engine = &**self.delivery.store().engine();
            let seconds = seconds.unwrap_or(memory::DUPLICATE_S);
            let key = Key::Duplicate { key };
            let noted = memory::remember(engine, recipient.account.id, key, self.now(), seconds).await;
            if let Err(error) = noted {
                tracing::warn!(account = recipient.account.name, %error, "a message is not remembered for `duplicate`");
            }
        }
    }

    /// Sends a message to an address, here or elsewhere. It is on disk on return. `text` has no
    /// Return-Path.
    pub(crate) fn send<'s>(
        &'s self,
        text: Bytes,
        from: &'s str,
        to: &'s str,
        chain: Chain<'s>,
        origin: Origin<'s>,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + 's>> {
        // In a box because the recipient's script may send it on in turn.
        Box::pin(async move {
            let chain = match origin {
                Origin::Elsewhere { .. } => chain,
                Origin::User { .. } => chain.for_own(RequiredExtensions::of_own(&text)),
                // RFC 6533 §3: reports have fields and addresses of others. A group gets a report
                // even if it has had mail without a sender before: a lost report is not repeated.
                Origin::Server => chain.for_own(RequiredExtensions::of_report(&text)).free(),
            };
            let Chain { tls, needs, asked, home, .. } = chain;
            let is_quarantined = home == DefaultFolder::Junk;
            let envelope = envelope(from, chain);
            if chain.is_too_long() {
                return Err(NotSent::Loop);
            }
            match (self.target(to).await, &self.relay) {
                (Ok(Target::Group(group)), _) => {
                    self.deliver_group(&text, envelope, &group, chain).await?;
                    Ok(())
                }
                (Ok(Target::Account(recipient)), _) => {
                    self.send_here(&text, envelope, &[recipient], chain).await
                }
                // Otherwise another server would take this one for the sender.
                (Err(ResolveError::NotLocal), Some(_)) if is_quarantined => Err(NotSent::Junk(to.to_owned())),
                (Err(ResolveError::NotLocal), Some(relay)) => {
                    if let Some(account) = chain.account {
                        self.accounts.send_on(account.limited()).map_err(NotSent::Limit)?;
                    }
                    let from = match &origin {
                        Origin::Elsewhere { forwarder, .. } => {
                            relay.forwarded_sender(from, forwarder, &text).await.map_err(Refusal::from)?
                        }
                        Origin::User { .. } | Origin::Server => from.into(),
                    };
                    let RequiredExtensions { binary, smtputf8 } = needs;
                    let smtputf8 = smtputf8 || !to.is_ascii() || !from.is_ascii();
                    let plain = asked.envelope(&from, &[to]);
                    let sent_on_by = chain.account.map(|account| account.name.clone());
                    let envelope = queue::Envelope { tls, smtputf8, binary, sent_on_by, ..plain };
                    relay.accept(text, envelope, origin).await?;
                    Ok(())
                }
                (Err(ResolveError::NotLocal), None) => Err(NotSent::NoRelay(to.to_owned())),
                (Err(error), _) => Err(NotSent::Address(to.to_owned(), error)),
            }
        })
    }

    /// Delivers a message to accounts here.
    async fn send_here(
        &self,
        text: &Bytes,
        envelope: Envelope<'_>,
        to: &[Recipient],
        chain: Chain<'_>,
    ) -> Result<(), NotSent> {
        // RFC 5321 §4.4: the last host adds it.
        let return_path = Bytes::from(format!("Return-Path: <{}>\r\n", envelope.from));
        let text = joined([return_path, text.clone()]).await;
        let outcomes = self.deliver_filtered(text, envelope, to, chain).await;
        outcomes.into_iter().try_for_each(|one| one.map(|_| ()))?;
        Ok(())
    }

    /// RFC 5228 §4.2. The envelope's sender stays within this server.
    async fn redirect(
        &self,
        recipient: &Recipient,
        address: &str,
        text: Bytes,
        mail: Mail<'_>,
    ) -> Result<(), NotSent> {
        let name = recipient.account.name.as_str();
        let (text, results) = self.redirected(recipient, text, mail).await?;
        let origin = Origin::Elsewhere { results, forwarder: name };
        self.send(text, mail.from, address, mail.chain.next_by(&recipient.account), origin).await?;
        tracing::info!(account = name, from = mail.from, to = address, "redirected");
        Ok(())
    }

    /// The same to accounts here, in one delivery.
    async fn redirect_here(
        &self,
        recipient: &Recipient,
        to: &[Recipient],
        text: Bytes,
        mail: Mail<'_>,
    ) -> Result<(), NotSent> {
        let (text, _) = self.redirected(recipient, text, mail).await?;
        let chain = mail.chain.next_by(&recipient.account);
        if chain.is_too_long() {
            return Err(NotSent::Loop);
        }
        // In a box because their scripts may send it on in turn.
        Box::pin(self.send_here(&text, envelope(mail.from, chain), to, chain)).await?;
        let name = recipient.account.name.as_str();
        for to in to {
            tracing::info!(account = name, from = mail.from, to = to.address.as_str(), "redirected");
        }
        Ok(())
    }

    /// The text of a message that a script sends on, and the results of its verification. RFC 5228
    /// §10: one that this script has sent on before is not sent on again.
    async fn redirected<'m>(
        &self,
        recipient: &Recipient,
        text: Bytes,
        mail: Mail<'m>,
    ) -> Result<(Bytes, Option<&'m str>), NotSent> {
        let name = recipient.account.name.as_str();
        // The message as it came: a script may have removed the field from its own version.
        if was_sent_on_by(mail.served, name).await {
            return Err(NotSent::Loop);
        }
        if !self.may_name_author(recipient, &text, mail).await {
            return Err(NotSent::Author);
        }
        let (text, results) = match mail.trigger {
            Trigger::Delivered => (text, results::own(mail.served, &self.host)),
            // The field was not verified. The next account here must not take it for ours.
            Trigger::Stored { .. } => {
                let host = Arc::clone(&self.host);
                let without = move |text: Bytes| freed_elsewhere(results::without_own(&text, &host));
                (changing_header(None, text, without).await, None)
            }
        };
        let trace = Bytes::from(self.sent_on_by(name));
        let text = text.slice_ref(compose::without_return_path(&text));
        Ok((joined([trace, text]).await, results))
    }

    /// The trace fields of a message that an account or a group sends on.
    pub(crate) fn sent_on_by(&self, name: &str) -> String {
        format!(
            "Received: by {} (Posthaste);\r\n\t{}\r\n{REDIRECTED}: {name}\r\n",
            self.host,
            date_time(self.now_signed())
        )
    }

    /// Sends a message on to the addresses that an administrator gave for an account. An error if
    /// one of them does not get it.
    pub(crate) async fn forward(
        &self,
        recipient: &Recipient,
        forward: &Forward,
        mail: Mail<'_>,
    ) -> Result<(), NotSent> {
        let mut failed = None;
        for address in &forward.to {
            if let Err(error) = self.redirect(recipient, address, mail.sent.clone(), mail).await {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// RFC 5230: one reply to one sender within the period.
    async fn answer(
        &self,
        filing: &mut Filing<'_>,
        recipient: &Recipient,
        reply: &VacationReply,
        mail: Mail<'_>,
    ) -> Result<(), NotSent> {
        let seconds = reply.seconds.unwrap_or(memory::ANSWERED_S);
        let (account, now) = (recipient.account.id, self.now());
        let engine = &**self.delivery.store().engine();
        let key = Key::Answered { key: &reply.key, sender: &reply.to };
        // Before it is sent: of two messages that come at once, one is answered.
        if seconds > 0 && !memory::remember(engine, account, key, now, seconds).await? {
            return Ok(());
        }
        let text = match self.send_answer(recipient, reply, mail).await {
            Ok(text) => text,
            Err(error) => {
                // The sender has no reply, so the next message gets one.
                if seconds > 0 {
                    memory::forget(engine, account, key, now).await?;
                }
                return Err(error);
            }
        };
        if let Some(target) = &reply.fcc {
            filing.file_other(target, text).await?;
        }
        Ok(())
    }

    /// Returns what was sent.
    async fn send_answer(
        &self,
        recipient: &Recipient,
        reply: &VacationReply,
        mail: Mail<'_>,
    ) -> Result<Bytes, NotSent> {
        let own = recipient.address.as_str();
        let mut text = Bytes::from(compose::vacation(&self.frame(), own, reply));
        if !self.is_authored_by(recipient, &text).await {
            let plain = VacationReply { from: None, ..reply.clone() };
            text = compose::vacation(&self.frame(), own, &plain).into();
            // A reply with `:mime` has its own fields.
            if reply.is_mime && !self.is_authored_by(recipient, &text).await {
                return Err(NotSent::Author);
            }
        }
        if !mail.chain.count() {
            return Err(NotSent::TooMany);
        }
        // RFC 8601 §5: `:mime` is all the script's.
        let text = results::without_own(&text, &self.host);
        // RFC 5230 §5.1, RFC 3834 §3.3: a reply has no sender, so that nothing answers it.
        let origin = Origin::User { sender: own };
        let chain = mail.chain.next_by(&recipient.account);
        self.send(text.clone(), "", &reply.to, chain, origin).await?;
        Ok(text)
    }

    /// RFC 5436. A message without a sender makes a notification without one (§2.6).
    async fn notify(
        &self,
        filing: &mut Filing<'_>,
        recipient: &Recipient,
        notification: &Notification,
        mail: Mail<'_>,
    ) -> Result<(), NotSent> {
        let own = recipient.account.name.as_str();
        let mut text = Bytes::from(compose::notification(&self.frame(), own, notification, mail.served));
        if !self.is_authored_by(recipient, &text).await {
            let plain = Notification { from: None, ..notification.clone() };
            text = compose::notification(&self.frame(), own, &plain, mail.served).into();
        }
        let from = if mail.from.is_empty() { "" } else { own };
        let origin = Origin::User { sender: own };
        let chain = mail.chain.next_by(&recipient.account);
        let mut failed = None;
        for to in notification.mailto.to.iter().chain(&notification.mailto.copies) {
            self.count_sent(mail)?;
            if let Err(error) = self.send(text.clone(), from, to, chain, origin).await {
                failed = Some(error);
            }
        }
        if let Some(target) = &notification.fcc {
            filing.file_other(target, text).await?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether the sender may get a report that a script refuses the message. One who is likely
    /// forged gets none (RFC 5429 §2.1.1). Each message has a bound of reports, and so has what
    /// waits for each domain.
    async fn may_report_refusal(&self, mail: Mail<'_>) -> bool {
        let is_likely_forged = mail.from.is_empty() || mail.chain.home == DefaultFolder::Junk;
        if is_likely_forged || !mail.chain.count() {
            return false;
        }
        match &self.relay {
            // If the store fails, so does the report, and the message is kept.
            Some(relay) => relay.has_room_for_report(mail.from).await.unwrap_or(true),
            None => true,
        }
    }

    /// Reports to the sender that a script refuses the message; if that cannot be done, the message
    /// is kept in INBOX: nothing disappears in silence (RFC 5429 §2).
    pub(crate) async fn report_refusal(
        &self,
        recipient: &Recipient,
        reason: &str,
        (mail, reports): (Mail<'_>, &mut RefusalReports),
    ) -> Delivered {
        let account = &recipient.account;
        if !mail.chain.asked.wants_failure() {
            // RFC 3461 §4.1.
            tracing::info!(
                account = account.name,
                "a script refuses a message, and its sender wants no report"
            );
            return Ok(None);
        }
        if reports.kept.contains(&account.id) {
            return Ok(Some(Success::Delivered));
        }
        let mut sent = None;
        if self.may_report_refusal(mail.counted(&reports.sent)).await {
            // Mail for a postmaster may go to an account that the sender does not know.
            let address = mail.chain.asked.named.unwrap_or(recipient.address.as_str());
            let words =
                format!("Your message was refused by {address}. The reason given is:\r\n\r\n{reason}\r\n");
            let refused = [Refused { recipient: address, reason }];
            let about = (mail.chain.asked, refused.as_slice());
            let text =
                compose::refusal(&self.frame(), mail.from, &words, about, (mail.served, mail.chain.needs));
            let chain = mail.chain.next();
            sent = Some(self.send(Bytes::from(text), "", mail.from, chain, Origin::Server).await);
        }
        match sent {
            Some(Ok(())) => return Ok(None),
            Some(Err(error)) => {
                tracing::warn!(
                    account = account.name,
                    error = error.to_string(),
                    "a refusal cannot be reported: the message is kept in INBOX"
                );
            }
            None => tracing::info!(
                account = account.name,
                "a script refuses a message, but its sender cannot get a report: the message is kept"
            ),
        }
        let list = self.delivery.mailboxes(account).await?;
        Filing::new(&self.delivery, account, list, mail).keep_as_it_came().await?;
        reports.kept.insert(account.id);
        Ok(Some(Success::Delivered))
    }

    pub(crate) fn frame(&self) -> Frame<'_> {
        let id = self.delivery.store().new_body_id().to_string();
        Frame { host: &self.host, id, now: self.now_signed() }
    }

    fn now_signed(&self) -> i64 {
        unix_time::signed(self.now())
    }
}

/// Whether an account or a group of this name has sent a message on before.
pub(crate) async fn was_sent_on_by(message: &Bytes, name: &str) -> bool {
    let (own, name) = (message.clone(), name.to_owned());
    let is_named = move || compose::fields(&own, REDIRECTED).any(|value| value.eq_ignore_ascii_case(&name));
    reading(&[message], is_named).await
}

/// The envelope of a message that is sent within this server.
fn envelope<'e>(from: &'e str, chain: Chain<'_>) -> Envelope<'e> {
    Envelope {
        from,
        refusals: Refusals::Never,
        is_quarantined: chain.home == DefaultFolder::Junk,
        tls: chain.tls,
        needs: chain.needs,
        asked: &[],
        client: RemoteClient::default(),
        lease_end: None,
    }
}

fn log(recipient: &Recipient, what: &str, sent: Result<(), NotSent>) {
    if let Err(error) = sent {
        tracing::warn!(account = recipient.account.name, error = error.to_string(), "a {what} is not sent");
    }
}
