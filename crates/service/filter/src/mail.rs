//! A message on its way to its recipients.

use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use posthaste_directory::Account;
use posthaste_mail_model::AccountId;
use posthaste_store::IncomingMessage;

use crate::chain::Chain;
use crate::dsn_request::DsnRequest;

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

/// How a message came before a script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trigger<'t> {
    /// It is delivered.
    Delivered,
    /// A user has put it into a mailbox or changed its flags.
    Stored {
        /// The user, for whom it counts as submitted.
        user: &'t Account,
        /// The user, who may have written each of its fields. `None` if others wrote it, perhaps in
        /// the user's name.
        author: Option<&'t Account>,
    },
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
    pub(crate) trigger: Trigger<'m>,
    pub(crate) chain: Chain<'m>,
    /// The requested reports for each recipient; empty if the chain has them.
    pub(crate) asked: &'m [DsnRequest<'m>],
    pub(crate) client: RemoteClient<'m>,
}

impl<'m> Mail<'m> {
    /// With this count of the messages that are sent because of it, unless it has one.
    pub(crate) fn counted(self, sends: &'m AtomicUsize) -> Self {
        Self { chain: self.chain.counted(sends), ..self }
    }

    /// As the recipient at this place gets it.
    pub(crate) fn of(self, place: usize) -> Self {
        let asked = self.asked.get(place).copied().unwrap_or(self.chain.asked);
        Self { chain: self.chain.asked(asked), ..self }
    }
}
