//! Responses as the RFCs and servers in the field write them, and their meanings.

use bytes::Bytes;
use posthaste_imap_codec::response::*;
use posthaste_imap_codec::{NameEncoding, Response, parse_response, print};

fn parse(text: &str) -> Response {
    parse_response(&Bytes::copy_from_slice(text.as_bytes()), NameEncoding::Utf7)
        .unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn spelt(text: &str) -> String {
    let mut out = Vec::new();
    print::response(&mut out, &parse(text), NameEncoding::Utf7);
    String::from_utf8(out).unwrap()
}

#[test]
fn already_in_our_spelling() {
    for text in [
        "+ idling\r\n",
        "* OK IMAP4rev2 server ready\r\n",
        "* PREAUTH [CAPABILITY IMAP4rev1 IMAP4rev2] hi\r\n",
        "* BYE Autologout; idle for too long\r\n",
        "A1 NO [REFERRAL imap://u;AUTH=*@two/FOO imap://u;AUTH=*@two/BAR] Elsewhere\r\n",
        "A223 NO [TRYCREATE] No such mailbox\r\n",
        "A001 NO [BADCHARSET (US-ASCII UTF-8)] no\r\n",
        "A002 OK [APPENDUID 38505 3955] APPEND completed\r\n",
        "A003 OK [COPYUID 38505 304,319:320 3956:3958] Done\r\n",
        "* OK [PERMANENTFLAGS (\\Deleted \\Seen \\*)] Limited\r\n",
        "* OK [HIGHESTMODSEQ 715194045007] x\r\n",
        "d105 OK [MODIFIED 7,9] Conditional STORE failed\r\n",
        "* OK [MAILBOXID (F2212ea87-6097-4256-9d51-71338625)] Ok\r\n",
        "* OK [UNKNOWN-CTE] x\r\n",
        "* OK [X-FROB a b] x\r\n",
        "* CAPABILITY IMAP4rev1 LITERAL+ AUTH=PLAIN\r\n",
        "* ENABLED CONDSTORE QRESYNC\r\n",
        "* LIST (\\Noselect) \"/\" ~/Mail/foo\r\n",
        "* LIST (\\NonExistent) \"/\" Foo (\"CHILDINFO\" (\"SUBSCRIBED\"))\r\n",
        "* LIST (\\NoAccess \\HasNoChildren) \"/\" Lists/Im2000\r\n",
        "* LIST () \"/\" NewMailbox (\"OLDNAME\" (OldMailbox))\r\n",
        "* LIST (\\HasNoChildren \\Sent) NIL INBOX\r\n",
        "* NAMESPACE ((\"\" \"/\")) NIL ((\"Public Folders/\" \"/\"))\r\n",
        "* JMAPACCESS \"https://example.com/.well-known/jmap\"\r\n",
        "* STATUS blurdybloop (MESSAGES 231 UIDNEXT 44292 CREATEDMODSEQ 1 APPENDLIMIT NIL MAILBOXID (F1))\r\n",
        "* METADATA \"\" (/shared/comment \"Shared comment\")\r\n",
        "* METADATA INBOX (/private/a NIL /private/b ~{3}\r\na\0b)\r\n",
        "* METADATA INBOX /shared/comment /private/comment\r\n",
        "a OK [METADATA LONGENTRIES 2199] GETMETADATA complete\r\n",
        "a NO [METADATA MAXSIZE 1024] too long\r\n",
        "a NO [ANNOTATE TOOBIG] too long\r\n",
        "a NO [ANNOTATE TOOMANY] too many\r\n",
        "* OK [ANNOTATIONS 20480] x\r\n",
        "* OK [ANNOTATIONS READ-ONLY] x\r\n",
        "* OK [ANNOTATIONS NONE] x\r\n",
        "* 1 FETCH (ANNOTATION (/comment (value.priv \"My comment\" value.shared NIL size.priv \"10\")))\r\n",
        "* 1 FETCH (FLAGS (\\Seen) ANNOTATION (/comment))\r\n",
        "a NO [METADATA TOOMANY] SETMETADATA failed\r\n",
        "* SEARCH 2 3 6 (MODSEQ 917162500)\r\n",
        "* SEARCH\r\n",
        "* ESEARCH (TAG \"A282\") UID MIN 2 COUNT 3 ALL 2:4,9 MODSEQ 12\r\n",
        "* ESEARCH (TAG \"E01\") UID ALL 23765,23764,23763,23761,7:9\r\n",
        "* SORT 2 84 882\r\n",
        "* SORT 5 3 (MODSEQ 917162500)\r\n",
        "* SORT\r\n",
        "* THREAD (2)(3 6 (4 23)(44 7 96))\r\n",
        "* THREAD ((3)(5))\r\n",
        "* THREAD (166)(167)(168)(169)(172)((170)(179))\r\n",
        "* THREAD (196 (197)((198)(199 200)))\r\n",
        "* THREAD\r\n",
        "* FLAGS (\\Answered \\Seen $Forwarded)\r\n",
        "* 23 EXISTS\r\n",
        "* 5 RECENT\r\n",
        "* 44 EXPUNGE\r\n",
        "* VANISHED (EARLIER) 41,43:116,118\r\n",
        "* 23 FETCH (FLAGS (\\Seen \\Recent) UID 4827313 MODSEQ (65402) RFC822.SIZE 44827)\r\n",
        "* 12 FETCH (BODY[HEADER] {4}\r\n1\r\n2 BODY[1.MIME]<0> \"\" BINARY[2] ~{3}\r\na\0b)\r\n",
        "* 1 FETCH (EMAILID (M6d99ac3275bb4e) THREADID NIL SAVEDATE NIL CREATEDMODSEQ (12) PREVIEW \"hi\")\r\n",
        "* ID (\"name\" \"Cyrus\" \"os\" NIL)\r\n",
        // RFC 5267 §4.3
        "* ESEARCH (TAG \"C01\") UID ADDTO (1 2733 1 2732 1 2731)\r\n",
        "* ESEARCH (TAG \"C01\") UID ADDTO (1 2733) ADDTO (1 2731:2732)\r\n",
        "* ESEARCH (TAG \"B01\") UID REMOVEFROM (0 32768)\r\n",
        "* NO [NOUPDATE \"B02\"] Too many contexts\r\n",
    ] {
        assert_eq!(spelt(text), text);
    }
}

/// The examples of RFC 4467 §8, RFC 5524 §3, RFC 6203 §4 and Gmail's page on its extensions.
#[test]
fn urls_scores_and_labels() {
    for text in [
        "* GENURLAUTH \"imap://joe@example.com/INBOX/;uid=20/;section=1.2;urlauth=submit+fred:internal:91354a473744909de610943775f92038\"\r\n",
        "* URLFETCH \"imap://joe@example.com/INBOX/;uid=20\" NIL\r\n",
        "* URLFETCH \"/;uid=20\" {28}\r\nSi vis pacem, para bellum.\r\n\r\n",
        "* URLFETCH \"/;uid=20\" (BODYPARTSTRUCTURE (\"TEXT\" \"PLAIN\" NIL NIL NIL \"7BIT\" 28 1 NIL NIL NIL NIL)) (BINARY ~{3}\r\na\0b) \"/;uid=21\" NIL\r\n",
        "* URLFETCH \"/;uid=20\" (BODYPARTSTRUCTURE NIL) (BODY \"x\")\r\n",
        "A34 OK [URLMECH INTERNAL] All keys removed\r\n",
        "A35 OK [URLMECH INTERNAL XSAMPLE=P34OKhO7VEkCbsiYY8rGEg== X.TWO] New key generated\r\n",
        "* ESEARCH (TAG \"C1\") ALL 1,5,10 RELEVANCY (4 99 42)\r\n",
        "* 1 FETCH (X-GM-MSGID 1278455344230334865 X-GM-THRID 1266894439832287888)\r\n",
        "* 2 FETCH (X-GM-LABELS (\"\\\\Sent\" Important \"Muy Importante\"))\r\n",
    ] {
        assert_eq!(spelt(text), text);
    }
    // Gmail writes labels of its own without quotes.
    let labels = "* 1 FETCH (X-GM-LABELS (\\Inbox \\Sent Important \"Muy Importante\"))\r\n";
    assert_eq!(
        spelt(labels),
        "* 1 FETCH (X-GM-LABELS (\"\\\\Inbox\" \"\\\\Sent\" Important \"Muy Importante\"))\r\n"
    );
}

/// The examples of draft-ietf-mailmaint-imap-objectid-bis-06 §7.1, §7.3, §7.4 and §7.5.
#[test]
fn object_ids_in_one_list() {
    for text in [
        "* ENABLED OBJECTID+\r\n",
        "* OK [OBJECTID (MAILBOXID F2212ea87-6097-4256-9d51-71338625 ACCOUNTID u1a48e8e3)] Ok\r\n",
        "8 OK [OBJECTID (MAILBOXID F2212ea87-6097-4256-9d51-71338625 ACCOUNTID u1a48e8e3)] Completed\r\n",
        "* OK [OBJECTID ()] Ok\r\n",
        "* STATUS foo (MESSAGES 1 OBJECTID (MAILBOXID F2212ea87 ACCOUNTID u1a48e8e3))\r\n",
        "* 1 FETCH (OBJECTID (EMAILID M6d99ac3275bb4e THREADID T64b478a75b7ea9) UID 7)\r\n",
        "* 1 FETCH (OBJECTID (EMAILID M00000001))\r\n",
        "* 1 FETCH (OBJECTID ())\r\n",
        // Not a list of ids: kept as it is.
        "* OK [OBJECTID x] Ok\r\n",
    ] {
        assert_eq!(spelt(text), text);
    }
    // A client reads the keys that it knows (§3), with blanks as the draft's own example has them.
    let Response::Status(status) = parse("* OK [objectid ( mailboxid F1  X-NEW a_b)] Ok\r\n") else {
        panic!()
    };
    let Some(Code::ObjectIds(ids)) = status.code else { panic!() };
    assert_eq!((ids.id("MAILBOXID"), ids.id("X-NEW"), ids.id("ACCOUNTID")), (Some("F1"), Some("a_b"), None));
}

#[test]
fn servers_in_the_field() {
    for (text, same) in [
        ("+\r\n", "+ \r\n"),
        ("* ok hello\n", "* OK hello\r\n"),
        ("a OK\r\n", "a OK \r\n"),
        ("* SEARCH \r\n", "* SEARCH\r\n"),
        ("* SEARCH 1 2 \r\n", "* SEARCH 1 2\r\n"),
        ("* LIST (\\hasnochildren) \".\" \"INBOX\"\r\n", "* LIST (\\HasNoChildren) \".\" INBOX\r\n"),
        ("* 1 FETCH (FLAGS (\\Seen  a]b \\Frob))\r\n", "* 1 FETCH (FLAGS (\\Seen a]b \\Frob))\r\n"),
        (
            "* 1 FETCH (X-GM-LABELS (\"\\\\Inbox\" a) UID 7)\r\n",
            "* 1 FETCH (X-GM-LABELS (\"\\\\Inbox\" a) UID 7)\r\n",
        ),
        ("* STATUS INBOX (MESSAGES 1 X-FROB (a b))\r\n", "* STATUS INBOX (MESSAGES 1)\r\n"),
        // RFC 9051 §9: a tagged-ext-label may have `_` and `:`, and any length.
        ("* STATUS INBOX (X_FROB:A 5 MESSAGES 1)\r\n", "* STATUS INBOX (MESSAGES 1)\r\n"),
        ("* ESEARCH (TAG \"a\") X_FROB:A (1 (b)) COUNT 3\r\n", "* ESEARCH (TAG \"a\") COUNT 3\r\n"),
        ("* ESEARCH A-LABEL-LONGER-THAN-ANY-WORD 1:4 COUNT 3\r\n", "* ESEARCH COUNT 3\r\n"),
        ("* OK [UNSEEN zero] x\r\n", "* OK [UNSEEN zero] x\r\n"),
        ("* QUOTA \"\" (STORAGE 1 2)\r\n", "* QUOTA \"\" (STORAGE 1 2)\r\n"),
    ] {
        assert_eq!(spelt(text), same, "{text}");
    }
}

#[test]
fn an_unknown_code_or_half_a_code_is_text() {
    let Response::Status(status) = parse("* OK [half a code\r\n") else { panic!() };
    assert_eq!((status.code, &*status.text), (None, "[half a code"));
    let Response::Status(status) = parse("* NO [UNAVAILABLE] {5}\r\n") else { panic!() };
    assert_eq!((status.code, &*status.text), (Some(Code::Unavailable), "{5}"));
}

/// RFC 9051 §8 and §7.5.2.
#[test]
fn an_envelope_and_a_structure() {
    let envelope = "(\"Wed, 17 Jul 1996 02:23:25 -0700 (PDT)\" \"IMAP4rev2 WG mtg summary and minutes\" \
                    ((\"Terry Gray\" NIL \"gray\" \"cac.washington.edu\")) NIL NIL \
                    ((NIL NIL \"imap\" \"cac.washington.edu\")) NIL NIL NIL \"<B27397-0100000@cac.washington.ed>\")";
    let text = format!("* 12 FETCH (ENVELOPE {envelope})\r\n");
    assert_eq!(spelt(&text), text);
    let Response::Data(Untagged::Fetch { items, .. }) = parse(&text) else { panic!() };
    let FetchValue::Envelope(e) = &items[0] else { panic!() };
    assert_eq!(e.from[0].mailbox.as_deref(), Some(&b"gray"[..]));
    assert!(e.sender == Some(Vec::new()) && e.in_reply_to.is_none());

    let text = "* 12 FETCH (BODYSTRUCTURE ((\"TEXT\" \"PLAIN\" (\"CHARSET\" \"US-ASCII\") NIL NIL \"7BIT\" 1152 23)\
                (\"TEXT\" \"PLAIN\" (\"CHARSET\" \"US-ASCII\" \"NAME\" \"cc.diff\") \"<9607@cac>\" \"Compiler diff\" \
                \"BASE64\" 4554 73 NIL (\"attachment\" (\"filename\" \"cc.diff\"))) \"MIXED\"))\r\n";
    let Response::Data(Untagged::Fetch { items, .. }) = parse(text) else { panic!() };
    let FetchValue::BodyStructure(BodyStructure::Multi(multi)) = &items[0] else { panic!() };
    assert_eq!((multi.parts.len(), multi.media_subtype.as_ref()), (2, &b"MIXED"[..]));
    let BodyStructure::Single(part) = &multi.parts[1] else { panic!() };
    assert_eq!(part.kind, PartKind::Text { lines: 73 });
    assert_eq!(part.tail.disposition.as_ref().map(|d| d.kind.as_ref()), Some(&b"attachment"[..]));
}

#[test]
fn bytes_of_messages_are_slices() {
    let input = Bytes::from_static(b"* 1 FETCH (BODY[] {5}\r\nhello)\r\n");
    let Ok(Response::Data(Untagged::Fetch { items, .. })) = parse_response(&input, NameEncoding::Utf7) else {
        panic!()
    };
    let FetchValue::BodySection { data: Some(data), .. } = &items[0] else { panic!() };
    assert!(&data[..] == b"hello" && input.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn nonsense_is_an_error() {
    for text in [
        "",
        "\r\n",
        "a\r\n",
        "a FROB\r\n",
        "a BYE\r\n",
        "* 0 EXPUNGE\r\n",
        "* 1 FETCH\r\n",
        "* 1 FETCH (UID 0)\r\n",
        "* 1 FETCH (UID 1\r\n",
        "* 1 FETCH (BODY[] {5}\r\nabc)\r\n",
        "* LIST INBOX\r\n",
        "* SEARCH x\r\n",
        "* THREAD ()\r\n",
        "* THREAD (1\r\n",
        "* THREAD 1\r\n",
        "* THREAD (1 (2))\r\n",
        "* THREAD (1 (2)(3) 4)\r\n",
        "* THREAD ((2))\r\n",
        "* FLAGS \\Seen\r\n",
        "* 1 FETCH (ENVELOPE (NIL))\r\n",
    ] {
        let input = Bytes::copy_from_slice(text.as_bytes());
        assert!(parse_response(&input, NameEncoding::Utf7).is_err(), "{text}");
    }
}

/// A chain of 200,000 replies, and as many branches inside each other. Neither the parser nor the
/// printer calls itself, so no stack is used up.
#[test]
fn a_deep_thread() {
    let chain = format!("* THREAD ({}1)\r\n", "2 ".repeat(200_000));
    let branches = format!("* THREAD {}(1)(2){}\r\n", "(1 (2)".repeat(200_000), ")".repeat(200_000));
    for text in [chain, branches] {
        assert!(spelt(&text) == text);
    }
}
