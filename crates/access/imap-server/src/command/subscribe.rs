//! SUBSCRIBE and UNSUBSCRIBE: RFC 9051 §6.3.7, §6.3.8.

use posthaste_imap_codec::{MailboxArg, Tag};

use super::DONE;
use crate::referred;
use crate::reply::{Failure, Reply};
use crate::resolve::Asker;
use crate::session::Session;

/// SUBSCRIBE. A name need not exist (RFC 9051 §6.3.7).
pub(super) async fn subscribe(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
) -> Result<Reply, Failure> {
    let (account, name) = (session.login()?.id, mailbox.create_name()?);
    // RFC 2193 §4.1
    referred::check(session.login()?, &name)?;
    let reports = session.service.reports(tag);
    let subscribing = session.service.store.subscribe(account, &name);
    session.wire.reporting(reports, subscribing).await?;
    Ok(DONE)
}

/// UNSUBSCRIBE. A subscription of before the mailbox was moved to another server ends here.
pub(super) async fn unsubscribe(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
) -> Result<Reply, Failure> {
    let name = mailbox.create_name()?;
    let (Asker { service, login }, wire, reports) = session.reporting(tag)?;
    let unsubscribing = async {
        if !service.store.list(login.id).await?.subscribed.contains(&name) {
            // RFC 2193 §4.1
            referred::check(login, &name)?;
        }
        service.store.unsubscribe(login.id, &name).await?;
        Ok::<_, Failure>(())
    };
    wire.reporting(reports, Box::pin(unsubscribing)).await?;
    Ok(DONE)
}
