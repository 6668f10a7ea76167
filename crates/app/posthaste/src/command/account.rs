//! `posthaste account`: everything about accounts, on the store itself, so that a running server
//! sees it at once.

use std::io::Write;
use std::sync::Arc;

use posthaste_directory::{
    Account, AccountChange, CommandLimits, FolderLimits, Format, FormatSettings, Forward, NewAccount,
    OwnLimitChanges,
};
use posthaste_net::{AccountLimit, OwnLimits};
use posthaste_store::{MailboxHead, MailboxList};
use serde_json::json;

use crate::cli;
use crate::command::mailbox_referral::Change;
use crate::command::names::full_name;
use crate::command::{credentials, mailbox_referral, referral};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::{for_line, json_line};
use crate::open::{self, Opened};
use crate::password;

/// Accounts read at a time when listing: a screenful or two; all of them might not fit in memory.
const PAGE: usize = 200;

pub async fn run(config: Config, command: cli::Account) -> Result<()> {
    use cli::Account as Command;
    match command {
        Command::Add { name, password_stdin, settings, alias, shared } => {
            let name = full_name(&name, &config);
            let opened = open::create(&config).await?;
            let password = match shared {
                // A password that nobody knows. A login with it would be refused, too.
                true => password::generate()?,
                false => password::read(&name, password_stdin, config.login.password_length_min)?,
            };
            let new = NewAccount { shared, ..new_account(&settings) };
            let account = opened.directory.add(&name, &password, new).await?;
            if shared {
                // No login makes them.
                opened.delivery.mailboxes(&account).await?;
            }
            for alias in &alias {
                opened.directory.aliases().add(&full_name(alias, &config), &account.name).await?;
            }
            println!("added {}", account.name);
            Ok(())
        }
        Command::List { json } => list(&open::existing(&config).await?, json).await,
        Command::Show { name, json } => {
            show(&open::existing(&config).await?, &full_name(&name, &config), json).await
        }
        Command::Set { name, settings, disable, enable, alias, remove_alias, forwarding, certificates } => {
            let disabled = (disable || enable).then_some(disable);
            let change = AccountChange { disabled, ..account_change(&settings) };
            let forwards = forwarding.no_forward || !forwarding.forward.is_empty();
            let addresses = !alias.is_empty() || !remove_alias.is_empty();
            if change == AccountChange::default() && !addresses && !forwards && certificates.is_empty() {
                return Err(Failure::Usage(
                    "nothing to set; say --quota, --messages, --mailboxes, --message-limit, --save-limit, --format, --keep-original, --sets-quotas, --disable, --enable, --alias, a limit such as --connections, \
                     --remove-alias, --forward, --no-forward, --certificate or --remove-certificate"
                        .into(),
                ));
            }
            let opened = open::existing(&config).await?;
            let account = opened.directory.set(&full_name(&name, &config), change).await?;
            for alias in &remove_alias {
                opened.directory.aliases().remove(&full_name(alias, &config)).await?;
            }
            for alias in &alias {
                opened.directory.aliases().add(&full_name(alias, &config), &account.name).await?;
            }
            if forwards {
                let to: Vec<String> = forwarding.forward.iter().map(|to| full_name(to, &config)).collect();
                let forward = (!to.is_empty()).then_some(Forward { to, keep: !forwarding.no_copy });
                opened.directory.set_forward(&account.name, forward).await?;
            }
            credentials::set_certificates(&opened.directory, &account.name, &certificates).await?;
            println!("changed {}", account.name);
            Ok(())
        }
        Command::Passwd { name, password_stdin } => {
            let name = full_name(&name, &config);
            let opened = open::existing(&config).await?;
            let password = password::read(&name, password_stdin, config.login.password_length_min)?;
            let account = opened.directory.set_password(&name, &password).await?;
            println!("{} has a new password", account.name);
            Ok(())
        }
        Command::Referral { name, to, admit, remove } => {
            referral::run(&config, &name, to.map(|to| (to, admit)), remove).await
        }
        Command::MailboxReferral { name, mailbox, to, remove } => {
            let change = match (to, remove) {
                (Some(to), _) => Change::To(to),
                (None, true) => Change::Remove,
                (None, false) => Change::None,
            };
            mailbox_referral::run(&config, &name, mailbox.as_deref(), change).await
        }
        Command::AppPassword(command) => credentials::run(config, command).await,
        Command::Remove { name, yes } => {
            let opened = open::existing(&config).await?;
            remove(&opened, &full_name(&name, &config), yes).await
        }
    }
}

