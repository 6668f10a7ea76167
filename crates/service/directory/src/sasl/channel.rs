//! The connection of an exchange.

use std::time::SystemTime;

use posthaste_net::{ChannelBinding, ClientCertificate, Connection};

use crate::grant::{Client, Service};

/// The channel bindings of TLS, which must be the same at both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsBindings {
    /// `tls-exporter`: 32 octets under the label `EXPORTER-Channel-Binding` (RFC 9266 §2); TLS
    /// 1.3, or TLS 1.2 with the extended master secret.
    pub exporter: Option<Vec<u8>>,
    /// `tls-server-end-point`: the hash of our certificate (RFC 5929 §4.1).
    pub server_end_point: Option<Vec<u8>>,
}

/// Whether a channel without TLS offers mechanisms of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plaintext {
    /// On loopback, or where the configuration says so.
    Allowed,
    /// Anywhere else.
    Refused,
}

/// The connection of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// The client.
    pub client: Client,
    /// The bindings of TLS; `None` without TLS.
    pub tls: Option<TlsBindings>,
    /// The certificate that the client showed, which the handshake verified.
    pub certificate: Option<ClientCertificate>,
    /// Whether passwords may be sent without TLS.
    pub plaintext: Plaintext,
    /// Whether SCRAM may run without TLS. An eavesdropper can try passwords against
    /// the bytes it read.
    pub scram: Plaintext,
}

impl Channel {
    /// The channel of a connection. The protocol decides what it may carry without TLS.
    pub fn of(connection: &Connection, service: Service, plaintext: Plaintext, scram: Plaintext) -> Self {
        let tls = connection.is_encrypted().then(|| TlsBindings {
            exporter: connection.channel_binding(ChannelBinding::TlsExporter),
            server_end_point: connection.channel_binding(ChannelBinding::TlsServerEndPoint),
        });
        let client = Client { address: connection.peer().ip().to_canonical(), service };
        Self { client, tls, certificate: connection.client_certificate(), plaintext, scram }
    }

    /// Whether a password may be sent over it.
    pub fn protects_passwords(&self) -> bool {
        self.tls.is_some() || self.plaintext == Plaintext::Allowed
    }

    /// Whether SCRAM may run over it.
    pub fn protects_proofs(&self) -> bool {
        self.protects_passwords() || self.scram == Plaintext::Allowed
    }

    /// Whether -PLUS is offered. Not in TLS 1.2: there clients bind to `tls-unique` (RFC 5929 §3),
    /// which rustls does not offer. If -PLUS were offered, a client that sends `y` would look like
    /// the victim of a downgrade.
    pub(super) fn can_bind(&self) -> bool {
        self.tls.as_ref().is_some_and(|b| b.exporter.is_some())
    }

    /// Whether the client has a certificate that is valid now.
    pub(super) fn has_certificate(&self) -> bool {
        self.certificate.as_ref().is_some_and(|certificate| !certificate.has_ended(SystemTime::now()))
    }
}
