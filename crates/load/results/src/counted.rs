//! The server's own counts in the window. They are the sums of its `/cost` and `/metrics` at the
//! end of the window, less those at its start.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The server's own figures of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The place where the figures were read.
    pub source: String,
    /// Between the two readings.
    pub seconds: f64,
    /// Accounts that gave commands.
    pub accounts: u64,
    /// The figures by protocol, command and class of folder.
    pub commands: Vec<CountedCommand>,
    /// Commands and CPU by client program, the costliest first.
    pub clients: Vec<CountedClient>,
    /// CPU of the server's threads by their role; empty where the server does not report it.
    pub threads: Vec<CountedThread>,
}

/// Sums of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// CPU time.
    pub cpu_ns: u64,
    /// Commands that ended.
    pub commands: u64,
    /// Octets from clients.
    pub received: u64,
    /// Octets to clients.
    pub sent: u64,
    /// Changes of mailboxes.
    pub commits: u64,
    /// Reads of messages' bytes from the store.
    pub body_reads: u64,
    /// Rows and summaries of messages that were read from the store.
    pub record_reads: u64,
    /// Records of accounts and aliases that were looked up.
    pub directory_reads: u64,
    /// Conversions of rich mail.
    pub conversions: u64,
}

impl Amounts {
    /// The amounts less earlier ones. A server that started again meanwhile counts from zero.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let less = |now: u64, then: u64| if now >= then { now - then } else { now };
        Self {
            cpu_ns: less(self.cpu_ns, earlier.cpu_ns),
            commands: less(self.commands, earlier.commands),
            received: less(self.received, earlier.received),
            sent: less(self.sent, earlier.sent),
            commits: less(self.commits, earlier.commits),
            body_reads: less(self.body_reads, earlier.body_reads),
            record_reads: less(self.record_reads, earlier.record_reads),
            directory_reads: less(self.directory_reads, earlier.directory_reads),
            conversions: less(self.conversions, earlier.conversions),
        }
    }

    /// Reads of bodies and changes of mailboxes: the calls of the server to its store.
    pub fn store_operations(&self) -> u64 {
        self.body_reads + self.commits
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, more: Self) {
        self.cpu_ns += more.cpu_ns;
        self.commands += more.commands;
        self.received += more.received;
        self.sent += more.sent;
        self.commits += more.commits;
        self.body_reads += more.body_reads;
        self.record_reads += more.record_reads;
        self.directory_reads += more.directory_reads;
        self.conversions += more.conversions;
    }
}

/// The counts of one command in folders of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedCommand {
    /// `imap`, `pop3`, `lmtp`, …
    pub protocol: String,
    /// The command's name, or `session` for what belongs to no command, or `background`.
    pub command: String,
    /// The class of the selected folder: the most messages of it, `none`, or `+Inf`.
    pub folder: String,
    /// The sums.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// The counts of a client program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedClient {
    /// The client program's name by ID.
    pub client: String,
    /// The sums.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// CPU of the threads of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedThread {
    /// The role.
    pub role: String,
    /// CPU time.
    pub cpu_s: f64,
}

impl Counted {
    /// The sum of all commands, work in the background included.
    pub fn total(&self) -> Amounts {
        let mut total = Amounts::default();
        self.commands.iter().for_each(|c| total += c.amounts);
        total
    }

    /// The rate per second and user.
    pub fn per_user(&self, count: u64, users: u32) -> Option<f64> {
        (self.seconds > 0.0 && users > 0).then(|| count as f64 / self.seconds / f64::from(users))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_difference_and_a_new_start_counts_from_zero() {
        let then = Amounts { commands: 10, sent: 500, record_reads: 70, ..Amounts::default() };
        let now = Amounts { commands: 12, sent: 40, commits: 3, body_reads: 2, ..then };
        let mut window = Amounts { record_reads: 100, ..now }.since(then);
        assert_eq!((window.commands, window.sent, window.store_operations()), (2, 40, 5));
        assert_eq!(window.record_reads, 30);
        let twice = window;
        window += twice;
        assert_eq!((window.body_reads, window.record_reads), (4, 60));
    }

    #[test]
    fn figures_of_each_user() {
        let counted = Counted { seconds: 10.0, ..Counted::default() };
        assert_eq!(counted.per_user(200, 4), Some(5.0));
        assert_eq!(counted.per_user(200, 0), None);
        assert_eq!(Counted::default().per_user(200, 4), None);
    }
}
