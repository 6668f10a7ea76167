//! Delivers a complete message to local mailboxes and to the queue, and makes reports about it.

use std::net::IpAddr;

use bytes::Bytes;
use posthaste_delivery::DeliveryError;
use posthaste_directory::{Address, Target};
use posthaste_filter::{Delivered, DsnRequest, Envelope, Refusals, RemoteClient, RequiredExtensions};
use posthaste_net::{NetError, free};
use posthaste_queue::{Envelope as Outgoing, Local, Missed, Notify, Return, Success, TlsRequirement, To};

use super::Driver;
use crate::Role;
use crate::address::ReversePath;
use crate::command::{BodyKind, MailParameters, RcptParameters};
use crate::incoming::Incoming;
use crate::reply::Reply;
use crate::session::{Addressee, Transaction, replies};
use crate::sink::{RelayOrigin, RelayRefusal};
use crate::trace;
use crate::verification::Verified;

const NOT_QUEUED: &str = "the message cannot be queued for recipients that did not get it";

impl Driver {
    /// Once the sink has begun, nothing interrupts it. The client gets the outcome, or, if it has
    /// left, sends the message again. `None` if the login ended while the message was checked:
    /// nobody gets it.
    pub(super) async fn deliver(
        &mut self,
        id: &str,
        incoming: Incoming,
        mut transaction: Transaction,
    ) -> Result<Option<Vec<Reply>>, NetError> {
        // The message's share of the budget is held until the sink is done with it.
        let trace_len = incoming.header_len();
        let (message, permit) = incoming.finish();
        let count = transaction.recipients.len();
        let Transaction { from, recipients, .. } = &mut transaction;
        let verified = match self.checked(id, (message, trace_len), from, recipients).await {
            Ok(verified) => verified,
            Err(refusal) => return Ok(Some(self.session.refused(count, refusal))),
        };
        if self.is_revoked() {
            return Ok(None);
        }
        // It ends when the replies are sent. Until here the connection may be closed for a
        // newcomer: a verification waits for name servers that strangers choose.
        self.connection.work_begins()?;
        // The checks may have made a copy of the message.
        let (whole, len) = (verified.message.clone(), verified.message.len());
        let replies = self.deliver_checked(id, verified, transaction, count).await;
        free((whole, permit), len);
        Ok(Some(replies))
    }

    /// The replies to the client: `count` of them if the message is refused.
    async fn deliver_checked(
        &self,
        id: &str,
        verified: Verified,
        transaction: Transaction,
        count: usize,
    ) -> Vec<Reply> {
        let Transaction { from, parameters, recipients, .. } = transaction;
        let Verified { message, is_quarantined, client_name, is_sender_proven, memory, .. } = verified;
        // The message as it was received has been freed.
        drop(memory);
        let is_quarantined = is_quarantined || self.is_junk();
        let login = self.session.account();
        let account = login.map(|account| account.name.as_str());
        let envelope = Outgoing { account: account.map(str::to_owned), ..outgoing(&from, &parameters) };
        let (here, mut local, mut outgoing) = parted(envelope, recipients);
        let refusals = self.refusals(&outgoing);
        let (host, account_id) = (client_name.as_deref(), login.map(|account| account.id));
        let client = RemoteClient { ip: self.remote_address(), host, account, account_id };
        self.limit_reports((&mut local, &mut outgoing), (is_sender_proven, is_quarantined));
        let needs = RequiredExtensions { binary: outgoing.binary, smtputf8: outgoing.smtputf8 };
        let (asked, tls) = (DsnRequest::all(&local), outgoing.tls);
        let envelope = Envelope {
            from: from.as_str(),
            refusals,
            is_quarantined,
            tls,
            needs,
            asked: &asked,
            client,
            lease_end: None,
        };
        let queued = match outgoing.to.is_empty() {
            true => None,
            false => Some(self.relay(id, &message, outgoing).await),
        };
        if let Some(refusal) = queued.clone().filter(Reply::is_refusal) {
            // No recipient has the message yet.
            return self.session.refused(count, refusal);
        }
        let outcomes = self.deliver_here(id, &message, envelope, &here).await;
        let is_delivered = queued.is_some() || outcomes.iter().any(Result::is_ok);
        let mut replies: Vec<Reply> = outcomes.iter().map(|one| replies::outcome(id, one)).collect();
        replies.extend(queued);
        let (sender, to) = (Outgoing { to: Vec::new(), ..local }, local.to);
        let (reached, missed) = sorted(to, &outcomes);
        // Without a queue, and by LMTP, the client keeps the refused recipients.
        let is_taken_over = self.service.role != Role::Lmtp && self.service.sink.relays();
        if is_taken_over && is_delivered && !missed.is_empty() {
            match self.take_over(id, &message, (&sender, is_quarantined), missed).await {
                Ok(()) => replies.retain(|reply| !reply.is_refusal()),
                // The client sends it again, also to recipients that have it. So no recipient is
                // left out.
                Err(error) => tracing::error!(id, error = error.to_string(), "{NOT_QUEUED}"),
            }
        }
        // Reports of success go out once the client will not send the message again.
        // The sender of junk may be forged.
        if !is_quarantined && self.session.reports() && replies.iter().all(|reply| !reply.is_refusal()) {
            self.report_success(&message, &sender, reached).await;
        }
        self.session.delivered(replies)
    }

