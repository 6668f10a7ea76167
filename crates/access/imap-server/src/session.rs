//! A session: who has logged in, what is selected, what was enabled. It knows one deadline, and
//! waits for nothing; `connection` drives it and the files of `command` change it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_directory::{Account, Lease, Source};
use posthaste_imap_codec::NameEncoding;
use posthaste_net::{BytePermit, Connection, Shutdown};

use crate::enabled::Enabled;
use crate::options::ClearTextLogin;
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::service::ImapService;
use crate::sync::{self, Silently};
use crate::table::{Numbers, State};
use crate::wire::Wire;

/// Whether the session goes on after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// It does.
    Command,
    /// It was said to be over.
    Close,
}

/// What a client is told whose account was changed so that its login no longer holds.
pub(crate) const REVOKED: &str = "Your account was disabled or removed, or has another password";

/// Returns once a lease ends; never without one.
pub(crate) async fn revoked(lease: &mut Option<Lease>) {
    match lease {
        Some(lease) => lease.ended().await,
        None => std::future::pending().await,
    }
}

/// One client's session.
pub(crate) struct Session {
    pub(crate) service: Arc<ImapService>,
    pub(crate) wire: Wire,
    pub(crate) shutdown: Shutdown,
    pub(crate) login: Option<Account>,
    /// Ends when the account that logged in may no longer be used as it was.
    pub(crate) lease: Option<Lease>,
    pub(crate) selected: Option<Selected>,
    pub(crate) enabled: Enabled,
    /// When the login must be done.
    pub(crate) login_deadline: Instant,
    /// Bad commands since the last good one that did something.
    pub(crate) bad_commands: u32,
    /// For the message bytes of the APPEND under way.
    pub(crate) permit: Option<BytePermit>,
}

/// What a command that works on the selected mailbox is given. That there is one has been checked.
pub(crate) struct Ctx<'s> {
    /// Where responses go.
    pub(crate) wire: &'s mut Wire,
    /// The mailbox, and what the client knows of it.
    pub(crate) selected: &'s mut Selected,
    /// What was switched on; some commands switch CONDSTORE on by being used (RFC 7162 §3.1).
    pub(crate) enabled: &'s mut Enabled,
    /// Options and services.
    pub(crate) service: &'s ImapService,
    /// Who is logged in.
    pub(crate) login: &'s Account,
}

impl Session {
    /// A session on which nothing was said yet.
    pub(crate) fn new(service: Arc<ImapService>, connection: Connection, shutdown: Shutdown) -> Self {
        let wire = Wire::new(connection, service.options.write_within);
        let login_deadline = Instant::now() + service.options.login_within;
        Self {
            service,
            wire,
            shutdown,
            login: None,
            lease: None,
            selected: None,
            enabled: Enabled::default(),
            login_deadline,
            bad_commands: 0,
            permit: None,
        }
    }

    /// RFC 9051 §3.
    pub(crate) fn state(&self) -> State {
        match (&self.login, &self.selected) {
            (None, _) => State::NotAuthenticated,
            (Some(_), None) => State::Authenticated,
            (Some(_), Some(_)) => State::Selected,
        }
    }

    /// Who is logged in. The table lets no command get here before; should it ever, the command
    /// fails.
    pub(crate) fn login(&self) -> Result<&Account, Failure> {
        self.login.as_ref().ok_or_else(|| Reply::bad("Log in first").into())
    }

    /// What commands of the selected state work with.
    pub(crate) fn ctx(&mut self) -> Result<Ctx<'_>, Failure> {
        match (&mut self.selected, &self.login) {
            (Some(selected), Some(login)) => Ok(Ctx {
                wire: &mut self.wire,
                selected,
                enabled: &mut self.enabled,
                service: &self.service,
                login,
            }),
            _ => Err(Reply::bad("Select a mailbox first").into()),
        }
    }

    /// Whether the account was disabled, removed or given another password since the login.
    pub(crate) fn is_revoked(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_ended)
    }

    /// Switches IMAP4rev2 on: names are UTF-8 from now on.
    pub(crate) fn enable_rev2(&mut self) {
        self.enabled.rev2 = true;
        self.wire.names = NameEncoding::Utf8;
    }

    /// Switches CONDSTORE on, see [`sync::enable_condstore`]. Whether it was off.
    pub(crate) fn enable_condstore(&mut self) -> bool {
        sync::enable_condstore(&mut self.wire, self.selected.as_ref(), &mut self.enabled)
    }

    /// Tells what is new in the selected mailbox, if there is one.
    pub(crate) async fn announce(&mut self, numbers: Numbers) -> Result<(), Failure> {
        match &mut self.selected {
            Some(selected) if numbers != Numbers::Silent => {
                sync::announce(&mut self.wire, selected, self.enabled, numbers, None).await
            }
            _ => Ok(()),
        }
    }

    /// How long we wait for the client before it has logged in.
    pub(crate) fn login_patience(&self) -> Duration {
        let left = self.login_deadline.saturating_duration_since(Instant::now());
        self.service.options.pre_login_within.min(left)
    }

    /// Where a login comes from, for the log.
    pub(crate) fn source(&self) -> Source {
        let connection = &self.wire.connection;
        Source { address: connection.peer().ip(), protocol: "imap", session: connection.id() }
    }

    /// Whether STARTTLS can be given now.
    pub(crate) fn may_start_tls(&self) -> bool {
        self.service.certificates.is_some() && !self.wire.connection.is_encrypted()
    }

    /// Whether a password may cross this connection as it is.
    pub(crate) fn may_send_passwords(&self) -> bool {
        self.wire.connection.is_encrypted() || self.is_allowed(self.service.options.clear_text_login)
    }

    /// Whether SCRAM may run over this connection as it is.
    pub(crate) fn may_use_scram(&self) -> bool {
        self.may_send_passwords() || self.is_allowed(self.service.options.clear_text_scram)
    }

    fn is_allowed(&self, clear: ClearTextLogin) -> bool {
        match clear {
            ClearTextLogin::Never => false,
            ClearTextLogin::Loopback => self.wire.connection.peer().ip().to_canonical().is_loopback(),
            ClearTextLogin::Always => true,
        }
    }
}

impl Ctx<'_> {
    /// Switches CONDSTORE on, see [`sync::enable_condstore`].
    pub(crate) fn enable_condstore(&mut self) {
        sync::enable_condstore(self.wire, Some(&*self.selected), self.enabled);
    }

    /// Tells what is new in the mailbox.
    pub(crate) async fn announce(
        &mut self,
        numbers: Numbers,
        silently: Option<&Silently<'_>>,
    ) -> Result<(), Failure> {
        sync::announce(self.wire, self.selected, *self.enabled, numbers, silently).await
    }
}
