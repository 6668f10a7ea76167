//! A line in `audit.log` of the data directory for each administrative act: the command, its
//! user, and its outcome. Acts of clients are there, too, and those of the server: its first
//! account, and each reload of its configuration that took effect.
//!
//! ```text
//! 2026-11-22T18:57:13Z act="account set ana --disable" user=0 sudo_user="ben" outcome=done
//! ```
//!
//! The line of a command that a signal ended names the work done:
//! `outcome=interrupted before="converted 5"`.
//!
//! An act is the command line as it was typed, so no option is left out. The options that every
//! command has (`--data` …) are not part of it. No option takes a password.
//!
//! Lines are appended whole, so several commands at once do not mix theirs. Names are quoted and
//! escaped. Of the address of a cluster, a line has only the scheme: its options may name secrets.
//! Other addresses and URLs have no password, and no values of a query.
//! A user who may write the data directory may change the file: send it elsewhere if it must be
//! evidence. Such a user may also put another file in its place, so links and files of others are
//! refused ([`DataDirectory::file`]).

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use posthaste_imap_server::{AdministrativeAct, RecordOfActs};
use posthaste_mail_model::masked;

use crate::cli::{Account, Acl, AppPasswords, Check, Command, Domain, Group, Queue, Report, Sieve};
use crate::config::Config;
use crate::data_directory::DataDirectory;
use crate::failure::{Failure, Result};
use crate::private;

/// The file's name.
const FILE: &str = "audit.log";

/// The outcome of an act.
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
    /// The act of a command with these arguments (without the program's name); `None` for one that
    /// changes nothing and hands out no mail.
    pub fn of(command: &Command, args: impl Iterator<Item = OsString>, config: &Config) -> Option<Self> {
        is_act(command).then(|| Self { dir: config.data.clone(), what: as_typed(args), account: None })
    }

    /// An act of the server itself.
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

    /// Writes the line of an act that the running server has done.
    pub fn done(&self) {
        self.record(Outcome::Done);
    }

    /// Writes its line. If that fails, the server's log has the error; the act is not undone.
    fn record(&self, outcome: Outcome<'_>) {
        if let Err(error) = self.write(outcome) {
            tracing::error!(%error, act = self.what, "an administrative act was not recorded in audit.log");
        }
    }

    fn write(&self, outcome: Outcome<'_>) -> io::Result<()> {
        let is_failed = outcome == Outcome::Failed;
        let dir = match DataDirectory::open(&self.dir) {
            Ok(dir) => dir,
            Err(error) => match error.kind() {
                // Nothing was created, so there is nothing to record.
                ErrorKind::NotFound if is_failed => return Ok(()),
                // The command worked on a cluster, or on other stores.
                ErrorKind::NotFound => {
                    let why = "its directory does not exist; make it, or name the data directory with --data";
                    return Err(io::Error::other(why));
                }
                // The command did nothing here for the same reason.
                ErrorKind::PermissionDenied | ErrorKind::NotADirectory if is_failed => return Ok(()),
                _ => return Err(error),
            },
        };
        // Root in the directory of another user: the command was refused.
        if dir.is_foreign() && is_failed {
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
        dir.file(FILE)?.write_all(line.as_bytes())
    }
}

/// Records what clients of the server do.
pub fn of_clients(config: &Config) -> RecordOfActs {
    let dir = config.data.clone();
    Arc::new(move |AdministrativeAct { by, what, is_done }| {
        let act = Act { dir: dir.clone(), what, account: Some(by) };
        act.record(if is_done { Outcome::Done } else { Outcome::Failed });
    })
}

/// Whether a command changes something, or hands out mail.
fn is_act(command: &Command) -> bool {
    match command {
        // A server has a log of its own.
        Command::Serve(_) | Command::Config(_) => false,
        Command::Account(account) => match account {
            Account::List { .. } | Account::Show { .. } => false,
            Account::AppPassword(AppPasswords::List { .. }) => false,
            Account::Referral { to, remove, .. } | Account::MailboxReferral { to, remove, .. } => {
                to.is_some() || *remove
            }
            Account::Add { .. } | Account::Set { .. } | Account::Passwd { .. } => true,
            Account::Remove { .. } => true,
            Account::AppPassword(AppPasswords::Add { .. } | AppPasswords::Remove { .. }) => true,
        },
        Command::Acl(Acl::Set { .. } | Acl::Remove { .. }) => true,
        Command::Acl(Acl::Show { .. }) => false,
        Command::Group(Group::Set { .. } | Group::Remove { .. }) => true,
        Command::Group(Group::List { .. }) | Command::Route(_) => false,
        Command::Domain(Domain::Add { .. } | Domain::Rotate { .. } | Domain::Remove { .. }) => true,
        Command::Domain(Domain::List | Domain::Show { .. } | Domain::Check { .. }) => false,
        Command::Queue(Queue::Retry(_) | Queue::Hold(_) | Queue::Release(_) | Queue::Drop(_)) => true,
        Command::Queue(Queue::List { .. } | Queue::Show { .. }) => false,
        Command::Sieve(Sieve::Put(_) | Sieve::Get { .. } | Sieve::Activate { .. }) => true,
        Command::Sieve(Sieve::Deactivate { .. } | Sieve::Remove { .. }) => true,
        Command::Sieve(Sieve::Check { .. } | Sieve::Test(_) | Sieve::List { .. }) => false,
        Command::Convert(convert) => !convert.dry_run,
        Command::Retention(retention) => retention.apply,
        Command::Report(Report::Folders { .. } | Report::Cost { .. }) => false,
        Command::Check(Check { rebuild, force: _, reindex, recover, accept_loss, account: _ }) => {
            *rebuild || *reindex || recover.is_some() || *accept_loss
        }
        Command::Import(_) | Command::Export(_) | Command::Backup(_) | Command::Restore(_) => true,
        Command::CopyStore(_) | Command::Engine(_) => true,
    }
}

