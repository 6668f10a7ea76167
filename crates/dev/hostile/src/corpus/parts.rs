//! Parts of a message: boundaries, nested messages, media types and parameters.

use super::{Named, of_type, with};

pub(super) fn all() -> Vec<Named> {
    [boundaries(), delimiters(), nested(), types(), continuations()].concat()
}

/// A multipart with this boundary as it is written, and as its delimiters have it.
fn bounded(written: &str, boundary: &str) -> Vec<u8> {
    let body = format!("--{boundary}\r\n\r\none\r\n--{boundary}\r\n\r\ntwo\r\n--{boundary}--\r\n");
    of_type(format!("multipart/mixed; boundary={written}"), body)
}

/// RFC 2046 §5.1.1.
fn boundaries() -> Vec<Named> {
    let (seventy, long) = ("b".repeat(70), "b".repeat(2_000));
    let pattern = "a.*[z]+(?:x|y){1,9}$^";
    vec![
        ("an empty boundary", bounded("\"\"", "")),
        ("no boundary", of_type("multipart/mixed", "--\r\n\r\none\r\n----\r\n")),
        ("a boundary of 70 octets", bounded(&seventy, &seventy)),
        ("a boundary of 71 octets", bounded(&format!("{seventy}b"), &format!("{seventy}b"))),
        ("a boundary of 2,000 octets", bounded(&long, &long)),
        ("a boundary that is a pattern", bounded(&format!("\"{pattern}\""), pattern)),
        ("a boundary with quoted pairs", bounded("\"a\\\"b\\\\c; d=e\"", "a\"b\\c; d=e")),
        ("a boundary of blanks", bounded("\"   \"", "   ")),
        ("a boundary of dashes", bounded("\"--\"", "--")),
        ("a boundary of 8 bits", bounded("\"\u{fc}\"", "\u{fc}")),
        ("two boundaries", bounded("a; boundary=b", "b")),
        ("a boundary without its quote", bounded("\"b", "b")),
    ]
}

/// Multiparts with these bodies.
fn delimiters() -> Vec<Named> {
    let mixed = |body: &str| of_type("multipart/mixed; boundary=b", body);
    let inner = "--b\r\nContent-Type: multipart/mixed; boundary=";
    vec![
        (
            "boundaries that begin with another one",
            mixed(&format!(
                "{inner}bb\r\n\r\n--bb\r\n\r\none\r\n--bb--\r\n--b\r\n\r\ntwo\r\n--bbb\r\n--b--\r\n"
            )),
        ),
        (
            "a boundary that is the end of another one",
            mixed(&format!("{inner}\"b--\"\r\n\r\n--b--\r\n\r\none\r\n--b----\r\n--b--\r\n")),
        ),
        (
            "the same boundary within",
            mixed(&format!("{inner}b\r\n\r\n--b\r\n\r\none\r\n--b--\r\ntwo\r\n--b--\r\n")),
        ),
        ("a multipart that stays open", mixed("--b\r\n\r\none\r\n--b\r\n\r\ntwo")),
        (
            "a multipart that ends twice",
            mixed("--b\r\n\r\none\r\n--b--\r\n--b\r\n\r\ntwo\r\n--b--\r\n--b--\r\n"),
        ),
        ("a multipart without parts", mixed("a text without delimiters\r\n")),
        ("a multipart that only ends", mixed("--b--\r\n")),
        ("a multipart without a body", of_type("multipart/mixed; boundary=b", "")),
        ("a delimiter in a header", mixed("--b\r\nSubject: a\r\n--b\r\nX\r\n--b--\r\n")),
        (
            "blanks at delimiters",
            mixed("--b \t \r\n\r\none\r\n -- b\r\n--b\t\r\n\r\ntwo\r\n--b-- \t\r\n--b x\r\n"),
        ),
        ("delimiters with LF", mixed("--b\n\none\n--b\n\ntwo\r--b\r\r\n--b--\n")),
        ("2,000 empty parts", mixed(&"--b\r\n\r\n".repeat(2_000))),
        (
            "a digest of parts without types",
            of_type(
                "multipart/digest; boundary=b",
                "--b\r\n\r\nSubject: a\r\n\r\none\r\n--b\r\n\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\ntwo\r\n--b\r\n--b--",
            ),
        ),
        (
            "a signature without a text",
            of_type("multipart/signed; boundary=b", "--b\r\n\r\none\r\n--b--\r\n"),
        ),
    ]
}

