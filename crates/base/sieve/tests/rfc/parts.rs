//! RFC 5173, RFC 5703.

use crate::world::{World, holds_in, words};

const MESSAGE: &str = "Subject: outer\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\npreamble\r\n\
    --b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC=DFe aus Z=FCrich\r\n\
    --b\r\nContent-Type: text/html\r\n\r\n<b>bold</b>\r\n\
    --b\r\nContent-Type: application/pdf; name=\"a.pdf\"\r\nContent-Disposition: attachment; filename=\"virus.exe\"\r\nContent-Transfer-Encoding: base64\r\n\r\nc2VjcmV0\r\n\
    --b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nnested words\r\n--b--\r\nepilogue\r\n";

fn check(require: &str, tests: &[(&str, bool)]) {
    for (test, expected) in tests {
        assert_eq!(holds_in(&World::default(), require, test, MESSAGE), *expected, "{test}");
    }
}

#[test]
fn the_body_by_transform() {
    check(
        "\"body\"",
        &[
            ("body :contains \"GRÜSSE\"", false),
            ("body :contains \"Grüße aus\"", true),
            ("body :text :contains \"bold\"", true),
            ("body :contains \"secret\"", false),
            ("body :content \"application\" :contains \"secret\"", true),
            ("body :content \"application/pdf\" :is \"secret\"", true),
            ("body :content \"application/x\" :contains \"secret\"", false),
            ("body :raw :contains \"Gr=FC\"", true),
            ("body :raw :contains \"outer\"", false),
            ("body :content \"multipart\" :contains \"preamble\"", true),
            ("body :content \"multipart\" :contains \"epilogue\"", true),
            ("body :content \"message/rfc822\" :contains \"inner\"", true),
            ("body :content \"message/rfc822\" :contains \"nested\"", false),
            ("body :content \"\" :contains \"nested\"", true),
            ("body :content [\"image\", \"text/html\"] :matches \"*<b>*\"", true),
        ],
    );
}

#[test]
fn headers_of_parts() {
    check(
        "\"mime\"",
        &[
            ("header :mime :anychild :contenttype \"content-type\" \"application/pdf\"", true),
            ("header :mime :contenttype \"content-type\" \"application/pdf\"", false),
            ("header :mime :type \"content-type\" \"multipart\"", true),
            ("header :mime :anychild :subtype \"content-type\" \"html\"", true),
            ("header :mime :anychild :param \"filename\" :matches \"content-disposition\" \"*.exe\"", true),
            ("header :mime :anychild :param [\"x\", \"name\"] \"content-type\" \"a.pdf\"", true),
            ("header :mime :anychild \"subject\" \"inner\"", true),
            ("exists :mime :anychild \"content-disposition\"", true),
            ("exists :mime \"content-disposition\"", false),
        ],
    );
}

#[test]
fn loops_over_parts() {
    let run = |body: &str| {
        words(&World::default().run(
            &format!(
                "require [\"foreverypart\", \"mime\", \"extracttext\", \"variables\", \"fileinto\"]; {body}"
            ),
            MESSAGE,
        ))
    };
    // Message, three leaves, the attached message and its root.
    let count = "foreverypart { set \"n\" \"${n}x\"; } fileinto \"${n}\";";
    assert_eq!(run(count), ["file xxxxxx"]);
    let break_one = "foreverypart { set \"n\" \"${n}x\"; if header :mime :type \"content-type\" \"text\" { break; } } fileinto \"${n}\";";
    assert_eq!(run(break_one), ["file xx"]);
    let inner = "foreverypart :name \"a\" { foreverypart { set \"n\" \"${n}y\"; if header :mime \"subject\" \"inner\" { break :name \"a\"; } } } fileinto \"${n}\";";
    assert_eq!(run(inner), ["file yyyyy"]);
    let text = "foreverypart { if header :mime :subtype \"content-type\" \"plain\" { extracttext :upper :first 5 \"t\"; fileinto \"${t}\"; break; } }";
    assert_eq!(run(text), ["file GRÜSSE"]);
    let outside =
        "foreverypart { if header \"subject\" \"outer\" { set \"n\" \"${n}x\"; } } fileinto \"${n}\";";
    assert_eq!(run(outside), ["file xxxxxx"]);
}
