//! APPEND: RFC 9051 §6.3.12, several messages by RFC 3502, sizes by RFC 7889, CATENATE by
//! RFC 4469.
//!
//! `connection` checks the size of each literal before it arrives. This file turns the complete
//! messages into summaries, by the same path as any other mail. All of them enter the mailbox, or
//! none.

use posthaste_delivery::{NewMessage, Prepared};
use posthaste_directory::NewValue;
use posthaste_filter::{Cause, Event};
use posthaste_imap_codec::command::{AppendContent, AppendMessage};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxArg, UidRanges};
use posthaste_mail_model::{NumSet, Rights};
use posthaste_store::OwnArrivals;

use super::DONE;
use super::catenate::Assembly;
use crate::annotate;
use crate::annotate::carry;
use crate::annotate::reader::AnnotationReader;
use crate::message_limit::MessageLimit;
use crate::reply::{Failure, Reply};
use crate::resolve::ExistingMailbox;
use crate::rights::{Act, permitted};
use crate::seen;
use crate::session::Session;

pub(super) async fn run(
    session: &mut Session,
    mailbox: &MailboxArg,
    messages: Vec<AppendMessage>,
) -> Result<Reply, Failure> {
    mailbox.name()?;
    // RFC 3502 §3: an empty message at the end cancels the whole APPEND.
    if messages.iter().any(is_empty) {
        return Err(Reply::no(Code::Cannot, "APPEND cancelled by an empty message").into());
    }
    if let Some(limit) = session.message_limit().save() {
        MessageLimit::refuse(limit, messages.len() as u64, None)?;
    }
    let found = session.asker()?.find(mailbox, Act::Insert).await.map_err(Failure::try_create)?;
    let ExistingMailbox { resolved, entry, rights } = found;
    let target = session.service.store.destination(entry.id);
    let mut new = Vec::with_capacity(messages.len());
    let reading = seen::reading(session.login()?, resolved.account(), entry.id);
    let mut seen_ones = Vec::with_capacity(messages.len());
    let mut assembly = Assembly::new();
    let mut values = Vec::with_capacity(messages.len());
    for mut message in messages {
        values.push(annotations_of(&message, rights)?);
        message.flags = permitted(message.flags, rights);
        seen_ones.push(reading.is_some() && seen::take_out(&mut message.flags));
        new.push(whole(session, &mut assembly, message).await?);
    }
    let Prepared { messages: incoming, held: _held } = session.service.delivery.incoming_all(new).await?;
    // The messages count for the owner of the mailbox.
    let account = session.asker()?.owner(&resolved).await?;
    let (service, login) = (&session.service, session.login()?.id);
    let reader = AnnotationReader { service, login, owner: account.id, mailbox: entry.id };
    Box::pin(reader.check_new(&values)).await?;
    let appended = session.service.delivery.append(&account, &target, incoming).await.map_err(Failure::from);
    let appended = appended.map_err(Failure::try_create)?;
    let uids: NumSet = appended.uids.iter().map(|uid| uid.value()).collect();
    if let Some(reading) = reading {
        let of_seen = uids.iter().zip(&seen_ones).filter(|(_, is_seen)| **is_seen);
        seen::note(&session.service, reading, &of_seen.map(|(uid, _)| uid).collect()).await;
    }
    let written = Box::pin(reader.write_new(uids.iter().zip(values).collect())).await;
    carry::warn(written, &mut session.wire);
    if let Some(notify) = &mut session.notify {
        let selected = session.selected.as_ref().map(|selected| selected.mailbox.id());
        let (mailbox, count) = (target.id(), uids.count() as u32);
        let own = OwnArrivals { mailbox, modseq: appended.modseq, count };
        notify.note_own(own, (selected == Some(mailbox)).then_some(&uids));
    }
    let (user, mailbox) = (&session.login()?.clone(), entry.id);
    let event = Event { owner: &account, user, mailbox, cause: Cause::Append, uids: &uids, flags: &[] };
    Box::pin(session.wire.while_there(session.service.happened(event))).await?;
    let reply = done_without(appended.left_out.len());
    Ok(reply.with(Code::AppendUid(entry.uid_validity, UidRanges::from(&uids))))
}

/// The annotations that a new message gets, if the user may set them: RFC 5257 §4.7.
pub(super) fn annotations_of(message: &AppendMessage, rights: Rights) -> Result<Vec<NewValue>, Failure> {
    let parts = annotate::check_names(&message.annotations)?;
    annotate::permit(rights, &message.annotations)?;
    if !parts.is_empty() {
        // The message is not taken apart before it is stored.
        let text = "Annotations of parts are set by STORE, once the message is there";
        return Err(Reply::no(Code::Cannot, text).into());
    }
    Ok(annotate::reader::new_values(&message.annotations))
}

/// The response if a mailbox has no room for the keywords of a message.
pub(super) fn done_without(keywords: usize) -> Reply {
    match keywords {
        0 => DONE,
        _ => Reply::ok("Completed without some keywords: the mailbox has the maximum number of keywords"),
    }
}

/// Whether the message that was sent has no bytes.
pub(super) fn is_empty(message: &AppendMessage) -> bool {
    matches!(&message.content, AppendContent::Sent(text) if text.data.is_empty())
}

/// A message with all its bytes.
pub(super) async fn whole(
    session: &Session,
    assembly: &mut Assembly,
    message: AppendMessage,
) -> Result<NewMessage, Failure> {
    let AppendMessage { flags, date, content, annotations: _ } = message;
    let bytes = assembly.message(session, content).await?;
    // Rows hold dates from 1970 to 2106.
    let date = date.map(|at| u32::try_from(at.unix_seconds().max(0)).unwrap_or(u32::MAX));
    Ok(NewMessage { bytes, flags, date })
}
