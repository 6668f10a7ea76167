//! Workloads: what virtual users do, and the mail that they send, as data.
//!
//! A workload has transactions made of [`TransactionStep`]s, a [`Chooser`] that selects the next
//! transaction, and think times between them. It is read from TOML. The built-in ones are files
//! like any other (`workload show NAME` prints them). [`corpus`] makes the mail. All random
//! choices come from [`Random`], so a seed repeats a run.
//!
//! Nothing here opens a connection.

mod builtin;
mod choose;
pub mod corpus;
mod file;
pub mod learned;
mod markov;
mod mix;
mod random;
mod step;
mod think;

use crate::corpus::{Shares, Sizes};
pub use builtin::{BUILTIN, MIXES};
pub use choose::{Choice, Chooser};
pub use file::{load, parse};
pub use mix::{Mix, UserKind, load_mix};
pub use random::Random;
pub use step::{Criterion, Mailbox, Messages, Recipient, TransactionStep};
pub use think::Think;

/// The protocol a workload speaks to read mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// IMAP.
    Imap,
    /// POP3.
    Pop3,
}

/// The length of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// One session per virtual user for the whole run; each step list is a transaction inside it.
    Online,
    /// Each transaction connects, does its steps and leaves; its time is that of all.
    Each,
}

/// The extent to which mailboxes are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Every message: UID, flags, which one it is. One virtual user per account.
    Messages,
    /// Mailboxes do not change: a listing must give the same UIDs and flags every time. Accounts
    /// may be shared.
    Static,
}

/// A share of the users who are on a modem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modem {
    /// Bytes a second.
    pub bytes_per_s: u32,
    /// Share of the users, 0 to 1.
    pub share: f64,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Name, unique in the workload.
    pub name: String,
    /// The description for people.
    pub description: String,
    /// The transaction's steps.
    pub steps: Vec<TransactionStep>,
    /// The way of measuring the transaction's cost.
    pub cost: Costing,
    /// Steps before it that are not measured.
    pub before: Vec<TransactionStep>,
    /// Steps after it that are not measured.
    pub after: Vec<TransactionStep>,
    /// Whether the transaction is of mail that comes by LMTP, and by nothing else.
    pub needs_lmtp: bool,
}

/// The way of measuring the server's cost of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costing {
    /// By the whole window, in which users do nothing else.
    Window,
    /// From a server at rest, over each transaction, until the server is at rest again.
    Alone,
}

/// Numbers between which a mailbox, or an account's mailboxes, may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// The lowest number.
    pub min: u32,
    /// The highest number.
    pub max: u32,
}

/// The mail that `populate` puts into each account for this workload.
#[derive(Clone, Debug)]
pub struct Fill {
    /// Folders besides INBOX.
    pub folders: u32,
    /// Messages in INBOX.
    pub inbox: u32,
    /// Messages in each other folder.
    pub per_folder: u32,
    /// The messages' sizes.
    pub sizes: Sizes,
}

/// A workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The workload's name.
    pub name: String,
    /// The description for people.
    pub description: String,
    /// The source of the workload.
    pub after: String,
    /// IMAP or POP3.
    pub protocol: Protocol,
    /// Whether it uses TLS.
    pub tls: bool,
    /// The length of sessions.
    pub session: SessionKind,
    /// The extent to which mailboxes are followed.
    pub track: Track,
    /// Users who read no faster than a modem lets them.
    pub modem: Option<Modem>,
    /// Steps done once after login, before the first transaction; not timed as a transaction.
    pub opening: Vec<TransactionStep>,
    /// Think time between transactions.
    pub think: Think,
    /// The choice of the next transaction.
    pub choice: Choice,
    /// The transactions.
    pub transactions: Vec<Transaction>,
    /// Thresholds for the number of messages in a mailbox.
    pub messages: Between,
    /// Thresholds for the number of mailboxes of an account.
    pub mailboxes: Between,
    /// Sizes of the messages that are sent and appended.
    pub sizes: Sizes,
    /// The shares of special mail, of what is filled in and sent.
    pub shares: Shares,
    /// Mail arriving from outside, per second and virtual user (SMTP or LMTP beside the sessions).
    pub arrivals_per_user_per_s: f64,
    /// The contents that accounts should have.
    pub fill: Fill,
    /// The file, whole.
    pub source: String,
}

impl Workload {
    /// The same users in a hurry: think times are divided by this factor, and arriving mail is
    /// multiplied by it.
    #[must_use]
    pub fn hurried(mut self, speed: f64) -> Self {
        self.think = self.think.faster(speed);
        self.arrivals_per_user_per_s *= speed;
        self
    }

    /// The transactions that users may draw.
    pub fn chosen(&self) -> impl Iterator<Item = &Transaction> {
        let shares = self.choice.shares(self.transactions.len());
        self.transactions.iter().zip(shares).filter(|(_, share)| *share > 0.0).map(|(drawn, _)| drawn)
    }

    /// Whether each transaction is measured alone. A run of several users, or of other transactions
    /// too, cannot know whose work it sees.
    pub fn is_measured_alone(&self) -> bool {
        self.chosen().all(|t| t.cost == Costing::Alone)
    }

    /// Whether users select mailboxes that were not selected before.
    pub fn selects_fresh(&self) -> bool {
        let fresh =
            |step: &TransactionStep| matches!(step, TransactionStep::Select { mailbox: Mailbox::Fresh, .. });
        self.chosen().any(|t| t.steps.iter().any(fresh))
    }

    /// Whether users send to accounts other than their own, so that there must be one.
    pub fn sends_to_others(&self) -> bool {
        let other = |step: &TransactionStep| matches!(step, TransactionStep::Send { to: Recipient::Other });
        self.chosen().any(|t| t.steps.iter().any(other))
    }

    /// Whether any mail is sent: by users, or from outside.
    pub fn sends(&self) -> bool {
        self.arrivals_per_user_per_s > 0.0 || self.submits()
    }

    /// Whether users send mail.
    pub fn submits(&self) -> bool {
        self.transactions.iter().flat_map(|t| &t.steps).any(|s| matches!(s, TransactionStep::Send { .. }))
    }
}
