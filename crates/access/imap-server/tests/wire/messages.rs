//! APPEND, STORE, COPY, MOVE, EXPUNGE, FETCH, COMPRESS: RFC 9051 §6.3.12, §6.4.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_directory::AccountChange;

use crate::harness::Server;

#[test]
fn twenty_appends_at_once_fill_a_quota_to_the_last_message_and_no_further() {
    let server = Server::start();
    server.limit(AccountChange { quota_messages: Some(Some(10)), ..AccountChange::default() });
    let taken = AtomicUsize::new(0);
    let together = Barrier::new(20);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let mut wire = server.login();
            let (taken, together) = (&taken, &together);
            scope.spawn(move || {
                together.wait();
                wire.send(b"a APPEND INBOX {16+}\r\nSubject: x\r\n\r\ny\r\n");
                match wire.line().expect("an answer") {
                    line if line.starts_with("a OK") => drop(taken.fetch_add(1, Ordering::Relaxed)),
                    line => assert!(line.starts_with("a NO [OVERQUOTA] The account holds "), "{line}"),
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), 10);
    let mut wire = server.select("INBOX");
    wire.run("C: s STATUS INBOX (MESSAGES)\nS: * STATUS INBOX (MESSAGES 10)\nS: s OK …");
    // Copies count as well.
    wire.run("C: c COPY 1 Archive\nS: c NO [OVERQUOTA] …\nC: m MOVE 1 Archive\nS~ m OK …");
}

#[test]
fn append_in_all_its_forms() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a APPEND INBOX (\Seen $Label) "01-Jan-2020 10:00:00 +0100" {16}
        S: + …
        C: Subject: x
        C:
        C: y
        S: a OK [APPENDUID … 1] APPEND completed
        C: b APPEND INBOX {5+}
        C: hello
        S: b OK [APPENDUID … 2] …
        C: c APPEND nowhere {5+}
        C: hello
        S: c NO [TRYCREATE] …
        C: d APPEND INBOX {3+}
        C: one (\Flagged) {3+}
        C: two {5}
        S: + …
        C: three
        S: d OK [APPENDUID … 3:5] …
        # An empty message takes all of it back: RFC 3502.
        C: e APPEND INBOX {3+}
        C: one {0+}
        C:
        S: e NO …
        C: f SELECT INBOX
        S: * FLAGS (\Answered \Flagged \Deleted \Seen \Draft $Label)
        S~ * 5 EXISTS
        S~ f OK …
        C: g FETCH 1:5 (UID FLAGS RFC822.SIZE INTERNALDATE)
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Seen $Label) RFC822.SIZE 16 INTERNALDATE " 1-Jan-2020 09:00:00 +0000")
        S: * 2 FETCH (UID 2 FLAGS (\Recent) RFC822.SIZE 5 INTERNALDATE "…")
        S: * 3 FETCH (UID 3 FLAGS (\Recent) RFC822.SIZE 3 …
        S: * 4 FETCH (UID 4 FLAGS (\Recent \Flagged) RFC822.SIZE 3 …
        S: * 5 FETCH (UID 5 FLAGS (\Recent) RFC822.SIZE 5 …
        S: g OK …
        # An APPEND to the selected mailbox is reported at once.
        C: h APPEND INBOX {5+}
        C: hello
        S: * 6 EXISTS
        S: * 6 RECENT
        S: h OK [APPENDUID … 6] …
        C: i FETCH 6 BODY.PEEK[]
        S: * 6 FETCH (BODY[] {5}
        S: hello)
        S: i OK …
        "#,
    );
}

#[test]
fn store() {
    let server = Server::start();
    server.with_messages(3);
    server.select("INBOX").run(
        r#"
        C: a STORE 1:2 +FLAGS (\Seen)
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Seen))
        S: * 2 FETCH (UID 2 FLAGS (\Recent \Seen))
        S: a OK STORE completed
        # What is as asked already is answered for too.
        C: b STORE 1 +FLAGS \Seen
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Seen))
        S: b OK …
        C: c STORE 1 -FLAGS.SILENT (\Seen)
        S: c OK …
        C: d FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS (\Recent))
        S: d OK …
        C: e UID STORE 2:9 FLAGS ($New \Flagged)
        S: * FLAGS (\Answered \Flagged \Deleted \Seen \Draft $New)
        S: * OK [PERMANENTFLAGS (\Answered \Flagged \Deleted \Seen \Draft $New \*)] …
        S: * 2 FETCH (UID 2 FLAGS (\Recent \Flagged $New))
        S: * 3 FETCH (UID 3 FLAGS (\Recent \Flagged $New))
        S: e OK UID STORE completed
        C: f STORE 2 FLAGS ()
        S: * 2 FETCH (UID 2 FLAGS (\Recent))
        S: f OK …
        C: g STORE 4 FLAGS ()
        S: g BAD …
        C: h UID STORE 99 FLAGS ()
        S: h OK …
        C: i STORE 1 FLAGS (\Recent)
        S: i BAD …
        # RFC 9051 §7.1, PERMANENTFLAGS: what is not in it is passed over.
        C: j STORE 1 FLAGS (\Seen \Frob)
        S: * 1 FETCH (UID 1 FLAGS (…\Seen))
        S: j OK …
        C: k STORE 1 +FLAGS \Frob
        S: * 1 FETCH (UID 1 FLAGS (…\Seen))
        S: k OK …
        "#,
    );
}

