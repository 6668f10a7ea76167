//! IDLE: RFC 9051 §6.3.13. Changes of the mailbox are reported at once, until the client sends
//! DONE; after ENABLE METADATA, changes of annotations, too (RFC 5464 §4.4). After NOTIFY, IDLE
//! reports only the events that NOTIFY requests (RFC 5465 §4). In a mailbox of another user it
//! reports that it continues while it reads rights and flags there (RFC 9585).

use bytes::Bytes;
use posthaste_imap_codec::Tag;
use posthaste_imap_codec::limits::LINE_BYTES_MAX;
use posthaste_net::NetError;
use posthaste_store::{StoreError, Watch};
use tokio::sync::watch;

use super::DONE;
use crate::announce;
use crate::endings::{Ending, REVOKED};
use crate::reply::{Failure, Reply};
use crate::session::Session;
use crate::table::Numbers;
use crate::waiting::{RareEvent, rare_event, watch_of};
use crate::wire::Line;

/// Unread bytes that are allowed while the server waits for `DONE`.
const INPUT_MAX: usize = 2 * LINE_BYTES_MAX;

/// The event that ended a wait.
enum IdleEvent {
    News(Result<(), StoreError>),
    RareEvent(RareEvent),
    Input(Result<usize, NetError>),
    Ending(Ending),
}

pub(super) async fn run(session: &mut Session, tag: &Tag) -> Result<Reply, Failure> {
    if let Some(selected) = &session.selected {
        selected.holding.release();
    }
    // Known changes are reported after the continuation. Some clients wait for a response from
    // there on, and would not end their IDLE for one that came before.
    session.wire.say_continue("idling");
    // Before the known changes are reported, so that no change in between is missed.
    let mut watch = watch_of(session);
    let mut shared = session.is_in_mailbox_of_others().then(|| Box::new(session.service.shared.watch()));
    // Boxed, as below: a session that idles would hold its state.
    Box::pin(announce::all(session, Numbers::Free, Some(tag))).await?;
    loop {
        match session.wire.line() {
            Some(Line::Whole(line)) => return end(&line),
            Some(Line::TooLong) => return Err(Reply::bad("Expected DONE").into()),
            None => {}
        }
        session.wire.flush().await?;
        session.wire.release();
        match next_event(session, watch.as_mut(), shared.as_deref_mut()).await {
            IdleEvent::News(news) => {
                news?;
                // Another process may have withdrawn the right to read the messages.
                Box::pin(session.renew_rights(Some(tag))).await?;
                Box::pin(announce::selected(session, Numbers::Free, Some(tag))).await?;
            }
            IdleEvent::RareEvent(RareEvent::Elsewhere) => {
                Box::pin(announce::others(session, Some(tag))).await?
            }
            IdleEvent::RareEvent(RareEvent::Rights) => Box::pin(session.renew_rights(Some(tag))).await?,
            IdleEvent::RareEvent(RareEvent::Annotations) => session.announce_annotations(Some(tag)).await?,
            IdleEvent::Input(input) => drop(input.map_err(Failure::of_wait)?),
            IdleEvent::Ending(Ending::Revoked) => return Err(Failure::Bye(REVOKED)),
            // The session's own loop sends BYE.
            IdleEvent::Ending(Ending::Shutdown) => return Ok(Reply::ok("IDLE ended")),
        }
    }
}

fn end(line: &Bytes) -> Result<Reply, Failure> {
    if line.eq_ignore_ascii_case(b"DONE") { Ok(DONE) } else { Err(Reply::bad("Expected DONE").into()) }
}

async fn next_event(
    session: &mut Session,
    watch: Option<&mut Watch>,
    shared: Option<&mut watch::Receiver<()>>,
) -> IdleEvent {
    let within = session.service.options.silence_within;
    let Session { wire, endings, selected, annotations, notify, .. } = session;
    let news = async {
        match (watch, selected) {
            (Some(watch), Some(selected)) => watch.changed(&selected.announced).await.map(drop),
            _ => std::future::pending().await,
        }
    };
    let rare_event = async {
        match (annotations, notify, shared) {
            (None, None, None) => std::future::pending().await,
            // Boxed: nearly no session needs it.
            (annotations, notify, shared) => {
                Box::pin(rare_event(annotations.as_deref_mut(), notify.as_deref_mut(), shared)).await
            }
        }
    };
    tokio::select! {
        news = news => IdleEvent::News(news),
        rare_event = rare_event => IdleEvent::RareEvent(rare_event),
        input = wire.fill(INPUT_MAX, within) => IdleEvent::Input(input),
        ending = endings.reached() => IdleEvent::Ending(ending),
    }
}