    /// Takes back requests for reports that may reach somebody who did not send the message.
    fn limit_reports(
        &self,
        (local, outgoing): (&mut Outgoing, &mut Outgoing),
        (is_sender_proven, is_quarantined): (bool, bool),
    ) {
        for envelope in [&mut *local, &mut *outgoing] {
            if self.session.account().is_none() {
                return_headers(envelope);
            }
            if !is_sender_proven {
                report_no_success(envelope);
            }
        }
        if is_quarantined {
            report_nothing(outgoing);
        }
    }

    /// The client's address; none on a Unix socket, which has no port.
    fn remote_address(&self) -> Option<IpAddr> {
        let peer = self.connection.peer();
        (peer.port() != 0).then(|| peer.ip().to_canonical())
    }

    /// The way in which a script's refusal reaches the sender.
    fn refusals(&self, outgoing: &Outgoing) -> Refusals {
        match self.service.role {
            Role::Lmtp => Refusals::Each,
            _ if outgoing.to.is_empty() => Refusals::Together,
            _ => Refusals::Never,
        }
    }

    /// The message after all checks, or why it is refused. The received part begins after our own
    /// trace field.
    async fn checked(
        &self,
        id: &str,
        (message, trace_len): (Bytes, usize),
        from: &ReversePath,
        recipients: &mut Vec<Addressee>,
    ) -> Result<Verified, Reply> {
        let received = message.slice(trace_len.min(message.len())..);
        self.header_checked(id, &received, from).await?;
        self.authored(id, &received).await?;
        let verified = self.verified(id, message, trace_len, from).await?;
        let to = recipients.iter().map(|to| to.to.as_str()).collect();
        let scanned = self.scanned(id, verified, received, (from.as_str(), to)).await?;
        self.milted(id, scanned, from.as_str(), recipients).await
    }

    /// Reports of success to the sender, one for each kind.
    async fn report_success(&self, message: &Bytes, sender: &Outgoing, mut reached: Vec<(Success, To)>) {
        for success in Success::ALL {
            let of_kind = reached.extract_if(.., |(of, _)| *of == success).map(|(_, to)| to);
            let envelope = Outgoing { to: of_kind.collect(), ..sender.clone() };
            self.service.sink.report_success(message, &envelope, success).await;
        }
    }