/// The options for a new account; the rest is as usual.
fn new_account(settings: &cli::Settings) -> NewAccount {
    NewAccount {
        quota_bytes: settings.quota.and_then(|q| q.0),
        quota_messages: settings.messages.and_then(|q| q.0),
        command_limits: CommandLimits {
            process: settings.message_limit.and_then(|limit| limit.0),
            save: settings.save_limit.and_then(|limit| limit.0),
        },
        quota_mailboxes: settings.mailboxes.and_then(|q| q.0),
        folder_limits: FolderLimits {
            warn: settings.folder_warn.and_then(|limit| limit.0),
            max: settings.folder_messages.and_then(|limit| limit.0),
        },
        own_limits: own_limits(settings),
        format: settings.format.and_then(format),
        keep_original: settings.keep_original.unwrap_or_default(),
        sets_quotas: settings.sets_quotas.unwrap_or_default(),
        ..NewAccount::default()
    }
}

/// The requested changes.
fn account_change(settings: &cli::Settings) -> AccountChange {
    AccountChange {
        quota_bytes: settings.quota.map(|q| q.0),
        quota_messages: settings.messages.map(|q| q.0),
        command_limit: settings.message_limit.map(|limit| limit.0),
        save_limit: settings.save_limit.map(|limit| limit.0),
        quota_mailboxes: settings.mailboxes.map(|q| q.0),
        folder_warn: settings.folder_warn.map(|limit| limit.0),
        folder_max: settings.folder_messages.map(|limit| limit.0),
        own_limits: own_limit_changes(settings),
        format: settings.format.map(format),
        keep_original: settings.keep_original,
        sets_quotas: settings.sets_quotas,
        ..AccountChange::default()
    }
}

/// The limits that a new account has in place of the configuration's.
fn own_limits(settings: &cli::Settings) -> OwnLimits {
    let mut limits = OwnLimits::NONE;
    settings.own_limits.named().for_each(|(limit, own)| limits.set(limit, own));
    limits
}

/// The requested changes of those limits.
fn own_limit_changes(settings: &cli::Settings) -> OwnLimitChanges {
    let mut changes = OwnLimitChanges::NONE;
    settings.own_limits.named().for_each(|(limit, own)| changes.set(limit, own));
    changes
}

/// `None` for the value of the configuration.
const fn format(given: cli::AccountFormat) -> Option<Format> {
    match given {
        cli::AccountFormat::Mime => Some(Format::Mime),
        cli::AccountFormat::Rich => Some(Format::Rich),
        cli::AccountFormat::Keep => Some(Format::Keep),
        cli::AccountFormat::Default => None,
    }
}

