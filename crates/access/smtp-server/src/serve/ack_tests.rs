//! The kernel acknowledges at once while a session waits for the rest of a line or a message, and
//! never between commands.
//!
//! A client that sends a message in several small writes waits for that acknowledgement.

#![allow(clippy::unwrap_used)]

use posthaste_net::Stream;
use posthaste_testkit::Lockstep;
use tokio::net::TcpStream;

use super::test_service::service_with_ana;
use super::*;

/// The number of acknowledgements that the session requested while an LMTP client sent these
/// pieces after RCPT. Each piece has the answer that the client waits for.
async fn acks(pieces: &[(&str, &str)]) -> u64 {
    let service = service_with_ana(Role::Lmtp).await;

    let (socket, mut client) = Lockstep::connect().unwrap();
    let stream = Stream::plain(TcpStream::from_std(socket).unwrap()).unwrap();
    let (_trigger, shutdown) = Shutdown::new();
    let mut driver = Driver::new(service, Connection::new(stream), shutdown);
    {
        let mut running = Box::pin(driver.run());
        let greeting = [
            ("", "220 "),
            ("LHLO client.example\r\n", "250 HELP"),
            ("MAIL FROM:<>\r\n", "250 2.1.0"),
            ("RCPT TO:<ana@example.org>\r\n", "250 2.1.5"),
        ];
        for (text, answer) in greeting.iter().chain(pieces) {
            client.say(&mut running, text, answer).await;
        }
    }
    driver.connection.traffic().prompt_acks
}

#[tokio::test]
async fn none_for_whole_commands_and_a_message_in_one_piece() {
    let whole = [("DATA\r\n", "354 "), ("A: b\r\n\r\n.\r\n", "250 2.0.0"), ("NOOP\r\n", "250 2.0.0")];
    assert_eq!(acks(&whole).await, 0);
}

#[tokio::test]
async fn one_for_each_wait_for_the_rest_of_data() {
    let apart = [
        ("DA", ""),
        ("TA\r\n", "354 "),
        ("A: b\r\n", ""),
        ("\r\nText\r\n", ""),
        (".\r\n", "250 2.0.0"),
        ("NOOP\r\n", "250 2.0.0"),
    ];
    assert_eq!(acks(&apart).await, 3);
}

#[tokio::test]
async fn one_for_each_wait_for_the_rest_of_a_chunk() {
    let apart = [("BDAT 6 LAST\r\n", ""), ("A: b", ""), ("\r\n", "250 2.0.0"), ("NOOP\r\n", "250 2.0.0")];
    assert_eq!(acks(&apart).await, 2);
}

#[tokio::test]
async fn a_chunk_that_is_not_wanted_is_awaited_too() {
    let apart = [("RSET\r\n", "250 2.0.0"), ("BDAT 6 LAST\r\n", ""), ("A: b", ""), ("\r\n", "503 5.5.1")];
    assert_eq!(acks(&apart).await, 2);
}
