//! CLOSE and UNSELECT: RFC 9051 §6.4.1, §6.4.2.

use super::DONE;
use crate::annotate::reader_of;
use crate::reply::{Failure, Reply};
use crate::rights::Act;
use crate::session::Session;

/// Removes the messages with `\Deleted` without EXPUNGE responses, and leaves the mailbox.
pub(super) async fn close(session: &mut Session) -> Result<Reply, Failure> {
    if let Some(selected) = &session.selected
        && !selected.read_only
        // RFC 4314 §4: without the right, CLOSE removes nothing, and is no error.
        && selected.permit(Act::Expunge).is_ok()
    {
        let expunged = selected.mailbox.expunge(None).await?;
        let reader = reader_of(&session.service, session.login()?.id, selected);
        Box::pin(reader.forget(&expunged.uids)).await;
        if let Some(notify) = &mut session.notify {
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
