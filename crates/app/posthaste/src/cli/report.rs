//! `posthaste report` and `posthaste retention`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum Report {
    /// List the folders with the most messages, a line each: messages, size, cost, account, folder.
    ///
    /// The cost comes from the server that runs on this machine with this data directory: the CPU
    /// time of the folder's owner since the start of that server, and what smaller folders would
    /// save. The INBOX has a cost of its own. Other folders of one account and size class are
    /// counted together. Without a server, the list is without costs.
    Folders {
        /// Only folders of this account.
        #[arg(long)]
        account: Option<String>,
        /// The number of lines.
        #[arg(long, default_value_t = 20)]
        top: usize,
        /// Assume that larger folders are reduced to this size.
        #[arg(long, value_name = "MESSAGES", default_value_t = 10_000)]
        cut: u32,
        /// As JSON, a line each.
        #[arg(long)]
        json: bool,
    },
    /// Show the cost of the running server since its start, by command, protocol, folder size,
    /// role, account or client: CPU time, commands, octets, changes of mailboxes, messages read.
    ///
    /// The server always counts. The figures come from the socket `metrics.sock` in its data
    /// directory, so run this on the same machine. CPU time is that of sessions, the queue and
    /// maintenance. It excludes the thread that writes to the store, which works for all of them:
    /// `--by role` shows the time of all threads.
    #[command(after_long_help = COST_EXAMPLES)]
    Cost {
        /// What to sum by.
        #[arg(long, value_enum, default_value_t = CostBy::Command, conflicts_with = "account")]
        by: CostBy,
        /// The number of lines, the highest cost first.
        #[arg(long, default_value_t = 20)]
        top: usize,
        /// Show one account: its folders by size, and what a smaller INBOX or smaller folders would
        /// save.
        #[arg(long)]
        account: Option<String>,
        /// With --account: assume that larger folders are reduced to this size.
        #[arg(long, value_name = "MESSAGES", default_value_t = 10_000, requires = "account")]
        cut: u32,
        /// As JSON, a line each; CPU time in nanoseconds.
        #[arg(long)]
        json: bool,
    },
}

pub(super) const RETENTION_EXAMPLES: &str = "Examples:
  posthaste retention                          shows what the configured rules would do
  posthaste retention --apply                  applies them
  posthaste retention --mailbox INBOX --older-than '1 year' --to archive --account ana@example.org
                                               shows what archiving one INBOX would move
  posthaste retention --mailbox 'Lists/*' --keep-newest 10000 --to trash --apply";

#[derive(Debug, Args)]
pub struct Retention {
    /// Only this account.
    #[arg(long)]
    pub account: Option<String>,
    /// Apply one rule instead of the configured ones, to this folder, pattern (`Lists/*`) or use
    /// (`'\Trash'`).
    #[arg(long, requires = "to")]
    pub mailbox: Option<String>,
    /// Select messages older than this, such as `90 days`. In the trash and in junk, age counts
    /// from the time they came there; elsewhere, from their internal date.
    #[arg(long, value_name = "TIME", requires = "mailbox")]
    pub older_than: Option<humantime::Duration>,
    /// Select all but this many newest messages. With --older-than, both must hold.
    #[arg(long, value_name = "MESSAGES", requires = "mailbox")]
    pub keep_newest: Option<u32>,
    /// The target of the selected messages.
    #[arg(long, value_enum, requires = "mailbox")]
    pub to: Option<RetentionTarget>,
    /// Select flagged messages, too. By default they stay.
    #[arg(long, requires = "mailbox")]
    pub flagged_too: bool,
    /// Apply the rules. Without this, nothing is changed.
    #[arg(long)]
    pub apply: bool,
    /// As JSON, a line for each folder and target.
    #[arg(long)]
    pub json: bool,
}

/// Where `retention` moves mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RetentionTarget {
    /// The folder with the use `\Trash`.
    Trash,
    /// A folder for the month of its internal date, such as Archive/2026-11.
    Archive,
    /// Nowhere: they are expunged.
    Nowhere,
}

const COST_EXAMPLES: &str = "Examples:
  posthaste report cost                      the cost of each command, by the size of the folder
  posthaste report cost --by account --top 5 the five most expensive accounts
  posthaste report cost --by client          the cost of each mail program
  posthaste report cost --by folder          the cost in folders of each size
  posthaste report cost --account ana@example.org --cut 5000
                                             the cost of Ana's INBOX and folders, and with 5,000
                                             messages in each";

/// The keys by which `report cost` sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CostBy {
    /// Protocol, command and folder size.
    Command,
    /// Protocol.
    Protocol,
    /// Size of the selected folder.
    Folder,
    /// Role of the threads. The sum includes the thread that writes to the store.
    Role,
    /// Account.
    Account,
    /// Client program, by the name it gives in ID (RFC 2971).
    Client,
}
