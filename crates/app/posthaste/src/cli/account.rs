//! `posthaste account`.

use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};

use super::credentials::{AppPasswords, Certificates};
use super::own_limits::OwnLimits;
use crate::config::COMMAND_LIMIT_MIN;

#[derive(Debug, Subcommand)]
pub enum Account {
    /// Create an account. Takes effect at once.
    Add {
        /// The account's name, usually its address. A name without `@` gets the configured
        /// domain.
        name: String,
        /// Read the password from standard input (its first line) instead of asking for it.
        #[arg(long)]
        password_stdin: bool,
        #[command(flatten)]
        settings: Settings,
        /// An alias: a further address of the account; repeat for more.
        #[arg(long, value_name = "ADDRESS")]
        alias: Vec<String>,
        /// Create a shared account: it has no password, and nobody can log in to it. Users with
        /// rights in its mailboxes see them below `Shared/` (`posthaste acl`). Mail for its
        /// address is delivered to its INBOX.
        #[arg(long, conflicts_with = "password_stdin")]
        shared: bool,
    },
    /// List accounts, a line each: name, state, messages, size.
    List {
        /// As JSON, a line each.
        #[arg(long)]
        json: bool,
    },
    /// Show one account: settings, aliases, mailboxes with their counts.
    Show {
        /// The account's name.
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change an account's settings.
    Set {
        /// The account's name.
        name: String,
        #[command(flatten)]
        settings: Settings,
        /// Refuse its logins and its mail. Its stored mail stays.
        #[arg(long, conflicts_with = "enable")]
        disable: bool,
        /// Accept its logins and mail again.
        #[arg(long)]
        enable: bool,
        /// Add an alias; repeat for more.
        #[arg(long, value_name = "ADDRESS")]
        alias: Vec<String>,
        /// Remove an alias; repeat for more.
        #[arg(long, value_name = "ADDRESS")]
        remove_alias: Vec<String>,
        #[command(flatten)]
        forwarding: Forwarding,
        #[command(flatten)]
        certificates: Certificates,
    },
    /// Give an account a new password; the old one stops working at once.
    Passwd {
        /// The account's name.
        name: String,
        /// Read the password from standard input (its first line) instead of asking for it.
        #[arg(long)]
        password_stdin: bool,
    },
    /// Show or set the server that IMAP logins of an account are referred to (RFC 2221).
    ///
    /// Use it for an account whose mailboxes have moved to another server. POP3 and submission
    /// ignore it.
    Referral {
        /// The account's name.
        name: String,
        /// The server that has its mailboxes, for example `imap://mail2.example.org/`. A login here
        /// with the right password is answered with this URL. Open sessions end at their next
        /// command.
        #[arg(long, value_name = "URL", conflicts_with = "remove")]
        to: Option<String>,
        /// With --to: also let logins here succeed, for mailboxes that others share with the
        /// account.
        #[arg(long, requires = "to")]
        admit: bool,
        /// Stop referring logins to another server.
        #[arg(long)]
        remove: bool,
    },
    /// Show or set which mailboxes of an account are on other servers (RFC 2193).
    ///
    /// An IMAP client that uses such a mailbox, or one below it, gets its URL. RLIST shows the
    /// mailbox.
    MailboxReferral {
        /// The account's name.
        name: String,
        /// The mailbox, for example `Shared/Team`; not INBOX. Without it all are shown.
        mailbox: Option<String>,
        /// The mailbox on the other server, for example `imap://mail2.example.org/Team`.
        #[arg(long, value_name = "URL", requires = "mailbox", conflicts_with = "remove")]
        to: Option<String>,
        /// Stop referring this mailbox to another server.
        #[arg(long, requires = "mailbox")]
        remove: bool,
    },
    /// Manage app passwords: one generated password for each program or device.
    #[command(subcommand)]
    AppPassword(AppPasswords),
    /// Remove an account, its aliases and all its mail.
    Remove {
        /// The account's name.
        name: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// How new messages are stored; `default`: the configuration's `store.format`. Clients see the
    /// same in each format.
    #[arg(long, value_enum)]
    pub format: Option<AccountFormat>,
    /// With the format `mime`: whether to keep the rich message as well as the MIME made of it.
    /// `posthaste convert` can then convert it back. `store.keep_original` keeps it for all
    /// accounts.
    #[arg(long, value_name = "BOOL")]
    pub keep_original: Option<bool>,
    /// The largest size of the account's mail, for example `2 GiB`; `none`: the configuration's
    /// `limits.account_size`. A message counts its own size and 1 KiB.
    #[arg(long, value_name = "SIZE", value_parser = quota)]
    pub quota: Option<Quota>,
    /// The largest number of messages; `none`: the configuration's `limits.account_messages`.
    #[arg(long, value_name = "COUNT", value_parser = messages)]
    pub messages: Option<Quota>,
    /// The largest number of messages that one IMAP command processes (MESSAGELIMIT), at least
    /// 1000; 0: no limit; `none`: the configuration's `imap.message_limit`.
    #[arg(long, value_name = "COUNT", value_parser = command_limit)]
    pub message_limit: Option<CommandLimit>,
    /// The same limit for commands that only add messages (SAVELIMIT): COPY and APPEND.
    #[arg(long, value_name = "COUNT", value_parser = command_limit)]
    pub save_limit: Option<CommandLimit>,
    /// The largest number of mailboxes; `none`: only the server's limit applies.
    #[arg(long, value_name = "COUNT", value_parser = messages)]
    pub mailboxes: Option<Quota>,
    /// The largest number of messages in each of its folders; 0: no limit; `none`: the
    /// configuration's `limits.folder_messages_max`.
    #[arg(long, value_name = "COUNT", value_parser = folder_limit)]
    pub folder_messages: Option<FolderLimit>,
    /// Log each opening of a folder with more messages; 0: never; `none`: the configuration's
    /// `limits.folder_messages_warn`.
    #[arg(long, value_name = "COUNT", value_parser = folder_limit)]
    pub folder_warn: Option<FolderLimit>,
    #[command(flatten)]
    pub own_limits: Box<OwnLimits>,
    /// Whether the account may set the quotas of all accounts of its domain by IMAP (SETQUOTA).
    #[arg(long, value_name = "BOOL")]
    pub sets_quotas: Option<bool>,
}

/// A limit of messages for each command, or none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLimit(pub Option<u32>);

fn command_limit(text: &str) -> Result<CommandLimit, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(CommandLimit(None));
    }
    match text.parse() {
        Ok(count) if count == 0 || count >= COMMAND_LIMIT_MIN => Ok(CommandLimit(Some(count))),
        _ => Err(format!("`{text}` is not a limit; write {COMMAND_LIMIT_MIN} or more, 0 or none")),
    }
}

