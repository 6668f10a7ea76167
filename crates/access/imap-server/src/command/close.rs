//! CLOSE and UNSELECT: RFC 9051 §6.4.1, §6.4.2.

use posthaste_imap_codec::Tag;

use super::{DONE, changes};
use crate::annotate::reader_of;
use crate::reply::{Failure, Reply};
use crate::rights::Act;
use crate::session::{Session, logged_in};

/// Removes the messages with `\Deleted` without EXPUNGE responses, and leaves the mailbox.
pub(super) async fn close(session: &mut Session, tag: &Tag) -> Result<Reply, Failure> {
    let Session { wire, service, login, selected, notify, .. } = session;
    if let Some(selected) = selected
        && !selected.read_only
        // RFC 4314 §4: without the right, CLOSE removes nothing, and is no error.
        && selected.permit(Act::Expunge).is_ok()
    {
        let reader = reader_of(service, logged_in(login.as_deref())?.id, selected);
        let expunging = changes::expunge(wire, (reader, &*selected.mailbox), tag, None);
        let expunged = Box::pin(expunging).await?;
        if let Some(notify) = notify {
            notify.note_closed(selected.mailbox.id(), expunged.modseq);
        }
    }
    session.selected = None;
    Ok(DONE)
}

/// Leaves the mailbox as it is.
pub(super) fn unselect(session: &mut Session) -> Reply {
    session.selected = None;
    DONE
}
