//! NOTIFY: RFC 5465 §3.

use posthaste_imap_codec::Tag;
use posthaste_imap_codec::command::{FetchItem, Notify as NotifyCommand};

use super::DONE;
use crate::announce::{self, selected_state};
use crate::notify::report::Listener;
use crate::notify::{Notify, NotifyRequest};
use crate::own::Quiet;
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// Replaces the events that are reported to the client.
pub(super) async fn run(session: &mut Session, tag: &Tag, asked: NotifyCommand) -> Result<Reply, Failure> {
    let (with_status, groups) = match asked {
        NotifyCommand::None => {
            // RFC 5465 §3.1: "not interested in any kind of event", also not in those that come
            // without NOTIFY.
            session.notify = None;
            announce::leave_out(session, Quiet::ALL, Some(tag)).await?;
            return Ok(DONE);
        }
        NotifyCommand::Set { status, groups } => (status, groups),
    };
    let request = NotifyRequest::of(groups, &session.service.options)?;
    if request.fetches(&FetchItem::ModSeq) {
        // RFC 7162 §3.1
        session.enable_condstore();
    }
    if request.fetches(&FetchItem::ObjectIds) {
        // OBJECTID+ (draft 06 §2.2)
        session.enable_object_ids();
    }
    let quiet = request.selected.quiet();
    let (asker, wire, reports) = session.reporting(tag)?;
    let clock = wire.clock().clone();
    let beginning = Box::pin(Notify::begin(asker, request, clock));
    let notify = wire.reporting(reports, beginning).await?;
    if let Some(selected) = &mut session.selected {
        selected.notified_to = selected.announced.head().uid_next;
    }
    // RFC 5465 §3.1: NOTIFY SET "implies an implicit NOOP", whatever it requests.
    Box::pin(announce::accumulated(session, tag)).await?;
    let selected = selected_state(session);
    let Session { wire, service, login, enabled, .. } = session;
    if let Some(login) = login {
        let reports = Some(service.reports(tag));
        let mut to = Listener { wire, service, login, enabled: *enabled, selected, reports };
        notify.without_access(&mut to).await?;
        if with_status {
            notify.status(&mut to).await?;
        }
    }
    session.notify = Some(Box::new(notify));
    announce::leave_out(session, quiet, Some(tag)).await?;
    Ok(DONE)
}
