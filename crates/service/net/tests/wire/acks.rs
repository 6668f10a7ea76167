//! Acknowledgements: at once while the rest of something is awaited, and left to the kernel
//! otherwise.

use std::future::{Future, poll_fn};
use std::io::Write;
use std::net::{TcpListener, TcpStream as StdStream};
use std::pin::pin;
use std::task::Poll;

use posthaste_net::{Certificates, Connection, Mode, NetError, Stream};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::compress::Client;
use crate::peer::{LONG, Server, expect, handshake, within};

/// Polls once; panics if there was something to read.
async fn must_wait(work: impl Future<Output = Result<usize, NetError>>) {
    let mut work = pin!(work);
    let polled = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
    assert!(polled.is_pending(), "{polled:?}");
}

/// A connection, its client, and a second handle on the server's socket.
fn observed() -> (Connection, StdStream, StdStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let handle = accepted.try_clone().unwrap();
    (Connection::new(Stream::plain(TcpStream::from_std(accepted).unwrap()).unwrap()), client, handle)
}

/// The kernel's own state. Nothing is in flight when it is read, so no timer of the kernel changes
/// it.
#[tokio::test]
async fn the_kernel_is_asked_for_a_rest_and_for_nothing_else() {
    let (mut connection, mut client, handle) = observed();
    let delays = |delayed: bool| SockRef::from(&handle).set_tcp_quickack(!delayed).unwrap();
    let at_once = || SockRef::from(&handle).tcp_quickack().unwrap();

    delays(true);
    must_wait(connection.fill(100, LONG)).await;
    assert!(!at_once(), "an idle connection");

    client.write_all(b"begin").unwrap();
    assert_eq!(connection.fill(100, LONG).await.unwrap(), 5);
    delays(true);
    must_wait(connection.fill(100, LONG)).await;
    assert!(at_once(), "a beginning lies in the input");

    client.write_all(b"more").unwrap();
    assert_eq!(connection.fill(100, LONG).await.unwrap(), 4);
    connection.consume(9);
    delays(true);
    must_wait(connection.fill_rest(100, LONG)).await;
    assert!(at_once(), "the caller took the beginning");
    assert_eq!(connection.traffic().prompt_acks, 2);

    delays(true);
    must_wait(connection.fill_rest(100, LONG)).await;
    assert!(!at_once(), "nothing came since");

    client.write_all(b"whole").unwrap();
    assert_eq!(connection.fill_rest(100, LONG).await.unwrap(), 5);
    connection.consume(5);
    connection.write_all_within(b"OK", LONG).await.unwrap();
    delays(true);
    must_wait(connection.fill_rest(100, LONG)).await;
    assert!(!at_once(), "the answer acknowledges");
    assert_eq!(connection.traffic().prompt_acks, 2);
}

/// Reads `BEGIN`, waits twice for a rest that does not come, says `GO`, and echoes.
async fn waits_for_the_rest(mut connection: Connection, said: mpsc::Sender<[u64; 4]>) {
    while connection.input().len() < 5 {
        connection.fill(100, LONG).await.unwrap();
    }
    connection.consume(5);
    let mut acks = [connection.traffic().prompt_acks; 4];
    must_wait(connection.fill(100, LONG)).await;
    acks[1] = connection.traffic().prompt_acks;
    must_wait(connection.fill_rest(100, LONG)).await;
    acks[2] = connection.traffic().prompt_acks;
    must_wait(connection.fill_rest(100, LONG)).await;
    acks[3] = connection.traffic().prompt_acks;
    said.send(acks).await.unwrap();
    connection.write_all_within(b"GO", LONG).await.unwrap();
}

/// No ACK while idle, one for the rest, and no second one, because nothing arrived since.
async fn assert_one_ack(heard: &mut mpsc::Receiver<[u64; 4]>) {
    let [before, idle, rest, again] = within(heard.recv()).await.unwrap();
    assert_eq!((idle - before, rest - idle, again - rest), (0, 1, 0));
}

#[tokio::test]
async fn the_socket_below_tls_acknowledges() {
    let (said, mut heard) = mpsc::channel(1);
    let held = Certificates::self_signed_in_memory("mail.example.org").unwrap();
    let server = Server::start(
        Mode::ImplicitTls,
        |options| options.certificates = Some(held.clone()),
        move |connection| waits_for_the_rest(connection, said.clone()),
    );
    let mut client = handshake(server.connect().await, &held).await.unwrap();
    client.write_all(b"BEGIN").await.unwrap();
    client.flush().await.unwrap();
    expect(&mut client, b"GO").await;
    assert_one_ack(&mut heard).await;
}

#[tokio::test]
async fn the_socket_below_compression_acknowledges() {
    let (said, mut heard) = mpsc::channel(1);
    let server = Server::start(
        Mode::Plain,
        |_| {},
        move |mut connection: Connection| {
            let said = said.clone();
            async move {
                connection.start_deflate().unwrap();
                waits_for_the_rest(connection, said).await;
            }
        },
    );
    let mut client = Client::new(server.connect().await);
    client.send(b"BEGIN").await;
    assert_eq!(client.receive(2).await.0, b"GO");
    assert_one_ack(&mut heard).await;
}
