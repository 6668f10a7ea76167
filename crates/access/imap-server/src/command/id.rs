//! ID: RFC 2971. The client's name and version go to the log, where they help to explain its
//! behaviour.

use posthaste_imap_codec::response::Untagged;

use super::DONE;
use crate::reply::Reply;
use crate::session::Session;

pub(super) fn run(session: &mut Session, fields: Option<Vec<(String, Option<String>)>>) -> Reply {
    if let Some(fields) = fields {
        session.client.name(&fields);
        if session.login.is_some() {
            session.log_client();
        }
        let is_name = |(key, _): &&(String, Option<String>)| key.eq_ignore_ascii_case("name");
        if let Some((_, Some(name))) = fields.iter().find(is_name) {
            posthaste_metrics::client(name);
        }
    }
    let own = session.service.options.id.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
    session.wire.say(Untagged::Id(Some(own)));
    DONE
}
