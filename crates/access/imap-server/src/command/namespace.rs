//! NAMESPACE: RFC 9051 §6.3.10.

use super::DONE;
use crate::reply::Reply;
use crate::session::Session;

/// The user's own mailboxes only.
pub(super) fn run(session: &mut Session) -> Reply {
    session.wire.out().extend_from_slice(b"* NAMESPACE ((\"\" \"/\")) NIL NIL\r\n");
    DONE
}
