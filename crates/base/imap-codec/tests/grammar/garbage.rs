//! No input makes a parser panic, loop or recurse without a bound. The offset of an error is within
//! the input.

use bytes::Bytes;
use posthaste_imap_codec::{NameEncoding, ParseErrorKind, parse_command, parse_response, print};
use posthaste_property::{one_of, properties};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{any_command, any_response};

/// Tokens of the grammar, and numbers at the edges of its types.
fn token() -> BoxedStrategy<Vec<u8>> {
    let words = vec![
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        "{",
        "}",
        "{3}\r\n",
        "{3+}\r\n",
        "~{0}\r\n",
        "\"",
        "\\",
        "\r\n",
        " ",
        "*",
        "$",
        ":",
        ",",
        "0",
        "1",
        "4294967296",
        "18446744073709551616",
        "NIL",
        "UID",
        "NOT",
        "OR",
        "BODY",
        "\0",
        "\u{ff}",
        "+",
        "-",
    ];
    one_of![
        4 => prop::sample::select(words).prop_map(|w| w.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..4),
    ]
}

/// Bytes with some pieces cut out, doubled or put in.
fn mutated(bytes: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3, token());
    (bytes, vec(change, 1..5))
        .prop_map(|(mut bytes, changes)| {
            for (a, b, how, token) in changes {
                let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
                let (low, high) = (a.min(b), a.max(b).min(a.min(b) + 12));
                match how {
                    0 => drop(bytes.splice(low..low, token)),
                    1 => drop(bytes.drain(low..high)),
                    _ => {
                        let copy = bytes[low..high].to_vec();
                        drop(bytes.splice(high..high, copy));
                    }
                }
            }
            bytes
        })
        .boxed()
}

fn printed_command() -> BoxedStrategy<Vec<u8>> {
    any_command::command(NameEncoding::Utf7)
        .prop_map(|c| print::command(&c, NameEncoding::Utf7, print::LiteralStyle::Plus).bytes)
        .boxed()
}

fn printed_response() -> BoxedStrategy<Vec<u8>> {
    any_response::response(NameEncoding::Utf7)
        .prop_map(|r| {
            let mut out = Vec::new();
            print::response(&mut out, &r, NameEncoding::Utf7);
            out
        })
        .boxed()
}

