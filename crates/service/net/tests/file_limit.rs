//! Running out of files: the accept loop waits and continues. A process of its own, since the limit
//! is shared.

// `allow-unwrap-in-tests` knows test functions only, and not the sessions they start.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_net::{Connection, Endpoint, Listener, Mode, ServeOptions, Shutdown};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn the_accept_loop_survives_a_lack_of_files() {
    let (trigger, token) = Shutdown::new();
    let endpoint = Endpoint { address: "127.0.0.1:0".parse().unwrap(), mode: Mode::Plain };
    let listener = Listener::bind(&endpoint).unwrap();
    let address = listener.local_addr();
    let serving =
        tokio::spawn(listener.serve(ServeOptions::new(token), |mut connection: Connection| async move {
            connection.write_all_within(b"hello", Duration::from_secs(30)).await.unwrap();
        }));

    // Room for the client's socket and no other: files are numbered from the lowest free number.
    let probe = std::fs::File::open("/dev/null").unwrap();
    let next = std::os::fd::AsRawFd::as_raw_fd(&probe) as u64;
    drop(probe);
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(next + 1), maximum: before.maximum }).unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    assert!(std::fs::File::open("/dev/null").is_err(), "there should be no file left");
    let mut greeting = [0; 5];
    let early = tokio::time::timeout(Duration::from_millis(100), client.read_exact(&mut greeting)).await;
    assert!(early.is_err(), "accepted without a file");

    setrlimit(Resource::Nofile, before).unwrap();
    tokio::time::timeout(Duration::from_secs(30), client.read_exact(&mut greeting)).await.unwrap().unwrap();
    assert_eq!(&greeting, b"hello");
    trigger.request();
    serving.await.unwrap().unwrap();
}
