//! The properties of a connection that the directory needs for a login.

use std::net::IpAddr;

use posthaste_directory::Service;
use posthaste_directory::sasl::{Channel, Plaintext};
use posthaste_net::Connection;

use crate::options::{ClearTextLogin, Pop3Options};

/// The facts of the connection that the directory needs.
pub(super) fn channel(options: &Pop3Options, connection: &Connection) -> Channel {
    let peer = connection.peer().ip().to_canonical();
    let (plaintext, scram) =
        (allowed(options.clear_text_login, peer), allowed(options.clear_text_scram, peer));
    Channel::of(connection, Service::Pop3, plaintext, scram)
}

fn allowed(where_: ClearTextLogin, peer: IpAddr) -> Plaintext {
    match where_ {
        ClearTextLogin::Loopback if peer.is_loopback() => Plaintext::Allowed,
        ClearTextLogin::Always => Plaintext::Allowed,
        ClearTextLogin::Never | ClearTextLogin::Loopback => Plaintext::Refused,
    }
}
