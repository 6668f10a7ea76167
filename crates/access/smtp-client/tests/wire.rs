//! The commands to hosts, by the extensions that they offer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_authentication::Origin;
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, Policy};
use posthaste_queue::{
    Body, Channel, Envelope, EnvelopeId, Failure, Item, LeaseEnd, Notify, OriginalRecipient, Priority, Queue,
    REPLY_CHARS_MAX, Relay, Return, Sent, Success, To, Transport,
};
use posthaste_smtp_client::{Route, Routes, SmtpTransport, Tls, TlsRule};
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A message in the queue, for recipients of `b.test`.
async fn item(message: &'static [u8], envelope: &Envelope) -> Item {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
    let store = Store::new(engine, StoreOptions::default());
    let delivery = Delivery::new(store, Arc::new(directory), DeliveryOptions::default());
    let relay = Relay::new(Queue::open(delivery.clone()).await.unwrap(), delivery, "mail.a.test");
    relay.accept(Bytes::from_static(message), envelope.clone(), Origin::Server).await.unwrap().remove(0)
}

/// Serves one connection with these extensions; what the client sent, and `ok` for each message.
/// Recipients whose name begins with `no` are refused; at one that begins with `end` the connection
/// ends.
async fn serve(connection: TcpStream, extensions: &str) -> String {
    let mut connection = BufReader::new(connection);
    let mut seen = String::new();
    connection.get_mut().write_all(b"220 mail.b.test\r\n").await.unwrap();
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await.unwrap() == 0 {
            return seen;
        }
        seen += &line;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[0] {
            "EHLO" => format!("250-mail.b.test\r\n{extensions}250 HELP\r\n"),
            "RCPT" if extensions.contains("VERBOSE") => long_refusal(),
            "RCPT" if words[1].starts_with("TO:<no") => "550 5.1.1 no such user\r\n".to_owned(),
            "RCPT" if words[1].starts_with("TO:<end") => {
                connection.get_mut().write_all(b"421 4.7.0 too many unknown users\r\n").await.unwrap();
                return seen;
            }
            "DATA" if extensions.contains("HANGUP") => return seen,
            "DATA" if extensions.contains("EARLY") => "250 ok\r\n".to_owned(),
            "DATA" if extensions.contains("NODATA") => "451 4.3.0 not now\r\n".to_owned(),
            "BDAT" if extensions.contains("NODATA") => {
                let mut octets = vec![0; words[1].parse().unwrap()];
                connection.read_exact(&mut octets).await.unwrap();
                "451 4.3.0 not now\r\n".to_owned()
            }
            "DATA" => {
                connection.get_mut().write_all(b"354 go on\r\n").await.unwrap();
                let mut line = String::new();
                while line != ".\r\n" {
                    line.clear();
                    if connection.read_line(&mut line).await.unwrap() == 0 {
                        return seen;
                    }
                    seen += &line;
                }
                if extensions.contains("MUTE") {
                    return std::future::pending().await;
                }
                "250 ok\r\n".to_owned()
            }
            "BDAT" => {
                let mut octets = vec![0; words[1].parse().unwrap()];
                if connection.read_exact(&mut octets).await.is_err() {
                    return seen + "not all\r\n";
                }
                seen += &octets.escape_ascii().to_string();
                seen += "\r\n";
                "250 ok\r\n".to_owned()
            }
            _ => "250 ok\r\n".to_owned(),
        };
        connection.get_mut().write_all(answer.as_bytes()).await.unwrap();
    }
}

/// The longest reply that is read: 128 lines of almost 4 KiB.
fn long_refusal() -> String {
    let text = "x".repeat(4_000);
    let line = |mark: char| format!("550{mark}5.1.1 {text}\r\n");
    line('-').repeat(127) + &line(' ')
}

/// A connection to a host with these extensions, and what the host has got once it ends.
async fn connected(extensions: &[&str]) -> (Box<dyn Channel>, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let extensions: String = extensions.iter().map(|word| format!("250-{word}\r\n")).collect();
    let host = tokio::spawn(async move { serve(listener.accept().await.unwrap().0, &extensions).await });
    let route = Route { host: "127.0.0.1".into(), port, tls: TlsRule::Never, login: None };
    let routes = Routes { domains: HashMap::from([("b.test".to_owned(), route)]), ..Routes::default() };
    let transport = SmtpTransport::new("mail.a.test", routes, Tls::new(None).unwrap());
    (transport.connect(&"b.test".to_owned()).await.unwrap(), host)
}

