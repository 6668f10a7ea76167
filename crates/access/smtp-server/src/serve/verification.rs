//! A message from another host is verified before it is delivered.

use bytes::Bytes;
use posthaste_authentication::{Action, Client, Verdict, changing_header, results};
use posthaste_net::freed_elsewhere;
use posthaste_reporting::{Observation, PublishedPolicy, Row, SpfScope};

use super::Driver;
use crate::Role;
use crate::address::ReversePath;
use crate::reply::Reply;
use crate::session::replies;
use crate::verification::{Verification, Verified};

impl Driver {
    /// Verifies a message that came to the `smtp` listener. The refusal of the author's domain is
    /// an error. Other listeners take mail from users and hosts that are known.
    pub(super) async fn verified(
        &self,
        id: &str,
        message: Bytes,
        trace_len: usize,
        from: &ReversePath,
    ) -> Result<Verified, Reply> {
        let address = self.connection.peer().ip().to_canonical();
        let verification = match &self.service.verification {
            Some(verification)
                if self.service.role == Role::Smtp
                    && !verification.trusted_networks.iter().any(|network| network.contains(address)) =>
            {
                verification
            }
            _ => return Ok(self.unverified(message, trace_len).await),
        };
        let verifier = &verification.verifier;
        let helo = self.session.client_name().to_owned();
        let client = Client { address, helo, from: from.as_str().to_owned() };
        let verified = verifier.verify(&client, &message, trace_len).await.map_err(|busy| {
            tracing::warn!(id, client = %address, from = from.as_str(), error = %busy, "deferred: verification is busy");
            replies::unverified()
        })?;
        let posthaste_authentication::Verified { message, verdict, memory } = verified;
        self.observe(verification, &client, &verdict);
        let author = verdict.author.as_str();
        match verdict.action {
            Action::Reject => {
                tracing::info!(id, client = %address, from = from.as_str(), author, "refused: the DMARC policy of the author's domain");
                Err(replies::refused_by_author(author))
            }
            Action::Defer => {
                tracing::warn!(id, client = %address, from = from.as_str(), author, "deferred: look-ups took too long");
                Err(replies::unanswered_by_dns())
            }
            action => {
                let is_quarantined = action == Action::Quarantine;
                if is_quarantined {
                    tracing::info!(id, client = %address, from = from.as_str(), author, "put into the junk folder: the DMARC policy of the author's domain");
                }
                let trace_len = trace_len + verdict.field.len();
                let (client_name, is_sender_proven) = (verdict.client_name, verdict.is_sender_proven);
                Ok(Verified { message, trace_len, is_quarantined, client_name, is_sender_proven, memory })
            }
        }
    }

    /// A message of a user, or of a host that is not verified.
    async fn unverified(&self, message: Bytes, trace_len: usize) -> Verified {
        // RFC 8601 §5: a user has written all of the message. Other hosts here are trusted to
        // have removed such fields.
        let message = match self.service.role {
            Role::Submission => {
                let host = self.service.options.host.clone();
                changing_header(self.header_holder(), message, move |message| {
                    freed_elsewhere(results::without_own(&message, &host))
                })
                .await
            }
            Role::Smtp | Role::Lmtp => message,
        };
        let is_sender_proven = self.session.account().is_some() || self.is_trusted();
        let (is_quarantined, client_name, memory) = (false, None, None);
        Verified { message, trace_len, is_quarantined, client_name, is_sender_proven, memory }
    }

    /// Whether the client is a relay of one's own or a program of this machine.
    fn is_trusted(&self) -> bool {
        let address = self.connection.peer().ip().to_canonical();
        self.service.options.trusted_networks.iter().any(|network| network.contains(address))
    }

    /// Counts how a message was judged.
    fn observe(&self, verification: &Verification, client: &Client, verdict: &Verdict) {
        let (Some(reports), Some(observed)) = (&verification.reports, &verdict.observed) else { return };
        let disposition = match verdict.action {
            Action::Deliver => "none",
            Action::Quarantine => "quarantine",
            Action::Reject => "reject",
            // Nothing was observed.
            Action::Defer => return,
        };
        let sender = client.from.rsplit_once('@').map_or("", |(_, domain)| domain).to_ascii_lowercase();
        let scope = if sender.is_empty() { SpfScope::Helo } else { SpfScope::MFrom };
        let [adkim, aspf, p, sp] = observed.policy.map(str::to_owned);
        let (spf_domain, spf) = observed.spf.clone();
        let dkim = observed.dkim.iter();
        reports.note(Observation {
            author: verdict.author.to_ascii_lowercase(),
            policy: PublishedPolicy { adkim, aspf, p, sp },
            row: Row {
                address: client.address,
                disposition: disposition.to_owned(),
                dkim_passes: observed.dkim_passes,
                spf_passes: observed.spf_passes,
                sender,
                spf: (spf_domain, scope, spf.to_owned()),
                dkim: dkim.map(|(d, s, result)| (d.clone(), s.clone(), (*result).to_owned())).collect(),
            },
        });
    }
}
