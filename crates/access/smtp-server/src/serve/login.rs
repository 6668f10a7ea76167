//! AUTH: the exchange between client and directory (RFC 4954 §4). Base 64 and `*` are SMTP's, the
//! rest is SASL's.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use posthaste_directory::{
    LoginError, Source,
    sasl::{Channel, Exchange, Plaintext, Step, TlsBindings},
};
use posthaste_net::{ChannelBinding, Connection, NetError};

use super::{Driver, Line, Next, closing};
use crate::{PlaintextAuth, SmtpOptions, command, session::Action};

/// What the directory must know of the connection.
pub(super) fn channel(options: &SmtpOptions, connection: &Connection) -> Channel {
    let peer = connection.peer().ip().to_canonical();
    let allowed = |auth| match auth {
        PlaintextAuth::LoopbackOnly if peer.is_loopback() => Plaintext::Allowed,
        PlaintextAuth::Anywhere => Plaintext::Allowed,
        PlaintextAuth::Never | PlaintextAuth::LoopbackOnly => Plaintext::Refused,
    };
    Channel {
        peer,
        tls: connection.is_encrypted().then(|| TlsBindings {
            exporter: connection.channel_binding(ChannelBinding::TlsExporter),
            server_end_point: connection.channel_binding(ChannelBinding::TlsServerEndPoint),
        }),
        plaintext: allowed(options.plaintext_auth),
        scram: allowed(options.plaintext_scram),
    }
}

impl Driver {
    pub(super) async fn log_in(
        &mut self,
        mechanism: &str,
        initial: Option<Vec<u8>>,
    ) -> Result<Next, NetError> {
        let mut exchange = match Exchange::begin(mechanism, channel(&self.service.options, &self.connection))
        {
            Ok(exchange) => exchange,
            Err(error) => return self.login_failed("", &error).await,
        };
        let mut response = initial;
        loop {
            match exchange.step(&self.service.directory, response.as_deref()).await {
                Step::Done(account) => {
                    let (accounts, peer) = (&self.service.accounts, self.connection.peer().ip());
                    let Some(share) = accounts.admit(account.id.0.to_bytes(), &account.name, peer) else {
                        let action = self.session.too_many_connections();
                        return self.say_or_close(action);
                    };
                    self.connection.belongs_to(share);
                    self.source().succeeded(&account.name);
                    self.lease = Some(self.service.directory.lease(&account));
                    let reply = self.session.authenticated(*account);
                    self.say(&reply);
                    return Ok(Next::Command);
                }
                Step::Fail(error) => return self.login_failed(exchange.name(), &error).await,
                Step::Challenge(octets) => {
                    self.replies.extend_from_slice(b"334 ");
                    self.replies.extend_from_slice(BASE64.encode(octets).as_bytes());
                    self.replies.extend_from_slice(b"\r\n");
                }
            }
            response = match self.response().await? {
                Ok(octets) => Some(octets),
                Err(action) => return self.say_or_close(action),
            };
        }
    }

    /// The client's next line, decoded, or how the exchange ends instead.
    async fn response(&mut self) -> Result<Result<Vec<u8>, Action>, NetError> {
        Ok(match self.line(self.service.options.command_within).await? {
            Line::Good(line) if &line[..] == b"*" => Err(self.session.login_abandoned(None)),
            Line::Good(line) => {
                command::response(&line).map_err(|error| self.session.login_abandoned(Some(&error)))
            }
            Line::Bad(error) => Err(self.session.login_abandoned(Some(&error))),
            Line::Shutdown => Err(Action::Close(closing((4, 3, 2), super::STOPS))),
            Line::Silent => Err(Action::Close(closing((4, 4, 2), "Nothing came from you for too long"))),
            Line::Revoked => Err(Action::Close(closing((4, 7, 0), super::REVOKED))),
        })
    }

    /// Where a login comes from, for the log.
    fn source(&self) -> Source {
        let connection = &self.connection;
        Source { address: connection.peer().ip(), protocol: "submission", session: connection.id() }
    }

    async fn login_failed(&mut self, name: &str, error: &LoginError) -> Result<Next, NetError> {
        self.source().failed(name, &error.failure);
        tokio::select! {
            () = tokio::time::sleep(error.delay) => {}
            () = self.shutdown.requested() => {}
        }
        let action = self.session.login_failed(error);
        self.say_or_close(action)
    }
}