/// Sends an item to a host with these extensions: the outcome, and all lines the host got after
/// EHLO, without QUIT.
async fn sent(item: &Item, message: &'static [u8], extensions: &[&str]) -> (Sent, Vec<String>) {
    let (mut channel, host) = connected(extensions).await;
    let untried = Err(Failure::temporary("4.0.0", "not tried"));
    let mut outcome = Sent { outcomes: vec![untried; item.recipients.len()], usable: true };
    for to in channel.transactions(item) {
        let sent = channel.send(item, &to, Body::new(Bytes::from_static(message), None)).await;
        outcome.usable = sent.usable;
        to.iter().zip(sent.outcomes).for_each(|(at, one)| outcome.outcomes[*at] = one);
    }
    channel.close().await;
    let seen = host.await.unwrap();
    let mut lines: Vec<String> = seen.lines().map(str::to_owned).collect();
    assert_eq!(lines.remove(0), "EHLO mail.a.test");
    // Without it the host ended the connection.
    lines.pop_if(|last| last == "QUIT");
    (outcome, lines)
}

/// RFC 5321 §4.3.2: DATA succeeds with 354 alone. A late reply to another command does not make a
/// message count as sent.
#[tokio::test]
async fn a_success_in_place_of_354_is_a_failure() {
    let envelope = Envelope { to: vec![To::new("bo@b.test")], ..Envelope::new("ana@a.test", &[]) };
    let (mut channel, host) = connected(&["EARLY"]).await;
    let outcome = channel
        .send(&item(MESSAGE, &envelope).await, &[0], Body::new(Bytes::from_static(MESSAGE), None))
        .await;
    assert!(!outcome.usable);
    let [Err(failure)] = &outcome.outcomes[..] else { panic!("{outcome:?}") };
    assert!(!failure.permanent && failure.reply.ends_with("answers DATA with 250 ok"), "{failure:?}");
    drop(channel);
    assert!(!host.await.unwrap().contains("Subject"));
}

/// A host that does not answer takes no memory from other messages, once it has all of its own.
#[tokio::test]
async fn a_message_gives_its_memory_back_before_the_host_answers() {
    let envelope = Envelope { to: vec![To::new("bo@b.test")], ..Envelope::new("ana@a.test", &[]) };
    let (mut channel, _host) = connected(&["MUTE"]).await;
    let memory = Arc::new(tokio::sync::Semaphore::new(1));
    let room = Arc::clone(&memory).try_acquire_owned().unwrap();
    let item = item(MESSAGE, &envelope).await;
    let send = channel.send(&item, &[0], Body::new(Bytes::from_static(MESSAGE), Some(Box::new(room))));
    tokio::select! {
        sent = send => panic!("{sent:?}"),
        room = memory.acquire() => drop(room.unwrap()),
    }
}

fn to(address: &str, notify: &str) -> To {
    To { notify: Notify::parse(notify), ..To::new(address) }
}

const MESSAGE: &[u8] = b"Subject: a\r\n\r\n.\r\n";
const DATA: [&str; 5] = ["DATA", "Subject: a", "", "..", "."];

/// RFC 3461 §5.2.1.
#[tokio::test]
async fn the_senders_requests_are_passed_to_the_next_host() {
    let envelope = Envelope {
        to: vec![
            To { orcpt: OriginalRecipient::parse("rfc822;x+2By@b.test"), ..to("bo@b.test", "delay,success") },
            to("cy@b.test", "never"),
            To::new("di@b.test"),
        ],
        ret: Some(Return::Full),
        envid: EnvelopeId::parse("id+2B1"),
        ..Envelope::new("ana@a.test", &[])
    };
    let (outcome, lines) = sent(&item(MESSAGE, &envelope).await, MESSAGE, &["DSN", "PIPELINING"]).await;
    let envelope = [
        "MAIL FROM:<ana@a.test> RET=FULL ENVID=id+2B1",
        "RCPT TO:<bo@b.test> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;x+2By@b.test",
        "RCPT TO:<cy@b.test> NOTIFY=NEVER",
        "RCPT TO:<di@b.test>",
    ];
    assert_eq!(lines, [&envelope[..], &DATA].concat());
    assert_eq!(outcome, Sent { outcomes: vec![Ok(None); 3], usable: true });
}

/// RFC 3461 §5.2.2: a host without DSN cannot be kept from sending reports.
#[tokio::test]
async fn a_host_that_reports_failures_gets_no_sender_if_no_report_is_wanted() {
    let envelope = Envelope {
        to: vec![to("never@b.test", "NEVER"), to("bo@b.test", "SUCCESS"), to("no@b.test", "NEVER")],
        ret: Some(Return::Full),
        ..Envelope::new("ana@a.test", &[])
    };
    let (outcome, lines) = sent(&item(MESSAGE, &envelope).await, MESSAGE, &[]).await;
    let first = ["MAIL FROM:<ana@a.test>", "RCPT TO:<bo@b.test>"];
    let second = ["MAIL FROM:<>", "RCPT TO:<never@b.test>", "RCPT TO:<no@b.test>"];
    assert_eq!(lines, [&first[..], &DATA, &second, &DATA].concat());
    let [Ok(Some(Success::SentOn)), Ok(Some(Success::SentOn)), Err(_)] = outcome.outcomes[..] else {
        panic!("{outcome:?}")
    };
}

