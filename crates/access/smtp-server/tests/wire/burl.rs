//! BURL: RFC 4468. A message is sent from a mailbox without coming from the client.

use std::sync::Arc;

use bytes::Bytes;
use posthaste_delivery::{Delivery, UrlReader, UrlUse};
use posthaste_filter::Filter;
use posthaste_mail_model::MailboxName;
use posthaste_queue::{Queue, Relay};
use posthaste_smtp_server::{MailSink, Role};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::talk::{ANA, Server, Setup, Talk};

const DRAFT: &[u8] = b"Subject: from the drafts\r\n\r\nhello\r\n";

/// Puts a message into Drafts of an account, and has URLs of it authorised.
async fn draft(server: &Server, name: &str, ends: &[&str]) -> Vec<String> {
    draft_of(server, name, Bytes::from_static(DRAFT), ends).await
}

async fn draft_of(server: &Server, name: &str, text: Bytes, ends: &[&str]) -> Vec<String> {
    let delivery = &server.delivery;
    let account = delivery.directory().account(name).await.unwrap().unwrap();
    let list = delivery.mailboxes(&account).await.unwrap();
    let drafts = list.find(&MailboxName::new("Drafts").unwrap()).unwrap().id;
    let message = delivery.incoming(text, Vec::new(), None).await.unwrap();
    delivery.append(&account, &delivery.store().destination(drafts), vec![message]).await.unwrap();
    let reader =
        UrlReader { account: &account, host: "mail.example.org", selected: None, used: UrlUse::Imap };
    let mut urls = Vec::new();
    for end in ends {
        let user = name.replace('@', "%40");
        let rump = format!("imap://{user}@mail.example.org/Drafts/;UID=1{end}");
        urls.push(delivery.authorise_url(reader, &rump).await.unwrap());
    }
    urls
}

async fn log_in(server: &Server) -> Talk<TcpStream> {
    let mut client = server.connect().await;
    client.play(&format!("S: 220 …\nC: EHLO a.example\nS* 250 HELP\nC: AUTH PLAIN {ANA}\nS: 235 …")).await;
    client
}

#[tokio::test]
async fn a_message_is_sent_from_a_mailbox_and_in_pieces() {
    let server = Setup::new(Role::Submission).start().await;
    let ends = [";URLAUTH=submit+ana%40example.org", "/;SECTION=TEXT;URLAUTH=submit+ana%40example.org"];
    let urls = draft(&server, "ana@example.org", &ends).await;
    let mut client = server.connect().await;
    client
        .play(&format!(
            "S: 220 …
             C: EHLO a.example
             S* 250-AUTH …
             S: 250 HELP
             C: BURL {} LAST
             S: 503 5.5.1 …
             C: AUTH PLAIN {ANA}
             S: 235 2.7.0 Logged in
             C: EHLO a.example
             S* 250-BURL imap
             S: 250 HELP
             C: MAIL FROM:<ana@example.org>
             S: 250 2.1.0 …
             C: BURL {} LAST
             S: 503 5.5.1 No valid recipients
             C: RCPT TO:<ben@example.org>
             S: 250 2.1.5 …
             C: BURL {} LAST
             S: 250 2.0.0 Delivered, id …",
            urls[0], urls[0], urls[0]
        ))
        .await;
    let (_, message) = server.only_message("ben@example.org").await;
    assert_eq!(message.as_bytes(), DRAFT);
    // RFC 4468 §3: URLs and octets, one after the other.
    client
        .play(&format!(
            "C: MAIL FROM:<ana@example.org>
             S: 250 2.1.0 …
             C: RCPT TO:<ana@example.org>
             S: 250 2.1.5 …
             C: BURL {}
             S: 250 2.5.0 7 octets read
             C: DATA
             S: 503 5.5.1 …
             C: BDAT 0
             S: 250 2.0.0 0 octets received
             C: BURL {} LAST
             S: 250 2.0.0 Delivered, id …",
            urls[1], urls[1]
        ))
        .await;
    let (_, message) = server.only_message("ana@example.org").await;
    assert_eq!(message, "hello\r\nhello\r\n");
}

