//! Spellings that the formal syntaxes allow and the printer never writes mean the same as ours:
//! the forms of a string, and words in any case (RFC 9051 §9).

use bytes::Bytes;
use posthaste_imap_codec::{NameEncoding, parse_command, parse_response, print};
use posthaste_property::{one_of, properties};
use proptest::prelude::*;

/// Commands with a string at `@`: `astring`, `mailbox`, `list-mailbox`, and the like.
const WITH_STRING: [&str; 31] = [
    "SELECT @",
    "EXAMINE @ (CONDSTORE)",
    "CREATE @",
    "DELETE @",
    "RENAME @ x",
    "RENAME x @",
    "SUBSCRIBE @",
    "LIST @ %",
    "LIST \"\" @",
    "LIST \"\" (% @)",
    "LSUB \"\" @",
    "STATUS @ (MESSAGES)",
    "APPEND @ {1+}\r\nx",
    "APPEND x CATENATE (URL @)",
    "LOGIN @ x",
    "LOGIN x @",
    "SEARCH SUBJECT @",
    "SEARCH HEADER @ x",
    "SORT (DATE) UTF-8 NOT TEXT @",
    "FETCH 1 BODY[HEADER.FIELDS (@)]",
    "COPY 1 @",
    "UID MOVE 1 @",
    "GETQUOTA @",
    "SETQUOTA @ (STORAGE 1)",
    "LISTRIGHTS x @",
    "NOTIFY SET (MAILBOXES @ (FlagChange))",
    "ESEARCH IN (SUBTREE @) ALL",
    "URLFETCH (@ BODY)",
    "RESETKEY @ INTERNAL",
    "LANGUAGE @",
    "COMPARATOR @",
];

/// Commands of which every letter may be in either case.
const COMMANDS: [&str; 31] = [
    "UID FETCH 1:* (UID FLAGS BODY.PEEK[1.MIME]<0.10> BINARY.SIZE[2] RFC822.SIZE) (CHANGEDSINCE 5 VANISHED)",
    "UID FETCH 1 (MODSEQ CREATEDMODSEQ EMAILID OBJECTID SAVEDATE) (PARTIAL -1:-5)",
    "FETCH 1 (PREVIEW (LAZY) ENVELOPE)",
    "FETCH 1 FULL",
    "STORE 1 (UNCHANGEDSINCE 5) +FLAGS.SILENT (\\Seen \\Deleted)",
    "SEARCH RETURN (MIN PARTIAL 1:5) CHARSET UTF-8 NOT OR SEEN UNDELETED SINCE 1-Feb-1994",
    "UID SEARCH RETURN (SAVE COUNT UPDATE) FUZZY (LARGER 5 YOUNGER 7)",
    "SORT (REVERSE DATE SUBJECT) US-ASCII UIDAFTER 5",
    "UID THREAD REFERENCES UTF-8 MODSEQ 7",
    "LIST (SUBSCRIBED RECURSIVEMATCH) \"\" % RETURN (CHILDREN STATUS (MESSAGES UIDNEXT) MYRIGHTS)",
    "SELECT 1 (QRESYNC (1 2 3:4 (5 6)))",
    "EXAMINE 1 (CONDSTORE ANNOTATE OBJECTID (MAILBOXID 1 ACCOUNTID 2))",
    "STATUS 1 (MESSAGES DELETED-STORAGE CREATEDMODSEQ MAILBOXID OBJECTID)",
    "CREATE 1 (USE (\\Sent))",
    "APPEND 1 (\\Draft) \"12-Jan-2000 08:01:00 +0100\" {1+}\r\n0",
    "APPEND 1 CATENATE (TEXT {1+}\r\n0 UTF8 (~{1+}\r\n0))",
    "UID REPLACE 1 1 {1+}\r\n0",
    "GETMETADATA (MAXSIZE 5 DEPTH infinity) 1 /1",
    "NOTIFY SET STATUS (SELECTED-DELAYED (MessageNew (UID) MessageExpunge FlagChange)) (SUBTREE 1 NONE)",
    "ESEARCH IN (PERSONAL SUBTREE-ONE 1) RETURN (COUNT) UNSEEN",
    "SETQUOTA 1 (STORAGE 512)",
    "MYRIGHTS 1",
    "URLFETCH (1 BODY BODYPARTSTRUCTURE)",
    "GENURLAUTH 1 INTERNAL",
    "RESETKEY 1 INTERNAL",
    "ENABLE CONDSTORE QRESYNC",
    "COMPRESS DEFLATE",
    "AUTHENTICATE EXTERNAL =",
    "ID NIL",
    "UID EXPUNGE 1:5",
    "UIDBATCHES 500 1:2",
];