    /// An outcome for each recipient here.
    async fn deliver_here(
        &self,
        id: &str,
        message: &Bytes,
        envelope: Envelope<'_>,
        recipients: &[Target],
    ) -> Vec<Delivered> {
        if recipients.is_empty() {
            return Vec::new();
        }
        let (from, octets) = (envelope.from, message.len());
        let account = self.session.account().map(|account| account.name.as_str());
        let mut outcomes = self.service.sink.deliver(message.clone(), envelope, recipients).await;
        // A sink that forgets a recipient has not reported that the message is stored.
        outcomes.resize(recipients.len(), Err(DeliveryError::Interrupted("no outcome".to_owned()).into()));
        for (recipient, outcome) in recipients.iter().zip(&outcomes) {
            let to = recipient.name();
            // The event of each message has a name: `posthaste-logging` writes these in batches.
            match outcome {
                Ok(Some(_)) => tracing::info!(name: "message", id, account, from, to, octets, "delivered"),
                Ok(None) => tracing::info!(id, account, from, to, octets, "refused by a script"),
                Err(error) => {
                    tracing::warn!(id, account, from, to, octets, error = error.to_string(), "not delivered");
                }
            }
        }
        outcomes
    }

    /// Local recipients that missed the message get it later, or the sender gets a report.
    async fn take_over(
        &self,
        id: &str,
        message: &Bytes,
        (envelope, is_quarantined): (&Outgoing, bool),
        mut missed: Vec<Missed>,
    ) -> Result<(), RelayRefusal> {
        let count = missed.len();
        let here = if is_quarantined { Local::Junk } else { Local::Inbox };
        if is_quarantined {
            // The sender of junk may be forged: no report goes there.
            missed.retain(|one| !one.failure.permanent);
        }
        let message = trace::without_return_path(message);
        self.service.sink.take_over(message, envelope, missed, here).await?;
        tracing::info!(
            id,
            from = envelope.from,
            recipients = count,
            "queued for recipients that did not get it"
        );
        Ok(())
    }

    async fn relay(&self, id: &str, message: &Bytes, envelope: Outgoing) -> Reply {
        let account = self.session.account().map(|account| account.name.as_str());
        let message = trace::without_return_path(message);
        let octets = message.len();
        let (from, recipients) = (envelope.from.clone(), envelope.to.len());
        let origin = if account.is_some() { RelayOrigin::User } else { RelayOrigin::Host };
        match self.service.sink.relay(message, envelope, origin).await {
            Ok(()) => {
                tracing::info!(name: "message", id, account, from, recipients, octets, "queued");
                replies::queued(id)
            }
            Err(refusal) => {
                tracing::warn!(id, account, from, octets, error = refusal.to_string(), "not queued");
                replies::not_relayed(&refusal)
            }
        }
    }
}

/// Recipients here that have the message, and those that missed it.
fn sorted(to: Vec<To>, outcomes: &[Delivered]) -> (Vec<(Success, To)>, Vec<Missed>) {
    let (mut reached, mut missed) = (Vec::new(), Vec::new());
    for (to, outcome) in to.into_iter().zip(outcomes) {
        match outcome {
            Ok(Some(success)) => reached.push((*success, to)),
            // Its sender has a report of the refusal, or requested none.
            Ok(None) => {}
            Err(error) => missed.push(Missed { to, failure: error.failure() }),
        }
    }
    (reached, missed)
}

/// A recipient as it can be found again. The address of a postmaster may be nobody's, and an
/// address literal means something else at another connection. Reports name it as its sender did.
fn addressed(to: To, target: &Target) -> To {
    let address = match target {
        Target::Account(found) if to.address == found.address.as_str() => return to,
        Target::Account(found) => match Address::parse(&to.address) {
            Ok(named) if named == found.address => return to,
            _ => found.address.to_string(),
        },
        // The group of a bounce to a rewritten sender has the address as the client wrote it.
        Target::Group(group) if group.address == to.address || group.takes(&to.address) => return to,
        Target::Group(group) if group.address.starts_with('@') => {
            // A group of a whole domain has no address of its own.
            let local = to.address.rsplit_once('@').map_or(to.address.as_str(), |(local, _)| local);
            [local, group.address.as_str()].concat()
        }
        Target::Group(group) => group.address.clone(),
    };
    To { address, named: Some(to.address), ..to }
}

