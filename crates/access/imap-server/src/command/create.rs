//! CREATE: RFC 9051 §6.3.4, with the USE of RFC 6154 §3.

use posthaste_imap_codec::command::SpecialUse as Use;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxArg, Tag};
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, Rights};
use posthaste_store::{MailboxEntry, MailboxList, SpecialUse, StoreError};

use super::{DONE, list};
use crate::object_ids;
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ResolvedName, check_new, not_there};
use crate::rights::Act;
use crate::session::Session;
use crate::special_use;

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
    uses: &[Use],
) -> Result<Reply, Failure> {
    let name = mailbox.create_name()?;
    check_new(&name)?;
    let special_use = match uses {
        [] => None,
        [one] => Some(special_use::stored(one).ok_or_else(|| no_use("This special use is not supported"))?),
        _ => return Err(no_use("A mailbox has at most one special use").into()),
    };
    let (asker, wire, reports) = session.reporting(tag)?;
    let creating = Box::pin(create(asker, name, special_use));
    let NewMailbox { owner, id, shown } = wire.reporting(reports, creating).await?;
    if mailbox.text() != Ok(shown.as_str()) {
        list::report_name(session, tag, &shown, mailbox).await?;
    }
    Ok(DONE.with(match session.enabled.object_ids {
        // OBJECTID+ (draft 06 §7.2)
        true => Code::ObjectIds(object_ids::of_mailbox(owner, Some(id))),
        // RFC 8474 §4.1
        false => Code::MailboxId(id.to_string()),
    }))
}

/// A mailbox that was created.
struct NewMailbox {
    owner: AccountId,
    id: MailboxId,
    /// The name by which the asker knows it.
    shown: MailboxName,
}

async fn create(
    asker: Asker<'_>,
    name: MailboxName,
    special_use: Option<SpecialUse>,
) -> Result<NewMailbox, Failure> {
    let store = &asker.service.store;
    let resolved = target(asker, name).await?;
    if resolved.others.is_some() && special_use.is_some() {
        return Err(no_use("Mailboxes of others have no special use").into());
    }
    let before = store.list(resolved.owner).await?;
    permit_below(&resolved, &before)?;
    let limit = asker.owner(&resolved).await?.quota_mailboxes;
    let entry = store.create_within(resolved.owner, &resolved.name, special_use, limit).await?;
    inherit(asker, &resolved, &before, Some(resolved.name.clone())).await?;
    Ok(NewMailbox { owner: resolved.owner, id: entry.id, shown: resolved.shown(&entry.name)? })
}

fn no_use(text: &'static str) -> Reply {
    Reply::no(Code::UseAttr, text)
}

/// The account and the name that a new name refers to. No answer shows whether the account above
/// it exists.
pub(super) async fn target(asker: Asker<'_>, name: MailboxName) -> Result<ResolvedName, Failure> {
    asker.resolve(name).await.map_err(|failure| match failure {
        Failure::Store(StoreError::NoSuchName) => not_there(),
        other => other,
    })
}

/// RFC 4314 §4: the nearest level above a new mailbox that exists must grant `k`.
pub(super) fn permit_below(resolved: &ResolvedName, list: &MailboxList) -> Result<(), Failure> {
    if resolved.others.is_none() {
        return Ok(());
    }
    let rights = nearest(list, &resolved.name).map_or(Rights::NONE, |above| resolved.rights(above.id));
    if rights.contains(Act::CreateBelow.needs()) { Ok(()) } else { Err(not_there()) }
}

/// RFC 4314 §4: new mailboxes have the access control list of the mailbox above them. The new ones
/// are the level `lowest` and those above it that did not exist before.
pub(super) async fn inherit(
    asker: Asker<'_>,
    resolved: &ResolvedName,
    before: &MailboxList,
    lowest: Option<MailboxName>,
) -> Result<(), Failure> {
    let Some(above) = nearest(before, &resolved.name) else { return Ok(()) };
    let directory = &asker.service.directory;
    let acl = directory.acls().get(resolved.owner, above.id).await?;
    if acl.is_empty() {
        return Ok(());
    }
    let owner = asker.owner(resolved).await?;
    let after = asker.service.store.list(resolved.owner).await?;
    let levels = std::iter::successors(lowest, MailboxName::parent);
    for name in levels.take_while(|name| *name != above.name) {
        if let Some(new) = after.find(&name).filter(|new| before.find(&new.name).is_none()) {
            directory.acls().inherit(&owner, new.id, &acl).await?;
        }
    }
    asker.service.shared.note_change();
    Ok(())
}

/// The nearest level above a name that is a mailbox.
fn nearest<'l>(list: &'l MailboxList, name: &MailboxName) -> Option<&'l MailboxEntry> {
    std::iter::successors(name.parent(), MailboxName::parent).find_map(|above| list.find(&above))
}
