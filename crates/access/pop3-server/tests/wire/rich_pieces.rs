//! Clients that read large rich messages by turns: each pays for one conversion, however little
//! memory there is for conversions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use posthaste_delivery::Conversions;
use posthaste_directory::Precompute;
use posthaste_net::ByteBudget;
use posthaste_store::{Place, Serve, StoreError};
use posthaste_testkit::Talk;
use posthaste_tnef::{Outcome, convert, samples};
use tokio::net::TcpStream;

use crate::talk::{Setup, USER};

/// Memory for conversions: less than one message.
const SERVED_BYTES: usize = 64 * 1024;

/// Conversions that are counted.
struct Counted {
    conversions: Conversions,
    served: AtomicUsize,
}

impl Counted {
    fn count(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl Serve for Counted {
    async fn serve(&self, reader: Place, stored: Bytes) -> Result<Bytes, StoreError> {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.conversions.serve(reader, stored).await
    }

    async fn summarize(&self, reader: Place, served: Bytes) -> Result<Bytes, StoreError> {
        self.conversions.summarize(reader, served).await
    }

    fn octets(&self, summary: &[u8]) -> Option<u32> {
        self.conversions.octets(summary)
    }

    fn keeps_summaries(&self) -> bool {
        self.conversions.keeps_summaries()
    }
}

/// A rich message with a file of a few hundred KiB, and the MIME that clients see of it.
fn large(name: &str) -> (Bytes, Vec<u8>) {
    let mut message = samples::note();
    let file: Vec<u8> = (0..700_000u32).map(|n| (n * 7 % 251) as u8).collect();
    message.attachments.push(samples::file(name, &file));
    let sent = samples::mail(&message);
    let Ok(Outcome::Converted(mime)) = convert(&sent) else { panic!("the sample is rich") };
    (sent.into(), mime)
}

/// Gives a command, and returns the lines of the answer.
async fn lines(client: &mut Talk<TcpStream>, command: &str) -> Vec<String> {
    client.play(&format!("C: {command}\nS: +OK …")).await;
    client.lines().await
}

#[tokio::test]
async fn two_clients_by_turns_pay_once_each() {
    let conversions = Conversions::new(ByteBudget::new(256 << 20));
    let counted = Arc::new(Counted { conversions, served: AtomicUsize::new(0) });
    let serve = Some((Arc::clone(&counted) as Arc<dyn Serve>, SERVED_BYTES));
    let server = Setup { serve, ..Setup::default() }.start().await;
    let recipient = server.delivery.resolve(USER).await.unwrap();
    let sent = [large("one.bin"), large("two.bin")];
    for (message, _) in &sent {
        let recipients = std::slice::from_ref(&recipient);
        server.delivery.deliver(message.clone(), recipients).await.remove(0).unwrap();
    }
    let mut clients = [server.logged_in().await, server.logged_in().await];
    for _ in 0..2 {
        for (client, n) in clients.iter_mut().zip(1..) {
            assert!(lines(client, &format!("TOP {n} 3")).await.len() > 3);
        }
    }
    for ((client, n), (_, mime)) in clients.iter_mut().zip(1..).zip(&sent) {
        let all = lines(client, &format!("RETR {n}")).await.join("\r\n") + "\r\n";
        assert_eq!(all.as_bytes(), mime);
    }
    assert_eq!(counted.count(), 2, "a conversion for each client");
    // A session that has its message needs no more memory: it is not held, and there is no room
    // for both.
    lines(&mut clients[0], "TOP 2 0").await;
    lines(&mut clients[1], "TOP 1 0").await;
    assert!(counted.count() > 2);
}

/// Size and text of a message without items are made by one conversion, for a client that requests
/// no sizes.
#[tokio::test]
async fn one_retrieval_is_one_conversion() {
    let conversions = Conversions::new(ByteBudget::new(256 << 20)).with_precompute(Precompute::Never);
    let counted = Arc::new(Counted { conversions, served: AtomicUsize::new(0) });
    let serve = Some((Arc::clone(&counted) as Arc<dyn Serve>, SERVED_BYTES));
    let server = Setup { serve, precompute: Precompute::Never, ..Setup::default() }.start().await;
    let recipient = server.delivery.resolve(USER).await.unwrap();
    let sent = [large("one.bin"), large("two.bin"), large("three.bin")];
    for (message, _) in &sent {
        let recipients = std::slice::from_ref(&recipient);
        server.delivery.deliver(message.clone(), recipients).await.remove(0).unwrap();
    }
    let mut client = server.logged_in().await;
    assert_eq!(lines(&mut client, "UIDL").await.len(), 3);
    assert_eq!(counted.count(), 0, "nobody requested a size");
    for (done, n) in [(1, 3), (2, 1)] {
        let (_, mime) = &sent[n - 1];
        client.play(&format!("C: RETR {n}\nS: +OK {} octets", mime.len())).await;
        let all = client.lines().await.join("\r\n") + "\r\n";
        assert_eq!((all.as_bytes(), counted.count()), (&mime[..], done));
    }
    client.play(&format!("C: LIST 3\nS: +OK 3 {}", sent[2].1.len())).await;
    assert_eq!(counted.count(), 2, "its size is known");
    client.play("C: DELE 1\nS: +OK …").await;
    let octets = sent[1].1.len() + sent[2].1.len();
    client.play(&format!("C: STAT\nS: +OK 2 {octets}")).await;
    assert_eq!(counted.count(), 3, "only the second one was unknown");
}
