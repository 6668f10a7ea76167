//! The command line. Its help is the manual: each command says what it does, what it touches and
//! what it prints.

mod account;
mod report;
mod routing;
mod serve;
mod sieve;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use account::{Account, Format, Quota, Settings};
use report::RETENTION_EXAMPLES;
pub use report::{CostBy, Report, Retention, RetentionTarget};
pub use routing::{Group, Route};
pub use serve::{Listen, Protocol, Serve};
pub use sieve::{Sieve, SievePut, SieveTest};

const AFTER_HELP: &str = "\
Exit status: 0 done, 1 failed, 2 wrong usage.

Start with
  posthaste serve                            a server on this machine, with one account
  posthaste account add ana@example.org      another account (asks for the password)
  posthaste domain add example.org           mail to and from the world, and the DNS records it needs
  posthaste import ~/Mail --account ana@example.org
  posthaste backup /backup/mail              every account, beside the running server
  posthaste config --default                 every setting, documented";

/// A mail server whose cost per message stays flat however large a folder grows.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Configuration file. Without it ./posthaste.toml is read if it is there.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory; wins over the configuration's `data`.
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// `embedded`, or `cassandra://[USER@]HOST[:PORT][,HOST…]/KEYSPACE[?OPTIONS]`; wins over the
    /// configuration's `engine`.
    #[arg(long, global = true, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// `cassandra`, or s3://BUCKET[/PREFIX]: where a cluster keeps bodies of messages. `engine
    /// init` decides it; elsewhere it need not be said. Wins over the configuration's `bodies`.
    #[arg(long, global = true, value_name = "PLACE")]
    pub bodies: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    ///
    /// Needs no configuration: the first start makes the data directory, a self-signed certificate
    /// and one account, and prints that account's name and password once. When every listener
    /// accepts, one line `ready` names each address. SIGTERM or Ctrl-C lets commands in flight
    /// finish; SIGHUP reads configuration and certificate again.
    Serve(Serve),
    /// Add, list, show, change and remove accounts, while the server runs or not.
    #[command(subcommand)]
    Account(Account),
    /// Set up the domains that this server sends mail for: keys, and DNS records to publish.
    ///
    /// `add` is all that is needed to send mail to other domains: from then on users may, and each
    /// message that they send from the domain is signed (DKIM). The server may run meanwhile.
    #[command(subcommand)]
    Domain(Domain),
    /// Addresses that stand for others: groups, and what takes the rest of a domain's mail.
    ///
    /// Each member gets one copy, whatever ways lead to it. A member elsewhere gets the message
    /// through the queue.
    #[command(subcommand)]
    Group(Group),
    /// Say where mail for an address goes, and why: account, alias, group, forward, another host.
    ///
    /// It asks what delivery asks, and sends nothing. Exit status 1 if mail for the address is
    /// refused.
    Route(Route),
    /// Bring mail in from mbox files, Maildirs, .eml files, or folders of them.
    ///
    /// Flags and dates come along. The server may run meanwhile: its clients see the messages
    /// arrive. What cannot be read is named, counted and passed over; the rest is imported.
    ///
    /// The same command can be run again: after it was cut off, or when the source has more mail
    /// than before. The store remembers for each mailbox which messages were imported into it, and
    /// how often. A message is the same if its bytes are; flags and dates do not count. So a source
    /// that holds a message twice is imported twice, and not three times by a second run. A message
    /// that was moved or deleted since does not come back. To import it all once more, say --again,
    /// or delete the mailbox first. On a cluster, a run after one that was cut off waits 30 seconds
    /// first, as that one may still be running elsewhere.
    Import(Import),
    /// Look at mail that waits to be sent to other domains, and decide about it.
    ///
    /// The server may run or not. A running one acts within two seconds.
    #[command(subcommand)]
    Queue(Queue),
    /// Keep accounts' Sieve scripts (RFC 5228 and extensions), and try scripts beforehand.
    ///
    /// The active script of an account runs for each message that comes for it by LMTP, SMTP or
    /// submission. It files, refuses, sends on or answers the message. What `list`, `put` and the
    /// others change counts for the next message, also if a server runs. A script that fails keeps
    /// the message in INBOX, and the log says why. Without an active script mail goes to INBOX.
    #[command(subcommand)]
    Sieve(Sieve),
    /// What is large, over all accounts.
    #[command(subcommand)]
    Report(Report),
    /// Let old mail leave folders by rule: into the trash, into an archive by month, or for good.
    ///
    /// Without --apply this is a dry run: it says how many messages each rule would choose, and
    /// changes nothing. Without --mailbox the rules of the configuration are used (`[retention]`).
    /// The server may run or not; it applies the rules by itself if `retention.every` is set. A
    /// message is moved as by MOVE: it is never in both folders, nor in none. A run that was cut
    /// off is run again.
    #[command(after_long_help = RETENTION_EXAMPLES)]
    Retention(Retention),
    /// Write an account's mail out as mbox files or Maildirs.
    Export(Export),
    /// Prove that everything in the store fits together.
    ///
    /// Reads every record and checks it against its checksum and its fellows. The server may run
    /// meanwhile.
    Check(Check),
    /// Copy accounts and all their mail from one store to another.
    ///
    /// UIDs, UIDVALIDITY, flags, dates, mod-sequences, subscriptions, passwords, settings and
    /// aliases are kept. What is there already is not copied again: a run that was cut off can be
    /// started again. Run it once beside the server, and once more after the server has stopped. At
    /// the end both stores are compared; exit status 0 means that they hold the same. Accounts that
    /// are only in --to are left alone. Nobody may change the copied accounts in --to meanwhile.
    CopyStore(CopyStore),
    /// Back up accounts and all their mail into a directory, beside the running server.
    ///
    /// The first run copies everything, each later one what has changed since. A run that was cut
    /// off is run again. At the end every message is read back from the backup and compared with
    /// the store; exit status 0 means that they are the same.
    ///
    /// From the embedded engine a run takes all accounts as they were at one instant: whatever was
    /// acknowledged before the command was started, and nothing that came later than the instant.
    /// From a cluster it takes each mailbox as it was at one moment of the run.
    ///
    /// The directory is readable by its owner alone. It is a store like any other: `posthaste
    /// account list --data DIR` and `posthaste check --data DIR` look into it. It keeps accounts
    /// that were removed from the store. Configuration and certificates are files of their own and
    /// are not in it. While a run copies from the embedded engine, the index grows by what is
    /// changed meanwhile, and one file is open for each pack of 256 MiB: `ulimit -n` must be above
    /// their number.
    Backup(Backup),
    /// Bring accounts and all their mail back from a backup, beside the running server.
    ///
    /// UIDs, UIDVALIDITY, flags, dates, mod-sequences, subscriptions, passwords, settings and
    /// aliases are kept. An account appears in the store when all its mail is there and was
    /// compared with the backup: nobody sees half of it. A restore that was cut off is run again
    /// and goes on. Nothing that is in the store is written over: an account of the same name is
    /// refused. It can be restored beside the other one with --as.
    ///
    /// Without --account all accounts of the last backup come back; a store that is missing is
    /// made. Mailboxes get new MAILBOXIDs if the store knew the account before.
    Restore(Restore),
    /// Prepare a cluster for mail.
    #[command(subcommand)]
    Engine(Engine),
    /// Show the configuration.
    Config(Config),
}