/// Recipients here, the envelope with them, and the envelope with the others.
fn parted(envelope: Outgoing, recipients: Vec<Addressee>) -> (Vec<Target>, Outgoing, Outgoing) {
    let (mut here, mut local, mut outgoing) = (Vec::new(), envelope.clone(), envelope);
    for Addressee { to, parameters, target } in recipients {
        let RcptParameters { notify, orcpt } = parameters;
        let to = To { address: to.into(), notify, orcpt, named: None };
        match target {
            Some(target) => {
                local.to.push(addressed(to, &target));
                here.push(target);
            }
            None => outgoing.to.push(to),
        }
    }
    (here, local, outgoing)
}

/// Somebody who did not log in may have named any address as the sender. No report returns all of
/// the message to that address, here or where the message is sent on.
fn return_headers(envelope: &mut Outgoing) {
    envelope.ret = Some(Return::Headers);
}

/// The sender of junk may be forged. So neither this server nor the next one reports anything to
/// that address.
fn report_nothing(envelope: &mut Outgoing) {
    envelope.to.iter_mut().for_each(|to| to.notify = Some(Notify::NEVER));
}

/// Nothing proves that the mail is of its sender, who may be a victim. So a request for a report
/// of success counts as not made. RFC 3461 §5.2.3 (a) requires that report, also if the sender is
/// forged.
fn report_no_success(envelope: &mut Outgoing) {
    let requests = envelope.to.iter_mut().filter_map(|to| to.notify.as_mut());
    requests.for_each(|notify| notify.success = false);
}

/// The envelope of a transaction, without its recipients.
fn outgoing(from: &ReversePath, parameters: &MailParameters) -> Outgoing {
    Outgoing {
        from: from.as_str().to_owned(),
        to: Vec::new(),
        smtputf8: parameters.smtputf8,
        binary: parameters.body == Some(BodyKind::BinaryMime),
        ret: parameters.ret,
        envid: parameters.envid.clone(),
        tls: if parameters.require_tls { TlsRequirement::Required } else { TlsRequirement::Policy },
        priority: parameters.priority.unwrap_or_default(),
        account: None,
        sent_on_by: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use posthaste_directory::{Group, Recipient};

    use super::*;
    use crate::fuzzing::account;

    fn found_as(address: &str) -> Target {
        let address = Address::parse(address).unwrap();
        Target::Account(Recipient { account: Arc::new(account(1)), address, detail: None })
    }

    fn group(address: &str) -> Target {
        Target::Group(Arc::new(Group { address: address.to_owned(), members: Vec::new(), owner: None }))
    }

    #[test]
    fn a_recipient_that_waits_can_be_found_again() {
        const BOUNCE: &str = "SRS0=HHHH=TT=c.test=far@example.org";
        for (named, target, again) in [
            ("Ana+X@Example.org", found_as("ana+X@example.org"), "Ana+X@Example.org"),
            ("ana@[192.0.2.1]", found_as("ana@example.org"), "ana@example.org"),
            ("postmaster", found_as("user1@example.org"), "user1@example.org"),
            ("postmaster@b.test", found_as("user1@example.org"), "user1@example.org"),
            ("Team+x@example.org", group("team@example.org"), "Team+x@example.org"),
            ("postmaster@b.test", group("team@example.org"), "team@example.org"),
            ("ana@example.org", group("@example.org"), "ana@example.org"),
            (BOUNCE, group(BOUNCE), BOUNCE),
            ("ana@[192.0.2.1]", group("@example.org"), "ana@example.org"),
            ("Postmaster", group("@example.org"), "Postmaster@example.org"),
        ] {
            let found = addressed(To::new(named), &target);
            // A report does not show who the postmaster is.
            let reported = (named != again).then_some(named);
            assert_eq!((found.address.as_str(), found.named.as_deref()), (again, reported));
        }
    }
}