#[test]
fn copy_move_expunge() {
    let server = Server::start();
    server.with_messages(5);
    server.select("INBOX").run(
        r#"
        C: a COPY 1:2 Archive
        S: a OK [COPYUID … 1:2 1:2] COPY completed
        C: b COPY 1 nowhere
        S: b NO [TRYCREATE] …
        C: c UID COPY 99 Archive
        S: c OK …
        C: d COPY 9 Archive
        S: d BAD …
        C: e MOVE 1,3 Archive
        S: * OK [COPYUID … 1,3 3:4] …
        S: * 3 EXPUNGE
        S: * 1 EXPUNGE
        S: e OK MOVE completed
        C: f UID MOVE 4 Archive
        S: * OK [COPYUID … 4 5] …
        S: * 2 EXPUNGE
        S: f OK UID MOVE completed
        C: g STORE 1:* +FLAGS.SILENT (\Deleted)
        S: g OK …
        C: h UID EXPUNGE 5:9
        S: * 2 EXPUNGE
        S: h OK UID EXPUNGE completed
        C: i EXPUNGE
        S: * 1 EXPUNGE
        S: i OK EXPUNGE completed
        C: j COPY 1 INBOX
        S: j BAD …
        C: k SELECT Archive
        S~ * 5 EXISTS
        S~ k OK …
        C: l COPY 1:* Archive
        S: * 10 EXISTS
        S: * 10 RECENT
        S: l OK [COPYUID … 1:5 6:10] …
        "#,
    );
}

#[test]
fn compress() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a COMPRESS DEFLATE\nS: a OK DEFLATE active");
    // The next bytes are compressed: a stored block holds what we say in the clear.
    let mut inflate = flate2::Decompress::new(false);
    let mut asks = |line: &str| {
        let mut block = vec![0, line.len() as u8, 0, !(line.len() as u8), 0xff];
        block.extend_from_slice(line.as_bytes());
        wire.send(&block);
        let mut text = Vec::with_capacity(1024);
        while !text.ends_with(b"\r\n") {
            let byte = wire.take(1);
            inflate.decompress_vec(&byte, &mut text, flate2::FlushDecompress::Sync).unwrap();
        }
        String::from_utf8(text).unwrap()
    };
    assert_eq!(asks("b NOOP\r\n"), "b OK NOOP completed\r\n");
    // RFC 4978 §3: BAD when COMPRESS is active already.
    assert_eq!(asks("c COMPRESS DEFLATE\r\n"), "c BAD [COMPRESSIONACTIVE] Compression is active\r\n");
}
