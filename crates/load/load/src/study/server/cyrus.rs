//! Cyrus under test. Debian's packages of Cyrus and Dovecot conflict, so it is not started here yet: unpack it beside
//! the system, start it, and name it as a running server.

use super::{Instance, Setting};

/// Says how to measure it.
pub fn start(_: &Setting) -> Result<Instance, String> {
    Err("this version does not start Cyrus itself: start it and name it by --server Cyrus=imap://HOST:PORT,lmtp://HOST:PORT,pid=N"
        .into())
}
