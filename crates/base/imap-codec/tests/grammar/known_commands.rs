//! Commands as the RFCs and real clients write them, and their meanings.

use bytes::Bytes;
use posthaste_imap_codec::command::*;
use posthaste_imap_codec::{
    MailboxArg, MessageSet, NameEncoding, ObjectIds, ParseErrorKind, Section, SectionText, SequenceSet,
    UidSet, parse_command, print,
};
use posthaste_mail_model::{Flag, MailboxName};

fn parse(text: &str) -> Result<Command, posthaste_imap_codec::ParseError> {
    parse_command(&Bytes::copy_from_slice(text.as_bytes()), NameEncoding::Utf7)
}

fn body(text: &str) -> CommandBody {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).body
}

/// Prints it again, in our spelling.
fn spelt(text: &str) -> String {
    let command = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    String::from_utf8(print::command(&command, NameEncoding::Utf7, print::LiteralStyle::Plus).bytes).unwrap()
}

#[test]
fn already_in_our_spelling() {
    for text in [
        "abcd CAPABILITY\r\n",
        "a002 NOOP\r\n",
        "a003 UNAUTHENTICATE\r\n",
        "a004 GETJMAPACCESS\r\n",
        "a NOTIFY NONE\r\n",
        "b NOTIFY SET STATUS (SELECTED (MessageNew (UID BODY.PEEK[HEADER.FIELDS (FROM TO SUBJECT)]) MessageExpunge)) (SUBTREE Lists (MessageNew MessageExpunge))\r\n",
        "c NOTIFY SET (SELECTED-DELAYED (MessageNew MessageExpunge FlagChange)) (MAILBOXES (INBOX Archive) NONE) (PERSONAL (MailboxName SubscriptionChange XEvent))\r\n",
        "tag1 ESEARCH IN (MAILBOXES folder1 SUBTREE folder2 SUBTREE-ONE (a b)) UNSEEN\r\n",
        "tag3 ESEARCH RETURN (MIN COUNT) CHARSET UTF-8 FILTER on-the-road\r\n",
        "d LANGUAGE\r\n",
        "e LANGUAGE DE EN-us i-default\r\n",
        "f COMPARATOR i;unicode-casemap \"cz;*\"\r\n",
        "g UID SEARCH UIDAFTER 7 UIDBEFORE 4294967295\r\n",
        "a047 ENABLE CONDSTORE X-GOOD-IDEA\r\n",
        "A023 ID (\"name\" \"sodr\" \"version\" \"19.34\" \"vendor\" NIL)\r\n",
        "a023 ID NIL\r\n",
        "A142 SELECT INBOX\r\n",
        "A02 SELECT INBOX (QRESYNC (67890007 20050715194045000 41,43:211,214:541))\r\n",
        "A03 SELECT INBOX (QRESYNC (67890007 90060115194045000 41:211,214:541 (1,3:4 2,5:6)))\r\n",
        "A932 EXAMINE blurdybloop (CONDSTORE)\r\n",
        "a SELECT INBOX (ANNOTATE)\r\n",
        "a SELECT INBOX (CONDSTORE ANNOTATE)\r\n",
        "a FETCH 1 (ANNOTATION (/comment value))\r\n",
        "a UID FETCH 1123 (UID ANNOTATION (/* (value.priv size.priv)))\r\n",
        "a FETCH 1 (ANNOTATION ((/comment /altsubject) value.priv))\r\n",
        "a STORE 1 ANNOTATION (/comment (value.priv \"My new comment\"))\r\n",
        "a UID STORE 1 (UNCHANGEDSINCE 5) ANNOTATION (/comment (value.shared NIL))\r\n",
        "a APPEND drafts ANNOTATION (/comment (value.priv \"Don't send\")) {3+}\r\nabc\r\n",
        "a SEARCH ANNOTATION /comment value \"IMAP4\"\r\n",
        "a SEARCH NOT ANNOTATION * value.priv \"IMAP4\"\r\n",
        "a SEARCH ANNOTATION /icon value.shared ~{3+}\r\na\0b\r\n",
        "a SORT (ANNOTATION /altsubject value.shared REVERSE SIZE) UTF-8 ALL\r\n",
        "t1 CREATE MyDrafts (USE (\\Drafts))\r\n",
        "A684 RENAME zowie zip\r\n",
        "A101 LIST \"\" \"\"\r\n",
        "A202 LIST ~/Mail/ %\r\n",
        "A203 RLIST \"\" #SHARED/%\r\n",
        "A204 RLSUB #news. *\r\n",
        "A02 LIST (SUBSCRIBED) \"\" *\r\n",
        "A04 LIST (REMOTE) \"\" %\r\n",
        "A06 LIST \"\" (INBOX Drafts Sent/%)\r\n",
        "C01 LIST (SUBSCRIBED RECURSIVEMATCH) \"\" foo2\r\n",
        "A01 LIST \"\" % RETURN (CHILDREN STATUS (MESSAGES UNSEEN))\r\n",
        "A042 STATUS blurdybloop (UIDNEXT MESSAGES)\r\n",
        "S00003 STATUS INBOX (MESSAGES DELETED DELETED-STORAGE)\r\n",
        "G0001 GETQUOTA !partition/sda4\r\n",
        "G0002 GETQUOTAROOT INBOX\r\n",
        "S0000 GETQUOTA #user/alice\r\n",
        "S0001 SETQUOTA \"\" (STORAGE 512 MESSAGE 10)\r\n",
        "a GETMETADATA \"\" (/shared/comment)\r\n",
        "a GETMETADATA (MAXSIZE 1024 DEPTH infinity) INBOX (/shared/comment /private/comment)\r\n",
        "a SETMETADATA INBOX (/private/comment NIL /shared/vendor/x/y {2+}\r\n\r\n /shared/z ~{1+}\r\n\0)\r\n",
        "A01 LIST \"\" % RETURN (CHILDREN METADATA (/shared/comment /private/comment))\r\n",
        // RFC 4314 §3
        "A035 SETACL INBOX/Drafts John lrswika\r\n",
        "A036 SETACL INBOX/Drafts -John +i\r\n",
        "A037 SETACL INBOX/Drafts anyone -kx\r\n",
        "A038 SETACL INBOX/Drafts Byron \"\"\r\n",
        "B001 DELETEACL INBOX/Drafts John\r\n",
        "B002 GETACL INBOX/Drafts\r\n",
        "B003 LISTRIGHTS INBOX/Drafts Chris\r\n",
        "B004 MYRIGHTS INBOX\r\n",
        // RFC 8440 §4
        "A01 LIST \"\" % RETURN (SUBSCRIBED MYRIGHTS STATUS (MESSAGES))\r\n",
        "A003 APPEND saved-messages (\\Seen) {5+}\r\nhello\r\n",
        "A003 APPEND x \"12-Jan-2000 08:01:00 +0100\" {1+}\r\na (\\Draft $x) ~{2+}\r\nbc UTF8 (~{0+}\r\n)\r\n",
        "A003 APPEND Drafts (\\Draft) CATENATE (URL /Drafts;UIDVALIDITY=385759045/;UID=20/;section=HEADER \
         TEXT {2+}\r\n\r\n UTF8 (~{1+}\r\nx)) CATENATE (TEXT ~{1+}\r\n\0)\r\n",
        "a777 GENURLAUTH imap://joe@example.com/INBOX/;UID=20/;section=1.2;urlauth=submit+fred INTERNAL\r\n",
        "a776 RESETKEY\r\n",
        "a777 RESETKEY INBOX INTERNAL XSAMPLE\r\n",
        "A001 URLFETCH (imap://joe@example.com/INBOX/;UID=20 BODYPARTSTRUCTURE BINARY) x (y)\r\n",
        "a778 URLFETCH imap://joe@example.com/INBOX/;UID=20 imap://joe@example.com/INBOX/;UID=21\r\n",
        "A101 UID EXPUNGE 3000:3002\r\n",
        "A282 SEARCH FLAGGED SINCE 1-Feb-1994 NOT FROM Smith\r\n",
        "A284 SEARCH TEXT \"string not in mailbox\"\r\n",
        "A282 SEARCH RETURN (MIN COUNT) FLAGGED SINCE 1-Feb-1994 NOT FROM Smith\r\n",
        "A301 UID SEARCH $ SMALLER 4096\r\n",
        "A1 SEARCH RETURN (ALL RELEVANCY) FUZZY TEXT Bannister\r\n",
        "B1 SEARCH FUZZY (SUBJECT \"balance of payments\" FROM Chauncy) UNSEEN\r\n",
        "C1 SORT RETURN (ALL RELEVANCY) (RELEVANCY REVERSE ARRIVAL) UTF-8 FUZZY SUBJECT Helo\r\n",
        "a SEARCH MODSEQ \"/flags/\\\\draft\" all 620162338\r\n",
        "a SEARCH OR 1:4 (UID 5 UNDELETED) OLDER 3600\r\n",
        "B01 UID SEARCH RETURN (COUNT UPDATE CONTEXT) DELETED KEYWORD $Junk\r\n",
        "B04 CANCELUPDATE \"B01\" \"B02\"\r\n",
        "a00 SEARCH RETURN (COUNT UPDATE (UID BODY[HEADER.FIELDS (TO FROM SUBJECT)])) FROM boss\r\n",
        "a01 UID SORT RETURN (ALL UPDATE (FLAGS) CONTEXT) (DATE) UTF-8 UNSEEN\r\n",
        "d NOTIFY SET (SUBTREE-ONE Lists (MessageNew MessageExpunge))\r\n",
        "A01 UID SEARCH RETURN (PARTIAL -1:-100) UNDELETED KEYWORD $Junk\r\n",
        "A02 UID SEARCH RETURN (COUNT SAVE PARTIAL 23500:24000) UNDELETED\r\n",
        "10 UID FETCH 25900:26600 (UID FLAGS) (PARTIAL -1:-3)\r\n",
        "101 UID FETCH 25900:26600 (UID FLAGS) (CHANGEDSINCE 98305 PARTIAL -1:-30)\r\n",
        "A282 SORT (SUBJECT) UTF-8 SINCE 1-Feb-1994\r\n",
        "A283 UID SORT (SUBJECT REVERSE DATE) UTF-8 ALL\r\n",
        "E01 UID SORT RETURN (MIN COUNT) (REVERSE DISPLAYFROM) US-ASCII UNDELETED UNKEYWORD $Junk\r\n",
        "A283 THREAD ORDEREDSUBJECT UTF-8 SINCE 5-Mar-2000\r\n",
        "A284 UID THREAD REFERENCES US-ASCII TEXT gewp\r\n",
        "A285 THREAD REFS UTF-8 OR 1:4 (UNDELETED SEEN)\r\n",
        "A654 FETCH 2:4 (FLAGS BODY[HEADER.FIELDS (DATE FROM)])\r\n",
        "s100 UID FETCH 1:* (FLAGS) (CHANGEDSINCE 12345 VANISHED)\r\n",
        "A FETCH 1 (BODY.PEEK[1.2.MIME]<0.1024> BINARY.PEEK[1]<5.6> BINARY.SIZE[2] BODY[]<0.0>)\r\n",
        "d105 STORE 7,5,9 (UNCHANGEDSINCE 320162338) +FLAGS.SILENT (\\Deleted)\r\n",
        "a011 STORE 1 +X-GM-LABELS (foo \"two words\" \"\\\\Starred\")\r\n",
        "a012 UID STORE 1:* X-GM-LABELS.SILENT ()\r\n",
        "a013 FETCH 1:4 (X-GM-MSGID X-GM-THRID X-GM-LABELS)\r\n",
        "a014 UID SEARCH X-GM-MSGID 1278455344230334865 X-GM-LABELS foo\r\n",
        "a015 SEARCH X-GM-RAW \"has:attachment in:unread\"\r\n",
        "A003 COPY 2:4 MEETING\r\n",
        "A003 UID MOVE 42:69 foo\r\n",
        "a AUTHENTICATE PLAIN AHRlc3QAdGVzdA==\r\n",
        "a AUTHENTICATE EXTERNAL =\r\n",
        "a COMPRESS DEFLATE\r\n",
    ] {
        assert_eq!(spelt(text), text);
    }
}

