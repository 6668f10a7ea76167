//! A command that is running ends with the login: SECURITY.md, "Accounts".

use std::io::{ErrorKind, Read};

use crate::harness::Server;

/// Copies of a message of 1 MiB: far more than the buffers of two sockets hold.
const MESSAGES: usize = 64;

#[test]
fn a_fetch_that_is_read_slowly_ends_with_the_login() {
    let server = Server::start();
    let line = format!("{}\r\n", "x".repeat(998));
    server.put("INBOX", format!("Subject: long\r\n\r\n{}", line.repeat(1048)).as_bytes());
    let mut wire = server.select("INBOX");
    let mut count = 1;
    while count < MESSAGES {
        wire.run("C: c COPY 1:* INBOX\nS~ c OK …");
        count *= 2;
    }
    wire.send(b"a FETCH 1:* (UID BODY.PEEK[])\r\n");
    wire.skip_to("* 1 FETCH …");
    server.disable();
    let (mut read, mut piece) = (0, vec![0; 1 << 20]);
    let mut socket = wire.socket();
    loop {
        match socket.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("after {read} bytes: {error}"),
        }
    }
    assert!(read < MESSAGES * line.len() * 1048 / 2, "{read} bytes were sent");
}
