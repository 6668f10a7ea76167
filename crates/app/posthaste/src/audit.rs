//! A line in `audit.log` of the data directory for each administrative act: the command, its
//! user, and its outcome. Acts of clients, and of the server at its first start, are there, too.
//!
//! ```text
//! 2026-11-22T18:57:13Z act="account set ana --disable" user=0 sudo_user="ben" outcome=done
//! ```
//!
//! A command that a signal ended says what it had done: `outcome=interrupted before="converted 5"`.
//!
//! Lines are appended whole, so several commands at once do not mix theirs. Names are quoted and
//! escaped. No line has a password or the address of a cluster. A user who may write the data
//! directory may change the file: send it elsewhere if it must be evidence. Such a user may also
//! put another file in its place, so links and files of others are refused ([`open`]).

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use clap::ValueEnum as _;
use posthaste_imap_server::{AdministrativeAct, RecordOfActs};

use crate::cli::{
    Account, Acl, AppPasswords, Check, Command, Convert, Domain, Engine, Format, Group, Queue, Settings,
    Sieve,
};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::private;

/// The file's name.
const FILE: &str = "audit.log";

/// How an act ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome<'a> {
    Done,
    Failed,
    /// By a signal, after this was done.
    Interrupted(&'a str),
}

/// An act that has begun.
pub struct Act {
    dir: PathBuf,
    what: String,
    /// The account of a client that did it, not by a command.
    account: Option<String>,
}

impl Act {
    /// The act of a command; `None` for one that changes nothing and hands out no mail.
    pub fn of(command: &Command, config: &Config) -> Option<Self> {
        what(command).map(|what| Self { dir: config.data.clone(), what, account: None })
    }

    /// An act of the server at its first start.
    pub fn of_server(what: String, config: &Config) -> Self {
        Self { dir: config.data.clone(), what, account: None }
    }

    /// Writes its line. If that fails, the error is printed; the act is not undone.
    pub fn ended(self, outcome: &Result<()>) {
        let outcome = match outcome {
            Ok(()) => Outcome::Done,
            Err(Failure::Interrupted { done, .. }) => Outcome::Interrupted(done),
            Err(_) => Outcome::Failed,
        };
        if let Err(error) = self.write(outcome) {
            eprintln!("posthaste: {}: this command was not recorded: {error}", self.dir.join(FILE).display());
        }
    }

    fn write(&self, outcome: Outcome<'_>) -> std::io::Result<()> {
        let owner = match std::fs::metadata(&self.dir) {
            // Nothing was created, so there is nothing to record.
            Err(_) => return Ok(()),
            Ok(meta) => meta.uid(),
        };
        // Root in the directory of another user: either the command was refused, or the owner must
        // be able to write the file later.
        let foreign = private::user() == 0 && owner != 0;
        if foreign && outcome == Outcome::Failed {
            return Ok(());
        }
        let now = humantime::format_rfc3339_seconds(SystemTime::now());
        let outcome = match outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::Failed => "failed".to_owned(),
            Outcome::Interrupted(done) => format!("interrupted before={done:?}"),
        };
        let sudo = std::env::var("SUDO_USER").map(|user| format!(" sudo_user={user:?}")).unwrap_or_default();
        let account = self.account.as_ref().map(|name| format!(" account={name:?}")).unwrap_or_default();
        let line =
            format!("{now} act={:?} user={}{sudo}{account} outcome={outcome}\n", self.what, private::user());
        open(&self.dir.join(FILE), foreign.then_some(owner))?.write_all(line.as_bytes())
    }
}

/// Records what clients of the server do.
pub fn of_clients(config: &Config) -> RecordOfActs {
    let dir = config.data.clone();
    Arc::new(move |AdministrativeAct { by, what, is_done }| {
        let act = Act { dir: dir.clone(), what, account: Some(by) };
        if let Err(error) = act.write(if is_done { Outcome::Done } else { Outcome::Failed }) {
            tracing::error!(%error, act = act.what, "an administrative act was not recorded in audit.log");
        }
    })
}

