//! AUTH: the exchange between client and directory (RFC 4954 §4). Base64 and `*` are SMTP's, the
//! rest is SASL's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_directory::sasl::{Exchange, SaslStep};
use posthaste_directory::{LoginError, Service, Source};
use posthaste_net::NetError;

use super::channel::channel;
use super::{Driver, Line, Next, closing};
use crate::command;
use crate::session::Action;

impl Driver {
    pub(super) async fn log_in(
        &mut self,
        mechanism: &str,
        initial: Option<Vec<u8>>,
    ) -> Result<Next, NetError> {
        let channel = channel(&self.service.options, &self.connection);
        let mut exchange = match Exchange::begin(&self.service.directory, mechanism, channel) {
            Ok(exchange) => exchange,
            Err(error) => return self.login_failed("", &error).await,
        };
        let (mut response, mut refused) = (initial, None::<LoginError>);
        loop {
            match exchange.step(&self.service.directory, response.as_deref()).await {
                SaslStep::Done(login) => {
                    let account = &login.account;
                    let (accounts, peer) = (&self.service.accounts, self.connection.peer().ip());
                    let Some(share) = accounts.admit(account.limited(), peer) else {
                        let action = self.session.too_many_connections();
                        return self.say_or_close(action);
                    };
                    self.connection.belongs_to(share);
                    self.source().succeeded(&login);
                    let lease = self.service.directory.lease(&login);
                    let reply = self.session.authenticated(lease.account());
                    self.lease = Some(lease);
                    self.say(&reply);
                    return Ok(Next::Command);
                }
                SaslStep::Fail(error) => return self.login_failed(exchange.name(), &error).await,
                SaslStep::Refuse { challenge, error } => {
                    self.note_refusal(exchange.name(), &error).await;
                    self.print_challenge(&challenge);
                    refused = Some(error);
                }
                SaslStep::Challenge(octets) => self.print_challenge(&octets),
            }
            response = match (self.response().await?, refused) {
                // RFC 7628 §3.2.3: the client's answer to it does not count.
                (Ok(_), Some(error)) => {
                    let action = self.session.login_failed(&error);
                    return self.say_or_close(action);
                }
                (Ok(octets), None) => Some(octets),
                (Err(action), _) => return self.say_or_close(action),
            };
            refused = None;
        }
    }

    /// TLS has started. RFC 3207 §4.2: a login before it does not count any more. So its account
    /// may have another session, and the client has the time of a newcomer.
    pub(super) fn end_login(&mut self) {
        if self.lease.take().is_some() {
            self.connection.belongs_to_nobody();
            self.message_due = self.connection.clock().now() + self.service.options.begin_within;
        }
    }

    fn print_challenge(&mut self, challenge: &[u8]) {
        self.replies.extend_from_slice(b"334 ");
        self.replies.extend_from_slice(BASE64.encode(challenge).as_bytes());
        self.replies.extend_from_slice(b"\r\n");
    }

    /// The client's next line, decoded, or how the exchange ends instead.
    async fn response(&mut self) -> Result<Result<Vec<u8>, Action>, NetError> {
        Ok(match self.line(self.service.options.command_within).await? {
            Line::Good(line) if &line[..] == b"*" => Err(self.session.login_cancelled(None)),
            Line::Good(line) => {
                command::response(&line).map_err(|error| self.session.login_cancelled(Some(&error)))
            }
            Line::Bad(error) => Err(self.session.login_cancelled(Some(&error))),
            Line::Shutdown => Err(Action::Close(closing((4, 3, 2), super::STOPS))),
            Line::Silent => Err(Action::Close(closing((4, 4, 2), "Idle for too long"))),
            Line::Revoked => Err(Action::Close(closing((4, 7, 0), super::REVOKED))),
            Line::Late => Err(Action::Close(closing((4, 4, 2), super::LATE))),
        })
    }

    /// The source of a login, for the log.
    fn source(&self) -> Source {
        let connection = &self.connection;
        Source {
            address: connection.peer().ip(),
            protocol: Service::Submission.name(),
            session: connection.id(),
        }
    }

    async fn login_failed(&mut self, name: &str, error: &LoginError) -> Result<Next, NetError> {
        self.note_refusal(name, error).await;
        let action = self.session.login_failed(error);
        self.say_or_close(action)
    }

    /// Logs a refused login, and waits for the delay of failed logins.
    async fn note_refusal(&mut self, name: &str, error: &LoginError) {
        self.source().failed(name, &error.failure);
        tokio::select! {
            () = tokio::time::sleep(error.delay) => {}
            () = self.shutdown.requested() => {}
        }
    }
}
