//! A virtual user: its account, its model, its connection, and its usage.
//!
//! The steps of a user are in other files: its life in `life`, steps in `steps`, `read` and
//! `change`, sessions in `session` and `pop3_user`. Its records go through `times`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_imap_client::Client;
use posthaste_imap_client::net::Dialer;
use posthaste_load_workload::{Chooser, Random, SessionKind};

use super::failure::Failure;
use super::maildrop::Remembered;
use super::model::AccountModel;
use super::open_loop::Lane;
use super::shared::Shared;
use crate::Target;

/// A virtual user.
pub struct User {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: Rc<Lane>,
    pub(super) who: Identity,
    pub(super) random: Random,
    pub(super) chooser: Chooser,
    pub(super) model: AccountModel,
    /// The messages that a POP3 user left on the server.
    pub(super) remembered: Remembered,
    pub(super) link: Link,
    pub(super) used: ConnectionUsage,
    /// Transactions it has done, well or not.
    pub(super) done: u32,
}

/// The identity of a user, and its login.
pub struct Identity {
    /// Number of the virtual user.
    pub index: u32,
    /// Number of its account. Users may share one.
    pub account: u32,
    /// Login name.
    pub name: String,
    /// Password.
    pub password: String,
    /// Mail address.
    pub address: String,
}

/// A user's connection to a server.
#[derive(Default)]
pub struct Link {
    /// The IMAP session, if there is one.
    pub client: Option<Client>,
    /// Whether it is counted among those with a session.
    online: bool,
    /// Sessions begun.
    pub sessions: u32,
    /// The number of times that the user changed to another server because its own failed.
    failovers: u32,
    /// Bytes in and out of the session at the last call.
    pub bytes_before: (u64, u64),
}

/// The usage of a connection since the last transaction was recorded.
#[derive(Default)]
pub struct ConnectionUsage {
    /// FETCH responses.
    pub fetched: u64,
    /// Bytes of other connections (SMTP).
    pub bytes_beside: (u64, u64),
    /// The slowest command, and its time.
    pub slowest: (&'static str, Duration),
}

impl User {
    /// Virtual user `index`.
    pub fn new(shared: Arc<Shared>, lane: Rc<Lane>, index: u32) -> Self {
        let accounts = &shared.options.accounts;
        let account = index % accounts.count().max(1);
        let who = Identity {
            index,
            account,
            name: accounts.name(account),
            password: accounts.password(account),
            address: accounts.address(account),
        };
        Self {
            who,
            random: Random::new(shared.options.seed, 1 << 40 | u64::from(index)),
            chooser: Chooser::default(),
            model: AccountModel::default(),
            remembered: Remembered::default(),
            link: Link::default(),
            used: ConnectionUsage::default(),
            done: 0,
            shared,
            lane,
        }
    }

    /// A number that chooses the source address on loopback: another one for each session, so that
    /// ports in TIME_WAIT never run out.
    pub(super) fn source(&self) -> u32 {
        self.who.index.wrapping_add(self.link.sessions.wrapping_mul(7919))
    }

    /// The settings of the user's connections: those on a modem read no faster than that.
    pub(super) fn dialer(&self) -> Dialer {
        let mut dialer = self.shared.options.dialer.clone();
        if let Some(modem) = self.shared.options.workload.modem {
            // Spread evenly over the users: a share of 0.9 are nine of each ten.
            let before = (f64::from(self.who.index) * modem.share).floor();
            let after = (f64::from(self.who.index.saturating_add(1)) * modem.share).floor();
            dialer.pace = (after > before).then_some(modem.bytes_per_s);
        }
        dialer
    }

    /// The server it is at: its own by its number, another one after that failed.
    pub(super) fn server(&self) -> &Target {
        self.shared.options.server_at(self.who.index.wrapping_add(self.link.failovers))
    }

    /// Goes to the next server if it was the server that failed.
    pub(super) fn turn_away(&mut self, failure: &Failure) {
        if matches!(failure, Failure::Connection(_)) {
            self.link.failovers = self.link.failovers.wrapping_add(1);
        }
    }

    /// Forgets the session. The known state of the mailboxes is dropped too, but not their names:
    /// after a fault nobody can say which half of a command was done.
    pub(super) fn give_up_session(&mut self) {
        if self.link.client.take().is_some() {
            self.went_offline();
        }
        if self.shared.options.workload.session == SessionKind::Online {
            self.model.mailboxes.clear();
            self.model.current = None;
        }
    }

    pub(super) fn went_online(&mut self) {
        if !self.link.online {
            self.link.online = true;
            let counts = self.shared.phase.counts(Instant::now());
            self.lane.with(|r| {
                r.online += 1;
                r.sessions += u64::from(counts);
            });
        }
    }

    pub(super) fn went_offline(&mut self) {
        if self.link.online {
            self.link.online = false;
            self.lane.with(|r| r.online -= 1);
        }
    }
}