/// Opens the file to append; makes it if it is missing. `owner` gets a new file, and must be the
/// owner of an old one.
///
/// Neither follows a link. Root would otherwise hand over the file that the directory's owner has
/// made the link to.
fn open(path: &Path, owner: Option<u32>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // A named pipe that nobody reads is an error and no wait.
    options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match options.clone().create_new(true).open(path) {
        Ok(file) => {
            if let Some(owner) = owner {
                fchown(&file, Some(owner), None)?;
            }
            return Ok(file);
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link; remove it"),
        _ => error,
    })?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a file; remove it"));
    }
    if let Some(owner) = owner.filter(|owner| *owner != meta.uid()) {
        let text =
            format!("it belongs to the user with id {}, its directory to {owner}; remove it", meta.uid());
        return Err(io::Error::other(text));
    }
    Ok(file)
}

fn what(command: &Command) -> Option<String> {
    let path = |path: &Path| path.display().to_string();
    Some(match command {
        Command::Account(account) => of_account(account)?,
        Command::Acl(Acl::Set { owner, mailbox, who, rights }) => {
            format!("acl set {owner} {mailbox} {who} {rights}")
        }
        Command::Acl(Acl::Remove { owner, mailbox, who }) => format!("acl remove {owner} {mailbox} {who}"),
        Command::Acl(Acl::Show { .. }) => return None,
        Command::Group(Group::Set { address, members, owner }) => {
            format!("group set {address} {}{}", members.join(" "), options("--owner", owner.as_slice()))
        }
        Command::Group(Group::Remove { address }) => format!("group remove {address}"),
        Command::Group(Group::List { .. }) | Command::Route(_) => return None,
        Command::Domain(Domain::Add { name }) => format!("domain add {name}"),
        Command::Domain(Domain::Rotate { name, finish, force }) => {
            let finish = if *finish { " --finish" } else { "" };
            let force = if *force { " --force" } else { "" };
            format!("domain rotate {name}{finish}{force}")
        }
        Command::Domain(Domain::Remove { name, .. }) => format!("domain remove {name}"),
        Command::Domain(Domain::List | Domain::Show { .. } | Domain::Check { .. }) => return None,
        Command::Import(import) => format!("import --account {}", import.account),
        Command::Convert(convert) if convert.dry_run => return None,
        Command::Convert(convert) => of_convert(convert),
        Command::Export(export) => format!("export {} --account {}", path(&export.target), export.account),
        Command::Queue(Queue::Retry(which)) => format!("queue retry {which}"),
        Command::Queue(Queue::Hold(which)) => format!("queue hold {which}"),
        Command::Queue(Queue::Release(which)) => format!("queue release {which}"),
        Command::Queue(Queue::Drop(which)) => format!("queue drop {which}"),
        Command::Sieve(Sieve::Put(put)) => {
            let activate = if put.activate { " --activate" } else { "" };
            format!("sieve put {} {}{activate}", put.account, put.name)
        }
        Command::Sieve(Sieve::Get { account, name }) => format!("sieve get {account} {name}"),
        Command::Sieve(Sieve::Activate { account, name }) => format!("sieve activate {account} {name}"),
        Command::Sieve(Sieve::Deactivate { account }) => format!("sieve deactivate {account}"),
        Command::Sieve(Sieve::Remove { account, name }) => format!("sieve remove {account} {name}"),
        Command::Retention(retention) if retention.apply => {
            let account = options("--account", retention.account.as_slice());
            let mailbox = options("--mailbox", retention.mailbox.as_slice());
            format!("retention --apply{account}{mailbox}")
        }
        Command::Retention(_) => return None,
        Command::Backup(backup) => {
            format!("backup {}{}", path(&backup.target), options("--account", &backup.account))
        }
        Command::Restore(restore) => {
            format!("restore {}{}", path(&restore.backup), options("--account", &restore.account))
        }
        Command::CopyStore(copy) => format!("copy-store{}", options("--account", &copy.account)),
        Command::Check(check) if check.rebuild => "check --rebuild".to_owned(),
        Command::Check(Check { recover: Some(mailbox), account: Some(account), .. }) => {
            format!("check --recover {mailbox} --account {account}")
        }
        Command::Engine(Engine::Init { .. }) => "engine init".to_owned(),
        Command::Engine(Engine::Upgrade) => "engine upgrade".to_owned(),
        // A server has a log of its own.
        Command::Serve(_) | Command::Check(_) | Command::Config(_) => return None,
        Command::Sieve(Sieve::Check { .. } | Sieve::Test(_) | Sieve::List { .. }) => return None,
        Command::Queue(Queue::List { .. } | Queue::Show { .. }) | Command::Report(_) => return None,
    })
}

