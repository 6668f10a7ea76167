//! The content of parts: transfer encodings, charsets, archives, HTML.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compress, Compression, FlushCompress};

use super::{Named, of_type};

pub(super) fn all() -> Vec<Named> {
    [encodings(), charsets(), archives(), html()].concat()
}

/// A part in this encoding.
fn encoded(encoding: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    of_type(format!("text/plain; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}"), body)
}

/// RFC 2045 §6.
fn encodings() -> Vec<Named> {
    let each: Vec<u8> = (0..=255).collect();
    vec![
        ("base64 with wrong padding", encoded("base64", "====a=b=\r\nYQ=\r\nYQ===\r\nYWI\r\n=")),
        ("base64 that is cut", encoded("base64", "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NT")),
        ("base64 without base64", encoded("base64", "\0\u{fc}!?*-_ \r\n--\r\n\r\n")),
        ("quoted-printable that ends in a sign", encoded("quoted-printable", "abc=")),
        (
            "quoted-printable without digits",
            encoded("quoted-printable", "=XY =4 == =\r\n=\r\n\r\n=0\r\n=a=\t \r\n=0D=0A=00"),
        ),
        ("uuencode", encoded("x-uuencode", "begin 644 ../../a\r\nM\r\n#86)C\r\n`\r\n")),
        ("7bit with 8 bits", encoded("7bit", b"\xff\xfe\0\xfc\r\n")),
        ("base64 for a text", encoded("base64", "This is a text, and no base64 at all.\r\n")),
        ("binary", encoded("binary", each)),
        ("an unknown encoding", encoded("x-none", "body\r\n")),
        ("an encoding that is a list", encoded("base64, quoted-printable (a)", "YQ==\r\n")),
        ("an encoding of 8 bits", encoded("b\u{e4}se64", "YQ==\r\n")),
        (
            "an encoded multipart",
            of_type(
                "multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: base64",
                "--b\r\n\r\nYQ==\r\n--b--\r\n",
            ),
        ),
    ]
}

fn charsets() -> Vec<Named> {
    let text = |charset: &str, body: &[u8]| of_type(format!("text/plain; charset={charset}"), body);
    vec![
        ("UTF-7", text("utf-7", b"+ADw-script+AD4- +AGE +///// +- +\r\n")),
        (
            "UTF-8 that is none",
            text("utf-8", b"\xff\xfe \xc3 \xe2\x82 \xf0\x9f\x98 \xed\xa0\x80 \xc0\x80\r\n"),
        ),
        ("UTF-16 of an odd length", text("utf-16", b"\xff\xfea\0\r\0\n\0\0\xd8\0")),
        ("UTF-32 beyond its end", text("utf-32", b"\0\0\xfe\xff\xff\xff\xff\xff\0\x11\0\0\0")),
        ("ISO-2022-JP without an end", text("iso-2022-jp", b"\x1b$B$\"$\x1b(\x1b\x1b$\r\n\x1b$B")),
        ("HZ without an end", text("hz-gb-2312", b"~{<:Ky2;~ ~~}~{\r\n~")),
        ("GB18030 that is cut", text("gb18030", b"\x81\x30\x81\r\n\x84\x31\xa4\x37\xfe")),
        ("EBCDIC", text("cp037", b"\xc8\x85\x93\x93\x96\x0d\x25\x00")),
        ("an unknown charset", text("no-such-charset", b"\xff body\r\n")),
        ("a charset with an endless name", text(&"x".repeat(10_000), b"body\r\n")),
        ("a text of blanks", text("utf-8", "\u{200b}\u{feff}\u{a0} \t\r\n".repeat(500).as_bytes())),
    ]
}

/// A file in base64.
fn attached(media: &str, octets: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(octets);
    let lines: Vec<&str> =
        text.as_bytes().chunks(76).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    of_type(format!("{media}\r\nContent-Transfer-Encoding: base64"), lines.join("\r\n") + "\r\n")
}

/// Files that a reader must not open.
fn archives() -> Vec<Named> {
    let zeros = zeros();
    // A local header: 4 GiB of zeros are announced (APPNOTE.TXT §4.3.7).
    let head = b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0a";
    let nested = [head.as_slice(), &zeros].concat().repeat(20);
    let tnef = "application/ms-tnef; name=winmail.dat";
    vec![
        ("an archive of zeros", attached("application/zip; name=a.zip", &nested)),
        (
            "a stream of zeros",
            attached("application/gzip", &[b"\x1f\x8b\x08\0\0\0\0\0\0\xff".as_slice(), &zeros].concat()),
        ),
        ("a winmail.dat with a wrong signature", attached(tnef, b"\x22\x3e\x9f\x78\x01\0\x01\x06\x90\x08\0")),
        (
            "a winmail.dat of 4 GiB",
            attached(tnef, b"\x78\x9f\x3e\x22\x01\0\x01\x06\x90\x08\0\xff\xff\xff\xff\x01\x02\x03"),
        ),
        ("an empty winmail.dat", attached(tnef, b"")),
    ]
}

/// 4 MiB of zeros, compressed.
fn zeros() -> Vec<u8> {
    let (mut compress, mut out) = (Compress::new(Compression::best(), false), Vec::with_capacity(64 << 10));
    let _ = compress.compress_vec(&vec![0; 4 << 20], &mut out, FlushCompress::Finish);
    out
}

/// HTML, of which the preview and the search read the text.
fn html() -> Vec<Named> {
    let page = |text: &str| of_type("text/html; charset=utf-8", text);
    vec![
        ("HTML 5,000 deep", page(&"<div><p>a".repeat(5_000))),
        ("HTML that only ends", page(&"</div></p></table>".repeat(2_000))),
        ("HTML that stays open", page("<p>a<!-- b <script> c </p><style> d <b title=\"e")),
        (
            "references that are no characters",
            page("&#xFFFFFFFF;&#0;&#55296;&#x;&;&amp&lt&nosuch;&#99999999999999;&"),
        ),
        ("10,000 open tags", page(&"<".repeat(10_000))),
        ("10,000 attributes", page(&format!("<p {}>a</p>", "a=b ".repeat(10_000)))),
    ]
}
