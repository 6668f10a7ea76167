//! APPEND: RFC 9051 §6.3.12, several messages by RFC 3502, sizes by RFC 7889.
//!
//! `connection` checks the size of each literal before it arrives. This file turns the complete
//! messages into summaries, by the same path as any other mail. All of them enter the mailbox, or
//! none.

use posthaste_imap_codec::command::AppendMessage;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxArg, UidRanges};
use posthaste_store::{IncomingMessage, StoreError};

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::service::ImapService;
use crate::session::Session;

pub(super) async fn run(
    session: &mut Session,
    mailbox: &MailboxArg,
    messages: Vec<AppendMessage>,
) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let name = mailbox.name()?;
    // RFC 3502 §3: an empty message at the end cancels the whole APPEND.
    if messages.iter().any(|message| message.data.is_empty()) {
        return Err(Reply::no(Code::Cannot, "APPEND cancelled by an empty message").into());
    }
    let list = session.service.store.list(account).await?;
    let entry = list.find(&name).ok_or(StoreError::NoSuchName).map_err(Failure::from);
    let entry = entry.map_err(Failure::try_create)?;
    let target = session.service.store.destination(entry.id);
    let mut incoming = Vec::with_capacity(messages.len());
    for message in messages {
        incoming.push(prepare(&session.service, message).await?);
    }
    let account = session.login()?;
    let appended = session.service.delivery.append(account, &target, incoming).await.map_err(Failure::from);
    let appended = appended.map_err(Failure::try_create)?;
    let uids = appended.uids.iter().map(|uid| uid.value()).collect();
    let reply = done_without(appended.left_out.len());
    Ok(reply.with(Code::AppendUid(entry.uid_validity, UidRanges::from(&uids))))
}

/// The answer where a mailbox has no place for so many keywords of a message.
pub(super) fn done_without(keywords: usize) -> Reply {
    match keywords {
        0 => DONE,
        _ => Reply::ok("Done without some keywords: the mailbox has as many as it can hold"),
    }
}

/// A message as the store takes it.
pub(super) async fn prepare(
    service: &ImapService,
    message: AppendMessage,
) -> Result<IncomingMessage, Failure> {
    let AppendMessage { flags, date, data, .. } = message;
    // Rows hold dates from 1970 to 2106.
    let date = date.map(|at| u32::try_from(at.unix_seconds().max(0)).unwrap_or(u32::MAX));
    Ok(service.delivery.incoming(data, flags, date).await?)
}
