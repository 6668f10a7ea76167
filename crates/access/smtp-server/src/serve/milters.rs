//! A message from another host is shown to milters, which may change it, before it is delivered.

use std::net::IpAddr;

use posthaste_authentication::reading_header;
use posthaste_delivery::ResolveError;
use posthaste_milter::draft::Draft;
use posthaste_milter::{Connected, Envelope, Outcome, Said, Verdict};
use posthaste_net::{copying, freed_elsewhere};

use super::Driver;
use crate::Role;
use crate::address::Mailbox;
use crate::command::RcptParameters;
use crate::reply::Reply;
use crate::scanning::IfUnscanned;
use crate::session::{Addressee, replies};
use crate::verification::Verified;

impl Driver {
    /// Shows a message to all milters. An error is the reply that ends it: a refusal, or the
    /// acceptance of a message that is discarded.
    pub(super) async fn milted(
        &self,
        id: &str,
        verified: Verified,
        from: &str,
        recipients: &mut Vec<Addressee>,
    ) -> Result<Verified, Reply> {
        let peer = self.connection.peer();
        let address = peer.ip().to_canonical();
        if !self.has_milters_for(address) {
            return Ok(verified);
        }
        let Verified { message, trace_len, mut is_quarantined, client_name, is_sender_proven, memory } =
            verified;
        let trace_len = trace_len.min(message.len());
        let received = message.slice(trace_len..);
        let mut draft = reading_header(self.header_holder(), &received, |message| Draft::new(&message)).await;
        drop(received);
        let (host, helo) = (self.service.options.host.as_str(), self.session.client_name());
        for (milter, if_away) in &self.service.milters.all {
            let (port, name) = (peer.port(), client_name.as_deref());
            let client = Connected { host, address, port, name, helo };
            let to = recipients.iter().map(|to| to.to.as_str()).collect();
            let envelope = Envelope { client, id, from, to };
            let before = draft.clone();
            let outcome = match milter.ask(&envelope, &mut draft).await {
                Ok(outcome) => outcome,
                Err(error) if *if_away == IfUnscanned::Accept => {
                    tracing::warn!(id, client = %address, from, %error, "delivered without a milter");
                    draft = before;
                    continue;
                }
                Err(error) => {
                    tracing::warn!(id, client = %address, from, %error, "deferred: a milter did not answer");
                    return Err(replies::unscanned());
                }
            };
            tracing::info!(id, client = %address, from, %milter, verdict = ?outcome.verdict, "filtered");
            if let ignored @ 1.. = draft.ignored() - before.ignored() {
                tracing::warn!(id, %milter, ignored, "a milter adds too much: some fields are ignored");
            }
            let Outcome { verdict, quarantine, added, removed } = outcome;
            is_quarantined |= quarantine.is_some();
            accepted(id, verdict)?;
            recipients.retain(|to| !removed.iter().any(|other| other.eq_ignore_ascii_case(to.to.as_str())));
            for address in added {
                self.add_recipient(id, &address, recipients).await;
            }
        }
        if recipients.is_empty() {
            tracing::info!(id, from, "discarded: a milter removed all recipients");
            return Err(replies::outcome(id, &Ok(None)));
        }
        let (octets, front) = (message.len(), message.slice(..trace_len));
        let message = copying(octets, move || freed_elsewhere(draft.print(&front))).await;
        Ok(Verified { message, trace_len, is_quarantined, client_name, is_sender_proven, memory })
    }

    /// Whether milters read the mail of this client.
    fn has_milters_for(&self, address: IpAddr) -> bool {
        let milters = &self.service.milters;
        let is_trusted = || milters.trusted_networks.iter().any(|network| network.contains(address));
        self.service.role == Role::Smtp && !milters.all.is_empty() && !is_trusted()
    }

    /// A recipient that a milter adds. One that takes no mail is named in the log: the client
    /// does not know it.
    async fn add_recipient(&self, id: &str, address: &str, recipients: &mut Vec<Addressee>) {
        let Ok(to) = Mailbox::parse(address) else {
            return tracing::warn!(id, address, "a milter added a recipient that is not an address");
        };
        let target = match self.resolve_recipient(address).await {
            Ok(target) => Some(target),
            Err(ResolveError::NotLocal) if self.service.options.relays => None,
            Err(error) => {
                return tracing::warn!(id, address, %error, "a milter added a recipient that accepts no mail");
            }
        };
        recipients.push(Addressee { to, parameters: RcptParameters::default(), target });
    }
}

/// The reply that ends a message, unless its milter accepts it.
fn accepted(id: &str, verdict: Verdict) -> Result<(), Reply> {
    match verdict {
        Verdict::Accept => Ok(()),
        Verdict::Discard => Err(replies::outcome(id, &Ok(None))),
        Verdict::Reject(said) => Err(refusal(said, (550, 5))),
        Verdict::Defer(said) => Err(refusal(said, (451, 4))),
    }
}

/// The reply of a milter, or one of ours.
fn refusal(said: Option<Said>, (code, class): (u16, u8)) -> Reply {
    match said {
        Some(Said { code, text }) => Reply::bare(code, text),
        None => replies::filtered(code, class),
    }
}
