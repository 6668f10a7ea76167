//! The header of a message is checked before other code reads it.

use bytes::Bytes;
use posthaste_authentication::{has_bare_cr, reading_header};
use posthaste_mime_summary::is_header_bounded;
use posthaste_net::{Holder, Tiers};

use super::Driver;
use crate::Role;
use crate::address::ReversePath;
use crate::reply::Reply;
use crate::session::replies;

/// Why a message is refused for its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderFault {
    TooLarge,
    BareCr,
}

/// The fault of a message's header, if it has one.
fn fault(message: &[u8]) -> Option<HeaderFault> {
    // The next steps keep memory for each field, or compare the fields with each other.
    if !is_header_bounded(message) {
        return Some(HeaderFault::TooLarge);
    }
    // The next hop takes a CR as the end of a line. So a CR in a field would begin another field,
    // which was not checked here. LMTP peers pass on what others sent, and a script or a forward
    // sends it on from here.
    has_bare_cr(message).then_some(HeaderFault::BareCr)
}

impl Driver {
    /// The holder whose long headers and large messages are read and changed one at a time: an
    /// account, or the network of another host. `None` for an MTA that brings the mail of many,
    /// by LMTP or on this machine. All mail would wait for one thread.
    pub(super) fn header_holder(&self) -> Option<Holder> {
        if let Some(account) = self.session.account() {
            return Some(Holder::Account(account.id.0.to_bytes()));
        }
        let address = self.connection.peer().ip().to_canonical();
        let brings_all = self.service.role == Role::Lmtp || address.is_loopback();
        (!brings_all).then(|| Holder::Address(Tiers::of(address).share()))
    }

    /// Checks that the header of a message is within its bounds and has no bare CR. `message` is as
    /// it was received.
    pub(super) async fn header_checked(
        &self,
        id: &str,
        message: &Bytes,
        from: &ReversePath,
    ) -> Result<(), Reply> {
        let (from, octets) = (from.as_str(), message.len());
        match reading_header(self.header_holder(), message, |message| fault(&message)).await {
            None => Ok(()),
            Some(HeaderFault::TooLarge) => {
                tracing::info!(id, from, octets, "refused: its header is too large");
                Err(replies::header_too_large())
            }
            Some(HeaderFault::BareCr) => {
                tracing::info!(id, from, "refused: a CR without LF in its header");
                Err(replies::bare_cr())
            }
        }
    }
}
