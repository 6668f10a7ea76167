//! Each command, with what it answers and how it is refused.

use crate::talk::{PASSWORD, USER, server};

const ONE: &str = "Subject: 1\r\n\r\none\r\n";
const TWO: &str = "Subject: 2\r\n\r\n.dot\r\n..\r\n.\r\nend\r\n";
const THREE: &str = "Subject: 3\r\n\r\nthree\r\n";

#[tokio::test]
async fn a_whole_session() {
    let server = server(&[ONE, TWO, THREE]).await;
    let mut client = server.connect().await;
    client
        .play(
            &format!(
                "S: +OK localhost Posthaste POP3 ready
             C: USER {USER}
             S: +OK Send your password
             C: PASS {PASSWORD}
             S: +OK Logged in: 3 messages, 72 octets
             C: STAT
             S: +OK 3 72
             C: LIST
             S: +OK 3 messages (72 octets)
             S: 1 19
             S: 2 32
             S: 3 21
             S: .
             C: RETR 2
             S: +OK 32 octets
             S: Subject: 2
             S: …
             S: ..dot
             S: ...
             S: ..
             S: end
             S: .
             C: DELE 2
             S: +OK Removed at QUIT
             C: QUIT
             S: +OK Removed. Goodbye"
            )
            .replace("S: \n", "S: …\n"),
        )
        .await;
    client.ends().await;
    assert_eq!(server.uids().await, [1, 3]);
}
