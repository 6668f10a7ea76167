//! RENAME: RFC 9051 §6.3.6.

use std::sync::Arc;

use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxArg, Tag};
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, Rights};
use posthaste_store::{HeldPermit, ListDraft, MailboxList, Moved, StoreError};

use super::{DONE, create, list};
use crate::annotate::carry::{self, CarriedAnnotations};
use crate::annotate::reader::AnnotationReader;
use crate::begun::{Begun, reporting_after};
use crate::copies::COPIED_FREE;
use crate::object_ids;
use crate::referred;
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ResolvedName, check_new};
use crate::rights::{Act, permit};
use crate::session::Session;

/// Renaming INBOX moves its messages and leaves INBOX empty. A mailbox takes its access control
/// list along; INBOX keeps its own, and the new mailbox has none. New levels above the new name are
/// as CREATE makes them.
pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    from: &MailboxArg,
    to: &MailboxArg,
) -> Result<Reply, Failure> {
    let (from_name, to_name) = (from.name()?, to.create_name()?);
    let options = &session.service.options;
    referred::check_pair(session.login()?, &options.hostname, &from_name, &to_name)?;
    check_new(&to_name)?;
    // The session sends reports meanwhile.
    let (service, login) = (Arc::clone(&session.service), session.login()?.clone());
    let asker = Asker { service: &service, login: &login };
    let reports = service.reports(tag);
    let finding = Box::pin(ends(asker, from, (from_name, to_name)));
    let (source, target, before) = session.wire.reporting(reports, finding).await?;
    let (owner, above) = (source.owner, target.name.parent());
    let begun = Begun::of(&session.wire);
    let renaming = async {
        let room = match source.name.is_inbox() {
            true => Some(room_for_inbox(asker, &before).await?),
            false => None,
        };
        begun.begin()?;
        rename(asker, (&source, &target), room).await
    };
    let (moved, id) = Box::pin(reporting_after(&mut session.wire, reports, &begun, renaming)).await??;
    // What follows the mailbox.
    let finishing = async {
        let carried = match &moved {
            // Boxed: hardly any RENAME needs it.
            Some(moved) => Box::pin(keep_annotations(asker, &before, &target, moved)).await,
            None => Ok(()),
        };
        create::inherit(asker, &target, &before, above).await?;
        if source.name.is_inbox() {
            copy_annotations(asker, owner, &source.name, &target.name).await?;
        }
        Ok::<_, Failure>(carried)
    };
    let carried = session.wire.reporting(reports, Box::pin(finishing)).await?;
    carry::warn(carried, &mut session.wire);
    list::report_name(session, tag, &target.shown(&target.name)?, from).await?;
    if !session.enabled.object_ids {
        return Ok(DONE);
    }
    // OBJECTID+ (draft 06 §7.3). Only INBOX becomes another mailbox.
    let id = match moved {
        None => id,
        Some(_) => {
            let list = session.wire.reporting(reports, Box::pin(service.store.list(owner))).await?;
            list.find(&target.name).map(|new| new.id)
        }
    };
    Ok(DONE.with(Code::ObjectIds(object_ids::of_mailbox(owner, id))))
}

/// The mailboxes that both names refer to, and the list that has them.
async fn ends(
    asker: Asker<'_>,
    from: &MailboxArg,
    (from_name, to_name): (MailboxName, MailboxName),
) -> Result<(ResolvedName, ResolvedName, Arc<MailboxList>), Failure> {
    let source = asker.resolve(from_name).await?;
    if source.others.is_some() {
        // RFC 4314 §4: `x` for the mailbox. It is checked before anything is reported of the new
        // name.
        asker.find(from, Act::Delete).await?;
    }
    let target = create::target(asker, to_name).await?;
    check_ends(&source, &target)?;
    let before = asker.service.store.list(source.owner).await?;
    permit_all(&source, &target, &before)?;
    Ok((source, target, before))
}