#[derive(Debug, Subcommand)]
pub enum Domain {
    /// Make a domain's keys (RSA and Ed25519), let users send from it, and print the DNS records to
    /// publish, as lines of a zone file.
    ///
    /// The private keys are kept in the store, go with its backups, and are never printed.
    Add {
        /// The domain, such as example.org.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the domains, a line each, with the selectors of their keys.
    List,
    /// Print the DNS records again.
    Show {
        /// The domain.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Ask DNS for each record, and say what is right, missing or different.
    ///
    /// Exit status 1 if a record is missing or wrong without which mail fails at others.
    Check {
        /// The domain.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Make new keys, and print their DNS records. The old keys sign until --finish.
    Rotate {
        /// The domain.
        #[arg(value_name = "NAME")]
        name: String,
        /// Let the new keys sign, if their records are published, and remove the old private keys.
        #[arg(long)]
        finish: bool,
        /// With --finish: do not look whether the records are published.
        #[arg(long, requires = "finish")]
        force: bool,
    },
    /// Remove a domain's keys: its mail is no longer signed. Its accounts stay.
    Remove {
        /// The domain.
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask for the name again.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Queue {
    /// List what waits, a line each: number, age, size, sender, domain, recipients, next try,
    /// reason.
    List {
        /// As JSON, a line each.
        #[arg(long)]
        json: bool,
    },
    /// Show one item: what `list` shows, each recipient, and the message's header.
    Show {
        /// Its number.
        #[arg(value_name = "NUMBER")]
        item: u32,
    },
    /// Try an item now, and all that waits for the same domain.
    Retry {
        /// Its number.
        #[arg(value_name = "NUMBER")]
        item: u32,
    },
    /// Do not try an item until it is released.
    Hold {
        /// Its number.
        #[arg(value_name = "NUMBER")]
        item: u32,
    },
    /// Try a held item again, at once.
    Release {
        /// Its number.
        #[arg(value_name = "NUMBER")]
        item: u32,
    },
    /// Remove an item. Nobody gets it, and its sender gets no report.
    Drop {
        /// Its number.
        #[arg(value_name = "NUMBER")]
        item: u32,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Engine {
    /// Make the keyspace and tables that --engine names, where they are missing.
    Init {
        /// Copies of everything in each data centre; counts for a keyspace that is new.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
        replicas: u32,
    },
    /// Take the tables that --engine names to this program's version, before its servers are
    /// started on them.
    ///
    /// Servers of the version before may run meanwhile. Tables of a later version are refused and
    /// left alone.
    Upgrade,
}

#[derive(Debug, Args)]
pub struct Import {
    /// An mbox file, a Maildir, an .eml file, or a folder of such.
    #[arg(value_name = "FILE-OR-DIR", required = true)]
    pub sources: Vec<PathBuf>,
    /// Whose mail it becomes.
    #[arg(long, value_name = "NAME")]
    pub account: String,
    /// Where to put it; folders found below the source become mailboxes below this one. Made if
    /// missing.
    #[arg(long, value_name = "NAME")]
    pub mailbox: Option<String>,
    /// Import also what was imported before: each message of the source comes once more.
    #[arg(long)]
    pub again: bool,
}

#[derive(Debug, Args)]
pub struct Export {
    /// Folder to write to, or with --mailbox the very file or Maildir. Nothing that exists is
    /// written over.
    #[arg(value_name = "FILE-OR-DIR")]
    pub target: PathBuf,
    /// Whose mail.
    #[arg(long, value_name = "NAME")]
    pub account: String,
    /// Only this mailbox.
    #[arg(long, value_name = "NAME")]
    pub mailbox: Option<String>,
    /// How to write it.
    #[arg(long, value_enum, default_value = "mbox")]
    pub format: ExportFormat,
}

/// What `export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One file per mailbox, `From ` lines quoted (mboxrd).
    Mbox,
    /// One directory per mailbox, flags in file names.
    Maildir,
}

#[derive(Debug, Args)]
pub struct CopyStore {
    /// The store to copy: a data directory, or cassandra://…
    #[arg(long, value_name = "STORE")]
    pub from: String,
    /// The store to copy into: a data directory (made if missing), or cassandra://… (made by
    /// `posthaste engine init`).
    #[arg(long, value_name = "STORE")]
    pub to: String,
    /// Only this account; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub account: Vec<String>,
    /// Compare everything but the octets of messages at the end.
    #[arg(long)]
    pub skip_bodies: bool,
}

#[derive(Debug, Args)]
pub struct Backup {
    /// The directory of the backup; made if it is missing.
    #[arg(value_name = "DIR")]
    pub target: PathBuf,
    /// Only this account; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub account: Vec<String>,
    /// Compare everything but the octets of messages at the end.
    #[arg(long)]
    pub skip_bodies: bool,
}

#[derive(Debug, Args)]
pub struct Restore {
    /// The directory of the backup. Any data directory will do.
    #[arg(value_name = "DIR")]
    pub backup: PathBuf,
    /// Only this account; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub account: Vec<String>,
    /// Give the account this name. Its aliases stay behind.
    #[arg(long = "as", value_name = "NAME", requires = "account")]
    pub name: Option<String>,
    /// Restore also from a backup whose last run was cut off: each mailbox is whole, but some are
    /// newer than others.
    #[arg(long)]
    pub incomplete: bool,
}

#[derive(Debug, Args)]
pub struct Check {
    /// Make the index again from the packs. The server and all commands must have ended.
    ///
    /// The new index takes the place of the old one only if nothing was damaged. The old one is
    /// kept as `index.old`.
    #[arg(long)]
    pub rebuild: bool,
    /// With --rebuild: put the new index in place although something was damaged. Read first what
    /// it would lose.
    #[arg(long, requires = "rebuild")]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Config {
    /// Every key with its documentation and default, as a file to start from.
    #[arg(long)]
    pub default: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }
}