fn of_convert(convert: &Convert) -> String {
    let format = |to: Format| to.to_possible_value().map(|value| value.get_name().to_owned());
    let to = options("--to", convert.to.and_then(format).as_slice());
    let mailbox = options("--mailbox", convert.mailbox.as_slice());
    let items = if convert.items { " --items" } else { "" };
    let rate = options("--rate", convert.rate.map(|rate| rate.to_string()).as_slice());
    let lossy = if convert.lossy { " --lossy" } else { "" };
    let accounts: Vec<_> = convert.accounts.iter().map(|account| typed(account)).collect();
    format!("convert {}{mailbox}{to}{items}{rate}{lossy}", accounts.join(" "))
}

fn of_account(command: &Account) -> Option<String> {
    Some(match command {
        Account::Add { name, settings, alias, shared, .. } => {
            let shared = if *shared { " --shared" } else { "" };
            format!("account add {name}{shared}{}{}", of_settings(settings), options("--alias", alias))
        }
        Account::Set { name, settings, disable, enable, alias, remove_alias, forwarding, certificates } => {
            let state = match (disable, enable) {
                (true, _) => " --disable",
                (_, true) => " --enable",
                _ => "",
            };
            let aliases = options("--alias", alias) + &options("--remove-alias", remove_alias);
            let mut forward = options("--forward", &forwarding.forward);
            forward += if forwarding.no_copy { " --no-copy" } else { "" };
            forward += if forwarding.no_forward { " --no-forward" } else { "" };
            let certificates = options("--certificate", &certificates.certificate)
                + &options("--remove-certificate", &certificates.remove_certificate);
            format!("account set {name}{}{state}{aliases}{forward}{certificates}", of_settings(settings))
        }
        Account::Passwd { name, .. } => format!("account passwd {name}"),
        Account::Referral { name, to: Some(to), admit, .. } => {
            format!("account referral {name} --to {to}{}", if *admit { " --admit" } else { "" })
        }
        Account::Referral { name, remove: true, .. } => {
            format!("account referral {name} --remove")
        }
        Account::Referral { .. } => return None,
        Account::MailboxReferral { name, mailbox: Some(mailbox), to: Some(to), .. } => {
            format!("account mailbox-referral {name} {mailbox} --to {to}")
        }
        Account::MailboxReferral { name, mailbox: Some(mailbox), remove: true, .. } => {
            format!("account mailbox-referral {name} {mailbox} --remove")
        }
        Account::MailboxReferral { .. } => return None,
        Account::AppPassword(AppPasswords::Add { name, label, .. }) => {
            format!("account app-password add {name} {label}")
        }
        Account::AppPassword(AppPasswords::Remove { name, which }) => {
            format!("account app-password remove {name} {which}")
        }
        Account::AppPassword(AppPasswords::List { .. }) => return None,
        Account::Remove { name, .. } => format!("account remove {name}"),
        Account::List { .. } | Account::Show { .. } => return None,
    })
}

fn options(name: &str, values: &[String]) -> String {
    values.iter().map(|value| format!(" {name} {}", typed(value))).collect()
}

/// A value as a shell takes it for one word.
fn typed(value: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => Cow::Borrowed(value),
        false => Cow::Owned(format!("'{}'", value.replace('\'', r"'\''"))),
    }
}

