//! Waits for the next command of a client that requested notifications. Meanwhile it reports
//! events: RFC 5465 allows them at any time.

use std::time::Duration;

use posthaste_net::NetError;
use posthaste_sharing::SharedMailboxes;
use posthaste_store::{StoreError, Watch};
use tokio::sync::watch;

use crate::announce;
use crate::endings::Ending;
use crate::metadata_reports::ReportedMetadata;
use crate::notify::Notify;
use crate::reply::Failure;
use crate::session::{Next, Session};
use crate::table::Numbers;

/// The time that a session waits after a failed read of changes.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The event that ended a wait.
enum WaitEvent {
    /// There may be something to report.
    News,
    Input(Result<usize, NetError>),
    /// The server ends the session.
    Ending(Ending),
}

/// Waits until input arrives, at most this long. `unread_max` is the limit of unread bytes.
/// `Close` if the server ends the session; BYE is printed then.
pub(crate) async fn for_command(
    session: &mut Session,
    unread_max: usize,
    within: Duration,
) -> Result<Next, NetError> {
    let clock = session.wire.clock().clone();
    let until = clock.now() + within;
    let mut watch = watch_of(session);
    let mut shared = session.is_in_mailbox_of_others().then(|| session.service.shared.watch());
    // EXPUNGE is sent now only if the client requested it (RFC 5465 §6.1).
    let numbers = match session.notify.as_ref().is_some_and(|notify| notify.selected().at_once) {
        true => Numbers::Free,
        false => Numbers::Held,
    };
    let known_input = session.wire.input_len();
    loop {
        // Rights in a mailbox of others are read first: without the rights, no change in it is
        // reported.
        let failed = match announce::all(session, numbers, None).await {
            Ok(()) => false,
            Err(Failure::Net(error)) => return Err(error),
            Err(Failure::Bye(text)) => {
                session.wire.say_bye(text);
                return Ok(Next::Close);
            }
            Err(Failure::Store(StoreError::NoMailbox(_))) => {
                let why = session.why_closed();
                session.wire.say_bye(why);
                return Ok(Next::Close);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read changes; a later report will have them");
                true
            }
        };
        session.wire.flush().await?;
        session.wire.release();
        if session.notify.is_none() {
            // The notifications have ended, so the session waits like any other.
            return Ok(Next::Command);
        }
        if session.wire.input_len() > known_input {
            // This input was read while a context searched for its report.
            return Ok(Next::Command);
        }
        let left = until.saturating_duration_since(clock.now());
        let event = match failed {
            // Boxed: no session holds memory for it until it happens.
            true => Box::pin(next_event_after_failure(session, unread_max, left)).await,
            false => next_event(session, (watch.as_mut(), shared.as_mut()), unread_max, left).await,
        };
        let why = match event {
            WaitEvent::News => continue,
            WaitEvent::Input(Ok(bytes)) => {
                session.wire.note_arrived(bytes).await;
                return Ok(Next::Command);
            }
            WaitEvent::Input(Err(NetError::TimedOut(_))) => "Idle for too long",
            WaitEvent::Input(Err(error)) => return Err(error),
            WaitEvent::Ending(ending) => ending.text(),
        };
        session.wire.say_bye(why);
        return Ok(Next::Close);
    }
}

/// The watch of the selected mailbox, unless the client has requested no reports of it.
pub(crate) fn watch_of(session: &Session) -> Option<Watch> {
    let wanted = !session.quiet.messages;
    session.selected.as_ref().filter(|_| wanted).map(|selected| selected.mailbox.watch())
}

/// Events that few sessions wait for.
pub(crate) enum RareEvent {
    /// Annotations may have changed.
    Annotations,
    /// Something may have happened that NOTIFY requests.
    Elsewhere,
    /// The rights in mailboxes of others may have changed.
    Rights,
}

/// Waits for one of these events.
pub(crate) async fn rare_event(
    annotations: Option<&mut ReportedMetadata>,
    notify: Option<&mut Notify>,
    shared: Option<&mut watch::Receiver<()>>,
) -> RareEvent {
    let annotated = async {
        match annotations {
            Some(known) => known.wait_for_changes().await,
            None => std::future::pending().await,
        }
    };
    let happened = async {
        match notify {
            Some(notify) => notify.wait().await,
            None => std::future::pending().await,
        }
    };
    let rights = async {
        match shared {
            Some(shared) => SharedMailboxes::wait(shared).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = annotated => RareEvent::Annotations,
        () = happened => RareEvent::Elsewhere,
        () = rights => RareEvent::Rights,
    }
}

/// Changes that could not be read are still due. Without a pause the next try would come at once.
async fn next_event_after_failure(session: &mut Session, unread_max: usize, within: Duration) -> WaitEvent {
    let clock = session.wire.clock().clone();
    tokio::select! {
        () = clock.sleep(AGAIN_AFTER) => WaitEvent::News,
        event = next_event(session, (None, None), unread_max, within) => event,
    }
}

async fn next_event(
    session: &mut Session,
    (watch, shared): (Option<&mut Watch>, Option<&mut watch::Receiver<()>>),
    unread_max: usize,
    within: Duration,
) -> WaitEvent {
    let Session { wire, endings, selected, annotations, notify, .. } = session;
    let changed = async {
        match (watch, selected) {
            // A mailbox that was deleted is noticed by the report.
            (Some(watch), Some(selected)) => drop(watch.changed(&selected.announced).await),
            _ => std::future::pending().await,
        }
    };
    let wants_annotations = notify.as_ref().is_some_and(|notify| notify.wants_annotations());
    let known = annotations.as_deref_mut().filter(|_| wants_annotations);
    let rare_event = rare_event(known, notify.as_deref_mut(), shared);
    tokio::select! {
        biased;
        ending = endings.reached() => WaitEvent::Ending(ending),
        input = wire.fill(unread_max, within) => WaitEvent::Input(input),
        () = changed => WaitEvent::News,
        _ = rare_event => WaitEvent::News,
    }
}
