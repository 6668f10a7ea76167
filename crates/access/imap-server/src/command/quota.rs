//! GETQUOTA, GETQUOTAROOT and SETQUOTA: RFC 9208. All mailboxes of an account count for one quota
//! root, if the account has a limit.

use posthaste_delivery::{Quota, Usage};
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::{Code, QuotaResource, Untagged};

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// The name of an account's quota root. The account's own name would say more than a client needs.
const ROOT: &str = "";
/// Octets of a unit of STORAGE: RFC 9208 §5.1.
const UNIT: u64 = 1024;

/// RFC 9208 §4.1.1.
pub(super) async fn get(session: &mut Session, root: &str) -> Result<Reply, Failure> {
    let limits = limits(session)?.filter(|_| root == ROOT);
    let limits = limits.ok_or_else(|| Reply::no(Code::NonExistent, "There is no such quota root"))?;
    say_quota(session, limits).await?;
    Ok(DONE)
}

/// RFC 9208 §4.1.2. The mailbox need not exist: a client may ask before it makes one.
pub(super) async fn get_root(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    mailbox.name()?;
    let limits = limits(session)?;
    let roots = limits.iter().map(|_| ROOT.to_owned()).collect();
    session.wire.say(Untagged::QuotaRoot { mailbox: mailbox.clone(), roots });
    if let Some(limits) = limits {
        say_quota(session, limits).await?;
    }
    Ok(DONE)
}

/// RFC 9208 §4.1.3. The capability QUOTASET is not offered: limits are set by `posthaste account`.
pub(super) fn refuse_set() -> Reply {
    Reply::no(Code::NoPerm, "Quotas are set by the administrator")
}

/// The account's limits; `None` if it has none.
fn limits(session: &Session) -> Result<Option<Quota>, Failure> {
    let limits = session.service.delivery.quota(session.login()?);
    Ok(Some(limits).filter(|limits| *limits != Quota::default()))
}

async fn say_quota(session: &mut Session, limits: Quota) -> Result<(), Failure> {
    let account = session.login()?.id;
    let used = session.service.delivery.usage(account).await?;
    let resources = resources(limits, used);
    session.wire.say(Untagged::Quota { root: ROOT.to_owned(), resources });
    Ok(())
}

fn resources(limits: Quota, used: Usage) -> Vec<QuotaResource> {
    let storage = limits.bytes.map(|limit| QuotaResource {
        name: "STORAGE".to_owned(),
        usage: used.charged().div_ceil(UNIT),
        limit: limit / UNIT,
    });
    let messages = limits.messages.map(|limit| QuotaResource {
        name: "MESSAGE".to_owned(),
        usage: used.messages,
        limit,
    });
    storage.into_iter().chain(messages).collect()
}
