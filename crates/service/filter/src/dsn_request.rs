//! The reports that the sender of a message requests (RFC 3461 §4), on its way through forwards,
//! groups and scripts.

use posthaste_queue::{self as queue, EnvelopeId, Notify, OriginalRecipient, Return, To};

/// The reports that the sender requests for one recipient.
#[derive(Debug, Clone, Copy, Default)]
pub struct DsnRequest<'e> {
    /// How much of the message a report about a failure returns.
    pub ret: Option<Return>,
    /// The sender's name for the transaction.
    pub envid: Option<&'e EnvelopeId>,
    /// Which outcomes are reported.
    pub notify: Option<Notify>,
    /// The address before any alias.
    pub orcpt: Option<&'e OriginalRecipient>,
    /// The address that the sender wrote, if the recipient has another one.
    pub named: Option<&'e str>,
}

impl<'e> DsnRequest<'e> {
    /// For each recipient of an envelope, in their order.
    pub fn all(envelope: &'e queue::Envelope) -> Vec<Self> {
        let queue::Envelope { ret, envid, to, .. } = envelope;
        let of = |to: &'e To| Self {
            ret: *ret,
            envid: envid.as_ref(),
            notify: to.notify,
            orcpt: to.orcpt.as_ref(),
            named: to.named.as_deref(),
        };
        to.iter().map(of).collect()
    }

    /// The same for another recipient to whom the message is sent on within this server.
    pub(crate) fn for_next(self) -> Self {
        Self { named: None, ..self }
    }

    /// Whether the sender gets a report if the message is given up.
    pub(crate) fn wants_failure(self) -> bool {
        self.notify.is_none_or(|notify| notify.failure)
    }

    /// An address that the message is sent on to. Its success is not reported: that the message is
    /// sent on is (RFC 3461 §5.2.7).
    pub(crate) fn to(self, address: &str) -> To {
        let notify = self.notify.map(|notify| Notify { success: false, ..notify });
        To { address: address.to_owned(), notify, orcpt: self.orcpt.cloned(), named: None }
    }

    /// The envelope of a message that is sent on.
    pub(crate) fn envelope(self, from: &str, to: &[&str]) -> queue::Envelope {
        let to = to.iter().map(|to| self.to(to)).collect();
        let (ret, envid) = (self.ret, self.envid.cloned());
        queue::Envelope { from: from.to_owned(), to, ret, envid, ..queue::Envelope::default() }
    }
}
