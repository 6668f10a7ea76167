//! Answers of rspamd as values, and requests to a server that the test itself runs.

#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};

use posthaste_net::given_to_compute_threads;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn read(json: &str) -> Result<Scan, String> {
    understood(json.as_bytes())
}

fn envelope() -> Envelope<'static> {
    Envelope {
        id: "1a",
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        name: Some("mail.good.test"),
        helo: "host.test",
        from: "grüße@good.test",
        to: vec!["ana@example.org", "bo@example.org"],
    }
}

/// Answers one request with these octets, and returns it.
async fn asked(answer: Vec<u8>) -> (Result<Scan, ScanError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let rspamd = Rspamd::new(&url, Duration::from_secs(60)).unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"the body\r\n") {
            let read = stream.read(&mut piece).await.unwrap();
            assert!(read > 0, "the whole message comes");
            request.extend_from_slice(&piece[..read]);
        }
        // The client may have left by itself.
        let _ = stream.write_all(&answer).await;
        String::from_utf8(request).unwrap()
    });
    let scan = rspamd.scan(&envelope(), Bytes::from_static(b"Subject: s\r\n\r\nthe body\r\n")).await;
    (scan, served.await.unwrap())
}

fn ok(json: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{json}", json.len()).into_bytes()
}

#[tokio::test]
async fn the_envelope_and_the_message_are_sent() {
    let (scan, request) = asked(ok(r#"{"action":"no action","score":0.5,"required_score":15}"#)).await;
    let scan = scan.unwrap();
    assert_eq!((scan.verdict, scan.score, scan.required), (Verdict::Accept, 0.5, 15.0));
    assert!(request.starts_with("POST /checkv2 HTTP/1.1\r\n"), "{request}");
    let request = request.to_lowercase();
    for line in [
        "ip: 192.0.2.1",
        "hostname: mail.good.test",
        "helo: host.test",
        "queue-id: 1a",
        "from: grüße@good.test",
        "rcpt: ana@example.org",
        "rcpt: bo@example.org",
    ] {
        assert!(request.contains(&format!("\r\n{line}\r\n")), "{line}: {request}");
    }
}

#[tokio::test]
async fn answers_that_are_none_are_errors() {
    for answer in [
        &b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot json!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"220 smtp\r\n",
        b"",
    ] {
        let (scan, _) = asked(answer.to_vec()).await;
        assert!(scan.is_err(), "{}", String::from_utf8_lossy(answer));
    }
    let large = format!(r#"{{"action":"no action","x":"{}"}}"#, "x".repeat(ANSWER_MAX));
    assert!(asked(ok(&large)).await.0.is_err(), "an answer without end is not read");
    let nobody = Rspamd::new("unix:/nowhere/rspamd.sock", Duration::from_secs(60)).unwrap();
    let error = nobody.scan(&envelope(), Bytes::new()).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/rspamd.sock"), "{error}");
}

#[tokio::test]
async fn a_scanner_that_says_nothing_is_late() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let rspamd = Rspamd::new(&url, Duration::from_millis(1)).unwrap();
    let scan = rspamd.scan(&envelope(), Bytes::from_static(b"\r\n")).await;
    assert!(matches!(scan, Err(ScanError::Late(_))), "{scan:?}");
}

#[test]
fn every_action_has_its_verdict() {
    let of = |action: &str| read(&format!(r#"{{"action":"{action}"}}"#)).map(|scan| scan.verdict);
    assert_eq!(of("no action"), Ok(Verdict::Accept));
    assert_eq!(of("add header"), Ok(Verdict::Junk));
    assert_eq!(of("rewrite subject"), Ok(Verdict::Junk));
    assert_eq!(of("greylist"), Ok(Verdict::Defer("Try again later".to_owned())));
    assert_eq!(of("soft reject"), Ok(Verdict::Defer("Try again later".to_owned())));
    assert_eq!(of("reject"), Ok(Verdict::Reject("The message looks like spam".to_owned())));
    assert!(of("dance").unwrap_err().contains("dance"));
    let reason =
        read(r#"{"action":"reject","messages":{"smtp_message":"Gtube\r\npattern","x":[1]}}"#).unwrap();
    assert_eq!(reason.verdict, Verdict::Reject("Gtube??pattern".to_owned()));
}

#[test]
fn fields_come_in_every_form_there_is() {
    let json = r#"{"action":"add header","milter":{
        "add_headers":{"X-A":"one","X-B":{"value":"two","order":-1},"X-C":[{"value":"three"},"four"],
                       "Authentication-Results":{"value":"mx; spf=pass","order":1}},
        "remove_headers":{"X-Old":0,"X-Older":[1,2]}}}"#;
    let fields = read(json).unwrap().fields;
    let message =
        Bytes::from_static(b"X-Old: 1\r\nX-Spam: No\r\nX-Older: 1\r\nX-Older: 2\r\nX-Older: 3\r\n\r\n");
    let out = String::from_utf8(fields.applied(&message, 0).to_vec()).unwrap();
    let added = "X-Spam: Yes\r\nX-A: one\r\nX-B: two\r\nX-C: three\r\nX-C: four\r\n";
    assert_eq!(out, format!("{added}X-Older: 3\r\n\r\n"));
}

/// Fields with texts of the message may take all the room: 18 of these do.
#[test]
fn the_mark_of_junk_has_room_beside_any_fields() {
    let values = vec!["x".repeat(900); 20];
    let json = serde_json::json!({"action": "add header", "milter": {"add_headers": {"X-A": values}}});
    let fields = read(&json.to_string()).unwrap().fields;
    let out = fields.applied(&Bytes::from_static(b"X-Spam: No\r\n\r\n"), 0);
    assert!(out.starts_with(b"X-Spam: Yes\r\nX-A: "), "{}", out.escape_ascii());
    assert_eq!(fields.ignored(), 2);
}

/// It was read in one poll of the client's session.
#[tokio::test]
async fn a_long_answer_is_read_by_another_thread() {
    for (octets, is_elsewhere) in [(50 << 10, false), (70 << 10, true)] {
        let answer = format!(r#"{{"action":"no action","x":"{}"}}"#, "x".repeat(octets));
        let given = given_to_compute_threads();
        parsed(Bytes::from(answer)).await.unwrap();
        assert_eq!(given_to_compute_threads() - given, usize::from(is_elsewhere), "{octets} octets");
    }
}

#[test]
fn addresses() {
    let of = |url: &str| Rspamd::new(url, Duration::ZERO).map(|rspamd| rspamd.endpoint);
    assert_eq!(of("http://127.0.0.1:11333"), Ok(Endpoint::Tcp("127.0.0.1".to_owned(), 11333)));
    assert_eq!(of("http://[::1]:5/"), Ok(Endpoint::Tcp("::1".to_owned(), 5)));
    assert_eq!(of("http://spam.example.org"), Ok(Endpoint::Tcp("spam.example.org".to_owned(), PORT)));
    assert_eq!(of("unix:/run/rspamd.sock"), Ok(Endpoint::Unix("/run/rspamd.sock".to_owned())));
    for wrong in ["", "127.0.0.1:11333", "https://x", "http://x/checkv2", "unix:rspamd.sock", "http://"] {
        assert_eq!(of(wrong), Err(UrlError::Other(wrong.to_owned())), "{wrong}");
    }
    for login in ["http://u:secret@127.0.0.1:11333", "http://u@[::1]:5/", "http://:secret@x"] {
        let refused = of(login).unwrap_err();
        assert!(refused == UrlError::Login && !refused.to_string().contains("secret"), "{login}: {refused}");
    }
}