/// RFC 6710 §4.2.
#[tokio::test]
async fn a_priority_is_handed_on_where_it_is_known() {
    let envelope =
        Envelope { priority: Priority::parse("-3").unwrap(), ..Envelope::new("ana@a.test", &["bo@b.test"]) };
    let item = item(MESSAGE, &envelope).await;
    let (_, lines) = sent(&item, MESSAGE, &["MT-PRIORITY MIXER"]).await;
    assert_eq!(lines[0], "MAIL FROM:<ana@a.test> MT-PRIORITY=-3");
    let (_, lines) = sent(&item, MESSAGE, &[]).await;
    assert_eq!(lines[0], "MAIL FROM:<ana@a.test>");
}

/// RFC 9422 §4.
#[tokio::test]
async fn a_host_gets_no_more_recipients_at_once_than_it_takes() {
    let envelope = Envelope::new("ana@a.test", &["a@b.test", "no@b.test", "c@b.test"]);
    let (outcome, lines) = sent(&item(MESSAGE, &envelope).await, MESSAGE, &["LIMITS RCPTMAX=2"]).await;
    let first = ["MAIL FROM:<ana@a.test>", "RCPT TO:<a@b.test>", "RCPT TO:<no@b.test>"];
    let second = ["MAIL FROM:<ana@a.test>", "RCPT TO:<c@b.test>"];
    assert_eq!(lines, [&first[..], &DATA, &second, &DATA].concat());
    let ok: Vec<bool> = outcome.outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, true]);
}

