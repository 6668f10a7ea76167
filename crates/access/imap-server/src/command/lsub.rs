//! LSUB: RFC 3501 §6.3.9. IMAP4rev2 removed it, but clients of rev1 still use it.

use posthaste_imap_codec::response::Untagged;
use posthaste_imap_codec::{ListPattern, MailboxArg};

use super::{DONE, list};
use crate::reply::{Failure, Reply};
use crate::session::Session;

pub(super) async fn run(
    session: &mut Session,
    reference: &MailboxArg,
    pattern: &ListPattern,
) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let mailboxes = session.service.store.list(account).await?;
    let (reference, pattern) = (reference.text()?, pattern.text()?);
    for data in list::subscribed(session, account, mailboxes, reference, pattern).await? {
        session.wire.say(Untagged::Lsub(data));
        session.wire.relieve().await?;
    }
    Ok(DONE)
}
