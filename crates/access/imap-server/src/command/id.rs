//! ID: RFC 2971. What clients say of themselves goes to the log, where it explains their behaviour.

use posthaste_imap_codec::response::Untagged;

use super::DONE;
use crate::reply::Reply;
use crate::session::Session;

pub(super) fn run(session: &mut Session, fields: Option<Vec<(String, Option<String>)>>) -> Reply {
    if let Some(fields) = fields {
        let peer = session.wire.connection.peer();
        tracing::info!(%peer, client = ?fields, "client identified itself");
    }
    let own = session.service.options.id.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
    session.wire.say(Untagged::Id(Some(own)));
    DONE
}
