//! The unsolicited reports of a session: changes of the selected mailbox, and the events that
//! NOTIFY (RFC 5465) requests.

use posthaste_imap_codec::Tag;
use posthaste_mail_model::NumSet;
use posthaste_store::StoreError;

use crate::annotate::reader_of;
use crate::annotate::reported::ReportedAnnotations;
use crate::command::fetch;
use crate::notify::report::{Listener, Reporting};
use crate::notify::{ReportedState, overflow};
use crate::own::Quiet;
use crate::reply::Failure;
use crate::session::Session;
use crate::table::Numbers;

/// Reports all that may be reported now. `tag` as in [`selected`].
pub(crate) async fn all(session: &mut Session, numbers: Numbers, tag: Option<&Tag>) -> Result<(), Failure> {
    selected(session, numbers, tag).await?;
    if numbers == Numbers::Silent {
        return Ok(());
    }
    session.announce_annotations(tag).await?;
    match session.notify {
        Some(_) => Box::pin(others(session, tag)).await,
        None => Ok(()),
    }
}

/// Reports the changes of the selected mailbox: after NOTIFY those that the client requested. With
/// the tag of the command at hand, it reports that the command continues while rights and changes
/// are read (RFC 9585).
pub(crate) async fn selected(
    session: &mut Session,
    numbers: Numbers,
    tag: Option<&Tag>,
) -> Result<(), Failure> {
    if session.is_in_mailbox_of_others() {
        Box::pin(renew_rights(session, tag)).await?;
    }
    // Boxed: few sessions request notifications.
    let outcome = match session.notify {
        Some(_) => Box::pin(selected_as_requested(session, numbers, tag)).await,
        None => session.announce(numbers, tag).await,
    };
    if let Some(selected) = &mut session.selected {
        // The command has ended, so the session holds no other view.
        selected.count_views();
    }
    outcome
}

async fn selected_as_requested(
    session: &mut Session,
    numbers: Numbers,
    tag: Option<&Tag>,
) -> Result<(), Failure> {
    session.announce(numbers, tag).await?;
    let wants_messages = !session.quiet.messages && numbers != Numbers::Silent;
    if !wants_messages || session.selected.is_none() {
        // RFC 5465 §3.1: without SELECTED that mailbox is not reported.
        return Ok(());
    }
    if session.is_in_mailbox_of_others() {
        // The client may have been slow to read the report. Meanwhile more may have changed.
        renew_rights(session, tag).await?;
    }
    new_messages(session).await
}

/// Leaves these changes of the selected mailbox out from now on, also once another one is selected.
pub(crate) async fn leave_out(session: &mut Session, quiet: Quiet, tag: Option<&Tag>) -> Result<(), Failure> {
    session.quiet = quiet;
    if let Some(selected) = &mut session.selected {
        selected.quiet = quiet;
    }
    track_annotations(session, tag).await
}

/// Reports all changes of the selected mailbox, also those that were left out until now.
pub(crate) async fn accumulated(session: &mut Session, tag: &Tag) -> Result<(), Failure> {
    let Some(selected) = &mut session.selected else { return Ok(()) };
    let quiet = std::mem::take(&mut selected.quiet);
    let outcome = session.announce(Numbers::Free, Some(tag)).await;
    if let Some(selected) = &mut session.selected {
        selected.quiet = quiet;
    }
    outcome
}

/// Begins or ends the tracking of the selected mailbox's annotations, as the client has now
/// requested: by SELECT (ANNOTATE), or by AnnotationChange of RFC 5465 §5.1. With the tag of a
/// command that is in no response, it reports that the command continues meanwhile (RFC 9585).
pub(crate) async fn track_annotations(session: &mut Session, tag: Option<&Tag>) -> Result<(), Failure> {
    if session.selected.is_none() {
        return Ok(());
    }
    let by_notify = session.notify.as_ref().is_some_and(|notify| notify.selected().annotations);
    let ctx = session.ctx()?;
    if !by_notify && !ctx.selected.annotate {
        ctx.selected.annotations = None;
    } else if ctx.selected.annotations.is_none() {
        // Boxed: few sessions request it.
        let reader = reader_of(ctx.service, ctx.login.id, ctx.selected);
        let reading = Box::pin(ReportedAnnotations::read(reader));
        let reports = tag.map(|tag| ctx.service.reports(tag));
        ctx.selected.annotations = ctx.wire.reporting_if(reports, reading).await?;
    }
    Ok(())
}

/// Checks that the user may still read a mailbox of another account. The right may have been
/// removed while a long response was sent. A mailbox without it is treated as deleted.
async fn renew_rights(session: &mut Session, tag: Option<&Tag>) -> Result<(), Failure> {
    let mailbox = session.selected.as_ref().map(|selected| selected.mailbox.id());
    match (session.renew_rights(tag).await, mailbox) {
        (Err(Failure::Bye(_)), Some(mailbox)) => Err(Failure::Store(StoreError::NoMailbox(mailbox))),
        (outcome, _) => outcome,
    }
}

/// FETCH of new messages, with what NOTIFY names: RFC 5465 §5.2. Not of those that this session
/// has added itself.
async fn new_messages(session: &mut Session) -> Result<(), Failure> {
    let mut ctx = session.ctx()?;
    let Some(notify) = &mut ctx.notify else { return Ok(()) };
    let next = ctx.selected.announced.head().uid_next;
    let first = std::mem::replace(&mut ctx.selected.notified_to, next);
    let own = notify.take_own_uids();
    let items = notify.selected().items.clone();
    if items.is_empty() || first >= next {
        return Ok(());
    }
    let new = NumSet::range(first.value(), next.value() - 1).difference(&own);
    let seqs = ctx.selected.announced.seqs_of_uids(&new);
    fetch::report_new(&mut ctx, items, &seqs).await
}

/// The selected mailbox, and up to where its changes were reported.
pub(crate) fn selected_state(session: &Session) -> Option<ReportedState> {
    let selected = session.selected.as_ref()?;
    Some(ReportedState { mailbox: selected.mailbox.id(), modseq: selected.synchronised_to() })
}

/// Reports what happened elsewhere. `tag` as in [`selected`].
pub(crate) async fn others(session: &mut Session, tag: Option<&Tag>) -> Result<(), Failure> {
    let now_selected = selected_state(session);
    let Session { wire, service, login, notify, enabled, annotations, .. } = session;
    let (Some(notifying), Some(login)) = (&mut *notify, &*login) else { return Ok(()) };
    if annotations.is_some() {
        // After ENABLE METADATA they are reported anyway.
        notifying.leave_annotations();
    }
    if !notifying.is_due(now_selected) {
        return Ok(());
    }
    let reports = tag.map(|tag| service.reports(tag));
    let mut to = Listener { wire, service, login, enabled: *enabled, selected: now_selected, reports };
    match notifying.report(&mut to).await {
        Ok(Reporting::Continues) => Ok(()),
        Ok(Reporting::Ended) => {
            *notify = None;
            leave_out(session, Quiet::ALL, tag).await
        }
        Err(Failure::Store(error @ StoreError::NoMailbox(_))) => Err(error.into()),
        // Rights that cannot be read, or too many accounts of others, as well.
        Err(error @ (Failure::Store(_) | Failure::Reply(_))) => {
            tracing::warn!(%error, "the notifications of a session end; the client was sent NOTIFICATIONOVERFLOW");
            overflow(to.wire);
            *notify = None;
            leave_out(session, Quiet::ALL, tag).await
        }
        Err(error) => Err(error),
    }
}