#[test]
fn other_spellings_mean_the_same() {
    for (text, same) in [
        ("a noop", "a NOOP\r\n"),
        ("a store 1 +x-gm-labels (\\Starred)", "a STORE 1 +X-GM-LABELS (\"\\\\Starred\")\r\n"),
        ("a store 1 -x-gm-labels foo", "a STORE 1 -X-GM-LABELS (foo)\r\n"),
        ("a search x-gm-labels \\Important", "a SEARCH X-GM-LABELS \"\\\\Important\"\r\n"),
        ("a NoOp  \r\n", "a NOOP\r\n"),
        ("a uid fetch 1:* (uid flags)\n", "a UID FETCH 1:* (UID FLAGS)\r\n"),
        ("a FETCH 1 ALL\r\n", "a FETCH 1 (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)\r\n"),
        ("a FETCH 1 FAST\r\n", "a FETCH 1 (FLAGS INTERNALDATE RFC822.SIZE)\r\n"),
        ("a FETCH 1 full\r\n", "a FETCH 1 (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODY)\r\n"),
        ("a FETCH 1 body[]\r\n", "a FETCH 1 (BODY[])\r\n"),
        ("a LOGIN \"SMITH\" {5}\r\nSE ME\r\n", "a LOGIN SMITH \"SE ME\"\r\n"),
        ("a LIST \"\" \"*\"\r\n", "a LIST \"\" *\r\n"),
        ("a LIST () \"\" %\r\n", "a LIST () \"\" %\r\n"),
        ("a LIST \"\" % RETURN ()\r\n", "a LIST () \"\" %\r\n"),
        // RFC 5464 §4.2: the options after the mailbox. §4.4.1: names without parentheses.
        (
            "a GETMETADATA \"INBOX\" (maxsize 10 depth Infinity) (/a /b)\r\n",
            "a GETMETADATA (MAXSIZE 10 DEPTH infinity) INBOX (/a /b)\r\n",
        ),
        ("a getmetadata INBOX /private/a /shared/b\r\n", "a GETMETADATA INBOX (/private/a /shared/b)\r\n"),
        ("a GETMETADATA () \"\" (\"/a\")\r\n", "a GETMETADATA \"\" (/a)\r\n"),
        ("a LIST \"\" % RETURN (METADATA /a)\r\n", "a LIST \"\" % RETURN (METADATA (/a))\r\n"),
        // RFC 4314 §2.1.1
        ("a setacl INBOX \"ana\" +cdl", "a SETACL INBOX ana +lkxte\r\n"),
        ("a STORE 1 FLAGS \\Seen $Junk\r\n", "a STORE 1 FLAGS (\\Seen $Junk)\r\n"),
        ("a SEARCH RETURN () ALL\r\n", "a SEARCH RETURN (ALL) ALL\r\n"),
        ("a SEARCH RETURN (UPDATE) ALL\r\n", "a SEARCH RETURN (ALL UPDATE) ALL\r\n"),
        ("a SEARCH (((SEEN)))\r\n", "a SEARCH SEEN\r\n"),
        ("a SEARCH (SEEN OLD)\r\n", "a SEARCH SEEN OLD\r\n"),
        ("a SEARCH SINCE \"01-feb-1994\"\r\n", "a SEARCH SINCE 1-Feb-1994\r\n"),
        ("a SELECT \"in\\\"box\"\r\n", "a SELECT \"in\\\"box\"\r\n"),
        ("a SEARCH CHARSET utf-8 SUBJECT {2}\r\né\r\n", "a SEARCH CHARSET UTF-8 SUBJECT {2+}\r\né\r\n"),
    ] {
        assert_eq!(spelt(text), same, "{text}");
    }
}

