//! How much a session does before others have their turn.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;

use posthaste_net::{Stream, given_to_compute_threads};
use tokio::io::AsyncWriteExt;

use super::test_service::{Talk, service_with_ana};
use super::*;

/// A client that sends as fast as it is read. Each line begins with a dot.
#[tokio::test]
async fn the_lines_of_a_message_are_read_in_slices() {
    const OCTETS: usize = 1 << 20;
    const SLICE: usize = 128 << 10;
    let mut service = Arc::into_inner(service_with_ana(Role::Lmtp).await).unwrap();
    // It is read to its end and discarded, so that the session waits for nothing else.
    Arc::make_mut(&mut service.options).message_size_max = 10;
    let (mut client, server) = tokio::io::duplex(2 * OCTETS);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = Connection::new(Stream::over(server, address(40_000), address(24)));
    let begin = "LHLO a.example\r\nMAIL FROM:<>\r\nRCPT TO:<ana@example.org>\r\nDATA\r\n";
    let lines = "..\r\n".repeat(OCTETS / 4);
    for sent in [begin, lines.as_str(), ".\r\nQUIT\r\n"] {
        client.write_all(sent.as_bytes()).await.unwrap();
    }
    let (_trigger, shutdown) = Shutdown::new();
    let mut driver = Driver::new(Arc::new(service), connection, shutdown);
    let (mut running, mut pauses) = (pin!(driver.run()), 0);
    loop {
        match poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await {
            Poll::Ready(ended) => break ended.unwrap(),
            Poll::Pending => pauses += 1,
        }
        tokio::task::yield_now().await;
    }
    assert!(pauses >= OCTETS / SLICE - 1, "{pauses} pauses");
}

/// How much work a session has another thread do before it answers a message. The session runs on
/// the thread of the test.
async fn looks_elsewhere(talk: &mut Talk, message: &str, refusal: &str) -> usize {
    let before = given_to_compute_threads();
    talk.ask(&format!("{message}\r\n."), refusal).await;
    given_to_compute_threads() - before
}

/// The lines of a header of 1 MiB were looked at three times in one poll, which took 5 to 15 ms.
/// The addresses of a field of 1 MiB took 30 ms. Each look is work of another thread.
#[tokio::test]
async fn a_long_header_is_read_on_another_thread() {
    let mut of_host = Talk::begin(Role::Lmtp).await;
    of_host.ask("LHLO client.example", "250 ").await;
    let mut of_user = Talk::begin(Role::Submission).await;
    of_user.ask("EHLO client.example", "250 ").await;
    // "\0ana@example.org\0correct horse"
    of_user.ask("AUTH PLAIN AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl", "235 ").await;
    for (parts, looks) in [(20, 0), (30_000, 1)] {
        // A CR without LF: nothing else is done with it.
        let message = format!("A: b\rc\r\n{}", " x\r\n".repeat(parts));
        let authors = format!("From: {}\r\n", "a@b, ".repeat(parts));
        for (talk, message, looks, refusal) in
            [(&mut of_host, message, looks, "550 5.6.0 "), (&mut of_user, authors, 2 * looks, "550 5.7.1 ")]
        {
            talk.ask("MAIL FROM:<ana@example.org>", "250 ").await;
            talk.ask("RCPT TO:<ana@example.org>", "250 ").await;
            talk.ask("DATA", "354 ").await;
            assert_eq!(looks_elsewhere(talk, &message, refusal).await, looks, "{parts} parts");
        }
    }
}

/// All mail that an MTA brings would wait for one thread.
#[tokio::test]
async fn long_headers_of_a_network_are_read_one_at_a_time_and_not_those_of_an_mta() {
    let network = Some(Holder::Address([192, 0, 2, 0].into()));
    for (role, client, holder) in [
        (Role::Smtp, [192, 0, 2, 7], network),
        (Role::Smtp, [127, 0, 0, 1], None),
        (Role::Lmtp, [192, 0, 2, 7], None),
    ] {
        let (_client, server) = tokio::io::duplex(64);
        let address = |ip: [u8; 4], port| SocketAddr::from((ip, port));
        let stream = Stream::over(server, address(client, 40_000), address([127, 0, 0, 1], 25));
        let (_trigger, shutdown) = Shutdown::new();
        let driver = Driver::new(service_with_ana(role).await, Connection::new(stream), shutdown);
        assert_eq!(driver.header_holder(), holder, "{role:?} of {client:?}");
    }
}
