//! SETACL, DELETEACL, GETACL, LISTRIGHTS and MYRIGHTS: RFC 4314 §3.
//!
//! The owner has every right in each own mailbox, and cannot give one up. So no list is read for
//! the owner. Only lists of shared accounts may name everybody. Otherwise a user could add
//! mailboxes to the LIST of all others.

use posthaste_directory::{Account, AclError, Identifier, Who};
use posthaste_imap_codec::response::{Code, Untagged};
use posthaste_imap_codec::{AclCommand, AclData, MailboxArg, RightsChange};
use posthaste_mail_model::Rights;
use posthaste_store::StoreError;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::resolve::ExistingMailbox;
use crate::rights::{Act, TO_ASK};
use crate::session::Session;

pub(super) async fn run(session: &mut Session, command: AclCommand) -> Result<Reply, Failure> {
    match command {
        AclCommand::Get(mailbox) => get(session, mailbox).await,
        AclCommand::MyRights(mailbox) => my_rights(session, mailbox).await,
        AclCommand::ListRights { mailbox, identifier } => list_rights(session, mailbox, identifier).await,
        AclCommand::Set { mailbox, identifier, change, rights } => {
            set(session, &mailbox, &identifier, (change, rights)).await
        }
        AclCommand::Delete { mailbox, identifier } => {
            set(session, &mailbox, &identifier, (RightsChange::Replace, Rights::NONE)).await
        }
    }
}

/// A mailbox whose access control list the user may see and change, and whose it is.
async fn administered(
    session: &Session,
    mailbox: &MailboxArg,
) -> Result<(ExistingMailbox, Account), Failure> {
    let asker = session.asker()?;
    let found = asker.find(mailbox, Act::Administer).await?;
    let owner = asker.owner(&found.resolved).await?;
    Ok((found, owner))
}

/// RFC 4314 §3.3.
async fn get(session: &mut Session, mailbox: MailboxArg) -> Result<Reply, Failure> {
    let (found, owner) = administered(session, &mailbox).await?;
    let acl = session.service.directory.acl(owner.id, found.entry.id).await?;
    let others = acl.iter().map(|(identifier, rights)| (identifier.to_string(), rights));
    let entries = std::iter::once((owner.name, Rights::ALL)).chain(others).collect();
    session.wire.say(Untagged::Acl(AclData::Acl { mailbox, entries }));
    Ok(DONE)
}

/// RFC 4314 §3.5.
async fn my_rights(session: &mut Session, mailbox: MailboxArg) -> Result<Reply, Failure> {
    let rights = session.asker()?.look(&mailbox).await?.rights;
    if !rights.intersects(TO_ASK) {
        return Err(StoreError::NoSuchName.into());
    }
    session.wire.say(Untagged::Acl(AclData::MyRights { mailbox, rights }));
    Ok(DONE)
}

/// RFC 4314 §3.4. Whether there is such a user shows in no answer.
async fn list_rights(session: &mut Session, mailbox: MailboxArg, text: String) -> Result<Reply, Failure> {
    let (_, owner) = administered(session, &mailbox).await?;
    let identifier = parse(&text)?;
    let (required, optional) = match is_owner(&identifier, &owner) {
        true => (Rights::ALL, Vec::new()),
        false if is_too_wide(&identifier, &owner) => (Rights::NONE, Vec::new()),
        false => (Rights::NONE, Rights::ALL.each().collect()),
    };
    let data = AclData::ListRights { mailbox, identifier: text, required, optional };
    session.wire.say(Untagged::Acl(data));
    Ok(DONE)
}

/// RFC 4314 §3.1, §3.2.
async fn set(
    session: &mut Session,
    mailbox: &MailboxArg,
    text: &str,
    (change, rights): (RightsChange, Rights),
) -> Result<Reply, Failure> {
    let (found, owner) = administered(session, mailbox).await?;
    let identifier = parse(text)?;
    if is_owner(&identifier, &owner) {
        // RFC 4314 §3.1: rights that are always granted.
        return match change.apply(Rights::ALL, rights) == Rights::ALL && !identifier.negative {
            true => Ok(DONE),
            false => Err(Reply::no(Code::Cannot, "The owner has every right, and keeps it").into()),
        };
    }
    if is_too_wide(&identifier, &owner) && change != RightsChange::Remove && !rights.is_empty() {
        let text = "Only the administrator shares mailboxes of users with everybody";
        return Err(Reply::no(Code::NoPerm, text).into());
    }
    let (service, mailbox) = (&session.service, found.entry.id);
    let changed = |before| change.apply(before, rights);
    service.directory.set_rights(&owner, mailbox, &identifier, changed).await.map_err(refused)?;
    // A mailbox that was deleted meanwhile: its id is never used again, so nobody would remove a
    // record that was written after its deletion.
    let list = service.store.list(owner.id).await?;
    if !list.entries.iter().any(|entry| entry.id == mailbox) {
        service.directory.remove_acl(owner.id, mailbox).await?;
        return Err(StoreError::NoSuchName.into());
    }
    service.shared.note_change();
    tracing::info!(
        by = session.login()?.name, owner = owner.name, mailbox = %found.entry.name, %identifier,
        ?change, %rights, "rights in a mailbox were changed"
    );
    Ok(DONE)
}

fn parse(text: &str) -> Result<Identifier, Failure> {
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
        AclError::TooMany | AclError::TooManyInAll => Reply::no(Code::Limit, error.to_string()).into(),
        AclError::Directory(error) => error.into(),
    }
}