#[test]
fn a_listing() {
    let CommandBody::Fetch { set, items, modifiers } = body("a UID FETCH 1:* (UID FLAGS)\r\n") else {
        panic!()
    };
    assert_eq!(set, MessageSet::Uid(UidSet(SequenceSet::all())));
    assert_eq!(items, [FetchItem::Uid, FetchItem::Flags]);
    assert_eq!(modifiers, FetchModifiers::default());
}

#[test]
fn sections_name_their_bytes() {
    let CommandBody::Fetch { items, .. } =
        body("a FETCH 1 (BODY.PEEK[2.1.HEADER.FIELDS.NOT (To \"C c\")] BODY[TEXT] BODY[3])\r\n")
    else {
        panic!()
    };
    let FetchItem::BodySection { section: Section { part, text }, partial: None, peek: true } = &items[0]
    else {
        panic!()
    };
    assert_eq!(part.0, [2, 1]);
    assert_eq!(*text, SectionText::HeaderFieldsNot(vec!["To".into(), "C c".into()]));
    assert_eq!(items.iter().map(FetchItem::sets_seen).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn a_message_is_a_slice_of_its_command() {
    let input = Bytes::from_static(b"a APPEND INBOX (\\Seen) {11}\r\nhello\0world\r\n");
    let command = parse_command(&input, NameEncoding::Utf7).unwrap();
    let CommandBody::Append { messages, mailbox } = command.body else { panic!() };
    assert_eq!(mailbox.name(), Ok(MailboxName::inbox()));
    assert_eq!(messages[0].flags, [Flag::Seen]);
    let AppendContent::Sent(text) = &messages[0].content else { panic!("{messages:?}") };
    assert_eq!(&text.data[..], b"hello\0world");
    assert!(input.as_ptr_range().contains(&text.data.as_ptr()));
}

#[test]
fn two_spaces_between_messages_are_forgiven() {
    let wanted = body("a APPEND x {1+}\r\na (\\Seen) {1+}\r\nb\r\n");
    assert_eq!(body("a APPEND x {1+}\r\na  (\\Seen) {1+}\r\nb\r\n"), wanted);
}

#[test]
fn names_that_do_not_decode_are_values() {
    let CommandBody::Delete(name) = body("a DELETE \"&Jjo\"\r\n") else { panic!() };
    assert!(name.text().is_err() && name.name().is_err());
    let CommandBody::Create { mailbox, .. } = body("a CREATE Entw&APw-rfe/\r\n") else { panic!() };
    assert_eq!(mailbox.create_name().unwrap().as_str(), "Entwürfe");
    let utf8 = Bytes::from_static("a DELETE \"R&D/é\"\r\n".as_bytes());
    let command = parse_command(&utf8, NameEncoding::Utf8).unwrap();
    assert_eq!(command.body, CommandBody::Delete(MailboxArg::from_text("R&D/é")));
    let CommandBody::Delete(name) = parse_command(&utf8, NameEncoding::Utf7).unwrap().body else { panic!() };
    assert!(name.text().is_err());
}

/// RFC 7377 §2
#[test]
fn esearch_is_by_uid_anyway() {
    let (with, without) =
        ("tag1 UID ESEARCH FROM \"frobozz\" 1:100\r\n", "tag1 ESEARCH FROM frobozz 1:100\r\n");
    assert_eq!(spelt(with), without);
    assert_eq!(body(with), body(without));
}

/// RFC 8970 §6
#[test]
fn a_modifier_of_preview_may_come_twice() {
    assert_eq!(body("a FETCH 1 (PREVIEW (LAZY lazy) UID)\r\n"), body("a FETCH 1 (PREVIEW (LAZY) UID)\r\n"));
    for modifiers in ["(LAZY )", "( LAZY)", "()", "(LAZY LAZIER)", "(LAZY  LAZY)"] {
        assert!(parse(&format!("a FETCH 1 (PREVIEW {modifiers})\r\n")).is_err(), "{modifiers}");
    }
}

/// Texts in other charsets are decoded, quoted or not, and those of every key.
#[test]
fn texts_of_a_search_are_decoded() {
    let parsed = |bytes: &[u8]| {
        let line = Bytes::copy_from_slice(bytes);
        match parse_command(&line, NameEncoding::Utf7).unwrap().body {
            CommandBody::Search(args) => (args.charset, args.key),
            other => panic!("{other:?}"),
        }
    };
    let header = |name: &str, text: &str| SearchKey::Header(name.to_owned(), text.to_owned());
    for (line, key) in [
        (&b"a SEARCH CHARSET ISO-8859-1 SUBJECT {4+}\r\ncaf\xe9\r\n"[..], SearchKey::Subject("café".into())),
        (b"a SEARCH CHARSET \"koi8-r\" HEADER X {1+}\r\n\xc1\r\n", header("X", "а")),
        (
            b"a SEARCH CHARSET utf-7 NOT X-GM-RAW \"+AOk-\"\r\n",
            SearchKey::Not(Box::new(SearchKey::GmRaw("é".into()))),
        ),
        (b"a SEARCH CHARSET iso-2022-jp BODY \"\x1b$BF|\x1b(B\"\r\n", SearchKey::Body("日".into())),
    ] {
        assert_eq!(parsed(line), (Some(Charset::Utf8), key), "{line:?}");
    }
    let line = Bytes::from_static(b"a SEARCH CHARSET UTF-8 SUBJECT {4+}\r\ncaf\xe9\r\n");
    assert!(parse_command(&line, NameEncoding::Utf7).is_err(), "UTF-8 has to be UTF-8");
}

#[test]
fn errors_say_whose_fault_it_is() {
    use ParseErrorKind::{BadCharset, FilterCharset, Limit, Syntax, Tag, UnknownCommand};
    for (text, tagged, kind) in [
        ("\r\n", false, Tag),
        ("", false, Tag),
        ("+ NOOP\r\n", false, Tag),
        ("* NOOP\r\n", false, Tag),
        ("a\r\n", true, Syntax),
        ("a  NOOP\r\n", true, UnknownCommand),
        ("a FROB\r\n", true, UnknownCommand),
        ("a UID FROB 1\r\n", true, UnknownCommand),
        ("a UID NOOP\r\n", true, UnknownCommand),
        ("a NOOP x\r\n", true, Syntax),
        ("a LOGIN x\r\n", true, Syntax),
        ("a SELECT \"x\r\n", true, Syntax),
        ("a SELECT x (FROB)\r\n", true, Syntax),
        ("a FETCH 0 UID\r\n", true, Syntax),
        ("a FETCH 01 UID\r\n", true, Syntax),
        ("a FETCH 1, UID\r\n", true, Syntax),
        ("a FETCH 4294967296 UID\r\n", true, Limit),
        ("a FETCH 1 ()\r\n", true, Syntax),
        ("a FETCH 1 (ALL)\r\n", true, Syntax),
        ("a FETCH 1 BODY[MIME]\r\n", true, Syntax),
        ("a FETCH 1 BODY[0]\r\n", true, Syntax),
        ("a FETCH 1 BODY[HEADER.FIELDS ()]\r\n", true, Syntax),
        ("a FETCH 1 BODY[]<0>\r\n", true, Syntax),
        ("a FETCH 1 UID (VANISHED)\r\n", true, Syntax),
        ("a FETCH 1 UID (CHANGEDSINCE 1 VANISHED)\r\n", true, Syntax),
        // RFC 5256 §5
        ("a SORT () UTF-8 ALL\r\n", true, Syntax),
        ("a SORT (NONSENSE) UTF-8 ALL\r\n", true, Syntax),
        ("a SORT (REVERSE) UTF-8 ALL\r\n", true, Syntax),
        ("a SORT (REVERSE REVERSE DATE) UTF-8 ALL\r\n", true, Syntax),
        ("a SORT DATE UTF-8 ALL\r\n", true, Syntax),
        ("a SORT (DATE) UTF-8\r\n", true, Syntax),
        ("a SORT (DATE) ALL\r\n", true, BadCharset { saving: false }),
        ("a SORT (DATE) X-NONE ALL\r\n", true, BadCharset { saving: false }),
        ("a SORT RETURN (SAVE) (DATE) X-NONE ALL\r\n", true, BadCharset { saving: true }),
        ("a SORT RETURN (ALL PARTIAL 1:5) (DATE) UTF-8 ALL\r\n", true, Syntax),
        ("a THREAD NONSENSE UTF-8 ALL\r\n", true, Syntax),
        ("a THREAD REFERENCES X-NONE ALL\r\n", true, BadCharset { saving: false }),
        ("a THREAD REFERENCES UTF-8\r\n", true, Syntax),
        // RFC 5267 §4.3.5, §5
        ("a CANCELUPDATE\r\n", true, Syntax),
        ("a CANCELUPDATE B01\r\n", true, Syntax),
        ("a CANCELUPDATE \"\"\r\n", true, Syntax),
        ("a CANCELUPDATE \"B 1\"\r\n", true, Syntax),
        ("a SEARCH RETURN (UPDATE NONSENSE) ALL\r\n", true, Syntax),
        // RFC 5465 §8
        ("a SEARCH RETURN (UPDATE ()) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (UPDATE (NONSENSE)) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (UPDATE (UID) (FLAGS)) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (COUNT (UID)) ALL\r\n", true, Syntax),
        // RFC 5465 §8
        ("a NOTIFY\r\n", true, Syntax),
        ("a NOTIFY SET\r\n", true, Syntax),
        ("a NOTIFY SET STATUS\r\n", true, Syntax),
        ("a NOTIFY SET (INBOXES)\r\n", true, Syntax),
        ("a NOTIFY SET (INBOXES ())\r\n", true, Syntax),
        ("a NOTIFY SET (INBOXES MessageNew)\r\n", true, Syntax),
        ("a NOTIFY SET (SUBTREE (FlagChange))\r\n", true, Syntax),
        ("a NOTIFY SET (INBOXES (MessageNew ()))\r\n", true, Syntax),
        ("a NOTIFY SET (INBOXES NONE)(PERSONAL NONE)\r\n", true, Syntax),
        // RFC 7377 §3
        ("a ESEARCH IN (SELECTED-DELAYED) ALL\r\n", true, Syntax),
        ("a ESEARCH IN () ALL\r\n", true, Syntax),
        ("a ESEARCH IN (PERSONAL)\r\n", true, Syntax),
        // RFC 5466 §4, RFC 9738 §4
        ("a SEARCH FILTER a/b\r\n", true, Syntax),
        ("a SEARCH CHARSET ISO-8859-1 FILTER a\r\n", true, FilterCharset),
        ("a SORT (DATE) ISO-8859-1 NOT FILTER a\r\n", true, FilterCharset),
        ("a SEARCH UIDAFTER 1:2\r\n", true, Syntax),
        ("a SEARCH UIDBEFORE 0\r\n", true, Syntax),
        // RFC 9394 §3.1, §3.3, §4
        ("a SEARCH RETURN (PARTIAL 1:5 ALL) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL 1:5 PARTIAL 6:9) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL 0:5) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL 1:*) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL -1:5) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL 1:-5) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL 5) ALL\r\n", true, Syntax),
        ("a SEARCH RETURN (PARTIAL 1:4294967296) ALL\r\n", true, Limit),
        ("a UID FETCH 1:* FLAGS (PARTIAL 1:5 PARTIAL 1:2)\r\n", true, Syntax),
        ("a FETCH 1:* FLAGS (PARTIAL 1:5)\r\n", true, Syntax),
        ("a STORE 1 FLAGS (\\Recent)\r\n", true, Syntax),
        ("a STORE 1 FLAGS (\\*)\r\n", true, Syntax),
        ("a+b NOOP\r\n", false, Tag),
        ("a SEARCH\r\n", true, Syntax),
        ("a SEARCH ()\r\n", true, Syntax),
        ("a SEARCH FROB\r\n", true, Syntax),
        ("a SEARCH OLDER 0\r\n", true, Syntax),
        ("a SEARCH SINCE 30-Feb-1994\r\n", true, Syntax),
        ("a SEARCH CHARSET X-NONE ALL\r\n", true, BadCharset { saving: false }),
        ("a SEARCH RETURN (SAVE) CHARSET x ALL\r\n", true, BadCharset { saving: true }),
        ("a LIST (RECURSIVEMATCH) \"\" *\r\n", true, Syntax),
        ("a LIST \"\" ()\r\n", true, Syntax),
        ("a STATUS x ()\r\n", true, Syntax),
        ("a APPEND x {9}\r\nshort\r\n", true, Syntax),
        ("a APPEND x hello\r\n", true, Syntax),
        ("a APPEND x \"17-Jul-1996\" {1}\r\na\r\n", true, Syntax),
        ("a SELECT x (QRESYNC (1 2 1:*))\r\n", true, Syntax),
        ("a COMPRESS LZMA\r\n", true, Syntax),
        ("a AUTHENTICATE PLAIN !\r\n", true, Syntax),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.tag.is_some(), error.kind), (tagged, kind), "{text}");
    }
    let error = parse("a1 FETCH 1 (FLAGS BODX)\r\n").unwrap_err();
    assert_eq!(error.to_string(), "Expected an item to fetch at byte 18");
}

