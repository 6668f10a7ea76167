//! CREATE: RFC 9051 §6.3.4, with the USE of RFC 6154 §3.

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::SpecialUse as Use;
use posthaste_imap_codec::response::Code;
use posthaste_store::SpecialUse;

use super::{DONE, list};
use crate::reply::{Failure, Reply};
use crate::session::Session;

pub(super) async fn run(
    session: &mut Session,
    mailbox: &MailboxArg,
    special_use: &[Use],
) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let name = mailbox.create_name()?;
    let special_use = match special_use {
        [] => None,
        [one] => Some(stored_use(one).ok_or_else(|| no_use("This special use is not supported"))?),
        _ => return Err(no_use("A mailbox has at most one special use").into()),
    };
    let entry = session.service.store.create(account, &name, special_use).await?;
    if mailbox.text() != Ok(entry.name.as_str()) {
        list::report_name(session, &entry.name, mailbox).await?;
    }
    // RFC 8474 §4.1
    Ok(DONE.with(Code::MailboxId(entry.id.to_string())))
}

fn no_use(text: &'static str) -> Reply {
    Reply::no(Code::UseAttr, text)
}

/// Maps a special use of the protocol to that of the store. `\All` and `\Flagged` are views over
/// other mailboxes, which this server does not have. A mailbox that only carries the attribute
/// would mislead clients.
pub(super) fn stored_use(given: &Use) -> Option<SpecialUse> {
    match given {
        Use::Archive => Some(SpecialUse::Archive),
        Use::Drafts => Some(SpecialUse::Drafts),
        Use::Junk => Some(SpecialUse::Junk),
        Use::Sent => Some(SpecialUse::Sent),
        Use::Trash => Some(SpecialUse::Trash),
        Use::All | Use::Flagged | Use::Important | Use::Other(_) => None,
    }
}
