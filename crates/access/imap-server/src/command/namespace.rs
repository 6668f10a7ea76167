//! NAMESPACE: RFC 2342, RFC 9051 §6.3.10.

use posthaste_sharing::Namespace;

use super::DONE;
use crate::reply::Reply;
use crate::session::Session;

/// The response of NAMESPACE: the user's own mailboxes, those of other users, and shared ones.
pub(super) fn run(session: &mut Session) -> Reply {
    let out = session.wire.out();
    out.extend_from_slice(b"* NAMESPACE ((\"\" \"/\"))");
    for namespace in Namespace::ALL {
        out.extend_from_slice(format!(" ((\"{}/\" \"/\"))", namespace.root()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    DONE
}