/// The examples of draft-ietf-mailmaint-imap-objectid-bis-06 §7.1, §7.4 and §7.5. The grammar of
/// §10 does not have the commands that are refused.
#[test]
fn object_ids_in_one_list() {
    for text in [
        "27 SELECT foo (OBJECTID)\r\n",
        "28 SELECT foo (OBJECTID (MAILBOXID F2212ea87-6097-4256-9d51-71338625 ACCOUNTID u1a48e8e3))\r\n",
        "28 EXAMINE foo (CONDSTORE QRESYNC (1 2) OBJECTID (X-FUTURE 1))\r\n",
        "6 STATUS foo (OBJECTID)\r\n",
        "11 LIST \"\" * RETURN (STATUS (OBJECTID))\r\n",
        "30 FETCH 1:* (OBJECTID)\r\n",
        "31 ENABLE OBJECTID+\r\n",
    ] {
        assert_eq!(spelt(text), text);
    }
    let select = |text: &str| match body(text) {
        CommandBody::Select { params, .. } => params,
        other => panic!("{text}: {other:?}"),
    };
    // In any order with other parameters, and keys in any case. Ids keep theirs.
    let params = select("a SELECT x (objectid (mailboxid aB accountid u1) CONDSTORE)\r\n");
    let ids = params.object_ids.unwrap();
    assert!(params.condstore && ids.id("MAILBOXID") == Some("aB") && ids.id("ACCOUNTID") == Some("u1"));
    assert_eq!(ids.id("EMAILID"), None);
    let params = select("a SELECT x (OBJECTID CONDSTORE)\r\n");
    assert_eq!((params.condstore, params.object_ids.as_deref()), (true, Some(&ObjectIds::default())));
    assert_eq!(select("a SELECT x (CONDSTORE)\r\n").object_ids, None);
    let long = format!("a SELECT x (OBJECTID (MAILBOXID {}))\r\n", "x".repeat(256));
    for text in [
        "a SELECT x (OBJECTID ())\r\n",
        "a SELECT x (OBJECTID(MAILBOXID 1))\r\n",
        "a SELECT x (OBJECTID MAILBOXID 1)\r\n",
        "a SELECT x (OBJECTID (MAILBOXID))\r\n",
        "a SELECT x (OBJECTID (MAILBOXID 1 ACCOUNTID))\r\n",
        "a SELECT x (OBJECTID (MAILBOXID \"1\"))\r\n",
        "a SELECT x (OBJECTID (MAILBOXID a.b))\r\n",
        "a SELECT x (OBJECTID+)\r\n",
        "a FETCH 1 (OBJECTID (EMAILID 1))\r\n",
        "a STATUS x (OBJECTID ())\r\n",
        long.as_str(),
    ] {
        assert_eq!(parse(text).expect_err(text).kind, ParseErrorKind::Syntax, "{text}");
    }
}

#[test]
fn a_secret_is_not_shown() {
    let shown = format!("{:?}", parse("a LOGIN joe hunter2\r\n").unwrap());
    assert!(shown.contains("joe") && !shown.contains("hunter2"));
}
