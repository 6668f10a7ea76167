//! UNAUTHENTICATE: RFC 8437. The connection is as before the login; only TLS stays.
//!
//! A selected mailbox is left as by UNSELECT: messages with `\Deleted` stay (RFC 8437 §3).

use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{NameEncoding, Tag};
use posthaste_net::NetError;

use crate::capability;
use crate::enabled::Enabled;
use crate::own::Quiet;
use crate::reply::Reply;
use crate::session::{Next, Session};

/// Ends the login.
pub(super) async fn run(session: &mut Session, tag: Tag) -> Result<Next, NetError> {
    if !session.service.options.unauthenticate {
        // RFC 8437 §3: its answer is OK or BAD, never NO.
        let refusal = Reply::bad("UNAUTHENTICATE is switched off here");
        session.wire.say_status(refusal.status(Some(tag)));
        return Ok(Next::Command);
    }
    let reply = end_login(session);
    session.wire.say_status(reply.status(Some(tag)));
    // RFC 8437 §4.1: compression ends with the CRLF of this answer.
    if session.wire.is_compressed() {
        session.wire.end_deflate().await?;
    }
    Ok(Next::Command)
}

fn end_login(session: &mut Session) -> Reply {
    // With the mailbox the saved search result and `\Recent` end, too.
    session.selected = None;
    session.login = None;
    session.endings.set_lease(None);
    session.give_back_memory(0);
    session.enabled = Enabled::default();
    session.annotations = None;
    session.notify = None;
    session.quiet = Quiet::default();
    session.wire.names = NameEncoding::Utf7;
    session.wire.belongs_to_nobody();
    session.wire.set_login_within(Some(session.service.options.login_within));
    // As on a new connection. UNAUTHENTICATE does not help guessing: it needs a login. Each guess
    // is still delayed, and counts for the address and the account (`throttle.rs`).
    session.bad_commands = 0;
    // RFC 8437 §3: the capabilities are those before the login again.
    let code = Code::Other("CAPABILITY".to_owned(), Some(capability::text(session)));
    Reply::ok("Logged out, log in again").with(code)
}
