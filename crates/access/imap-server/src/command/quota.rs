//! GETQUOTA, GETQUOTAROOT and SETQUOTA: RFC 9208. All mailboxes of an account count for one quota
//! root, if the account has a limit.
//!
//! An account may have the right to set the quotas of its domain (`account set --sets-quotas`).
//! QUOTASET is offered to it alone. The quota root of another account is the level above its
//! mailboxes, `Other Users/ana@example.org`, whether these are shared or not.

use std::sync::Arc;

use posthaste_delivery::{Quota, Usage};
use posthaste_directory::{Account, AccountChange, Address};
use posthaste_imap_codec::response::{Code, QuotaResource, Untagged};
use posthaste_imap_codec::{MailboxArg, Tag};
use posthaste_mail_model::MailboxName;
use posthaste_sharing::Namespace;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ResolvedName};
use crate::rights::Act;
use crate::service::{AdministrativeAct, ImapService};
use crate::session::Session;

/// The name of one's own quota root. The account's name would say more than a client needs. The
/// root of others is the level above their mailboxes.
const ROOT: &str = "";
/// Octets of a unit of STORAGE: RFC 9208 §5.1.
const UNIT: u64 = 1024;

/// RFC 9208 §4.1.1.
pub(super) async fn get(session: &mut Session, tag: &Tag, root: &str) -> Result<Reply, Failure> {
    let (asker, wire, reports) = session.reporting(tag)?;
    let account = match root {
        ROOT => Some(asker.login.clone()),
        other => wire.reporting(reports, Box::pin(account_of(asker, other))).await?,
    };
    let limits = account.as_ref().and_then(|account| limits(&session.service, account));
    let (Some(account), Some(limits)) = (account, limits) else {
        return Err(Reply::no(Code::NonExistent, "There is no such quota root").into());
    };
    say_quota(session, tag, root, &account, limits).await?;
    Ok(DONE)
}

/// RFC 9208 §4.1.2. The mailbox need not exist: a client may query it before it makes one.
pub(super) async fn get_root(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
) -> Result<Reply, Failure> {
    let (asker, wire, reports) = session.reporting(tag)?;
    let (resolved, account) = wire.reporting(reports, Box::pin(counted_for(asker, mailbox))).await?;
    let root = resolved.others.map_or_else(|| ROOT.to_owned(), |others| others.top);
    let limits = limits(&session.service, &account);
    let roots = limits.iter().map(|_| root.clone()).collect();
    session.wire.say(Untagged::QuotaRoot { mailbox: mailbox.clone(), roots });
    if let Some(limits) = limits {
        say_quota(session, tag, &root, &account, limits).await?;
    }
    Ok(DONE)
}

/// The mailbox that a name refers to, and the account that it counts for.
async fn counted_for(asker: Asker<'_>, mailbox: &MailboxArg) -> Result<(ResolvedName, Account), Failure> {
    let resolved = asker.resolve(mailbox.name()?).await?;
    if resolved.others.is_some() {
        // RFC 4314 §4
        asker.find(mailbox, Act::ReadQuota).await?;
    }
    let account = asker.owner(&resolved).await?;
    Ok((resolved, account.into_owned()))
}

/// RFC 9208 §4.1.3. Limits that are not named are lifted.
pub(super) async fn set(
    session: &mut Session,
    tag: &Tag,
    root: &str,
    limits: &[(String, u64)],
) -> Result<Reply, Failure> {
    let (asker, wire, reports) = session.reporting(tag)?;
    let account = wire.reporting(reports, Box::pin(change(asker, root, limits))).await?;
    if let Some(login) = session.login.as_mut().filter(|login| login.id == account.id) {
        *login = Arc::new(account.clone());
    }
    if let Some(limits) = self::limits(&session.service, &account) {
        say_quota(session, tag, root, &account, limits).await?;
    }
    Ok(DONE)
}

/// Changes the limits of a quota root, and returns its account.
async fn change(asker: Asker<'_>, root: &str, limits: &[(String, u64)]) -> Result<Account, Failure> {
    let Asker { service, login } = asker;
    // Read again: the right may have been taken since the login.
    let now = service.directory.account(&login.name).await?;
    let Some(setter) = now.filter(|now| now.id == login.id && now.sets_quotas) else {
        return Err(Reply::no(Code::NoPerm, "Quotas are set by the administrator").into());
    };
    let change = change_of(limits)?;
    let account = match root {
        ROOT => Some(setter.clone()).filter(|account| setter.may_set_quotas_of(account)),
        other => account_in_domain(service, &setter, other).await?,
    };
    let Some(account) = account else {
        // The answer does not reveal accounts of other domains.
        return Err(Reply::no(Code::NonExistent, "You may set no quota root of that name").into());
    };
    let outcome = service.directory.set(&account.name, change).await;
    let act = AdministrativeAct {
        by: setter.name.clone(),
        what: format!("SETQUOTA {}{}", account.name, of_limits(limits)),
        is_done: outcome.is_ok(),
    };
    service.acted(act).await;
    let account = outcome?;
    tracing::info!(by = setter.name, account = account.name, ?limits, "quota set");
    Ok(account)
}

