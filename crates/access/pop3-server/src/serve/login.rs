//! Logins: USER and PASS, and the exchange of AUTH (RFC 5034 §4). Base64 and `*` are POP3's, the
//! rest is the directory's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_delivery::{DeliveryError, Holding, Opening};
use posthaste_directory::sasl::{Exchange, SaslStep};
use posthaste_directory::{Account, Client, Login, LoginError, Service, Source};
use posthaste_mail_model::{MailboxName, Secret};
use posthaste_net::{LoginEnd, NetError};
use posthaste_store::StoreError;

use super::channel::channel;
use super::{Driver, Inbox, Line, Next};
use crate::command::{self, SyntaxError};
use crate::maildrop::Maildrop;
use crate::session::Refusal;

/// The end of an exchange before the directory ends it.
enum EarlyEnd {
    /// The client gave it up.
    Cancelled,
    Bad(SyntaxError),
    Refused(Refusal),
    Silent,
}

impl Driver {
    /// USER and PASS.
    pub(super) async fn log_in(&mut self, name: &str, password: &Secret<String>) -> Result<Next, NetError> {
        let client = Client { address: self.connection.peer().ip(), service: Service::Pop3 };
        match self.service.directory.login(name, password, client).await {
            Ok(login) => Ok(self.accept(login).await),
            Err(error) => Ok(self.login_failed(name, &error).await),
        }
    }

    /// AUTH.
    pub(super) async fn authenticate(
        &mut self,
        mechanism: &str,
        initial: Option<Secret<Vec<u8>>>,
    ) -> Result<Next, NetError> {
        let channel = channel(&self.service.options, &self.connection);
        let mut exchange = match Exchange::begin(&self.service.directory, mechanism, channel) {
            Ok(exchange) => exchange,
            Err(error) => return Ok(self.login_failed("", &error).await),
        };
        let (mut response, mut refused) = (initial, None::<LoginError>);
        loop {
            let octets = response.as_ref().map(|octets| octets.expose().as_slice());
            match exchange.step(&self.service.directory, octets).await {
                SaslStep::Done(login) => return Ok(self.accept(*login).await),
                SaslStep::Fail(error) => return Ok(self.login_failed(exchange.name(), &error).await),
                SaslStep::Refuse { challenge, error } => {
                    self.note_refusal(exchange.name(), &error).await;
                    self.print_challenge(&challenge);
                    refused = Some(error);
                }
                SaslStep::Challenge(octets) => self.print_challenge(&octets),
            }
            response = match self.response().await? {
                // RFC 7628 §3.2.3: the client's answer to it does not count.
                Ok(_) if refused.is_some() => break,
                Ok(octets) => Some(octets),
                Err(EarlyEnd::Silent) => return Ok(Next::End),
                Err(EarlyEnd::Refused(refusal)) => return Ok(self.refuse(refusal)),
                Err(EarlyEnd::Cancelled) => {
                    return Ok(Self::after(&self.session.login_cancelled(None, &mut self.out)));
                }
                Err(EarlyEnd::Bad(error)) => {
                    return Ok(Self::after(&self.session.login_cancelled(Some(error), &mut self.out)));
                }
            };
        }
        match refused {
            Some(error) => Ok(Self::after(&self.session.login_failed(&error, &mut self.out))),
            None => Ok(Next::End),
        }
    }

    fn print_challenge(&mut self, challenge: &[u8]) {
        self.out.extend_from_slice(b"+ ");
        self.out.extend_from_slice(BASE64.encode(challenge).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// The client's next line, decoded, or how the exchange ends instead.
    async fn response(&mut self) -> Result<Result<Secret<Vec<u8>>, EarlyEnd>, NetError> {
        Ok(match self.line().await? {
            Line::Good(line) if &line[..] == b"*" => Err(EarlyEnd::Cancelled),
            Line::Good(line) => command::response(&line).map_err(EarlyEnd::Bad),
            Line::Bad(error) => Err(EarlyEnd::Bad(error)),
            Line::Refused(refusal) => Err(EarlyEnd::Refused(refusal)),
            Line::Silent => Err(EarlyEnd::Silent),
        })
    }

    /// The login is right: opens the INBOX.
    async fn accept(&mut self, login: Login) -> Next {
        let account = &login.account;
        let peer = self.connection.peer().ip();
        let Some(share) = self.service.accounts.admit(account.limited(), peer) else {
            return self.refuse(Refusal::TooManyConnections);
        };
        let now = self.connection.clock().now();
        if !self.service.delays.admit(account.id, now) {
            return self.refuse(Refusal::TooSoon);
        }
        let maildrop = match self.open(account).await {
            Ok(maildrop) => maildrop,
            Err(error) => {
                self.service.delays.take_back(account.id, now);
                return self.refuse(Refusal::of_store(&error));
            }
        };
        self.connection.belongs_to(share);
        self.source().succeeded(&login);
        let lease = self.service.directory.lease(&login);
        self.connection.ends_with(LoginEnd::new(lease.signal()));
        self.lease = Some(lease);
        Self::after(&self.session.logged_in(&account.name, maildrop, &mut self.out))
    }

    async fn open(&mut self, account: &Account) -> Result<Maildrop, StoreError> {
        let list = self.service.delivery.mailboxes(account).await.map_err(|error| match error {
            DeliveryError::Store(error) => error,
            other => StoreError::Unavailable(other.to_string()),
        })?;
        let inbox = list.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?;
        let mailbox = self.service.store.open_for(account.id, inbox.id).await?;
        let maildrop = Maildrop::new(mailbox.view(), inbox.uid_validity);
        self.service.delivery.folder_opened(&Opening {
            account: &account.name,
            folder: &inbox.name,
            items: maildrop.stat().messages,
            client: self.connection.peer().ip(),
            protocol: "pop3",
            warn: account.folder_limits.warn,
        });
        let holder = mailbox.holder(account.id, &self.end);
        holder.holds(&[maildrop.view()]);
        let (owner, holding) = (account.id, Holding::default());
        self.inbox = Some(Inbox { owner, mailbox, holder, holding });
        Ok(maildrop)
    }

    /// The source of a login, for the log.
    fn source(&self) -> Source {
        let connection = &self.connection;
        Source { address: connection.peer().ip(), protocol: Service::Pop3.name(), session: connection.id() }
    }

    async fn login_failed(&mut self, name: &str, error: &LoginError) -> Next {
        self.note_refusal(name, error).await;
        Self::after(&self.session.login_failed(error, &mut self.out))
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
