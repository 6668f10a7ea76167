//! RENAME: RFC 9051 §6.3.6.

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{AccountId, MailboxName};

use super::{DONE, create, list};
use crate::reply::{Failure, Reply};
use crate::rights::Act;
use crate::session::Session;
use crate::sharing::{Place, check_new};

/// Renaming INBOX moves its messages and leaves INBOX empty. A mailbox takes its access control
/// list along; INBOX keeps its own.
pub(super) async fn run(session: &mut Session, from: &MailboxArg, to: &MailboxArg) -> Result<Reply, Failure> {
    let (from_name, to_name) = (from.name()?, to.create_name()?);
    check_new(&to_name)?;
    let asker = session.asker()?;
    let source = asker.place(from_name).await?;
    if source.others.is_some() {
        // RFC 4314 §4: `x` for the mailbox. Before anything is said of the new name.
        asker.find(from, Act::Delete).await?;
    }
    let target = create::target(asker, to_name).await?;
    check_ends(&source, &target)?;
    // RFC 4314 §4: `k` for the level above the new name.
    let list = asker.service.store.list(target.owner).await?;
    create::permit_below(&target, &list)?;
    let owner = source.owner;
    asker.service.store.rename(owner, &source.name, &target.name).await?;
    if source.name.is_inbox() {
        copy_annotations(session, owner, &source.name, &target.name).await?;
    }
    list::report_name(session, &target.shown(&target.name)?, from).await?;
    Ok(DONE)
}

fn check_ends(source: &Place, target: &Place) -> Result<(), Failure> {
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
    session: &Session,
    account: AccountId,
    from: &MailboxName,
    to: &MailboxName,
) -> Result<(), Failure> {
    let list = session.service.store.list(account).await?;
    if let (Some(from), Some(to)) = (list.find(from), list.find(to)) {
        let directory = &session.service.directory;
        directory.copy_annotations_between(account, from.id, to.id).await?;
    }
    Ok(())
}