/// A limit of messages in a folder, or none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderLimit(pub Option<u32>);

fn folder_limit(text: &str) -> Result<FolderLimit, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(FolderLimit(None));
    }
    let wrong = |_| format!("`{text}` is not a limit; write for example 10000, 0 or none");
    text.parse().map(|count| FolderLimit(Some(count))).map_err(wrong)
}

/// A quota, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota(pub Option<u64>);

fn quota(text: &str) -> Result<Quota, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Quota(None));
    }
    match text.parse::<ByteSize>() {
        Ok(size) if size.as_u64() > 0 => Ok(Quota(Some(size.as_u64()))),
        _ => Err(format!("`{text}` is not a size; write for example 500 MiB, 2 GiB or none")),
    }
}

fn messages(text: &str) -> Result<Quota, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Quota(None));
    }
    match text.parse() {
        Ok(count) if count > 0 => Ok(Quota(Some(count))),
        _ => Err(format!("`{text}` is not a number; write for example 100000 or none")),
    }
}

/// The format in which new messages of an account are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccountFormat {
    /// As MIME: rich mail (winmail.dat) is converted at delivery
    Mime,
    /// As rich mail: MIME is converted at delivery, and back when a client reads it
    Rich,
    /// As sent: rich mail is converted when a client reads it
    Keep,
    /// As the configuration's `store.format` says
    Default,
}

/// The format that stored messages are converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As MIME: rich mail (winmail.dat) is converted at delivery
    Mime,
    /// As rich mail: MIME is converted at delivery, and back when a client reads it
    Rich,
    /// As sent: rich mail is converted when a client reads it
    Keep,
}

#[derive(Debug, Args)]
pub struct Forwarding {
    /// Forward its mail to this address; repeat for more. These addresses replace earlier ones. The
    /// account keeps a copy.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "no_forward")]
    pub forward: Vec<String>,
    /// With --forward: keep no copy. Mail that cannot be forwarded is still kept.
    #[arg(long, requires = "forward")]
    pub no_copy: bool,
    /// Stop forwarding its mail.
    #[arg(long)]
    pub no_forward: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas() {
        assert_eq!(quota("2 GiB"), Ok(Quota(Some(2 << 30))));
        assert_eq!(quota("none"), Ok(Quota(None)));
        assert!(quota("much").is_err() && quota("0").is_err());
        assert_eq!(messages("100000"), Ok(Quota(Some(100_000))));
        assert!(messages("0").is_err() && messages("1 GiB").is_err());
        assert_eq!(command_limit("1000"), Ok(CommandLimit(Some(1000))));
        assert_eq!(command_limit("0"), Ok(CommandLimit(Some(0))));
        assert_eq!(command_limit("none"), Ok(CommandLimit(None)));
        assert_eq!(folder_limit("10000"), Ok(FolderLimit(Some(10_000))));
        assert_eq!(
            (folder_limit("0"), folder_limit("None")),
            (Ok(FolderLimit(Some(0))), Ok(FolderLimit(None)))
        );
        assert!(folder_limit("many").is_err() && folder_limit("-1").is_err());
        assert!(command_limit("999").is_err() && command_limit("-1").is_err());
    }
}