/// Has the user type the name, so that no mail is removed by mistake.
fn confirmed(name: &str) -> Result<bool> {
    print!("Remove {name} and all its mail? Type the name to go on: ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == name)
}

async fn remove(opened: &Opened, name: &str, yes: bool) -> Result<()> {
    let account = opened.found(name).await?;
    if !yes && !confirmed(&account.name)? {
        return Err(Failure::Usage("not removed: type the name, or use --yes".into()));
    }
    // The account goes first: from then on nobody can log in. A delivery that has begun creates no
    // mailbox once the list is emptied.
    opened.directory.remove(&account.name).await?;
    opened.store.remove_account(account.id).await?;
    opened.delivery.forget_imports(&account).await?;
    println!("removed {}", account.name);
    Ok(())
}

/// An account's mailboxes with their heads.
async fn mailboxes(opened: &Opened, account: &Account) -> Result<(Arc<MailboxList>, Vec<MailboxHead>)> {
    let list = opened.store.list(account.id).await?;
    let ids: Vec<_> = list.entries.iter().map(|e| e.id).collect();
    let heads = opened.store.status(&ids).await?;
    Ok((list, heads.into_iter().map(Option::unwrap_or_default).collect()))
}

async fn list(opened: &Opened, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut after: Option<String> = None;
    loop {
        let page = opened.directory.accounts(after.as_deref(), PAGE).await?;
        for account in &page {
            let (_, heads) = mailboxes(opened, account).await?;
            let messages: u64 = heads.iter().map(|h| u64::from(h.counts.messages)).sum();
            let bytes: u64 = heads.iter().map(|h| h.counts.octets()).sum();
            let state = if account.disabled { "disabled" } else { "enabled" };
            if json {
                let line = json!({"name": account.name, "disabled": account.disabled, "messages": messages,
                                  "bytes": bytes, "quota_bytes": account.quota_bytes,
                                  "quota_messages": account.quota_messages});
                writeln!(out, "{}", json_line(&line))?;
            } else {
                let (name, size) = (for_line(&account.name), bytesize::ByteSize(bytes));
                writeln!(out, "{name:<40} {state:<8} {messages:>9} messages {size:>12}")?;
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.name.clone()),
            _ => return Ok(()),
        }
    }
}

/// The addresses that deliver to an account.
async fn aliases_of(opened: &Opened, account: &Account) -> Result<Vec<String>> {
    let (mut mine, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = opened.directory.aliases().list(after.as_deref(), PAGE).await?;
        mine.extend(page.iter().filter(|a| a.account == account.name).map(|a| a.address.clone()));
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.address.clone()),
            _ => return Ok(mine),
        }
    }
}

async fn show(opened: &Opened, name: &str, json: bool) -> Result<()> {
    let account = opened.found(name).await?;
    let aliases = aliases_of(opened, &account).await?;
    let (list, heads) = mailboxes(opened, &account).await?;
    let certificates = credentials::certificates(&opened.directory, name).await?;
    let shown = AccountDetails { account, aliases, list, heads, certificates };
    match json {
        true => shown.print_json(),
        false => shown.print_text(opened.delivery.options().format),
    }
    Ok(())
}

/// An account as `account show` prints it.
struct AccountDetails {
    account: Account,
    aliases: Vec<String>,
    list: Arc<MailboxList>,
    heads: Vec<MailboxHead>,
    certificates: Vec<String>,
}

impl AccountDetails {
    fn print_json(&self) {
        let Self { account, aliases, list, heads, certificates } = self;
        let own_limits = account.own_limits.as_deref().into_iter().flat_map(OwnLimits::iter);
        let own_limits: serde_json::Map<_, _> =
            own_limits.map(|(limit, own)| (limit.name().to_owned(), json!(own))).collect();
        let boxes = list.entries.iter().zip(heads).map(|(e, h)| json!({"name": e.name.as_str(),
            "id": e.id.to_string(), "messages": h.counts.messages, "unseen": h.counts.unseen, "bytes": h.counts.octets()}));
        let all = json!({"name": account.name, "id": account.id.to_string(), "disabled": account.disabled, "shared": account.shared,
            "quota_bytes": account.quota_bytes, "quota_messages": account.quota_messages,
            "quota_mailboxes": account.quota_mailboxes, "command_limits": account.command_limits, "folder_limits": account.folder_limits, "own_limits": own_limits, "format": account.format, "keep_original": account.keep_original, "created": account.created,
            "aliases": aliases, "forward": account.forward, "referral": account.referral, "mailbox_referrals": account.mailbox_referrals, "sets_quotas": account.sets_quotas, "certificates": certificates,
            "mailboxes": boxes.collect::<Vec<_>>()});
        println!("{}", json_line(&all));
    }

