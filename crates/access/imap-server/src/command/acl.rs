//! SETACL, DELETEACL, GETACL, LISTRIGHTS and MYRIGHTS: RFC 4314 §3.
//!
//! The owner has every right in each own mailbox, and cannot give one up. So no list is read for
//! the owner. Only lists of shared accounts may name everybody. Otherwise a user could add
//! mailboxes to the LIST of all others.

use posthaste_directory::{Account, AclError, Identifier, Who};
use posthaste_imap_codec::response::{Code, Untagged};
use posthaste_imap_codec::{AclCommand, AclData, MailboxArg, RightsChange, Tag};
use posthaste_mail_model::Rights;
use posthaste_store::StoreError;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ExistingMailbox};
use crate::rights::{Act, TO_ASK};
use crate::session::Session;

pub(super) async fn run(session: &mut Session, tag: &Tag, command: AclCommand) -> Result<Reply, Failure> {
    let (asker, wire, reports) = session.reporting(tag)?;
    // No work that may wait is done within the response.
    let data = wire.reporting(reports, Box::pin(execute(asker, command))).await?;
    if let Some(data) = data {
        session.wire.say(Untagged::Acl(data));
    }
    Ok(DONE)
}

/// Executes a command, and returns its untagged response.
async fn execute(asker: Asker<'_>, command: AclCommand) -> Result<Option<AclData>, Failure> {
    match command {
        AclCommand::Get(mailbox) => get(asker, mailbox).await.map(Some),
        AclCommand::MyRights(mailbox) => my_rights(asker, mailbox).await.map(Some),
        AclCommand::ListRights { mailbox, identifier } => {
            list_rights(asker, mailbox, identifier).await.map(Some)
        }
        AclCommand::Set { mailbox, identifier, change, rights } => {
            set(asker, &mailbox, &identifier, (change, rights)).await.map(|()| None)
        }
        AclCommand::Delete { mailbox, identifier } => {
            let none = (RightsChange::Replace, Rights::NONE);
            set(asker, &mailbox, &identifier, none).await.map(|()| None)
        }
    }
}

/// A mailbox whose access control list the user may see and change, and whose it is.
async fn administered(asker: Asker<'_>, mailbox: &MailboxArg) -> Result<(ExistingMailbox, Account), Failure> {
    let found = asker.find(mailbox, Act::Administer).await?;
    let owner = asker.owner(&found.resolved).await?;
    Ok((found, owner.into_owned()))
}

/// RFC 4314 §3.3.
async fn get(asker: Asker<'_>, mailbox: MailboxArg) -> Result<AclData, Failure> {
    let (found, owner) = administered(asker, &mailbox).await?;
    let acl = asker.service.directory.acls().get(owner.id, found.entry.id).await?;
    let others = acl.iter().map(|(identifier, rights)| (identifier.to_string(), rights));
    let entries = std::iter::once((owner.name, Rights::ALL)).chain(others).collect();
    Ok(AclData::Acl { mailbox, entries })
}

/// RFC 4314 §3.5.
async fn my_rights(asker: Asker<'_>, mailbox: MailboxArg) -> Result<AclData, Failure> {
    let rights = asker.find_unchecked(&mailbox).await?.rights;
    if !rights.intersects(TO_ASK) {
        return Err(StoreError::NoSuchName.into());
    }
    Ok(AclData::MyRights { mailbox, rights })
}

/// RFC 4314 §3.4. Whether there is such a user shows in no answer.
async fn list_rights(asker: Asker<'_>, mailbox: MailboxArg, text: String) -> Result<AclData, Failure> {
    let (_, owner) = administered(asker, &mailbox).await?;
    let identifier = parse(&text)?;
    let (required, optional) = match is_owner(&identifier, &owner) {
        true => (Rights::ALL, Vec::new()),
        false if is_too_wide(&identifier, &owner) => (Rights::NONE, Vec::new()),
        false => (Rights::NONE, Rights::ALL.each().collect()),
    };
    Ok(AclData::ListRights { mailbox, identifier: text, required, optional })
}

/// RFC 4314 §3.1, §3.2.
async fn set(
    asker: Asker<'_>,
    mailbox: &MailboxArg,
    text: &str,
    (change, rights): (RightsChange, Rights),
) -> Result<(), Failure> {
    let (found, owner) = administered(asker, mailbox).await?;
    let identifier = parse(text)?;
    if is_owner(&identifier, &owner) {
        // RFC 4314 §3.1: rights that are always granted.
        return match change.apply(Rights::ALL, rights) == Rights::ALL && !identifier.negative {
            true => Ok(()),
            false => Err(Reply::no(Code::Cannot, "The owner always has every right").into()),
        };
    }
    if is_too_wide(&identifier, &owner) && change != RightsChange::Remove && !rights.is_empty() {
        let text = "Only the administrator shares mailboxes of users with everybody";
        return Err(Reply::no(Code::NoPerm, text).into());
    }
    let (service, mailbox) = (asker.service, found.entry.id);
    let changed = |before| change.apply(before, rights);
    let acls = service.directory.acls();
    acls.set_rights_by((asker.login.id, &owner), mailbox, &identifier, changed).await.map_err(refused)?;
    // A mailbox that was deleted meanwhile: its id is never used again, so nobody would remove a
    // record that was written after its deletion.
    let list = service.store.list(owner.id).await?;
    if !list.entries.iter().any(|entry| entry.id == mailbox) {
        service.directory.acls().remove(owner.id, mailbox).await?;
        return Err(StoreError::NoSuchName.into());
    }
    service.shared.note_change();
    tracing::info!(
        by = asker.login.name, owner = owner.name, mailbox = found.entry.name.as_str(),
        identifier = identifier.to_string(), ?change, %rights, "rights in a mailbox were changed"
    );
    Ok(())
}

fn parse(text: &str) -> Result<Identifier, Failure> {
    let name = text.strip_prefix('-').unwrap_or(text);
    if name.is_empty() || name.chars().any(char::is_control) {
        // RFC 4314 §3: SASLprep refuses control characters.
        return Err(Reply::bad("An identifier is not empty and has no control characters").into());
    }
    Identifier::parse(text).map_err(|why| {
        Reply::no(Code::Cannot, format!("An identifier is an account or anyone: {why}")).into()
    })
}

fn is_owner(identifier: &Identifier, owner: &Account) -> bool {
    matches!(&identifier.who, Who::User(name) if *name == owner.name)
}

fn is_too_wide(identifier: &Identifier, owner: &Account) -> bool {
    identifier.who == Who::Anyone && !identifier.negative && !owner.shared
}

fn refused(error: AclError) -> Failure {
    match error {
        AclError::TooMany | AclError::TooManyInAll | AclError::TooManyNamed => {
            Reply::no(Code::Limit, error.to_string()).into()
        }
        AclError::Directory(error) => error.into(),
    }
}
