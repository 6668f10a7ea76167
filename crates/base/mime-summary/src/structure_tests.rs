//! Known answers for MIME as it is written and as it is broken.
use super::*;

/// The tree in one line: `kind[header|body]` by content, children in parentheses.
fn shape(message: &[u8]) -> String {
    fn part(message: &[u8], structure: &Structure, index: PartIndex, into: &mut String) {
        let part_here = structure.part(index).unwrap();
        let media = part_here.media(message);
        let name = format!("{}/{}", String::from_utf8_lossy(media.top), String::from_utf8_lossy(media.sub));
        match part_here.kind {
            Kind::Leaf => {
                let body = String::from_utf8_lossy(part_here.body.of(message)).into_owned();
                into.push_str(&format!("{name} {body:?} {}", part_here.lines));
            }
            _ => {
                into.push_str(&format!("{name}("));
                for (place, (child, _)) in structure.children(index).enumerate() {
                    if place > 0 {
                        into.push_str(", ");
                    }
                    part(message, structure, child, into);
                }
                into.push(')');
            }
        }
    }
    let structure = Structure::parse(message);
    check(message, &structure);
    let mut made = String::new();
    part(message, &structure, 0, &mut made);
    made
}

/// Invariants.
pub(super) fn check(message: &[u8], structure: &Structure) {
    let root = structure.root();
    assert_eq!((root.header.start, root.body.end as usize), (0, message.len()));
    assert!(structure.parts().len() <= MAX_PARTS);
    for (index, part) in structure.parts().iter().enumerate() {
        assert_eq!(part.header.end, part.body.start);
        assert!(part.header.start <= part.header.end && part.body.start <= part.body.end, "{part:?}");
        assert!(part.body.contains(part.preamble) && part.body.contains(part.epilogue), "{part:?}");
        assert_eq!(part.lines, count_lines(part.body.of(message)), "{part:?}");
        if let Some(parent) = part.parent() {
            let parent = structure.part(parent).unwrap();
            assert!(
                parent.body.contains(part.header) && parent.body.contains(part.body),
                "{parent:?} {part:?}"
            );
        } else {
            assert_eq!(index, 0);
        }
        let children: Vec<_> = structure.children(index as u32).collect();
        match part.kind {
            Kind::Leaf => assert!(children.is_empty()),
            _ if part.is_encoded_message => panic!("it is no leaf: {part:?}"),
            Kind::Multipart => assert!(!children.is_empty()),
            Kind::Message => {
                assert_eq!(children.len(), 1);
                let inner = children[0].1;
                assert_eq!((inner.header.start, inner.body.end), (part.body.start, part.body.end));
            }
        }
        for pair in children.windows(2) {
            assert!(pair[0].1.body.end <= pair[1].1.header.start);
        }
    }
}

fn crlf(message: &str) -> Vec<u8> {
    message.replace('\n', "\r\n").into_bytes()
}

#[test]
fn plain_messages() {
    for (message, expected) in [
        ("", "text/plain \"\" 0"),
        ("\n", "text/plain \"\" 0"),
        ("Subject: x", "text/plain \"\" 0"),
        ("Subject: x\n", "text/plain \"\" 0"),
        ("Subject: x\n\n", "text/plain \"\" 0"),
        ("Subject: x\n\nbody", "text/plain \"body\" 0"),
        ("Subject: x\n\nbody\nmore\n", "text/plain \"body\\nmore\\n\" 2"),
        ("\nbody\n", "text/plain \"body\\n\" 1"),
        ("Content-Type: image/png\n\nx\0y\n", "image/png \"x\\0y\\n\" 1"),
        ("Content-Type: image\n\nx", "text/plain \"x\" 0"),
        ("Content-Type: text/html; charset=x\n\nx", "text/html \"x\" 0"),
        ("content-type:\n TEXT/HTML\n\nx", "TEXT/HTML \"x\" 0"),
        ("a\rb: c\n\nbare CR\ris data", "text/plain \"bare CR\\ris data\" 0"),
    ] {
        assert_eq!(shape(message.as_bytes()), expected, "{message:?}");
    }
}