/// RFC 2046 §5.2.
fn nested() -> Vec<Named> {
    let broken = "Content-Type: message/rfc822\r\nno colon\r\n: a\r\nFrom: (((\r\nDate: x\r\n\r\n".repeat(60);
    let deep: String =
        (0..150).map(|n| format!("Content-Type: multipart/mixed; boundary=n{n}\r\n\r\n--n{n}\r\n")).collect();
    let about_other =
        "Content-Type: image/png\r\nContent-ID: <a@b>\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ==\r\n";
    vec![
        ("nested messages with broken headers", (broken + "\r\nbody\r\n").into_bytes()),
        ("multiparts 150 deep", (deep + "\r\nbody\r\n").into_bytes()),
        ("a nested message that is empty", of_type("message/rfc822", "")),
        (
            "a nested message in base64 that is none",
            of_type("message/rfc822\r\nContent-Transfer-Encoding: base64", "U3ViamVjdDogYQ0KDQo=====!\r\n"),
        ),
        (
            "a nested message in an unknown encoding",
            of_type("message/rfc822\r\nContent-Transfer-Encoding: x-none", "Subject: a\r\n\r\nb\r\n"),
        ),
        (
            "a piece of a message",
            of_type("message/partial; number=2; total=1; id=\"\"", "Subject: a\r\n\r\nbody\r\n"),
        ),
        (
            "a body that is elsewhere",
            of_type(
                "message/external-body; access-type=anon-ftp; site=\"127.0.0.1\"; directory=\"../..\"; size=-1",
                about_other,
            ),
        ),
        (
            "a report that is none",
            of_type("message/delivery-status", "Final-Recipient: rfc822;\r\n\r\n\r\n\r\nAction: \0\r\n"),
        ),
    ]
}

/// RFC 2045 §5, RFC 2183.
fn types() -> Vec<Named> {
    let parameters: String = (0..1_000).map(|n| format!(";\r\n p{n}=\"{n}\"")).collect();
    let disposition = |value: &str| with(format!("Content-Disposition: {value}"));
    vec![
        ("a type with 1,000 parameters", of_type(format!("text/plain{parameters}"), "body\r\n")),
        ("an empty type", of_type("", "body\r\n")),
        ("a type of a slash", of_type("/", "body\r\n")),
        ("a type of semicolons", of_type(";".repeat(5_000), "body\r\n")),
        ("a type without an end", of_type("text/plain; charset=\"utf-8\\", "body\r\n")),
        ("a type of comments", of_type("(((a) text (b / c) / (d) html (e", "<p>body\r\n")),
        (
            "the same parameter thrice",
            of_type("text/plain; charset=utf-8; charset=x; CHARSET=\"\"", "body\r\n"),
        ),
        ("a type of 8 bits", of_type(b"t\xfcxt/pl\xc3\xa4in; n\xff=\xfe", "body\r\n")),
        (
            "a file name that is a path",
            disposition("attachment; filename=\"../../../etc/passwd\\..\\a:b|c\""),
        ),
        ("a disposition without a name", disposition(";;; =; filename; =a; filename=")),
        (
            "fields of parts that are none",
            with(
                "Content-Language: ,,,(,\r\nContent-ID: <<\r\nContent-MD5: =\r\nContent-Location: %00\r\nContent-Base:",
            ),
        ),
    ]
}

/// RFC 2231 §3, §4.
fn continuations() -> Vec<Named> {
    let named = |parameters: &str| with(format!("Content-Disposition: attachment;\r\n {parameters}"));
    let pieces: String = (0..10_000).map(|n| format!(" n*{n}=a;\r\n")).collect();
    vec![
        ("continuations with gaps", named("n*0=a; n*2=c; n*4294967296=d; n*18446744073709551616=e; n*-1=f")),
        ("continuations in another order", named("n*2=c; n*1*=%62; n*0*=utf-8''%61; n*3=%64")),
        ("continuations given twice", named("n*0=a; n*0=b; n*1=c; n*01=d; n*1*=e; n=f; n*=g")),
        ("10,000 continuations", with(format!("Content-Disposition: attachment;\r\n{pieces} n=b"))),
        (
            "percent signs that encode nothing",
            named("n*=utf-8''%zz%4%%%C3%28; m*=utf-8'%61; o*='''%61; p*=%61"),
        ),
        (
            "charsets that are none",
            named("n*=no-such'en'%ff; m*=utf-16''%00; o*0*=''%ff; o*1*=iso-8859-1''%fc"),
        ),
    ]
}