/// RFC 5321 §4.5.3.1.8: a host cannot make one transaction larger than every host takes it.
#[tokio::test]
async fn a_transaction_has_at_most_a_hundred_recipients() {
    let to: Vec<String> = (0..150).map(|n| format!("{n}@b.test")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    let item = item(MESSAGE, &Envelope::new("ana@a.test", &to)).await;
    let (channel, _host) = connected(&["LIMITS RCPTMAX=1000000"]).await;
    let lens: Vec<usize> = channel.transactions(&item).iter().map(Vec::len).collect();
    assert_eq!(lens, [100, 50]);
}

/// The record of the item has the outcome of each recipient.
#[tokio::test]
async fn long_refusals_are_cut() {
    let to: Vec<String> = (0..10).map(|n| format!("{n}@b.test")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    let item = item(MESSAGE, &Envelope::new("ana@a.test", &to)).await;
    let (outcome, _) = sent(&item, MESSAGE, &["PIPELINING", "VERBOSE"]).await;
    assert_eq!((outcome.outcomes.len(), outcome.usable), (10, true));
    for outcome in outcome.outcomes {
        let failure = outcome.unwrap_err();
        assert_eq!((failure.permanent, failure.status.as_str()), (true, "5.1.1"));
        assert_eq!(failure.reply.chars().count(), REPLY_CHARS_MAX);
        assert!(failure.reply.starts_with("550 5.1.1 xxx"), "{failure:?}");
    }
}

/// RFC 3030 §3.
#[tokio::test]
async fn binary_mail_goes_in_a_chunk_or_not_at_all() {
    const BINARY: &[u8] = b"Subject: a\r\n\r\n\0\n.\r";
    let envelope = Envelope { binary: true, ..Envelope::new("ana@a.test", &["bo@b.test"]) };
    let item = item(BINARY, &envelope).await;
    let (outcome, lines) = sent(&item, BINARY, &["CHUNKING", "BINARYMIME", "8BITMIME"]).await;
    assert_eq!(
        lines,
        [
            "MAIL FROM:<ana@a.test> BODY=BINARYMIME",
            "RCPT TO:<bo@b.test>",
            "BDAT 18 LAST",
            "Subject: a\\r\\n\\r\\n\\x00\\n.\\r"
        ]
    );
    assert_eq!(outcome.outcomes, [Ok(Some(Success::SentOn))]);
    let (outcome, lines) = sent(&item, BINARY, &["CHUNKING", "8BITMIME"]).await;
    let failure = outcome.outcomes[0].clone().unwrap_err();
    assert!(lines.is_empty() && failure.permanent && failure.status == "5.6.3", "{lines:?}, {failure:?}");
}

/// A refused DATA leaves the transaction open: the next MAIL would be answered with 503, and its
/// message would be given up.
#[tokio::test]
async fn a_refused_message_is_followed_by_a_reset() {
    let envelope = Envelope::new("ana@a.test", &["bo@b.test"]);
    let plain = item(MESSAGE, &envelope).await;
    let (outcome, lines) = sent(&plain, MESSAGE, &["NODATA"]).await;
    assert_eq!(lines, ["MAIL FROM:<ana@a.test>", "RCPT TO:<bo@b.test>", "DATA", "RSET"]);
    assert!(outcome.usable && !outcome.outcomes[0].clone().unwrap_err().permanent, "{outcome:?}");
    // RFC 3030 §2.
    let binary = item(MESSAGE, &Envelope { binary: true, ..envelope }).await;
    let (outcome, lines) = sent(&binary, MESSAGE, &["NODATA", "CHUNKING", "BINARYMIME"]).await;
    let bdat = format!("BDAT {} LAST", MESSAGE.len());
    let wanted = ["MAIL FROM:<ana@a.test> BODY=BINARYMIME", "RCPT TO:<bo@b.test>", &bdat, "RSET"];
    assert_eq!(lines, wanted);
    assert!(outcome.usable, "{outcome:?}");
}

/// A host that ends the connection during RCPT, or before it has the message, has refused some
/// recipients before. These recipients are given up; the others get the message with the next
/// connection.
#[tokio::test]
async fn refusals_before_a_lost_connection_count() {
    let to = ["a@b.test", "no1@b.test", "end@b.test", "c@b.test", "no2@b.test"];
    let item = item(MESSAGE, &Envelope::new("ana@a.test", &to)).await;
    for extensions in [&["PIPELINING"][..], &[]] {
        let (outcome, _) = sent(&item, MESSAGE, extensions).await;
        let permanent: Vec<bool> =
            outcome.outcomes.iter().map(|one| one.clone().unwrap_err().permanent).collect();
        assert_eq!(permanent, [false, true, false, false, false], "{outcome:?}");
        assert!(!outcome.usable);
        let at_end = outcome.outcomes[2].clone().unwrap_err();
        assert_eq!(at_end.reply, "421 4.7.0 too many unknown users");
    }
    let item = self::item(MESSAGE, &Envelope::new("ana@a.test", &["a@b.test", "no@b.test"])).await;
    let (outcome, _) = sent(&item, MESSAGE, &["HANGUP"]).await;
    let permanent: Vec<bool> =
        outcome.outcomes.iter().map(|one| one.clone().unwrap_err().permanent).collect();
    assert_eq!((permanent, outcome.usable), (vec![false, true], false));
}

/// A server that has lost its lease while it sends does not send the end: another one sends the
/// whole message.
#[tokio::test]
async fn no_message_ends_after_the_lease() {
    let long: &'static [u8] = [MESSAGE, &b"a line of the message\r\n".repeat(20_000)].concat().leak();
    for (binary, extensions) in [(false, &["8BITMIME"][..]), (true, &["CHUNKING", "BINARYMIME"])] {
        for message in [MESSAGE, long] {
            let envelope = Envelope { binary, ..Envelope::new("ana@a.test", &["bo@b.test"]) };
            let item = item(message, &envelope).await;
            let (mut channel, host) = connected(extensions).await;
            let end = LeaseEnd::default();
            end.set(tokio::time::Instant::now());
            let body = Body::new(Bytes::from_static(message), None).until(end);
            let sent = channel.send(&item, &[0], body).await;
            assert!(!sent.usable && !sent.outcomes[0].clone().unwrap_err().permanent, "{sent:?}");
            drop(channel);
            let seen = host.await.unwrap();
            match binary {
                true => assert!(seen.ends_with("not all\r\n"), "{seen}"),
                false => assert!(seen.contains("DATA\r\n") && !seen.ends_with("\n.\r\n"), "{seen}"),
            }
            assert_eq!(seen.contains("a line of the message"), !binary && message == long);
        }
    }
}

/// RFC 9422 §4.
#[tokio::test]
async fn a_connection_ends_after_the_hosts_limit_of_transactions() {
    let envelope = Envelope::new("ana@a.test", &["no@b.test"]);
    let item = item(MESSAGE, &envelope).await;
    let (mut channel, _host) = connected(&["LIMITS MAILMAX=2 RCPTMAX=100"]).await;
    for is_spent in [false, true] {
        assert!(!channel.is_spent());
        channel.send(&item, &[0], Body::new(Bytes::from_static(MESSAGE), None)).await;
        assert_eq!(channel.is_spent(), is_spent);
    }
}
