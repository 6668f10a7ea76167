//! RENAME: RFC 9051 §6.3.6.

use posthaste_imap_codec::MailboxArg;

use super::{DONE, list};
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// Renaming INBOX moves its messages and leaves INBOX empty.
pub(super) async fn run(session: &mut Session, from: &MailboxArg, to: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let (from_name, to_name) = (from.name()?, to.create_name()?);
    session.service.store.rename(account, &from_name, &to_name).await?;
    list::report_name(session, &to_name, from).await?;
    Ok(DONE)
}