fn of_settings(settings: &Settings) -> String {
    let limit = |name: &str, limit: Option<crate::cli::Quota>| match limit {
        Some(crate::cli::Quota(Some(most))) => format!(" {name} {most}"),
        Some(crate::cli::Quota(None)) => format!(" {name} none"),
        None => String::new(),
    };
    let format =
        settings.format.map(|format| format!(" --format {format:?}").to_lowercase()).unwrap_or_default();
    let counts = limit("--messages", settings.messages) + &limit("--mailboxes", settings.mailboxes);
    let original = settings.keep_original.map(|keep| format!(" --keep-original {keep}")).unwrap_or_default();
    let setter = settings.sets_quotas.map(|sets| format!(" --sets-quotas {sets}")).unwrap_or_default();
    let folder = |name: &str, limit: Option<crate::cli::FolderLimit>| match limit {
        Some(crate::cli::FolderLimit(Some(most))) => format!(" {name} {most}"),
        Some(crate::cli::FolderLimit(None)) => format!(" {name} none"),
        None => String::new(),
    };
    let folders = folder("--folder-messages", settings.folder_messages)
        + &folder("--folder-warn", settings.folder_warn);
    limit("--quota", settings.quota) + &counts + &folders + &format + &original + &setter
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use clap::Parser as _;

    use super::*;

    /// Any user but root.
    const OTHER: u32 = 65_534;

    fn ended(dir: &Path) -> io::Result<()> {
        Act { dir: dir.to_owned(), what: "backup".to_owned(), account: None }.write(Outcome::Done)
    }

    #[test]
    fn a_link_in_its_place_is_refused() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (log, other) = (dir.path().join(FILE), elsewhere.path().join("shadow"));
        std::fs::write(&other, "root").unwrap();
        symlink(&other, &log).unwrap();
        assert!(ended(dir.path()).unwrap_err().to_string().contains("symbolic link"));
        // Nor is a file made where a link leads.
        std::fs::remove_file(&other).unwrap();
        assert!(ended(dir.path()).is_err() && !other.exists());
        std::fs::remove_file(&log).unwrap();
        ended(dir.path()).unwrap();
        ended(dir.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_conversion_has_its_options_as_they_were_typed() {
        let what = |line: &[&str]| {
            let cli = crate::cli::Cli::try_parse_from([&["posthaste"], line].concat()).unwrap();
            what(&cli.command)
        };
        for line in ["convert ana@x --to mime --lossy", "convert ana ben@x --to rich --items --rate 50"] {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(what(&words).as_deref(), Some(line));
        }
        let line = ["convert", "ana@x", "--mailbox", "Ben's mail", "--items"];
        let typed = r"convert ana@x --mailbox 'Ben'\''s mail' --items";
        assert_eq!(what(&line).as_deref(), Some(typed));
        assert_eq!(what(&["convert", "ana@x", "--items", "--dry-run"]), None);
    }

    #[test]
    fn an_interruption_says_what_was_done() {
        let dir = tempfile::tempdir().unwrap();
        let act = Act { dir: dir.path().to_owned(), what: "convert ana@x".to_owned(), account: None };
        act.ended(&Err(Failure::Interrupted { signal: 15, done: "converted 5".to_owned() }));
        let line = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(line.ends_with(" outcome=interrupted before=\"converted 5\"\n"), "{line}");
    }

    #[test]
    fn what_a_client_does_names_its_account() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data: dir.path().to_owned(), ..Config::default() };
        let by = "ben \"x\"@example.org".to_owned();
        let what = "SETQUOTA ana@example.org MESSAGE 1".to_owned();
        of_clients(&config)(AdministrativeAct { by, what, is_done: true });
        let line = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(line.contains(" act=\"SETQUOTA ana@example.org MESSAGE 1\" "), "{line}");
        assert!(line.ends_with(" account=\"ben \\\"x\\\"@example.org\" outcome=done\n"), "{line}");
    }

    /// Root writes into the directory of another user, who must be able to write the file later.
    #[test]
    fn root_hands_over_only_a_file_that_it_made() {
        if private::user() != 0 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join(FILE);
        let owner = |path: &Path| std::fs::symlink_metadata(path).unwrap().uid();
        chown(dir.path(), Some(OTHER), None).unwrap();
        ended(dir.path()).unwrap();
        assert_eq!(owner(&log), OTHER);
        ended(dir.path()).unwrap();
        std::fs::remove_file(&log).unwrap();
        // A second name of a file of root: not a link that could be seen.
        let shadow = dir.path().join("shadow");
        std::fs::write(&shadow, "root").unwrap();
        std::fs::hard_link(&shadow, &log).unwrap();
        assert!(ended(dir.path()).unwrap_err().to_string().contains("user with id 0"));
        assert_eq!((owner(&shadow), std::fs::read_to_string(&shadow).unwrap().as_str()), (0, "root"));
        std::fs::remove_file(&log).unwrap();
        symlink(&shadow, &log).unwrap();
        assert!(ended(dir.path()).is_err());
        assert_eq!(owner(&shadow), 0);
    }
}
