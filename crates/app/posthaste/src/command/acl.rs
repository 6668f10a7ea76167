//! `posthaste acl`: the rights of accounts in mailboxes of others.

use std::io::Write as _;

use posthaste_directory::{Account, AclError, Identifier};
use posthaste_mail_model::{MailboxName, Rights};
use posthaste_store::MailboxEntry;
use serde_json::json;

use crate::cli;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::{for_line, json_line};
use crate::open::{self, Opened};

pub async fn run(config: Config, command: cli::Acl) -> Result<()> {
    use cli::Acl as Command;
    let opened = open::existing(&config).await?;
    match command {
        Command::Set { owner, mailbox, who, rights } => {
            let (owner, entry) = mailbox_of(&opened, &full_name(&owner, &config), &mailbox).await?;
            let who = identifier(&who, &owner, &config)?;
            let change = change(&rights)?;
            set(&opened, &owner, &entry, &who, change).await?;
            let acl = opened.directory.acls().get(owner.id, entry.id).await?;
            println!("{}\t{who}\t{}", entry.name, acl.get(&who));
            Ok(())
        }
        Command::Remove { owner, mailbox, who } => {
            let (owner, entry) = mailbox_of(&opened, &full_name(&owner, &config), &mailbox).await?;
            let who = identifier(&who, &owner, &config)?;
            set(&opened, &owner, &entry, &who, |_| Rights::NONE).await?;
            println!("removed {who} from {}", entry.name);
            Ok(())
        }
        Command::Show { owner, mailbox, json } => {
            show(&opened, &full_name(&owner, &config), mailbox.as_deref(), json).await
        }
    }
}

async fn set(
    opened: &Opened,
    owner: &Account,
    entry: &MailboxEntry,
    who: &Identifier,
    change: impl Fn(Rights) -> Rights,
) -> Result<()> {
    opened.directory.acls().set_rights(owner, entry.id, who, change).await.map_err(|error| match error {
        AclError::TooMany | AclError::TooManyInAll | AclError::TooManyNamed => {
            Failure::Usage(error.to_string())
        }
        AclError::Directory(error) => error.into(),
    })
}

/// A mailbox that must be there, and its account.
async fn mailbox_of(opened: &Opened, owner: &str, mailbox: &str) -> Result<(Account, MailboxEntry)> {
    let owner = opened.found(owner).await?;
    let name = MailboxName::new(mailbox).map_err(|why| Failure::Usage(format!("{mailbox}: {why}")))?;
    let list = opened.store.list(owner.id).await?;
    let entry = list.find(&name).cloned().ok_or_else(|| {
        let account = &owner.name;
        Failure::Usage(format!(
            "{account} has no mailbox {name}; `posthaste account show {account}` names them all"
        ))
    })?;
    Ok((owner, entry))
}

/// An account's full name, or everybody.
fn identifier(text: &str, owner: &Account, config: &Config) -> Result<Identifier> {
    let (sign, name) = match text.strip_prefix('-') {
        Some(name) => ("-", name),
        None => ("", text),
    };
    let name = if name == "anyone" { name.to_owned() } else { full_name(name, config) };
    let parsed = Identifier::parse(&format!("{sign}{name}"));
    let who =
        parsed.map_err(|why| Failure::Usage(format!("'{text}' is neither an account nor anyone: {why}")))?;
    if who.who.as_str() == owner.name {
        return Err(Failure::Usage(format!("{} always has every right in its own mailboxes", owner.name)));
    }
    Ok(who)
}

/// `lrs`, `+w` or `-w`.
fn change(text: &str) -> Result<impl Fn(Rights) -> Rights> {
    let (sign, letters) = match text.as_bytes() {
        [sign @ (b'+' | b'-'), letters @ ..] => (Some(*sign), letters),
        letters => (None, letters),
    };
    let rights = Rights::parse(letters).ok_or_else(|| {
        Failure::Usage(format!("'{text}' is not a set of rights; the letters are lrswipkxtean"))
    })?;
    Ok(move |before: Rights| match sign {
        Some(b'+') => before.union(rights),
        Some(_) => before.difference(rights),
        None => rights,
    })
}

async fn show(opened: &Opened, owner: &str, mailbox: Option<&str>, json: bool) -> Result<()> {
    let owner = opened.found(owner).await?;
    let only = match mailbox {
        Some(mailbox) => Some(mailbox_of(opened, &owner.name, mailbox).await?.1.id),
        None => None,
    };
    let list = opened.store.list(owner.id).await?;
    let acls = opened.directory.acls().all(owner.id).await?;
    let mut out = std::io::stdout().lock();
    for entry in list.entries.iter().filter(|entry| only.is_none_or(|only| only == entry.id)) {
        let Some((_, acl)) = acls.iter().find(|(mailbox, _)| *mailbox == entry.id) else { continue };
        for (who, rights) in acl.iter() {
            let (name, who, rights) = (entry.name.as_str(), who.to_string(), rights.to_string());
            let line = match json {
                true => json_line(&json!({"mailbox": name, "who": who, "rights": rights})),
                false => format!("{}\t{}\t{rights}", for_line(name), for_line(&who)),
            };
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