    /// `default` is for accounts without a setting of their own.
    fn print_text(&self, default: FormatSettings) {
        let Self { account, aliases, list, heads, certificates } = self;
        println!("name     {}", for_line(&account.name));
        println!("id       {}", account.id);
        let shared = if account.shared { ", shared" } else { "" };
        println!("state    {}{shared}", if account.disabled { "disabled" } else { "enabled" });
        println!(
            "quota    {}",
            account.quota_bytes.map_or("none".into(), |q| bytesize::ByteSize(q).to_string())
        );
        println!("messages {}", account.quota_messages.map_or("no limit".into(), |q| format!("at most {q}")));
        let limits = account.command_limits;
        for (name, limit) in [("process", limits.process), ("save", limits.save)] {
            if let Some(limit) = limit {
                let limit =
                    if limit == 0 { "no limit".to_owned() } else { format!("at most {limit} messages") };
                println!("{name:<8} {limit} in one IMAP command");
            }
        }
        print_folder_limits(account.folder_limits);
        print_own_limits(account.own_limits.as_deref());
        if let Some(most) = account.quota_mailboxes {
            println!("mailboxes at most {most}");
        }
        let FormatSettings { format, keep_original } = account.stored_as(default);
        let has_original = keep_original && format == Format::Mime;
        let original = if has_original { ", with the rich original" } else { "" };
        let whose = if account.format.is_none() { " (the server's)" } else { "" };
        println!("format   {}{original}{whose}", json!(format).as_str().unwrap_or_default());
        let addresses = if aliases.is_empty() { "none".to_owned() } else { aliases.join(", ") };
        println!("aliases  {}", for_line(&addresses));
        if let Some(forward) = &account.forward {
            let copy = if forward.keep { "a copy stays" } else { "no copy stays" };
            println!("forward  {} ({copy})", for_line(&forward.to.join(", ")));
        }
        if let Some(referral) = &account.referral {
            println!("referral {}", referral::words(referral));
        }
        for referral in &account.mailbox_referrals {
            println!("elsewhere {}", mailbox_referral::words(referral));
        }
        if account.sets_quotas {
            println!("sets     the quotas of its domain by IMAP");
        }
        for certificate in certificates {
            println!("certificate {certificate}");
        }
        for (entry, head) in list.entries.iter().zip(heads) {
            let size = bytesize::ByteSize(head.counts.octets());
            println!(
                "mailbox  {:<40} {:>9} messages {:>9} unseen {size:>12}",
                for_line(entry.name.as_str()),
                head.counts.messages,
                head.counts.unseen
            );
        }
    }
}

/// The account's own limits of a folder, if it has any.
fn print_folder_limits(FolderLimits { warn, max }: FolderLimits) {
    for (what, limit) in [("a line in the log over", warn), ("at most", max)] {
        match limit {
            None => {}
            Some(0) => println!("folders  no limit ({what})"),
            Some(limit) => println!("folders  {what} {limit} messages"),
        }
    }
}

/// The limits that the account has in place of the configuration's, by their options.
fn print_own_limits(own: Option<&OwnLimits>) {
    own_limit_texts(own).for_each(|text| println!("limit    {text}"));
}

/// Each of those limits as text.
pub fn own_limit_texts(own: Option<&OwnLimits>) -> impl Iterator<Item = String> {
    own.into_iter().flat_map(OwnLimits::iter).map(|(limit, own)| {
        let most = match (limit, own) {
            (_, 0) => "no limit".to_owned(),
            (AccountLimit::Received | AccountLimit::Sent, own) => bytesize::ByteSize(own).to_string(),
            (_, own) => own.to_string(),
        };
        format!("{} {most}", limit.name().replace('_', "-"))
    })
}
