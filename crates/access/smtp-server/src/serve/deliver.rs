//! A message that is whole: to the mailboxes here, to the queue, and the reports about it.

use bytes::Bytes;
use posthaste_authentication::has_bare_cr;
use posthaste_delivery::DeliveryError;
use posthaste_directory::Target;
use posthaste_filter::{Envelope, Refusals, Undelivered};
use posthaste_mime_summary::is_header_bounded;
use posthaste_queue::{Envelope as Outgoing, TlsWish, To};

use super::Driver;
use crate::Role;
use crate::address::ReversePath;
use crate::command::{BodyKind, MailParameters, RcptParameters};
use crate::incoming::Incoming;
use crate::reply::Reply;
use crate::session::{Addressee, Transaction, replies};
use crate::sink::RelayOrigin;
use crate::trace;
use crate::verification::Verified;

impl Driver {
    /// Once the sink has begun, nothing interrupts it. The client gets the outcome, or, if it has
    /// left, sends the message again.
    pub(super) async fn deliver(&self, id: &str, incoming: Incoming, transaction: Transaction) -> Vec<Reply> {
        let Transaction { from, parameters, mut recipients } = transaction;
        // The message's share of the budget is held until the sink is done with it.
        let trace_len = incoming.header_len();
        let (message, _permit) = incoming.finish();
        let count = recipients.len();
        let received = message.slice(trace_len.min(message.len())..);
        // What follows keeps something for each field, or compares them with each other.
        if !is_header_bounded(&received) {
            tracing::info!(
                id,
                from = from.as_str(),
                octets = received.len(),
                "refused: its header is too large"
            );
            return self.session.refused(count, replies::header_too_large());
        }
        // The next hop takes a CR as the end of a line. So a CR in a field would begin another
        // field, which was not checked here. LMTP peers are trusted.
        if self.service.role != Role::Lmtp && has_bare_cr(&received) {
            tracing::info!(id, from = from.as_str(), "refused: a CR without LF in its header");
            return self.session.refused(count, replies::bare_cr());
        }
        let to = recipients.iter().map(|to| to.to.as_str()).collect();
        let verified = match self.authored(id, &received).await {
            Ok(()) => self.verified(id, message, trace_len, &from).await,
            Err(refusal) => Err(refusal),
        };
        let checked = match verified {
            Ok(verified) => self.scanned(id, verified, received, (from.as_str(), to)).await,
            refused => refused,
        };
        let checked = match checked {
            Ok(scanned) => self.milted(id, scanned, from.as_str(), &mut recipients).await,
            refused => refused,
        };
        let Verified { message, is_quarantined, .. } = match checked {
            Ok(checked) => checked,
            Err(refusal) => return self.session.refused(count, refusal),
        };
        let is_quarantined = is_quarantined || self.is_junk();
        let (here, local, outgoing) = parted(outgoing(&from, &parameters), recipients);
        let refusals = match self.service.role {
            Role::Lmtp => Refusals::Each,
            _ if outgoing.to.is_empty() => Refusals::Together,
            _ => Refusals::Never,
        };
        let envelope = Envelope { from: from.as_str(), refusals, is_quarantined, tls: outgoing.tls };
        let mut replies = self.deliver_here(id, &message, envelope, &here).await;
        // What could not be delivered here is sent again by the client, as a whole: nothing is
        // relayed then, or it would be relayed twice.
        if !outgoing.to.is_empty() && replies.iter().all(|reply| !reply.is_refusal()) {
            replies.push(self.relay(id, &message, &outgoing).await);
        }
        // Reports of success go out once the client will not send the message again.
        if self.session.reports() && replies.iter().all(|reply| !reply.is_refusal()) {
            self.service.sink.report_delivered(&message, &local).await;
        }
        self.session.delivered(replies)
    }

    async fn deliver_here(
        &self,
        id: &str,
        message: &Bytes,
        envelope: Envelope<'_>,
        recipients: &[Target],
    ) -> Vec<Reply> {
        if recipients.is_empty() {
            return Vec::new();
        }
        let (from, octets) = (envelope.from, message.len());
        let account = self.session.account().map(|account| account.name.as_str());
        let mut outcomes = self.service.sink.deliver(message.clone(), envelope, recipients).await;
        // A sink that forgets a recipient has not reported that the message is stored.
        outcomes.resize(recipients.len(), Err(DeliveryError::Interrupted("no outcome".to_owned()).into()));
        let reply = |(recipient, outcome): (&Target, &Result<(), Undelivered>)| {
            let to = recipient.name();
            match outcome {
                Ok(()) => tracing::info!(id, account, from, to, octets, "delivered"),
                Err(error) => tracing::warn!(id, account, from, to, octets, %error, "not delivered"),
            }
            replies::outcome(id, outcome)
        };
        recipients.iter().zip(&outcomes).map(reply).collect()
    }

    async fn relay(&self, id: &str, message: &Bytes, envelope: &Outgoing) -> Reply {
        let account = self.session.account().map(|account| account.name.as_str());
        let message = trace::without_return_path(message);
        let octets = message.len();
        let Outgoing { from, to, .. } = envelope;
        let origin = if account.is_some() { RelayOrigin::User } else { RelayOrigin::Host };
        match self.service.sink.relay(message, envelope, origin).await {
            Ok(()) => {
                tracing::info!(id, account, from, recipients = to.len(), octets, "queued");
                replies::queued(id)
            }
            Err(refusal) => {
                tracing::warn!(id, account, from, octets, error = %refusal, "not queued");
                replies::not_relayed(&refusal)
            }
        }
    }
}

/// Recipients here, the envelope with them, and the envelope with the others.
fn parted(envelope: Outgoing, recipients: Vec<Addressee>) -> (Vec<Target>, Outgoing, Outgoing) {
    let (mut here, mut local, mut outgoing) = (Vec::new(), envelope.clone(), envelope);
    for Addressee { to, parameters, target } in recipients {
        let RcptParameters { notify, orcpt } = parameters;
        let to = To { address: to.as_str().to_owned(), notify, orcpt };
        match target {
            Some(target) => {
                here.push(target);
                local.to.push(to);
            }
            None => outgoing.to.push(to),
        }
    }
    (here, local, outgoing)
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
        tls: if parameters.require_tls { TlsWish::Required } else { TlsWish::Policy },
        priority: parameters.priority.unwrap_or_default(),
    }
}