/// Options of every command, each with a value: where the act took place.
const COMMON: [&str; 4] = ["--config", "--data", "--engine", "--bodies"];
/// Characters of an act that a line has at most. An import may name thousands of files.
const CHARACTERS_MAX: usize = 4096;

/// A command line without [`COMMON`], in words as a shell takes them.
fn as_typed(mut args: impl Iterator<Item = OsString>) -> String {
    let mut line = String::new();
    let mut are_names = false;
    while let Some(arg) = args.next() {
        let arg = arg.to_string_lossy();
        are_names |= arg == "--";
        if !are_names && COMMON.contains(&&*arg) {
            args.next();
            continue;
        }
        let is_common = |name: &&str| arg.strip_prefix(*name).is_some_and(|value| value.starts_with('='));
        if !are_names && COMMON.iter().any(is_common) {
            continue;
        }
        if line.len() > CHARACTERS_MAX {
            line.push_str(" …");
            break;
        }
        line.push_str(if line.is_empty() { "" } else { " " });
        match arg.split_once("cassandra://") {
            Some((before, _)) => line.push_str(&format!("{before}cassandra://…")),
            None => line.push_str(&shell_word(&masked(&arg))),
        }
    }
    line
}

/// A value as a shell takes it for one word.
pub fn shell_word(value: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_…".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => Cow::Borrowed(value),
        false => Cow::Owned(format!("'{}'", value.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, chown, symlink};
    use std::path::Path;

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
        // No file is made where a link leads, either.
        std::fs::remove_file(&other).unwrap();
        assert!(ended(dir.path()).is_err() && !other.exists());
        std::fs::remove_file(&log).unwrap();
        ended(dir.path()).unwrap();
        ended(dir.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
    }

    /// Without free descriptors no directory can be opened, either.
    #[test]
    fn only_of_a_directory_that_is_missing_nothing_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let act = Act { dir: data.clone(), what: "backup".to_owned(), account: None };
        act.write(Outcome::Failed).unwrap();
        // On a cluster, a command does its work without a data directory.
        assert!(ended(&data).unwrap_err().to_string().contains("--data"));
        symlink(&data, &data).unwrap();
        assert!(ended(&data).is_err());
    }

    /// The line of a command, or `None`.
    fn what(line: &[&str]) -> Option<String> {
        let cli = crate::cli::Cli::try_parse_from([&["posthaste"], line].concat());
        let cli = cli.unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let args = line.iter().map(OsString::from);
        Act::of(&cli.command, args, &Config::default()).map(|act| act.what)
    }

    #[test]
    fn an_act_has_its_options_as_they_were_typed() {
        for line in [
            "convert ana@x --to mime --lossy",
            "convert ana ben@x --to rich --items --rate 50",
            "account set ana@x --message-limit 5000 --save-limit=none",
            "account app-password add ana@x phone --protocol imap --expires 30d",
            "check --rebuild --force",
            "check --reindex",
            "check --accept-loss",
            "restore /backup/mail --keep-uidvalidity --incomplete",
            "copy-store --from ./mail --to /srv/mail",
            "retention --apply",
        ] {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(what(&words).as_deref(), Some(line));
        }
        for line in
            ["convert ana@x --items --dry-run", "check", "account list", "retention", "report folders"]
        {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(what(&words), None);
        }
        let line = ["convert", "ana@x", "--mailbox", "Ben's mail", "--items"];
        let typed = r"convert ana@x --mailbox 'Ben'\''s mail' --items";
        assert_eq!(what(&line).as_deref(), Some(typed));
    }

    #[test]
    fn an_act_has_neither_the_place_nor_the_address_of_a_cluster() {
        let line = ["--data", "/srv/mail", "account", "remove", "ana@x", "--config=/etc/p.toml", "--yes"];
        assert_eq!(what(&line).as_deref(), Some("account remove ana@x --yes"));
        let to = "--to=cassandra://ben@db1/mail?password_file=/root/secret";
        let typed = "copy-store --from ./mail --to=cassandra://…";
        assert_eq!(what(&["copy-store", "--from", "./mail", to]).as_deref(), Some(typed));
        let names: Vec<_> = (0..2_000).map(|n| format!("mail-{n}.eml")).collect();
        let names = names.iter().map(String::as_str);
        let many: Vec<_> = ["import", "--account", "ana@x"].into_iter().chain(names).collect();
        let line = what(&many).unwrap();
        assert!(line.ends_with(" …") && line.len() < CHARACTERS_MAX + 100, "{}", line.len());
    }

    #[test]
    fn an_act_has_no_password_of_an_address() {
        let acts: [(&[&str], &str); 5] = [
            (
                &["account", "referral", "ana@x", "--to", "imap://u:SECRET@two.example.org/"],
                "account referral ana@x --to imap://u:…@two.example.org/",
            ),
            (
                &["account", "mailbox-referral", "ana@x", "Team", "--to=imap://u:SECRET@two/Team"],
                "account mailbox-referral ana@x Team --to=imap://u:…@two/Team",
            ),
            (&["backup", "s3://u:SECRET@b"], "backup s3://u:…@b"),
            (&["backup", "s3://b?secret=SECRET"], "backup 's3://b?secret=…'"),
            (&["export", "./a:b@c", "--account", "ana@x"], "export ./a:b@c --account ana@x"),
        ];
        for (words, recorded) in acts {
            assert_eq!(what(words).as_deref(), Some(recorded));
        }
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
            eprintln!("skipped: files of several users (run as root)");
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