properties! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn commands(bytes in one_of![4 => mutated(printed_command()), 1 => vec(any::<u8>(), 0..60)]) {
        let bytes = Bytes::from(bytes);
        for names in [NameEncoding::Utf7, NameEncoding::Utf8] {
            match parse_command(&bytes, names) {
                Err(error) => {
                    prop_assert!(error.offset <= bytes.len());
                    prop_assert!(!error.to_string().contains(['\r', '\n']));
                }
                // A parsed command is printed, and the result parses to the same command.
                Ok(command) => {
                    let again = Bytes::from(print::command(&command, names, print::LiteralStyle::Sync).bytes);
                    prop_assert_eq!(parse_command(&again, names), Ok(command), "{}", again.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn responses(bytes in one_of![4 => mutated(printed_response()), 1 => vec(any::<u8>(), 0..60)]) {
        let bytes = Bytes::from(bytes);
        for names in [NameEncoding::Utf7, NameEncoding::Utf8] {
            if let Err(error) = parse_response(&bytes, names) {
                prop_assert!(error.offset <= bytes.len());
            }
        }
    }
}

fn command_error(text: String) -> ParseErrorKind {
    parse_command(&Bytes::from(text), NameEncoding::Utf7).unwrap_err().kind
}

#[test]
fn deep_and_long_commands_are_refused() {
    for open in ["(", "NOT ", "OR ", "NOT (", "OR ALL "] {
        let text = format!("a SEARCH {}ALL\r\n", open.repeat(100_000 / open.len()));
        assert_eq!(command_error(text), ParseErrorKind::Limit, "{open}");
    }
    let keys = "ALL ".repeat(5000);
    assert_eq!(command_error(format!("a SEARCH {keys}ALL\r\n")), ParseErrorKind::Limit);
    let flags = "x ".repeat(300);
    assert_eq!(command_error(format!("a STORE 1 FLAGS ({flags}x)\r\n")), ParseErrorKind::Limit);
    let fields = "x ".repeat(2000);
    let text = format!("a FETCH 1 BODY[HEADER.FIELDS ({fields}x)]\r\n");
    assert_eq!(command_error(text), ParseErrorKind::Limit);
    // Each list is short enough. Together they would take a multiple of the command.
    let list = format!("BODY[HEADER.FIELDS ({}x)] ", "x ".repeat(1000));
    let text = |lists: usize| format!("a FETCH 1 ({}UID)\r\n", list.repeat(lists));
    assert_eq!(command_error(text(3)), ParseErrorKind::Limit);
    assert!(parse_command(&Bytes::from(text(2)), NameEncoding::Utf7).is_ok());
    assert_eq!(command_error(format!("a FETCH 1 BODY[{}1]\r\n", "1.".repeat(200))), ParseErrorKind::Limit);
    assert_eq!(command_error(format!("a FETCH {}1 UID\r\n", "1,".repeat(40_000))), ParseErrorKind::Limit);
    let allowed = format!("a SEARCH {}ALL{}\r\n", "(".repeat(64), ")".repeat(64));
    assert!(parse_command(&Bytes::from(allowed), NameEncoding::Utf7).is_ok());
}

/// The literals of an APPEND may have the octets of a message: a server takes them before it knows
/// what they are. As texts they would be copied, and decoded in one piece.
#[test]
fn a_long_literal_is_no_text() {
    let literal = |len: usize| format!("{{{len}+}}\r\n{}", "x".repeat(len));
    let (most, long) = (literal(64 * 1024), literal(64 * 1024 + 1));
    for text in [
        format!("a APPEND {long} (\\Seen) {{1+}}\r\nx\r\n"),
        format!("a APPEND x CATENATE (URL {long})\r\n"),
        format!("a APPEND x ANNOTATION ({long} (value.priv NIL)) {{1+}}\r\nx\r\n"),
        format!("a REPLACE 1 {long} {{1+}}\r\nx\r\n"),
    ] {
        assert_eq!(command_error(text), ParseErrorKind::Limit);
    }
    for text in [
        format!("a APPEND {most} {{1+}}\r\nx\r\n"),
        format!("a APPEND x {long}\r\n"),
        format!("a APPEND x CATENATE (TEXT {long})\r\n"),
    ] {
        assert!(parse_command(&Bytes::from(text), NameEncoding::Utf7).is_ok());
    }
    // A server may have a long text for a client.
    let (subject, nil) = (long.replace('+', ""), " NIL".repeat(8));
    let text = format!("* 1 FETCH (ENVELOPE (NIL {subject}{nil}))\r\n");
    assert!(parse_response(&Bytes::from(text), NameEncoding::Utf7).is_ok());
}

#[test]
fn deep_responses_are_refused() {
    for text in [
        format!("* 1 FETCH (BODYSTRUCTURE {}", "(".repeat(100_000)),
        format!("* 1 FETCH (X-THING {}", "(".repeat(100_000)),
        format!("* LIST () \"/\" x (\"X\" {})", "(".repeat(100_000)),
    ] {
        let error = parse_response(&Bytes::from(text), NameEncoding::Utf7).unwrap_err();
        assert_eq!(error.kind, ParseErrorKind::Limit);
    }
    let inner = "(\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 1 (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL) ";
    let text = format!("* 1 FETCH (BODY {}", inner.repeat(10_000));
    let error = parse_response(&Bytes::from(text), NameEncoding::Utf7).unwrap_err();
    assert_eq!(error.kind, ParseErrorKind::Limit);
}
