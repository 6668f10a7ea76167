//! The options of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_imap_client::net::Dialer;
use posthaste_load_measure::{Figures, WatchTarget};
use posthaste_load_workload::{Think, Workload};

use crate::accounts::Accounts;
use crate::target::Target;

/// The way in which mail gets to its recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendBy {
    /// SMTP, LMTP or submission.
    Mail(Target),
    /// APPEND to the recipient's INBOX at this IMAP server, by a session of the recipient: for
    /// servers that take mail neither by SMTP nor by LMTP.
    Append(Target),
}

impl SendBy {
    /// The server that gets the mail.
    pub fn target(&self) -> &Target {
        match self {
            Self::Mail(target) | Self::Append(target) => target,
        }
    }
}

/// Open loop: when tasks are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At random (Poisson), this many per second in all.
    Poisson(f64),
    /// Evenly, this many per second in all: a simulated day's tasks over its length.
    Even(f64),
}

impl Arrivals {
    /// Per second.
    pub fn rate(self) -> f64 {
        match self {
            Self::Poisson(rate) | Self::Even(rate) => rate,
        }
    }
}

/// Several servers of the same accounts, and the errors that are accepted while some of them
/// fail.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Further servers beside [`RunOptions::server`]. Users are spread over all, and go to the next
    /// when theirs fails.
    pub others: Vec<Target>,
    /// Further servers that take mail beside that of [`SendBy::Mail`].
    pub senders: Vec<Target>,
    /// Outages are counted separately and are no errors. A wrong answer is always an error.
    pub tolerate_outages: bool,
}

/// The recipients of mail, besides the users at work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pools {
    /// The number of accounts that receive mail, from the first on; `None` for all. Accounts
    /// beyond those of the users at work only receive.
    pub receiving: Option<u32>,
    /// The part of the mail that users send to another server.
    pub outside: Option<Outside>,
}

/// Mail for another server.
#[derive(Clone, Debug, PartialEq)]
pub struct Outside {
    /// The domain of its recipients.
    pub domain: String,
    /// The share of mail to random recipients that is for the other server, 0 to 1.
    pub share: f64,
    /// The server to which mail for the other server is sent when it arrives. With it the same
    /// share of the mail that arrives is for the other server. Without it all of that mail is for
    /// accounts.
    pub by: Option<Target>,
}

/// All options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// The workload of the users.
    pub workload: Workload,
    /// The server whose mail is read: IMAP or POP3 as the workload needs.
    pub server: Target,
    /// Other servers of the same accounts.
    pub cluster: ClusterOptions,
    /// The way in which users send mail, if they send any.
    pub send: Option<SendBy>,
    /// The way in which mail from outside arrives. Without one it comes as users send it.
    pub deliver: Option<SendBy>,
    /// The accounts.
    pub accounts: Accounts,
    /// The recipients of mail.
    pub pools: Pools,
    /// Virtual users.
    pub clients: u32,
    /// Think time, overriding the workload's.
    pub think: Option<Think>,
    /// Open loop.
    pub arrivals: Option<Arrivals>,
    /// The time over which the users start.
    pub ramp: Duration,
    /// The time after the ramp in which nothing is counted.
    pub warmup: Duration,
    /// The time after the warm-up in which everything is counted.
    pub measure: Duration,
    /// The run ends when each user has done this many transactions: for counts of instructions,
    /// that must be of the same work. `measure` is the longest then.
    pub transactions_each: Option<u32>,
    /// Threads of the generator.
    pub threads: usize,
    /// The seed of all randomness.
    pub seed: u64,
    /// List all messages before the run, and check each of them after it.
    pub audit: bool,
    /// The settings of connections.
    pub dialer: Dialer,
    /// The processes of the server to watch.
    pub watch: WatchTarget,
    /// The place where the server gives its own figures, if the run reads them.
    pub figures: Option<Figures>,
    /// Megahertz by which CPU seconds become megacycles, if the user says.
    pub mhz: Option<f64>,
    /// The name of the server.
    pub label: String,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Flags and their values, for the record.
    pub settings: BTreeMap<String, String>,
    /// Show progress on the terminal.
    pub live: bool,
}

impl RunOptions {
    /// The server of a user who was sent to the `turn`th.
    pub(super) fn server_at(&self, turn: u32) -> &Target {
        one_of(&self.server, &self.cluster.others, turn)
    }

    /// The server that takes mail of the `turn`th sender, where `first` is the first of them. Mail
    /// by another protocol than that of the further ones has one server.
    pub(super) fn sender_at<'a>(&'a self, first: &'a Target, turn: u32) -> &'a Target {
        let senders = self.cluster.senders.as_slice();
        match senders.iter().all(|sender| sender.scheme == first.scheme) {
            true => one_of(first, senders, turn),
            false => first,
        }
    }

    /// Accounts that get mail.
    pub fn receiving(&self) -> u64 {
        let all = self.accounts.count();
        u64::from(self.pools.receiving.map_or(all, |n| n.clamp(1, all)))
    }

    /// The think time: that of the options, else that of the workload.
    pub fn think(&self) -> Think {
        self.think.unwrap_or(self.workload.think)
    }
}

/// The `turn`th of several servers, from the first again after the last.
fn one_of<'a>(first: &'a Target, others: &'a [Target], turn: u32) -> &'a Target {
    match (turn as usize % (others.len() + 1)).checked_sub(1) {
        Some(other) => others.get(other).unwrap_or(first),
        None => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns() {
        let [a, b, c] = ["lmtp://a", "lmtp://b", "lmtp://c"].map(|url| url.parse::<Target>().unwrap());
        let others = [b.clone(), c.clone()];
        let turns = [0, 1, 2, 3].map(|turn| one_of(&a, &others, turn));
        assert_eq!(turns, [&a, &b, &c, &a]);
        assert_eq!(one_of(&a, &[], 7), &a);
    }
}
