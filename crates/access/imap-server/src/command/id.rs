//! ID: RFC 2971. The client's name and version go to the log, where they help to explain its
//! behaviour.

use posthaste_imap_codec::response::Untagged;

use super::DONE;
use crate::reply::Reply;
use crate::session::Session;

/// Octets of an ID that go to the log. Ordinary clients send under 300. RFC 2971 §3.3 allows 30
/// fields of 1,024 octets, and a client may send them before login.
const SHOWN_MAX: usize = 512;

/// The client's ID, cut to a bounded length and without characters that could end a line of the
/// log.
fn shown(fields: &[(String, Option<String>)]) -> String {
    let mut text = String::new();
    for (key, value) in fields {
        for c in key.chars().chain(['=']).chain(value.as_deref().unwrap_or("NIL").chars()).chain([' ']) {
            if text.len() >= SHOWN_MAX {
                return text + "…";
            }
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
    }
    text.trim_end().to_owned()
}

pub(super) fn run(session: &mut Session, fields: Option<Vec<(String, Option<String>)>>) -> Reply {
    if let Some(fields) = fields {
        let peer = session.wire.peer().address;
        tracing::info!(%peer, client = shown(&fields), "client identified itself");
        let is_name = |(key, _): &&(String, Option<String>)| key.eq_ignore_ascii_case("name");
        if let Some((_, Some(name))) = fields.iter().find(is_name) {
            posthaste_metrics::client(name);
        }
    }
    let own = session.service.options.id.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
    session.wire.say(Untagged::Id(Some(own)));
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_of_a_client_is_bounded() {
        let fields = |value: &str| vec![("name".to_owned(), Some(value.to_owned())), ("os".to_owned(), None)];
        assert_eq!(shown(&fields("aerc")), "name=aerc os=NIL");
        assert_eq!(shown(&fields("a\nb\u{7}")), "name=a\\nb\\u{7} os=NIL");
        let long = shown(&fields(&"\u{1}\u{20ac}".repeat(100_000)));
        assert!(long.len() < SHOWN_MAX + 16 && long.ends_with('…'), "{}", long.len());
    }
}
