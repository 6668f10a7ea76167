//! A message on its way to its recipients.

use std::net::IpAddr;

use bytes::Bytes;
use posthaste_delivery::{Recipient, WorkFor};
use posthaste_mail_model::AccountId;
use posthaste_net::Tiers;
use posthaste_store::IncomingMessage;

use crate::chain::Chain;
use crate::dsn_request::DsnRequest;
use crate::filter::{Envelope, Refusals};

/// The SMTP, LMTP or submission client that brought a message. For a message from the queue, only
/// the account is known. For a message that this server sends on, nothing is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoteClient<'e> {
    /// The address of the client.
    pub ip: Option<IpAddr>,
    /// Its name in DNS, if it leads back to the address.
    pub host: Option<&'e str>,
    /// The name of the account that has logged in.
    pub account: Option<&'e str>,
    /// The id of the account that has logged in. For a message from the queue it is not known.
    pub account_id: Option<AccountId>,
}

impl Envelope<'_> {
    /// For whom the long work on the message is done: for the account that submitted it, or for
    /// the network of the host that sent it. By LMTP one MTA brings the mail of all hosts, and so
    /// may a client on this machine. With one place for it, all mail would wait for one thread.
    /// So such mail counts for the first recipient: a flood to an account delays that account's
    /// mail.
    pub(crate) fn work_for(&self, recipients: &[Recipient]) -> WorkFor {
        let RemoteClient { ip, account_id, .. } = self.client;
        match (account_id, ip) {
            (Some(account), _) => WorkFor::account(account),
            (None, Some(ip)) if self.refusals != Refusals::Each && !ip.is_loopback() => {
                WorkFor::network(Tiers::of(ip).share())
            }
            (None, _) => WorkFor::mail_to(recipients),
        }
    }
}

/// How a message came before a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// It is delivered.
    Delivered,
    /// A user has put it into a mailbox, and may have written each of its fields.
    Stored,
}

/// A message under way.
#[derive(Clone, Copy)]
pub(crate) struct Mail<'m> {
    /// The message as the account keeps it.
    pub(crate) message: &'m IncomingMessage,
    /// The message as the account's clients and script see it.
    pub(crate) served: &'m Bytes,
    /// The message as it came.
    pub(crate) sent: &'m Bytes,
    pub(crate) from: &'m str,
    pub(crate) trigger: Trigger,
    pub(crate) chain: Chain<'m>,
    /// The requested reports for each recipient; empty if the chain has them.
    pub(crate) asked: &'m [DsnRequest<'m>],
    pub(crate) client: RemoteClient<'m>,
}

impl Mail<'_> {
    /// As the recipient at this place gets it.
    pub(crate) fn of(self, place: usize) -> Self {
        let asked = self.asked.get(place).copied().unwrap_or(self.chain.asked);
        Self { chain: self.chain.asked(asked), ..self }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;
    use posthaste_queue::TlsRequirement;

    use super::*;
    use crate::required_extensions::RequiredExtensions;

    #[test]
    fn long_work_counts_for_the_account_or_the_network_that_sends() {
        let account = AccountId(Id::from_bytes([7; 16]));
        let host = |ip: [u8; 4]| RemoteClient { ip: Some(ip.into()), ..RemoteClient::default() };
        let user = RemoteClient { account_id: Some(account), ..host([192, 0, 2, 7]) };
        let to_nobody = WorkFor::mail_to(&[]);
        let network = WorkFor::network([192, 0, 2, 0].into());
        for (client, refusals, whose) in [
            (user, Refusals::Together, WorkFor::account(account)),
            (host([192, 0, 2, 7]), Refusals::Together, network),
            (host([192, 0, 2, 9]), Refusals::Never, network),
            (host([192, 0, 2, 7]), Refusals::Each, to_nobody),
            (host([127, 0, 0, 1]), Refusals::Together, to_nobody),
            (RemoteClient::default(), Refusals::Never, to_nobody),
        ] {
            let envelope = Envelope {
                from: "",
                refusals,
                is_quarantined: false,
                tls: TlsRequirement::Policy,
                client,
                needs: RequiredExtensions::default(),
                asked: &[],
                lease_end: None,
            };
            assert_eq!(envelope.work_for(&[]), whose, "{client:?} {refusals:?}");
        }
    }
}
