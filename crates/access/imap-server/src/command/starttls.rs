//! STARTTLS: RFC 9051 §6.2.1.

use posthaste_imap_codec::Tag;
use posthaste_net::NetError;

use crate::reply::Reply;
use crate::session::{Next, Session};

pub(super) async fn run(session: &mut Session, tag: Tag) -> Result<Next, NetError> {
    let Some(certificates) = session.service.certificates.clone().filter(|_| session.may_start_tls()) else {
        session.bad_commands += 1;
        let text = if session.wire.is_encrypted() { "TLS is active" } else { "TLS is not available" };
        session.wire.say_status(Reply::bad(text).status(Some(tag)));
        return Ok(Next::Command);
    };
    // Bytes that arrived in plaintext after the command must not count as encrypted
    // (CVE-2011-0411).
    if session.wire.has_input() {
        session
            .wire
            .say_status(Reply::bad("Nothing may follow STARTTLS before its answer").status(Some(tag)));
        session.wire.say_bye("Commands were sent after STARTTLS");
        return Ok(Next::Close);
    }
    session.wire.say_status(Reply::ok("Begin TLS negotiation now").status(Some(tag)));
    session.wire.flush().await?;
    let within = session.service.options.handshake_within;
    session.wire.start_tls(&certificates, within).await?;
    Ok(Next::Command)
}