fn of_limits(limits: &[(String, u64)]) -> String {
    match limits {
        [] => " none".to_owned(),
        limits => limits.iter().map(|(name, limit)| format!(" {name} {limit}")).collect(),
    }
}

/// The change of an account that a list of limits makes.
fn change_of(limits: &[(String, u64)]) -> Result<AccountChange, Failure> {
    let mut change = AccountChange {
        quota_bytes: Some(None),
        quota_messages: Some(None),
        quota_mailboxes: Some(None),
        ..AccountChange::default()
    };
    for (name, limit) in limits {
        let (field, limit) = match name.as_str() {
            "STORAGE" => (&mut change.quota_bytes, limit.checked_mul(UNIT)),
            "MESSAGE" => (&mut change.quota_messages, Some(*limit)),
            "MAILBOX" => (&mut change.quota_mailboxes, Some(*limit)),
            _ => {
                let text =
                    format!("{name} has no limit here: only STORAGE, MESSAGE and MAILBOX can be limited");
                return Err(Reply::no(Code::Cannot, text).into());
            }
        };
        if limit.is_none() {
            return Err(Reply::no(Code::Cannot, "This limit of STORAGE is too large").into());
        }
        if field.replace(limit) != Some(None) {
            return Err(Reply::bad(format!("{name} is named twice")).into());
        }
    }
    Ok(change)
}

/// The account of a quota root, if it is in the domain of one who sets quotas there.
async fn account_in_domain(
    service: &ImapService,
    setter: &Account,
    root: &str,
) -> Result<Option<Account>, Failure> {
    let Ok(name) = MailboxName::new(root) else { return Ok(None) };
    let Some(shown) = Namespace::split(&name).filter(|shown| shown.name.is_none()) else { return Ok(None) };
    if !setter.sets_quotas || Address::parse(shown.owner).is_err() {
        return Ok(None);
    }
    let account = service.directory.account(shown.owner).await?;
    let is_there = |account: &Account| Namespace::of(account) == shown.namespace;
    Ok(account.filter(|account| is_there(account) && setter.may_set_quotas_of(account)))
}

/// The account of another quota root, if one of its mailboxes can be read, or its quota can be set.
async fn account_of(asker: Asker<'_>, root: &str) -> Result<Option<Account>, Failure> {
    let Asker { service, login } = asker;
    if let Some(account) = account_in_domain(service, login, root).await? {
        return Ok(Some(account));
    }
    let visible = service.shared.visible_to(login).await?;
    let Some(owner) = visible.owner_below(root).filter(|owner| owner.shows_anything()) else {
        return Ok(None);
    };
    Ok(service.directory.account(&owner.account.name).await?)
}

/// The limits of an account.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Limits {
    mail: Quota,
    mailboxes: Option<u64>,
}

/// The account's limits; `None` if it has none.
fn limits(service: &ImapService, account: &Account) -> Option<Limits> {
    let mail = service.delivery.quota(account);
    let limits = Limits { mail, mailboxes: account.quota_mailboxes };
    Some(limits).filter(|limits| *limits != Limits::default())
}

async fn say_quota(
    session: &mut Session,
    tag: &Tag,
    root: &str,
    account: &Account,
    limits: Limits,
) -> Result<(), Failure> {
    let (asker, wire, reports) = session.reporting(tag)?;
    let reading = Box::pin(resources_of(asker.service, account, limits));
    let resources = wire.reporting(reports, reading).await?;
    session.wire.say(Untagged::Quota { root: root.to_owned(), resources });
    Ok(())
}

/// The use that an account makes of its limits.
async fn resources_of(
    service: &ImapService,
    account: &Account,
    limits: Limits,
) -> Result<Vec<QuotaResource>, Failure> {
    let used = service.delivery.usage(account.id).await?;
    let mut resources = resources(limits.mail, used);
    if let Some(limit) = limits.mailboxes {
        let usage = service.store.list(account.id).await?.entries.len() as u64;
        resources.push(QuotaResource { name: "MAILBOX".to_owned(), usage, limit });
    }
    Ok(resources)
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
