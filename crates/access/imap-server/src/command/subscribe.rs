//! SUBSCRIBE and UNSUBSCRIBE: RFC 9051 §6.3.7, §6.3.8.

use posthaste_imap_codec::MailboxArg;

use super::DONE;
use crate::referred;
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// SUBSCRIBE. A name need not exist (RFC 9051 §6.3.7).
pub(super) async fn subscribe(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let (account, name) = (session.login()?.id, mailbox.create_name()?);
    // RFC 2193 §4.1
    referred::check(session.login()?, &name)?;
    session.service.store.subscribe(account, &name).await?;
    Ok(DONE)
}

/// UNSUBSCRIBE. A subscription of before the mailbox was moved to another server ends here.
pub(super) async fn unsubscribe(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let (account, name) = (session.login()?.id, mailbox.create_name()?);
    if !session.service.store.list(account).await?.subscribed.contains(&name) {
        // RFC 2193 §4.1
        referred::check(session.login()?, &name)?;
    }
    session.service.store.unsubscribe(account, &name).await?;
    Ok(DONE)
}
