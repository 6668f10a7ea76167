//! CREATE: RFC 9051 §6.3.4, with the USE of RFC 6154 §3.

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::SpecialUse as Use;
use posthaste_imap_codec::response::Code;

use super::{DONE, list};
use crate::reply::{Failure, Reply};
use crate::session::Session;
use crate::special_use;

pub(super) async fn run(session: &mut Session, mailbox: &MailboxArg, uses: &[Use]) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let name = mailbox.create_name()?;
    let special_use = match uses {
        [] => None,
        [one] => Some(special_use::stored(one).ok_or_else(|| no_use("This special use is not supported"))?),
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
