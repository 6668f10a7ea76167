//! SUBSCRIBE and UNSUBSCRIBE: RFC 9051 §6.3.7, §6.3.8.

use posthaste_imap_codec::MailboxArg;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// SUBSCRIBE. A name need not exist (RFC 9051 §6.3.7).
pub(super) async fn subscribe(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    session.service.store.subscribe(account, &mailbox.create_name()?).await?;
    Ok(DONE)
}

/// UNSUBSCRIBE.
pub(super) async fn unsubscribe(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    session.service.store.unsubscribe(account, &mailbox.create_name()?).await?;
    Ok(DONE)
}
