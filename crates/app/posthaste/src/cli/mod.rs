//! The command line. Its help is the manual: each command describes what it does, changes and
//! prints.

mod account;
mod acl;
mod credentials;
mod own_limits;
mod report;
mod routing;
mod serve;
mod sieve;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

pub use account::{Account, AccountFormat, Format, Settings};
pub use acl::Acl;
pub use credentials::{AppPasswords, Certificates, Scope};
use report::RETENTION_EXAMPLES;
pub use report::{CostBy, Report, Retention, RetentionTarget};
pub use routing::{Group, Route};
pub use serve::{Listen, Protocol, Serve};
pub use sieve::{Sieve, SievePut, SieveTest};

use crate::cluster::VERSION;

const AFTER_HELP: &str = "\
Exit status: 0 done, 1 failed, 2 wrong usage.

Start with
  posthaste serve                            a server on this machine, with one account
  posthaste account add ana@example.org      another account (asks for the password)
  posthaste domain add example.org           mail to and from other domains; prints DNS records
  posthaste import ~/Mail --account ana@example.org
  posthaste backup /backup/mail              every account; the server may run meanwhile
  posthaste config --default                 every setting, documented";

/// A mail server whose cost per message stays flat however large a folder grows.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version = VERSION, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Configuration file. The default is ./posthaste.toml, if it exists.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory; overrides the configuration's `data`.
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// `embedded`, or `cassandra://[USER@]HOST[:PORT][,HOST…]/KEYSPACE[?OPTIONS]`; overrides the
    /// configuration's `engine`.
    #[arg(long, global = true, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// `cassandra`, or s3://BUCKET[/PREFIX]: where a cluster stores bodies of messages. Only
    /// `engine init` needs it. Overrides the configuration's `bodies`.
    #[arg(long, global = true, value_name = "PLACE")]
    pub bodies: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    ///
    /// Needs no configuration. The first start creates the data directory, a self-signed
    /// certificate and one account, and prints that account's name and password once. When every
    /// listener accepts connections, one line `ready` names each address. SIGTERM or Ctrl-C lets
    /// running commands finish. SIGHUP reads configuration and certificate again.
    Serve(Serve),
    /// Add, list, show, change and remove accounts. The server may run meanwhile.
    #[command(subcommand)]
    Account(Account),
    /// Share mailboxes: who may do what in a mailbox of another account (RFC 4314).
    ///
    /// Other users see the mailbox as `Other Users/OWNER/MAILBOX`, or as `Shared/OWNER/MAILBOX`
    /// if the account was created with --shared. Users can also share their own mailboxes by
    /// IMAP. A change applies at once, also to open sessions.
    #[command(subcommand)]
    Acl(Acl),
    /// Set up the domains that this server sends mail for: keys, and DNS records to publish.
    ///
    /// After `add`, users may send mail to other domains, and each message that they send from the
    /// domain is signed (DKIM). The server may run meanwhile.
    #[command(subcommand)]
    Domain(Domain),
    /// Set up groups: addresses with members. A group may also get all mail of a domain for other
    /// addresses.
    ///
    /// Each member gets one copy, even if it is in several groups. Members on other servers get the
    /// message through the queue.
    #[command(subcommand)]
    Group(Group),
    /// Show where mail for an address goes, and why: account, alias, group, forward, another host.
    ///
    /// Takes the same steps as delivery, but sends nothing. Exit status 1 if mail for the address
    /// is refused.
    Route(Route),
    /// Import mail from mbox files, Maildirs, .eml files, or folders of them.
    ///
    /// Flags and dates are imported, too. The server may run meanwhile: its clients see the
    /// messages arrive. Unreadable files are named, counted and skipped.
    ///
    /// Links in the source are named and skipped. If root runs the command, it also refuses a path
    /// that leads through a link which another user may have made. Then name the target itself.
    ///
    /// The command can be run again, after an interruption or when the source has new mail. The
    /// store records for each mailbox which messages were imported into it, and how often. Messages
    /// are the same if their bytes are the same; flags and dates do not count. A message that the
    /// source holds twice is imported twice, but a second run does not add a third one. A message
    /// that was moved or deleted since then does not come back. To import everything again, use
    /// --again, or delete the mailbox first. On a cluster, a run after an interrupted one first
    /// waits 30 seconds, as the other may still be running.
    Import(Import),
    /// Convert stored mail to another format. Clients see the same before and after.
    ///
    /// `account set --format` decides how new mail is stored; this command converts stored mail.
    /// The server may run meanwhile. Messages keep their UIDs, with two exceptions. The first is
    /// rich mail that clients see as `winmail.dat`: a client appended it, or an earlier version
    /// stored it. The second is rich mail that another version converted differently. Each of those
    /// is replaced by a new message, which clients see as MIME, with the same flags and date. On a
    /// cluster, long messages stay as they are, unless --new-uids is given. After an
    /// interruption, run the command again: nothing is lost. The command first examines a random
    /// sample and estimates the time. With --items, it computes the data that the server did not
    /// compute at delivery. If there is too little memory to convert a message
    /// (`limits.summary_bytes`), the message stays as it is and is counted. Exit status 1 if a
    /// message cannot be converted; 2 if the engine cannot store another form; 3 if messages stay
    /// because they need --lossy (they are named), also with --dry-run; 130 and 143 if SIGINT and
    /// SIGTERM end it.
    Convert(Convert),
    /// Show and change mail that waits to be sent to other domains.
    ///
    /// The server may run meanwhile; it acts within two seconds.
    #[command(subcommand)]
    Queue(Queue),
    /// Manage accounts' Sieve scripts (RFC 5228 and extensions), and test scripts.
    ///
    /// The active script of an account runs for each message to it by LMTP, SMTP or submission. It
    /// files, refuses, redirects or answers the message. Changes apply from the next message on,
    /// also if a server runs. If a script fails, the message is kept in INBOX and the log names the
    /// reason. Without an active script, mail goes to INBOX.
    #[command(subcommand)]
    Sieve(Sieve),
    /// Show the largest folders, and what commands and accounts cost.
    #[command(subcommand)]
    Report(Report),
    /// Remove old mail from folders by rule: move it to the trash or an archive, or delete it.
    ///
    /// Without --apply this is a dry run: it shows how many messages each rule would select, and
    /// changes nothing. Without --mailbox, the rules of the configuration apply (`[retention]`).
    /// The server may run meanwhile; it applies the rules itself if `retention.every` is set. A
    /// message is moved as by MOVE: it is always in exactly one of the folders. On a cluster, an
    /// interruption may leave it in both. After an interruption, run the command again.
    #[command(after_long_help = RETENTION_EXAMPLES)]
    Retention(Retention),
    /// Export an account's mail as mbox files or Maildirs.
    Export(Export),
    /// Verify the whole store.
    ///
    /// Reads every record, and compares it with its checksum and with the records that refer to it.
    /// Prints the size of the search index. The server may run meanwhile.
    Check(Check),
    /// Copy accounts and all their mail from one store to another.
    ///
    /// UIDs, UIDVALIDITY, flags, dates, mod-sequences, subscriptions, passwords, settings and
    /// aliases are kept. Data that was copied before is not copied again, so an interrupted run can
    /// be repeated. Run it once while the server runs, and again after the server has stopped. At
    /// the end both stores are compared; exit status 0 means that they are equal. Accounts that are
    /// only in --to stay unchanged. Nobody may change the copied accounts in --to meanwhile.
    CopyStore(CopyStore),
    /// Back up accounts and all their mail into a directory. The server may run meanwhile.
    ///
    /// The first run copies everything, each later run only changes. After an interruption, run it
    /// again. At the end every message is read back from the backup and compared with the store;
    /// exit status 0 means that they are equal.
    ///
    /// With the embedded engine, a run copies all accounts as of one instant after the start of the
    /// command. It contains everything acknowledged before, and nothing later. With a cluster, it
    /// copies each mailbox as of one moment of the run.
    ///
    /// Only its owner can read the directory. It is a store: `posthaste account list --data DIR`
    /// and `posthaste check --data DIR` read it. It keeps accounts that were removed from the
    /// original store. It does not contain configuration and certificates. While a run copies from
    /// the embedded engine, the index grows with concurrent changes. One file is open for each pack
    /// of 256 MiB, so `ulimit -n` must be above their number.
    Backup(Backup),
    /// Restore accounts and all their mail from a backup. The server may run meanwhile.
    ///
    /// UIDs, UIDVALIDITY, flags, dates, mod-sequences, subscriptions, passwords, settings and
    /// aliases are kept. An account appears in the store once all its mail is there and was
    /// compared with the backup. After an interruption, run the command again; it continues.
    /// Nothing in the store is overwritten: if the account exists, the command refuses it. Use --as
    /// to restore it under another name.
    ///
    /// Without --account, all accounts of the last backup are restored, and a missing store is
    /// created. If the store had the account before, its mailboxes get new MAILBOXIDs.
    Restore(Restore),
    /// Prepare a cluster for mail.
    #[command(subcommand)]
    Engine(Engine),
    /// Show the configuration.
    Config(Config),
}

