//! URLs of RFC 5092 and RFC 4467: their meaning, invalid texts, and the round trip.

use super::*;

#[test]
fn urls_of_the_rfcs_are_read() {
    for text in [
        "imap://minbari.example.org/gray-council;UIDVALIDITY=385759045/;UID=20/;PARTIAL=0.1024",
        "imap://psicorp.example.org/~peter/%E6%97%A5%E6%9C%AC%E8%AA%9E/%E5%8F%B0%E5%8C%97/;UID=1",
        "imap://;AUTH=GSSAPI@minbari.example.org/gray-council/;UID=20/;SECTION=1.2",
        "imap://michael@example.org/INBOX/;UID=5;EXPIRE=2007-02-01T12:00:00Z;URLAUTH=submit+fred",
        "imap://joe@example.com/INBOX/;UID=20/;SECTION=1.2;URLAUTH=submit+fred:INTERNAL:91354a473744909de610943775f92038",
        "/Drafts;UIDVALIDITY=385759045/;UID=20/;SECTION=HEADER",
        ";UID=3/;SECTION=1.MIME/;PARTIAL=7",
        ";SECTION=1",
        ";PARTIAL=0.1",
        "imap://ana;AUTH=*@[::1]:1143/a/b/;UID=1/;SECTION=HEADER.FIELDS%20(DATE%20FROM)",
    ] {
        let url = ImapUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(url.to_string(), text);
    }
}

#[test]
fn other_spellings() {
    for (text, same) in [
        ("IMAP://Example.ORG/INBOX/;uid=1", "imap://example.org/INBOX/;UID=1"),
        ("//example.org/INBOX;UID=1", "imap://example.org/INBOX/;UID=1"),
        ("/INBOX/;UID=113330;section=1.5.9", "/INBOX/;UID=113330/;SECTION=1.5.9"),
        ("/;UID=1/;section=text", ";UID=1/;SECTION=TEXT"),
        (
            "/a/;UID=1;EXPIRE=2026-01-01T01:00:00.25+01:00;URLAUTH=AuthUser",
            "/a/;UID=1;EXPIRE=2026-01-01T00:00:00Z;URLAUTH=authuser",
        ),
    ] {
        assert_eq!(ImapUrl::parse(text).map(|url| url.to_string()).as_deref(), Ok(same), "{text}");
    }
}

#[test]
fn texts_that_are_not_message_urls() {
    use UrlError as E;
    for (text, error) in [
        ("", E::NoMessage),
        ("http://example.org/INBOX/;UID=1", E::Server),
        ("imap://example.org", E::NoMessage),
        ("imap://example.org/", E::NoMessage),
        ("imap://example.org/INBOX", E::NoMessage),
        ("imap://example.org/INBOX?SUBJECT%20x", E::NoMessage),
        ("imap:///INBOX/;UID=1", E::Server),
        ("imap://@h/INBOX/;UID=1", E::Server),
        ("imap://h:x/INBOX/;UID=1", E::Server),
        ("INBOX/;UID=1", E::RelativeMailbox),
        ("/INBOX/;UID=0", E::Parameter),
        ("/INBOX/;UID=1/;UID=2", E::Parameter),
        ("/INBOX/;SECTION=1/;UID=2", E::Parameter),
        ("/INBOX;UIDVALIDITY=x/;UID=2", E::Parameter),
        ("/INBOX/;UID=2/;SECTION=", E::Parameter),
        ("/INBOX/;UID=2/;SECTION=MIME", E::Parameter),
        ("/INBOX/;UID=2/;SECTION=1]x", E::Parameter),
        ("/INBOX/;UID=2/;PARTIAL=1.0", E::Parameter),
        ("/INBOX/;UID=2/;PARTIAL=-1", E::Parameter),
        ("/IN%4/;UID=2", E::Encoding),
        ("/IN%0D%0A/;UID=2", E::Encoding),
        ("/IN%FF/;UID=2", E::Encoding),
        ("/IN BOX/;UID=2", E::Encoding),
        ("/a/;UID=1;EXPIRE=2026-01-01T01:00:00Z", E::Parameter),
        ("/a/;UID=1;URLAUTH=somebody", E::Parameter),
        ("/a/;UID=1;URLAUTH=user+", E::Parameter),
        ("/a/;UID=1;URLAUTH=anonymous:INTERNAL:1234", E::Parameter),
        ("/a/;UID=1;URLAUTH=anonymous:INTERNAL", E::Parameter),
        ("/a;URLAUTH=anonymous", E::NoMessage),
    ] {
        assert_eq!(ImapUrl::parse(text).map(|url| url.to_string()), Err(error), "{text}");
    }
    assert_eq!(ImapUrl::parse(&format!("/{}/;UID=1", "x".repeat(URL_BYTES_MAX))), Err(E::TooLong));
}

#[test]
fn the_rump_is_the_text_before_the_proof() {
    let rump = "imap://joe@example.com:143/INBOX/;UID=20;urlauth=submit+fred";
    assert_eq!(ImapUrl::rump(&format!("{rump}:INTERNAL:00")), Some(rump));
    assert_eq!(ImapUrl::rump(rump), None);
    assert_eq!(ImapUrl::rump("/a/;UID=1"), None);
}
