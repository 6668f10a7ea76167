//! COMPRESS DEFLATE: RFC 4978.

use posthaste_imap_codec::Tag;
use posthaste_imap_codec::response::Code;
use posthaste_net::NetError;

use crate::reply::Reply;
use crate::session::{Next, Session};

pub(super) async fn run(session: &mut Session, tag: Tag) -> Result<Next, NetError> {
    let refusal = if session.wire.is_compressed() {
        // RFC 4978 §3: BAD for a second COMPRESS; NO is for compression by another layer.
        Some(Reply::bad("Compression is active").with(Code::CompressionActive))
    } else if session.wire.has_input() {
        // RFC 4978 §3: input that arrived after the command before our answer was not compressed.
        Some(Reply::bad("Nothing may follow COMPRESS before its answer"))
    } else {
        None
    };
    if let Some(reply) = refusal {
        session.wire.say_status(reply.status(Some(tag)));
        return Ok(Next::Command);
    }
    session.wire.say_status(Reply::ok("DEFLATE active").status(Some(tag)));
    session.wire.flush().await?;
    session.wire.start_deflate().await?;
    Ok(Next::Command)
}