#[derive(Debug, Subcommand)]
pub enum Domain {
    /// Create a domain's keys (RSA and Ed25519), let users send from it, and print the DNS
    /// records to publish, as lines of a zone file.
    ///
    /// The private keys are in the store and its backups, and are never printed.
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
    /// Look up each record in DNS, and show which are right, missing or different.
    ///
    /// Exit status 1 if mail would fail because a record is missing or wrong.
    Check {
        /// The domain.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Create new keys, and print their DNS records. The old keys sign until --finish.
    Rotate {
        /// The domain.
        #[arg(value_name = "NAME")]
        name: String,
        /// Sign with the new keys, if their records are published, and remove the old private keys.
        #[arg(long)]
        finish: bool,
        /// With --finish: do not verify that the records are published.
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

#[derive(Debug, Clone, Subcommand)]
pub enum Queue {
    /// List waiting items, a line each: number, age, size, sender, domain, recipients, next try,
    /// reason.
    List {
        /// As JSON, a line each.
        #[arg(long)]
        json: bool,
    },
    /// Show one item: what `list` shows, each recipient, and the message's header.
    Show {
        /// The item's number.
        #[arg(value_name = "NUMBER")]
        item: u32,
    },
    /// Try items now, and all other items for the same domains.
    Retry(QueueItems),
    /// Do not try items until they are released.
    Hold(QueueItems),
    /// Try held items again, at once.
    Release(QueueItems),
    /// Remove items. They are not delivered, and their senders get no report.
    Drop(QueueItems),
}

/// Items of the queue.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct QueueItems {
    /// Numbers of items, as `queue list` shows them.
    #[arg(value_name = "NUMBER")]
    pub items: Vec<u32>,
    /// All items for a domain, as `queue list` shows it.
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// All items.
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Engine {
    /// Create the keyspace and tables that --engine names, if they are missing.
    Init {
        /// Replicas in each data centre, for a new keyspace.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
        replicas: u32,
    },
    /// Upgrade the tables that --engine names to this program's version. Do this before you start
    /// its servers.
    ///
    /// Servers of the previous version may run meanwhile. Tables of a later version are refused and
    /// not changed.
    Upgrade,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("work").args(["to", "items"]).required(true).multiple(true)))]
pub struct Convert {
    /// The accounts.
    #[arg(required = true, value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
    /// One mailbox; without it all of them.
    #[arg(long)]
    pub mailbox: Option<String>,
    /// The format.
    #[arg(long, value_enum)]
    pub to: Option<Format>,
    /// Compute the items that rich mail lacks, and store them. Items are the data that clients
    /// fetch without reading the message. Without --to, messages keep their format. See
    /// `store.precompute`.
    #[arg(long)]
    pub items: bool,
    /// Examine every message and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The largest number of messages a second.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Discard rich originals. Without this, a message whose original would be lost stays as it is.
    /// An original that messages of other accounts share is kept with the MIME.
    #[arg(long, requires = "to")]
    pub lossy: bool,
    /// Make a new message, with a new UID, where the engine cannot change the form of the stored
    /// one (a long message on a cluster). Clients download it again.
    #[arg(long, requires = "to")]
    pub new_uids: bool,
}

#[derive(Debug, Args)]
pub struct Import {
    /// An mbox file, a Maildir, an .eml file, or a folder of these.
    #[arg(value_name = "FILE-OR-DIR", required = true)]
    pub sources: Vec<PathBuf>,
    /// The account that gets the mail.
    #[arg(long, value_name = "NAME")]
    pub account: String,
    /// The mailbox; created if missing. Folders below the source become mailboxes below this one.
    #[arg(long, value_name = "NAME")]
    pub mailbox: Option<String>,
    /// Import every message of the source, even if it was imported before.
    #[arg(long)]
    pub again: bool,
    /// When to make the items of rich mail that is stored as sent. Items are the data that clients
    /// fetch without reading the message. The default is `store.precompute`.
    #[arg(long, value_enum)]
    pub precompute: Option<Precompute>,
}

/// When the items of imported rich mail are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Precompute {
    /// By this command
    Delivery,
    /// When a client first needs them, or by `convert --items`. The server's own setting says
    /// whether it keeps those that it makes for a client
    FirstFetch,
    /// The same as first-fetch: this command makes no items
    Never,
}

