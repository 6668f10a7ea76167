//! Local recipients that did not get a message although others did.
//!
//! After DATA there is one reply for all recipients (RFC 5321 §4.2). After a refusal the client
//! would send the message again to recipients that have it. So the server accepts the message, and
//! the queue handles the rest. Temporary failures are tried again, and the sender gets a report
//! about the others (RFC 5321 §6.1). One durable item holds both.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;

use crate::error::QueueError;
use crate::item::{Envelope, Item, Local, NewItem, Outcome, Recipient, To};
use crate::relay::Relay;
use crate::transport::Failure;

/// A recipient that a message has not reached.
#[derive(Debug, Clone)]
pub struct Missed {
    /// The recipient.
    pub to: To,
    /// The reason.
    pub failure: Failure,
}

impl Missed {
    fn recipient(self) -> Recipient {
        let mut recipient = Recipient::from(self.to);
        if self.failure.permanent {
            let Failure { reply, status, .. } = self.failure;
            recipient.outcome = Outcome::Failed { reply, status };
        }
        recipient
    }
}

impl Relay {
    /// Takes over recipients of this server that a message has not reached. It is on disk on
    /// return. Recipients with a temporary failure get it later. About the others the sender gets
    /// a report; the null sender gets none (RFC 5321 §4.5.5). `message` has its trace fields,
    /// without Return-Path. The recipients of the envelope do not count.
    #[boxed]
    pub async fn take_over(
        &self,
        message: Bytes,
        envelope: &Envelope,
        missed: Vec<Missed>,
        here: Local,
    ) -> Result<Vec<Item>, QueueError> {
        let reason = missed.iter().find(|one| !one.failure.permanent);
        let reason = reason.map(|one| one.failure.reply.clone()).unwrap_or_default();
        let recipients: Vec<_> = missed
            .into_iter()
            .filter(|one| !(one.failure.permanent && envelope.from.is_empty()))
            .map(Missed::recipient)
            .collect();
        if recipients.is_empty() {
            return Ok(Vec::new());
        }
        let destination = envelope.tls.destination(here.domain());
        self.queue().add(message, vec![NewItem { envelope, destination, recipients, reason }]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::TlsRequirement;

    #[test]
    fn no_domain_is_a_mailbox_here() {
        for here in [Local::Inbox, Local::Junk] {
            let destination = TlsRequirement::Required.destination(here.domain());
            let (domain, requirement) = TlsRequirement::split(&destination);
            assert_eq!((Local::of(domain), requirement), (Some(here), TlsRequirement::Required));
            assert!(posthaste_directory::normal_domain(domain).is_err());
        }
        assert_eq!(Local::of("here"), None);
    }
}