/// Renames, if the rights suffice in the very list that is changed. Another session may have
/// moved a mailbox to a name below the source meanwhile. New levels above, and what INBOX
/// becomes, need room within the account's quota (RFC 9208 §5.3). The new mailbox of a renamed
/// INBOX obeys the account's limit of messages in a folder, too. Returns what was moved out of
/// INBOX, and which mailbox had the name.
async fn rename(
    asker: Asker<'_>,
    (source, target): (&ResolvedName, &ResolvedName),
    room: Option<RoomForInbox>,
) -> Result<(Option<Moved>, Option<MailboxId>), Failure> {
    let (mut refusal, mut id) = (None, None);
    let owner = asker.owner(target).await?;
    let permit = |list: &MailboxList, draft: &mut ListDraft| {
        draft.limit_mailboxes(owner.quota_mailboxes);
        draft.limit_messages(owner.folder_limits.max);
        if let Some((most, held)) = &room {
            draft.move_at_most(*most, held.clone());
        }
        id = list.find(&source.name).map(|entry| entry.id);
        permit_all(source, target, list).map_err(|failure| {
            refusal = Some(failure);
            StoreError::Refused("a right is missing")
        })
    };
    let renamed = asker.service.store.rename_if(source.owner, &source.name, &target.name, permit).await;
    let moved = renamed.map_err(|error| refusal.unwrap_or_else(|| error.into()))?;
    Ok((moved, id))
}

/// The number of messages of INBOX that may be moved, and the memory for that. All of them are
/// one commit, as those of a MOVE are.
type RoomForInbox = (u64, Option<HeldPermit>);

/// Waits for the room. The command ends with its client meanwhile.
async fn room_for_inbox(asker: Asker<'_>, list: &MailboxList) -> Result<RoomForInbox, Failure> {
    let inbox = list.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?;
    let messages = u64::from(asker.service.store.open_for(asker.login.id, inbox.id).await?.view().exists());
    let max = asker.service.copied_max();
    if messages > max {
        let text = format!("INBOX has over {max} messages: move them to the new mailbox in parts");
        return Err(Reply::no(Code::Limit, text).into());
    }
    let held = asker.service.reserve_to_copy(asker.login.id, messages).await?;
    Ok((messages.max(COPIED_FREE), held))
}

/// The messages of INBOX are in another mailbox now. Their annotations follow them.
async fn keep_annotations(
    asker: Asker<'_>,
    before: &MailboxList,
    target: &ResolvedName,
    moved: &Moved,
) -> Result<(), Failure> {
    if !asker.service.options.annotations {
        return Ok(());
    }
    let inbox = before.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?;
    let list = asker.service.store.list(target.owner).await?;
    let new = list.find(&target.name).ok_or(StoreError::NoSuchName)?;
    let login = asker.login.id;
    let from = AnnotationReader { service: asker.service, login, owner: login, mailbox: inbox.id };
    // One's own mailboxes grant everything.
    CarriedAnnotations::all(from, AnnotationReader { mailbox: new.id, ..from }, Rights::ALL)
        .moved(moved)
        .await
}

/// RFC 4314 §4: `x` for each mailbox that gets another name, and `k` for the level above the new
/// one. A mailbox below the source that may not be renamed keeps all of them where they are.
fn permit_all(source: &ResolvedName, target: &ResolvedName, list: &MailboxList) -> Result<(), Failure> {
    if source.others.is_none() {
        return Ok(());
    }
    let needed = Act::Delete.needs();
    let entry = list.find(&source.name).ok_or(StoreError::NoSuchName)?;
    permit(source.rights(entry.id), needed)?;
    let mut below = list.entries.iter().filter(|entry| entry.name.is_below(&source.name));
    if below.any(|entry| !source.rights(entry.id).contains(needed)) {
        // Without a name: it may be one that the user must not know.
        let text = format!("You lack the right {needed} in a mailbox below that one");
        return Err(Reply::no(Code::NoPerm, text).into());
    }
    create::permit_below(target, list)
}

fn check_ends(source: &ResolvedName, target: &ResolvedName) -> Result<(), Failure> {
    let cannot = |text| Err(Reply::no(Code::Cannot, text).into());
    if source.owner != target.owner {
        return cannot("A mailbox stays in its account: move its messages instead");
    }
    if source.others.is_some() && source.name.is_inbox() {
        return cannot("INBOX of another account cannot be renamed");
    }
    Ok(())
}

/// RFC 5464 §4.1: INBOX keeps its annotations, and the mailbox that it became has them too. Others
/// keep theirs anyway.
async fn copy_annotations(
    asker: Asker<'_>,
    account: AccountId,
    from: &MailboxName,
    to: &MailboxName,
) -> Result<(), Failure> {
    let list = asker.service.store.list(account).await?;
    if let (Some(from), Some(to)) = (list.find(from), list.find(to)) {
        let directory = &asker.service.directory;
        directory.metadata().copy(account, from.id, to.id).await?;
    }
    Ok(())
}
