//! LOGOUT: RFC 9051 §6.1.3.

use posthaste_imap_codec::Tag;

use crate::reply::Reply;
use crate::session::{Next, Session};

/// Says BYE, then OK.
pub(super) fn run(session: &mut Session, tag: Tag) -> Next {
    session.wire.say_bye("Logging out");
    session.wire.say_status(Reply::ok("LOGOUT completed").status(Some(tag)));
    session.selected = None;
    Next::Close
}
