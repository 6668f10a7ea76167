//! For whom the long work on a message is done.

use posthaste_delivery::{Recipient, WorkFor};
use posthaste_net::Tiers;

use crate::filter::{Envelope, Refusals};
use crate::mail::RemoteClient;

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

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{AccountId, Id};
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