#[tokio::test]
async fn a_url_that_is_not_for_the_sender_is_refused() {
    let server = Setup::new(Role::Submission).start().await;
    let ends = [
        ";URLAUTH=submit+ben%40example.org",
        ";EXPIRE=2001-01-01T00:00:00Z;URLAUTH=submit+ana%40example.org",
        ";URLAUTH=submit+ana%40example.org",
    ];
    let urls = draft(&server, "ana@example.org", &ends).await;
    let of_ben = draft(&server, "ben@example.org", &[";URLAUTH=submit+ana%40example.org"]).await;
    let mut client = log_in(&server).await;
    let changed = urls[2].replace("UID=1", "UID=2");
    let bare = "imap://ana%40example.org@mail.example.org/Drafts/;UID=1";
    for url in [&urls[0], &urls[1], &changed, bare, "http://mail.example.org/"] {
        client
            .play(&format!(
                "C: MAIL FROM:<ana@example.org>
                 S: 250 2.1.0 …
                 C: RCPT TO:<ben@example.org>
                 S: 250 2.1.5 …
                 C: BURL {url} LAST
                 S: 554 5.6.6 …"
            ))
            .await;
    }
    assert!(server.inbox("ben@example.org").await.is_empty());
    // She may send a part that another user has authorised for her.
    client
        .play(&format!(
            "C: MAIL FROM:<ana@example.org>
             S: 250 2.1.0 …
             C: RCPT TO:<ben@example.org>
             S: 250 2.1.5 …
             C: BURL {} LAST
             S: 250 2.0.0 …",
            of_ben[0]
        ))
        .await;
}

#[tokio::test]
async fn a_message_put_together_has_the_limit_of_any_other() {
    let mut setup = Setup::new(Role::Submission);
    setup.options.message_size_max = 60;
    let server = setup.start().await;
    let urls = draft(&server, "ana@example.org", &[";URLAUTH=submit+ana%40example.org"]).await;
    let mut client = log_in(&server).await;
    client
        .play(&format!(
            "C: MAIL FROM:<ana@example.org>
             S: 250 2.1.0 …
             C: RCPT TO:<ben@example.org>
             S: 250 2.1.5 …
             C: BURL {}
             S: 250 2.5.0 …
             C: BURL {} LAST
             S: 552 5.3.4 …
             C: MAIL FROM:<ana@example.org>
             S: 250 2.1.0 …",
            urls[0], urls[0]
        ))
        .await;
    assert!(server.inbox("ben@example.org").await.is_empty());
}

/// A way to other domains, where 5,000 octets may wait for an account.
fn with_a_small_queue(delivery: Delivery) -> Arc<dyn MailSink> {
    let host = "mail.example.org";
    let queue = block_in_place(|| Handle::current().block_on(Queue::open(delivery.clone()))).unwrap();
    let relay = Relay::new(queue, delivery.clone(), host);
    relay.set_account_octets_max(5000);
    Arc::new(Filter::new(delivery, Some(relay), host))
}

/// `limits.account_queued`: the octets do not come from the client, and count anyway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_from_a_mailbox_counts_among_those_that_wait() {
    let setup = Setup { sink: Some(with_a_small_queue), ..Setup::new(Role::Submission) };
    let server = setup.start().await;
    let long = [DRAFT, &b"0123456789abcdef\r\n".repeat(150)].concat();
    let urls =
        draft_of(&server, "ana@example.org", long.into(), &[";URLAUTH=submit+ana%40example.org"]).await;
    let mut client = log_in(&server).await;
    let to = |name: &str| {
        format!(
            "C: MAIL FROM:<ana@example.org>
             S: 250 2.1.0 …
             C: RCPT TO:<{name}>
             S: 250 2.1.5 …\n"
        )
    };
    let (far, url) = (to("bo@far.test"), &urls[0]);
    let over = "S: 452 4.3.1 Messages of yours that wait may have 5000 octets; try again later\n";
    client.play(&format!("{far}C: BURL {url} LAST\nS: 250 2.0.0 Queued, id …")).await;
    client.play(&format!("{far}C: BURL {url} LAST\n{over}")).await;
    // In pieces.
    let pieces = format!("C: BURL {url}\nS: 250 2.5.0 …\nC: BDAT 0 LAST\n");
    client.play(&format!("{far}{pieces}{over}")).await;
    // A small one has room, and mail for this server does not wait.
    client.play(&format!("{far}C: BDAT 0 LAST\nS: 250 2.0.0 Queued, id …")).await;
    let here = to("ben@example.org");
    client.play(&format!("{here}C: BURL {url} LAST\nS: 250 2.0.0 Delivered, id …")).await;
    assert_eq!(server.inbox("ben@example.org").await.len(), 1);
}
