//! GETQUOTA, GETQUOTAROOT and SETQUOTA: RFC 9208. All mailboxes of an account count for one quota
//! root, if the account has a limit. No account is an administrator's here, so there is nobody who
//! may set limits by IMAP: QUOTASET is not offered.

use posthaste_delivery::{Quota, Usage};
use posthaste_directory::Account;
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::{Code, QuotaResource, Untagged};

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::rights::Act;
use crate::session::Session;

/// The name of one's own quota root. The account's name would say more than a client needs. The
/// root of others is the level above their mailboxes.
const ROOT: &str = "";
/// Octets of a unit of STORAGE: RFC 9208 §5.1.
const UNIT: u64 = 1024;

/// RFC 9208 §4.1.1.
pub(super) async fn get(session: &mut Session, root: &str) -> Result<Reply, Failure> {
    let account = match root {
        ROOT => Some(session.login()?.clone()),
        other => account_of(session, other).await?,
    };
    let limits = account.as_ref().and_then(|account| limits(session, account));
    let (Some(account), Some(limits)) = (account, limits) else {
        return Err(Reply::no(Code::NonExistent, "There is no such quota root").into());
    };
    say_quota(session, root, &account, limits).await?;
    Ok(DONE)
}

/// RFC 9208 §4.1.2. The mailbox need not exist: a client may ask before it makes one.
pub(super) async fn get_root(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let asker = session.asker()?;
    let place = asker.place(mailbox.name()?).await?;
    if place.others.is_some() {
        // RFC 4314 §4
        asker.find(mailbox, Act::ReadQuota).await?;
    }
    let account = asker.owner(&place).await?;
    let root = place.others.map_or_else(|| ROOT.to_owned(), |others| others.top);
    let limits = limits(session, &account);
    let roots = limits.iter().map(|_| root.clone()).collect();
    session.wire.say(Untagged::QuotaRoot { mailbox: mailbox.clone(), roots });
    if let Some(limits) = limits {
        say_quota(session, &root, &account, limits).await?;
    }
    Ok(DONE)
}

/// RFC 9208 §4.1.3. The capability QUOTASET is not offered: limits are set by `posthaste account`.
pub(super) fn refuse_set() -> Reply {
    Reply::no(Code::NoPerm, "Quotas are set by the administrator")
}

/// The account of another quota root, if one of its mailboxes can be read.
async fn account_of(session: &Session, root: &str) -> Result<Option<Account>, Failure> {
    let visible = session.service.shared.visible_to(session.login()?).await?;
    let Some(owner) = visible.owner_below(root).filter(|owner| owner.shows_anything()) else {
        return Ok(None);
    };
    Ok(session.service.directory.account(&owner.account.name).await?)
}

/// What is limited in an account.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Limits {
    mail: Quota,
    mailboxes: Option<u64>,
}

/// The account's limits; `None` if it has none.
fn limits(session: &Session, account: &Account) -> Option<Limits> {
    let mail = session.service.delivery.quota(account);
    let limits = Limits { mail, mailboxes: account.quota_mailboxes };
    Some(limits).filter(|limits| *limits != Limits::default())
}

async fn say_quota(
    session: &mut Session,
    root: &str,
    account: &Account,
    limits: Limits,
) -> Result<(), Failure> {
    let used = session.service.delivery.usage(account.id).await?;
    let mut resources = resources(limits.mail, used);
    if let Some(limit) = limits.mailboxes {
        let usage = session.service.store.list(account.id).await?.entries.len() as u64;
        resources.push(QuotaResource { name: "MAILBOX".to_owned(), usage, limit });
    }
    session.wire.say(Untagged::Quota { root: root.to_owned(), resources });
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
