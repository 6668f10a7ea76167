//! RENAME: RFC 9051 §6.3.6.

use posthaste_imap_codec::MailboxArg;
use posthaste_mail_model::{AccountId, MailboxName};

use super::{DONE, list};
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// Renaming INBOX moves its messages and leaves INBOX empty.
pub(super) async fn run(session: &mut Session, from: &MailboxArg, to: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let (from_name, to_name) = (from.name()?, to.create_name()?);
    session.service.store.rename(account, &from_name, &to_name).await?;
    if from_name.is_inbox() {
        copy_annotations(session, account, &from_name, &to_name).await?;
    }
    list::report_name(session, &to_name, from).await?;
    Ok(DONE)
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
