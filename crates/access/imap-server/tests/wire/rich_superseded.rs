//! Rich mail of a program whose conversion gave other bytes: a client finds each message under its
//! UID with the bytes that it always had, or under a new UID. It never finds an error, or other
//! bytes under the same UID.

use bytes::Bytes;
use posthaste_delivery::{CONVERSION, summarize};
use posthaste_directory::Precompute;
use posthaste_mail_model::{Flag, Uid};
use posthaste_store::form::{Form, FormHeader};
use posthaste_testkit::Wire;
use posthaste_tnef::{Outcome, convert, samples};

use crate::harness::{Server, response};

fn note() -> Vec<u8> {
    samples::mail(&samples::note())
}

fn as_mime(sent: &[u8]) -> Vec<u8> {
    let Ok(Outcome::Converted(mime)) = convert(sent) else { panic!("the sample is rich") };
    mime
}

/// A rich body that was left for later, with this number of the conversion.
fn unconverted(sent: &[u8], number: u32) -> Bytes {
    let mut digest = [0; 8];
    digest[..4].copy_from_slice(&(64u32 << 20).to_le_bytes());
    digest[4..].copy_from_slice(&number.to_le_bytes());
    FormHeader { form: Form::Unconverted, served_len: sent.len() as u32, digest }.before(sent)
}

/// The bytes that an earlier program served of a message.
const SHOWN_EARLIER: &[u8] = b"Subject: Pr\r\nContent-Type: text/plain\r\n\r\nas it was shown\r\n";

/// A rich body whose conversion gave [`SHOWN_EARLIER`]. The hash is another one in any case.
fn converted_earlier(sent: &[u8]) -> Bytes {
    FormHeader { form: Form::Rich, served_len: SHOWN_EARLIER.len() as u32, digest: [7; 8] }.before(sent)
}

/// A server on a store with four messages. UID 1 is of today. UIDs 2 and 3 are of another
/// conversion, and 3 has the items that were made then. UID 4 was converted at delivery, and the
/// conversion gives other bytes now.
fn server(precompute: Precompute) -> Server {
    let server = Server::start_converting(precompute);
    drop(server.select("INBOX"));
    let flags = [Flag::Flagged];
    let earlier = Bytes::from(summarize(SHOWN_EARLIER));
    server.store(unconverted(&note(), CONVERSION), Bytes::new(), &flags);
    server.store(unconverted(&note(), CONVERSION - 1), Bytes::new(), &flags);
    server.store(unconverted(&note(), CONVERSION - 1), earlier.clone(), &flags);
    assert_eq!(server.store(converted_earlier(&note()), earlier, &flags), Uid::new(4).expect("a UID"));
    drop(server.select("INBOX"));
    server
}

/// The bytes of a message, if the client is sent any.
fn fetched(wire: &mut Wire, uid: u32) -> Option<Vec<u8>> {
    wire.send(format!("f UID FETCH {uid} BODY.PEEK[]\r\n").as_bytes());
    let mut found = None;
    loop {
        let line = response(wire);
        let text = String::from_utf8_lossy(&line);
        match () {
            () if text.starts_with("f OK") => return found,
            () if text.contains(" FETCH (UID ") && text.contains("BODY[] {") => {
                let begin = memchr::memmem::find(&line, b"}\r\n").expect("a literal") + 3;
                let end = line.len() - b")\r\n".len();
                found = Some(line[begin..end].to_vec());
            }
            () => assert!(text.starts_with("* "), "{text}"),
        }
    }
}

#[test]
fn each_message_is_read_by_its_uid_or_by_a_new_one() {
    for precompute in [Precompute::Delivery, Precompute::FirstFetch, Precompute::Never] {
        let server = server(precompute);
        let mut wire = server.select("INBOX");
        let mime = as_mime(&note());
        // Messages that were never served in another way stay.
        assert_eq!(fetched(&mut wire, 1), Some(mime.clone()));
        for (old, new) in [(2, 5), (3, 6), (4, 7)] {
            assert_eq!(fetched(&mut wire, old), None, "{precompute:?}: UID {old}");
            assert_eq!(fetched(&mut wire, new).as_ref(), Some(&mime), "{precompute:?}: UID {new}");
            assert_eq!(fetched(&mut wire, old), None);
        }
        wire.run(
            "
            C: a UID FETCH 1:* (FLAGS INTERNALDATE RFC822.SIZE)
            S: * 1 FETCH (UID 1 …
            S: * 2 FETCH (UID 5 FLAGS (…Flagged) INTERNALDATE \" 9-Sep-2001 01:46:40 +0000\" …
            S: * 3 FETCH (UID 6 FLAGS (…Flagged) INTERNALDATE \" 9-Sep-2001 01:46:40 +0000\" …
            S: * 4 FETCH (UID 7 FLAGS (…Flagged) INTERNALDATE \" 9-Sep-2001 01:46:40 +0000\" …
            S~ a OK …
            ",
        );
        // A second session, and a client that comes later, find the same.
        let mut later = server.select("INBOX");
        for uid in [1, 5, 6, 7] {
            assert_eq!(fetched(&mut later, uid).as_ref(), Some(&mime));
        }
    }
}

/// A session that knows the folder sees that the old UID is expunged, and that a new one came.
#[test]
fn a_session_sees_the_new_uid() {
    let server = server(Precompute::FirstFetch);
    let mut wire = server.select("INBOX");
    wire.run(
        "
        C: a UID FETCH 4 BODY.PEEK[]
        S~ * 4 EXPUNGE
        S~ * 4 EXISTS
        S~ a OK …
        C: b UID FETCH 3 (ENVELOPE)
        S~ * 3 FETCH (UID 3 …
        S~ b OK …
        C: c UID FETCH 2 (ENVELOPE)
        S~ * 2 EXPUNGE
        S~ * 4 EXISTS
        S~ c OK …
        C: d SEARCH BODY bold
        S~ * SEARCH …
        S~ d OK …
        ",
    );
    // The search has read the third one, too.
    wire.run("C: e NOOP\nS~ e OK …\nC: f UID SEARCH ALL\nS: * SEARCH 1 5 6 7\nS~ f OK …");
    // A sort, a status and a thread read no message that is superseded.
    let server = self::server(Precompute::Never);
    let mut wire = server.select("INBOX");
    wire.run("C: a SORT (SIZE) UTF-8 ALL\nS~ a OK …\nC: b STATUS INBOX (SIZE MESSAGES)\nS: * STATUS INBOX (…\nS~ b OK …");
    wire.run("C: c THREAD REFERENCES UTF-8 ALL\nS~ c OK …");
    assert_eq!(fetched(&mut wire, 1), Some(as_mime(&note())));
}