#[test]
fn multiparts() {
    let head = "Content-Type: multipart/mixed; boundary=b\n\n";
    for (body, expected) in [
        ("--b\n\none\n--b\n\ntwo\n--b--\n", "multipart/mixed(text/plain \"one\" 0, text/plain \"two\" 0)"),
        ("pre\n--b\n\none\n\n--b--\npost\n", "multipart/mixed(text/plain \"one\\r\\n\" 1)"),
        // No close delimiter, no final newline.
        ("--b\n\none\n--b\n\ntwo", "multipart/mixed(text/plain \"one\" 0, text/plain \"two\" 0)"),
        // A part without header, without body, without anything.
        (
            "--b\n--b\n\n--b\nContent-Type: a/b\n--b--",
            "multipart/mixed(text/plain \"\" 0, text/plain \"\" 0, a/b \"\" 0)",
        ),
        // White space after the boundary; a longer word is a delimiter, too.
        (
            "--b \t\n\none\n--bb\n--b-\n--b--\t\n--b\n",
            "multipart/mixed(text/plain \"one\" 0, text/plain \"\" 0, text/plain \"\" 0)",
        ),
        // After the close delimiter nothing counts.
        ("--b\n\none\n--b--\n--b\n\ntwo\n", "multipart/mixed(text/plain \"one\" 0)"),
        // Only a close delimiter, or none: text.
        ("nothing here\n", "text/plain \"nothing here\\r\\n\" 1"),
        ("--b--\n", "text/plain \"--b--\\r\\n\" 1"),
        ("--b", "multipart/mixed(text/plain \"\" 0)"),
    ] {
        assert_eq!(shape(&crlf(&format!("{head}{body}"))), expected, "{body:?}");
    }
    let broken = "Content-Type: multipart/mixed\n\n--b\n\nx\n--b--\n";
    assert_eq!(shape(broken.as_bytes()), "text/plain \"--b\\n\\nx\\n--b--\\n\" 4");
}

#[test]
fn nested_boundaries() {
    let nested = |outer: &str, inner: &str| {
        crlf(&format!(
            "Content-Type: multipart/mixed; boundary=\"{outer}\"\n\n--{outer}\n\
             Content-Type: multipart/alternative; boundary=\"{inner}\"\n\n--{inner}\n\na\n--{inner}\n\nb\n--{inner}--\n\
             --{outer}\n\nc\n--{outer}--\n"
        ))
    };
    let whole =
        "multipart/mixed(multipart/alternative(text/plain \"a\" 0, text/plain \"b\" 0), text/plain \"c\" 0)";
    for (outer, inner) in [("x", "y"), ("x", "xy"), ("xy", "x"), ("x--", "x-"), ("a b", "a")] {
        assert_eq!(shape(&nested(outer, inner)), whole, "{outer} {inner}");
    }
    // The inner one never ends; the outer delimiter ends it, here in the middle of a header.
    let cut = "Content-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: multipart/mixed; boundary=i\n\n--i\n\
               Content-Type: text/html\n--o\n\nlast\n--o--\n";
    assert_eq!(
        shape(&crlf(cut)),
        "multipart/mixed(multipart/mixed(text/html \"\" 0), text/plain \"last\" 0)"
    );
    // The same boundary inside and outside: the inner one takes it, and its close leaves the rest
    // to the outer.
    let same = "Content-Type: multipart/mixed; boundary=s\n\n--s\nContent-Type: multipart/mixed; boundary=s\n\n--s\n\n\
                a\n--s--\n--s\n\nb\n--s--\n";
    assert_eq!(
        shape(&crlf(same)),
        "multipart/mixed(multipart/mixed(text/plain \"a\" 0), text/plain \"b\" 0)"
    );
}

#[test]
fn messages_in_messages() {
    let digest = "Content-Type: multipart/digest; boundary=d\n\n--d\n\nSubject: one\n\nfirst\n--d\n\
                  Content-Type: text/plain\n\nsecond\n--d--\n";
    assert_eq!(
        shape(&crlf(digest)),
        "multipart/digest(message/rfc822(text/plain \"first\" 0), text/plain \"second\" 0)"
    );
    let nested =
        "Content-Type: message/rfc822\n\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\n";
    assert_eq!(shape(&crlf(nested)), "message/rfc822(multipart/mixed(text/plain \"x\" 0))");
    for (encoding, shown) in [
        ("base64", "message/rfc822"),
        ("quoted-printable", "message/rfc822"),
        ("x-unknown", "application/octet-stream"),
    ] {
        let encoded =
            format!("Content-Type: message/rfc822\nContent-Transfer-Encoding: {encoding}\n\nU3ViamVj\n");
        assert_eq!(shape(encoded.as_bytes()), format!("{shown} \"U3ViamVj\\n\" 1"));
    }
    assert_eq!(shape(b"Content-Type: message/rfc822\n\n"), "message/rfc822(text/plain \"\" 0)");
    assert_eq!(shape(b"Content-Type: message/partial\n\nx"), "message/partial \"x\" 0");
    let message = crlf("Content-Type: message/rfc822\n\nSubject: x\n\na\nb\n");
    assert_eq!(Structure::parse(&message).root().lines, 4);
}