#[derive(Debug, Args)]
pub struct Export {
    /// The folder to write to; with --mailbox, the file or Maildir itself. Nothing is overwritten.
    #[arg(value_name = "FILE-OR-DIR")]
    pub target: PathBuf,
    /// The account.
    #[arg(long, value_name = "NAME")]
    pub account: String,
    /// Only this mailbox.
    #[arg(long, value_name = "NAME")]
    pub mailbox: Option<String>,
    /// The format.
    #[arg(long, value_enum, default_value = "mbox")]
    pub format: ExportFormat,
}

/// The forms that `export` writes.
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
    /// The store to copy into: a data directory (created if missing), or cassandra://… (created
    /// by `posthaste engine init`).
    #[arg(long, value_name = "STORE")]
    pub to: String,
    /// Only this account; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub account: Vec<String>,
    /// At the end, compare everything except the bodies of messages.
    #[arg(long)]
    pub skip_bodies: bool,
}

#[derive(Debug, Args)]
pub struct Backup {
    /// The directory of the backup; created if it is missing.
    #[arg(value_name = "DIR")]
    pub target: PathBuf,
    /// Only this account; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub account: Vec<String>,
    /// At the end, compare everything except the bodies of messages.
    #[arg(long)]
    pub skip_bodies: bool,
}

