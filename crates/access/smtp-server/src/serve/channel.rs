//! The properties of a connection that the directory needs for a login.

use posthaste_directory::Service;
use posthaste_directory::sasl::{Channel, Plaintext};
use posthaste_net::Connection;

use crate::{PlaintextAuth, SmtpOptions};

/// The facts of the connection that the directory needs.
pub(super) fn channel(options: &SmtpOptions, connection: &Connection) -> Channel {
    let peer = connection.peer().ip().to_canonical();
    let allowed = |auth| match auth {
        PlaintextAuth::LoopbackOnly if peer.is_loopback() => Plaintext::Allowed,
        PlaintextAuth::Anywhere => Plaintext::Allowed,
        PlaintextAuth::Never | PlaintextAuth::LoopbackOnly => Plaintext::Refused,
    };
    let (plaintext, scram) = (allowed(options.plaintext_auth), allowed(options.plaintext_scram));
    Channel::of(connection, Service::Submission, plaintext, scram)
}