#[test]
fn preamble_and_epilogue() {
    let message =
        crlf("Content-Type: multipart/mixed; boundary=b\n\npre\namble\n--b\n\nx\n--b--\nepi\nlogue\n");
    let structure = Structure::parse(&message);
    check(&message, &structure);
    assert_eq!(structure.root().preamble.of(&message), b"pre\r\namble");
    assert_eq!(structure.root().epilogue.of(&message), b"epi\r\nlogue\r\n");
}

#[test]
fn content_fields_are_found_once() {
    let message =
        b"CONTENT-ID: <1>\r\nContent-Id: <2>\r\nContent-Disposition: attachment;\r\n filename=x\r\n\
                    Content-Transfer-Encoding: BASE64 (yes)\r\nContent-MD5:\r\n\r\n";
    let structure = Structure::parse(message);
    let part = structure.root();
    assert_eq!(part.fields.id.unwrap().of(message), b" <1>\r\n");
    assert_eq!(part.fields.disposition.unwrap().of(message), b" attachment;\r\n filename=x\r\n");
    assert_eq!((part.encoding, part.encoding_name(message)), (Encoding::Base64, &b"BASE64"[..]));
    assert_eq!(part.fields.md5.unwrap().of(message), b"\r\n");
    assert_eq!(structure.fields().len(), 5);
    assert!(part.is_text_by_default(message));
}

#[test]
fn ten_thousand_parts_and_no_more_than_the_limit() {
    for (count, expected) in [(10_000, 10_001), (25_000, MAX_PARTS)] {
        let mut message = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec();
        for number in 0..count {
            message.extend_from_slice(format!("--b\r\n\r\npart {number}\r\n").as_bytes());
        }
        message.extend_from_slice(b"--b--\r\nepilogue");
        let structure = Structure::parse(&message);
        check(&message, &structure);
        assert_eq!(structure.parts().len(), expected);
        assert_eq!(structure.root().epilogue.of(&message), b"epilogue");
    }
}

#[test]
fn nesting_bombs_are_leaves() {
    let mut multiparts = Vec::new();
    for depth in 0..1000 {
        multiparts.extend_from_slice(
            format!("Content-Type: multipart/mixed; boundary=b{depth}x\n\n--b{depth}x\n").as_bytes(),
        );
    }
    let messages = b"Content-Type: message/rfc822\n\n".repeat(1000);
    let mut digests = Vec::new();
    for depth in 0..1000 {
        digests.extend_from_slice(
            format!("Content-Type: multipart/digest; boundary={depth}x\n\n--{depth}x\n\n").as_bytes(),
        );
    }
    for bomb in [multiparts, messages, digests] {
        let structure = Structure::parse(&bomb);
        check(&bomb, &structure);
        assert!(structure.parts().len() <= MAX_DEPTH + 1, "{}", structure.parts().len());
        let last = structure.parts().last().unwrap();
        assert!(last.media(&bomb).is("application", "octet-stream"));
    }
}

/// RFC 2046 §5.1.1: a boundary is compared with the beginning of a line. Text that an exporter
/// appends takes nothing from the parts.
#[test]
fn a_line_that_begins_with_a_boundary_is_a_delimiter() {
    let text = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--bx\n\ntwo\n--b-->\nepilogue\n";
    let message = crlf(text);
    assert_eq!(shape(&message), "multipart/mixed(text/plain \"one\" 0, text/plain \"two\" 0)");
    let structure = Structure::parse(&message);
    assert_eq!(structure.root().epilogue.of(&message), b"epilogue\r\n");
}

/// The line count of a message/rfc822 is that of its bytes, also where a delimiter ends the nested
/// header, with and without its blank line.
#[test]
fn lines_of_a_nested_message_that_ends_with_its_header() {
    for (nested, lines) in [("Subject: x\nX: y\n", 2), ("Subject: x\n\n", 2), ("Subject: x\n\nhi\n", 2)] {
        let message = crlf(&format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n{nested}--b--\n"
        ));
        let structure = Structure::parse(&message);
        check(&message, &structure);
        assert_eq!(structure.part(1).unwrap().lines, lines, "{nested:?}");
    }
}

/// RFC 2046 §5.1.1: the line end before a delimiter belongs to the delimiter. The line end before
/// the outer delimiter does not belong to the nested multipart.
#[test]
fn a_nested_multipart_ends_before_the_line_end_of_the_outer_delimiter() {
    let message = crlf(
        "Content-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: multipart/mixed; boundary=i\n\n\
         --i\n\na\n--i--\n--o--\n",
    );
    let structure = Structure::parse(&message);
    let (_, nested) = structure.children(0).next().unwrap();
    assert_eq!(nested.body.of(&message), b"--i\r\n\r\na\r\n--i--");
}