#[derive(Debug, Args)]
pub struct Restore {
    /// The directory of the backup, or any other data directory.
    #[arg(value_name = "DIR")]
    pub backup: PathBuf,
    /// Only this account; repeat for more. Nothing else of the backup is used: no domains, groups,
    /// keys, secrets or waiting mail, and no right over other accounts. An alias comes back only if
    /// nobody else gets mail for its address. Others are named, with the command that adds them.
    #[arg(long, value_name = "NAME")]
    pub account: Vec<String>,
    /// Restore the account under this name, without its aliases.
    #[arg(long = "as", value_name = "NAME", requires = "account")]
    pub name: Option<String>,
    /// Keep the mailboxes' UIDVALIDITYs, so that clients keep what they have stored.
    ///
    /// Use it only if no mail arrived after the backup was made. Messages that arrived later are
    /// lost, and new messages get their UIDs: a client would show the wrong message. Without this
    /// option each mailbox gets a new UIDVALIDITY, and clients fetch their mail again.
    #[arg(long)]
    pub keep_uidvalidity: bool,
    /// Also restore from a backup whose last run was interrupted. Each mailbox is complete, but
    /// some are newer than others.
    #[arg(long)]
    pub incomplete: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("for_account").args(["reindex", "recover"])))]
pub struct Check {
    /// Rebuild the index from the packs. The server and all commands must have ended.
    ///
    /// The new index replaces the old one only if nothing is damaged. The old index is kept as
    /// `index.old`.
    #[arg(long)]
    pub rebuild: bool,
    /// With --rebuild: replace the index even if something is damaged. Run it without --force
    /// first, and read what would be lost.
    #[arg(long, requires = "rebuild")]
    pub force: bool,
    /// Rebuild the search index: remove its stored segments, and read the texts of all messages.
    ///
    /// The server may run meanwhile; until the index is complete, searches read the messages. Use
    /// it if an earlier version created the store without a search index, or to find out whether
    /// the index is at fault. It also works on a cluster.
    #[arg(long, conflicts_with = "rebuild")]
    pub reindex: bool,
    /// Add a mailbox that no account's list names to the list of --account. Its name is
    /// `Recovered-1` (or the next free number). It gets a new UIDVALIDITY.
    ///
    /// `check` and `check --rebuild` name such mailboxes: a list commit was damaged, and no index
    /// had it. The mailbox may belong to any account: look at the mail before you give users
    /// access to it.
    #[arg(long, requires = "account", conflicts_with_all = ["rebuild", "reindex"], value_name = "MAILBOX-ID")]
    pub recover: Option<String>,
    /// Let maintenance remove data from the packs that a forced rebuild could not use.
    ///
    /// After a forced rebuild, deletions free no space, because such data may still be recovered in
    /// another way. Use this option once nothing more can be recovered, or after you restored a
    /// backup. A pack with a damaged record is still kept. The server may run meanwhile.
    #[arg(long, conflicts_with_all = ["rebuild", "reindex", "recover"])]
    pub accept_loss: bool,
    /// With --reindex: only the mailboxes of this account. With --recover: who gets the mailbox.
    #[arg(long, requires = "for_account", value_name = "ACCOUNT")]
    pub account: Option<String>,
}

#[derive(Debug, Args)]
pub struct Config {
    /// Print every key with its documentation and default, as a file to start from.
    #[arg(long)]
    pub default: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_conversion_without_work_names_all_that_it_can_do() {
        let parsed =
            |args: &[&str]| Cli::try_parse_from([&["posthaste", "convert", "ana"][..], args].concat());
        let refused = parsed(&[]).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("--to <") && refused.contains("--items"), "{refused}");
        for args in [&["--items"][..], &["--to", "rich"], &["--to", "rich", "--items", "--dry-run"]] {
            assert!(parsed(args).is_ok(), "{args:?}");
        }
        assert!(parsed(&["--items", "--lossy"]).is_err() && parsed(&["--items", "--new-uids"]).is_err());
    }

    #[test]
    fn the_cost_of_an_account_is_not_summed_by_anything_else() {
        let parsed =
            |args: &[&str]| Cli::try_parse_from([&["posthaste", "report", "cost"][..], args].concat());
        assert!(parsed(&["--account", "ana"]).is_ok() && parsed(&["--by", "client"]).is_ok());
        assert!(parsed(&["--account", "ana", "--by", "client"]).is_err());
    }
}
