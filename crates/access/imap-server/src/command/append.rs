//! APPEND: RFC 9051 §6.3.12, several messages by RFC 3502, sizes by RFC 7889, CATENATE by
//! RFC 4469.
//!
//! `connection` checks the size of each literal before it arrives. This file turns the complete
//! messages into summaries, by the same path as any other mail. All of them enter the mailbox, or
//! none.

use std::borrow::Cow;
use std::sync::Arc;

use posthaste_delivery::{NewMessage, Prepared};
use posthaste_directory::{Account, NewValue};
use posthaste_filter::{Cause, Event};
use posthaste_imap_codec::command::{AppendContent, AppendMessage, AppendText};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxArg, Tag, UidRanges};
use posthaste_mail_model::{ModSeq, NumSet, Rights};
use posthaste_store::{Appended, OwnArrivals};

use super::DONE;
use super::catenate::Assembly;
use super::urlauth::UrlSource;
use crate::annotate;
use crate::annotate::carry;
use crate::annotate::reader::AnnotationReader;
use crate::begun::Begun;
use crate::message_limit::MessageLimit;
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ExistingMailbox};
use crate::rights::{Act, permitted, shows_uids, without_usage};
use crate::seen;
use crate::session::{Session, logged_in};

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
    messages: Vec<AppendMessage>,
) -> Result<Reply, Failure> {
    let name = mailbox.name()?;
    // RFC 3502 §3: an empty message at the end cancels the whole APPEND.
    if messages.iter().any(is_empty) {
        return Err(Reply::no(Code::Cannot, "APPEND cancelled by an empty message").into());
    }
    if let Some(limit) = session.message_limit().save() {
        MessageLimit::refuse(limit, messages.len() as u64, None)?;
    }
    let (asker, wire, reports) = session.reporting(tag)?;
    let finding = Box::pin(asker.find_name(name, Act::Insert));
    let found = wire.reporting(reports, finding).await.map_err(Failure::try_create)?;
    let Session { service, wire, login, selected, notify, .. } = session;
    let (service, user) = (&**service, logged_in(login.as_deref())?);
    let source = UrlSource::of(service, user, selected.as_ref());
    let (reports, begun) = (service.reports(tag), Begun::of(wire));
    let storing = Box::pin(Stored::of((source, &begun), &found, messages));
    let stored = wire.reporting(reports, begun.unless_login_ends(storing)).await?;
    carry::warn(stored.written, wire);
    let touched = seen::warn(stored.noted, wire);
    let (uids, mailbox) = (&stored.uids, found.entry.id);
    if let Some(notify) = notify {
        let selected = selected.as_ref().map(|selected| selected.mailbox.id());
        let (modseq, count) = (stored.appended.modseq, uids.count() as u32);
        let own = OwnArrivals { mailbox, modseq, count, touched };
        notify.note_own(own, (selected == Some(mailbox)).then_some(uids));
    }
    let event = Event { owner: &stored.owner, user, mailbox, cause: Cause::Append, uids, flags: &[] };
    wire.while_reporting(reports, service.happened(event)).await?;
    let reply = done_without(stored.appended.left_out.len());
    if !shows_uids(found.rights) {
        return Ok(reply);
    }
    Ok(reply.with(Code::AppendUid(found.entry.uid_validity, UidRanges::from(uids))))
}

/// The messages of an APPEND that are stored.
struct Stored<'s> {
    /// The owner of the mailbox, for whom they count.
    owner: Cow<'s, Account>,
    appended: Appended,
    uids: NumSet,
    /// The mod-sequence of their `\Seen` flags, as [`seen::note`] returns it.
    noted: Result<Option<ModSeq>, Failure>,
    /// Whether their annotations were written, too.
    written: Result<(), Failure>,
}

impl<'s> Stored<'s> {
    /// Stores all of them, or none. Boxed: those who wait for it would move it many times.
    async fn of(
        (source, begun): (UrlSource<'s>, &Begun),
        found: &ExistingMailbox,
        messages: Vec<AppendMessage>,
    ) -> Result<Box<Self>, Failure> {
        let (service, login) = (source.service, source.reader.account);
        let ExistingMailbox { resolved, entry, rights } = found;
        let target = service.store.destination_for(login.id, entry.id);
        let mut new = Vec::with_capacity(messages.len());
        let reading = seen::reading(login, resolved.account(), entry.id);
        let mut seen_ones = Vec::with_capacity(messages.len());
        let mut assembly = Assembly::new();
        let mut values = Vec::with_capacity(messages.len());
        for mut message in messages {
            values.push(annotations_of(&message, *rights)?);
            message.flags = permitted(message.flags, *rights);
            seen_ones.push(reading.is_some() && seen::take_out(&mut message.flags));
            new.push(whole(source, &mut assembly, message).await?);
        }
        let Prepared { messages: incoming, held } = service.delivery.incoming_all(login.id, new).await?;
        // The commit goes on if the session ends, and so does its memory.
        let target = target.holding(Some(Arc::new(held)));
        // The messages count for the owner of the mailbox.
        let owner = Asker { service, login }.owner(resolved).await?;
        let reader = AnnotationReader { service, login: login.id, owner: owner.id, mailbox: entry.id };
        // Nearly no message has annotations.
        let has_values = values.iter().any(|of_message| !of_message.is_empty());
        if has_values {
            Box::pin(reader.check_new(&values)).await?;
        }
        begun.begin()?;
        let appended = service.delivery.append(&owner, &target, incoming).await.map_err(Failure::from);
        let appended = appended.map_err(|failure| without_usage(failure.try_create(), *rights))?;
        let uids: NumSet = appended.uids.iter().map(|uid| uid.value()).collect();
        let noted = match reading {
            Some(reading) => {
                let of_seen = uids.iter().zip(&seen_ones).filter(|(_, is_seen)| **is_seen);
                let of_seen: NumSet = of_seen.map(|(uid, _)| uid).collect();
                Box::pin(seen::note(service, reading, &of_seen)).await
            }
            None => Ok(None),
        };
        let written = match has_values {
            true => Box::pin(reader.write_new(uids.iter().zip(values).collect())).await,
            false => Ok(()),
        };
        Ok(Box::new(Self { owner, appended, uids, noted, written }))
    }
}

/// The annotations that a new message gets, if the user may set them: RFC 5257 §4.7.
pub(super) fn annotations_of(message: &AppendMessage, rights: Rights) -> Result<Vec<NewValue>, Failure> {
    let parts = annotate::check_names(&message.annotations)?;
    annotate::permit(rights, &message.annotations)?;
    if !parts.is_empty() {
        // The message is not parsed before it is stored.
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
    source: UrlSource<'_>,
    assembly: &mut Assembly,
    message: AppendMessage,
) -> Result<NewMessage, Failure> {
    let AppendMessage { flags, date, content, annotations: _ } = message;
    let bytes = match content {
        AppendContent::Sent(AppendText { data, .. }) => assembly.sent(data),
        // Boxed: few messages are assembled.
        AppendContent::Catenate(parts) => Box::pin(assembly.message(source, parts)).await?,
    };
    // Rows hold dates from 1970 to 2106.
    let date = date.map(|at| u32::try_from(at.unix_seconds().max(0)).unwrap_or(u32::MAX));
    Ok(NewMessage { bytes, flags, date })
}