/// Responses of which every letter may be in either case.
const RESPONSES: [&str; 24] = [
    "* 1 FETCH (FLAGS (\\Seen \\Recent) UID 5 MODSEQ (7) RFC822.SIZE 3 INTERNALDATE \" 1-Feb-1994 10:00:00 +0000\")",
    "* 1 FETCH (BODY[1.MIME]<0> NIL BINARY.SIZE[2] 5 THREADID NIL ENVELOPE (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL))",
    "* 7 UIDFETCH (FLAGS ())",
    "* LIST (\\HasChildren \\Sent) \"/\" 1 (\"CHILDINFO\" (\"SUBSCRIBED\"))",
    "* STATUS 1 (MESSAGES 3 APPENDLIMIT NIL DELETED-STORAGE 5)",
    "* ESEARCH (TAG \"1\" MAILBOX 1 UIDVALIDITY 2) UID MIN 1 COUNT 3 ALL 1:3 MODSEQ 7",
    "* ESEARCH ADDTO (1 2:3) REMOVEFROM (0 1) PARTIAL (1:5 NIL) RELEVANCY (1 2)",
    "* SORT 1 (MODSEQ 5)",
    "* THREAD (1 2)",
    "* VANISHED (EARLIER) 1:3",
    "* UIDBATCHES (TAG 1) 5:3,2",
    "* CAPABILITY IMAP4rev1 IDLE AUTH=PLAIN",
    "* NAMESPACE NIL NIL NIL",
    "* QUOTA \"\" (STORAGE 1 2)",
    "* METADATA 1 (/1 NIL)",
    "* FLAGS (\\Seen \\Draft)",
    "* 5 EXISTS",
    "* NO [ALREADYEXISTS] 1",
    "* OK [INPROGRESS (NIL 5 NIL)] 1",
    "* OK [PERMANENTFLAGS (\\Seen \\*)] 1",
    "1 OK [URLMECH INTERNAL] 1",
    "* NO [METADATA LONGENTRIES 5] 1",
    "* OK [OBJECTID (MAILBOXID 1 ACCOUNTID 2)] 1",
    "* 1 FETCH (OBJECTID (EMAILID 1 THREADID 2))",
];

/// The text as an atom if it may be one, in quotes if it may be, and as a literal.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let (mut quoted, mut forms) = (Vec::new(), Vec::new());
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-]+".contains(&b)) {
        forms.push(text.as_bytes().to_vec());
    }
    print::quoted(&mut quoted, text.as_bytes());
    if print::fits_quotes(text.as_bytes()) {
        forms.push(quoted);
    }
    forms.push(format!("{{{}}}\r\n{text}", text.len()).into_bytes());
    forms.push(format!("{{{}+}}\r\n{text}", text.len()).into_bytes());
    forms
}

/// Letters whose bit is set in the other case.
fn other_case(line: &str, bits: u64) -> String {
    let flipped = line.chars().enumerate().map(|(at, c)| match bits.rotate_right(at as u32) & 1 {
        1 if c.is_ascii_lowercase() => c.to_ascii_uppercase(),
        1 => c.to_ascii_lowercase(),
        _ => c,
    });
    flipped.collect()
}

fn command(line: &[u8]) -> Bytes {
    Bytes::from([&b"a "[..], line, b"\r\n"].concat())
}

properties! {
    #[test]
    fn strings_in_every_form(
        line in prop::sample::select(WITH_STRING.to_vec()),
        text in one_of!["[a-zA-Z0-9._+-]{1,8}", "[ -~]{0,12}", "[a-z\r\n]{1,4}", "NIL|nil|INBOX"],
    ) {
        let (before, after) = line.split_once('@').unwrap();
        let parsed = forms(&text).into_iter().map(|form| {
            let line = command(&[before.as_bytes(), &form, after.as_bytes()].concat());
            (parse_command(&line, NameEncoding::Utf7), line)
        });
        let parsed: Vec<_> = parsed.collect();
        for (command, line) in &parsed {
            prop_assert!(command.is_ok(), "{:?}: {}", command, line.escape_ascii());
            prop_assert_eq!(command, &parsed[0].0, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn words_of_commands_in_any_case(line in prop::sample::select(COMMANDS.to_vec()), bits in any::<u64>()) {
        let ours = parse_command(&command(line.as_bytes()), NameEncoding::Utf7);
        prop_assert!(ours.is_ok(), "{:?}: {}", ours, line);
        let other = other_case(line, bits);
        let parsed = parse_command(&command(other.as_bytes()), NameEncoding::Utf7);
        prop_assert_eq!(parsed, ours, "{}", other);
    }

    #[test]
    fn words_of_responses_in_any_case(
        line in prop::sample::select(RESPONSES.to_vec()),
        bits in any::<u64>(),
    ) {
        let read = |line: &str| parse_response(&Bytes::from(format!("{line}\r\n")), NameEncoding::Utf7);
        let ours = read(line);
        prop_assert!(ours.is_ok(), "{:?}: {}", ours, line);
        let other = other_case(line, bits);
        prop_assert_eq!(read(&other), ours, "{}", other);
    }
}
