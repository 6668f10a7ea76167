//! GETJMAPACCESS: the URL of the same mail by JMAP (RFC 9698).

use posthaste_imap_codec::response::Untagged;

use super::DONE;
use crate::reply::Reply;
use crate::session::Session;

/// RFC 9698: the URL of the JMAP session. A server that does not announce JMAPACCESS does not know
/// the command.
pub(super) fn run(session: &mut Session) -> Reply {
    let Some(url) = session.service.options.jmap_url.clone() else {
        return Reply::bad("JMAPACCESS is not set up on this server");
    };
    session.wire.say(Untagged::JmapAccess(url));
    DONE
}
