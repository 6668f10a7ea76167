//! RTF with pictures and objects, as Word and Outlook write it.

use super::*;
use crate::rtf::{Document, compress, decompress, decompress_to_read, read, store};

const LIMITS: Limits = Limits { text: 1 << 20, pictures: 1 << 20 };
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n not really \\ { }";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0 neither";

/// Digits in lines, as programs write them.
fn hex(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chunks(4).map(|line| line.concat()).collect::<Vec<_>>().join("\r\n")
}

fn slim(rtf: &[u8], limits: Limits) -> Result<Slim, Damage> {
    let compressed = decompress_to_read(&compress(rtf), limits);
    assert_eq!(decompress_to_read(&store(rtf), limits), compressed, "in both forms");
    compressed
}

/// The document, whose text must be that of the RTF as it was.
fn document(rtf: &str) -> Document {
    let slim = slim(rtf.as_bytes(), LIMITS).expect("RTF");
    let document = read(&slim.rtf, 1 << 20).expect("RTF");
    assert_eq!(read(rtf.as_bytes(), 1 << 20).expect("RTF").text, document.text);
    document
}

fn body(document: &Document) -> &str {
    let html = document.html.as_deref().expect("HTML");
    let html = html.strip_prefix("<!DOCTYPE html>\r\n<html><body>\r\n").expect("a head");
    html.strip_suffix("</body></html>\r\n").expect("an end")
}

fn png(more: &str) -> String {
    format!(
        r"{{\pict{{\*\picprop{{\sp{{\sn a}}{{\sv 1}}}}}}\pngblip\picwgoal1500{more} {}{{\*\blipuid 0f}}}}",
        hex(PNG)
    )
}

#[test]
fn pictures_are_shown_where_they_stand() {
    let (one, two) = (png(r"\pichgoal750\picscaley200"), format!(r"{{\pict\jpegblip {}}}", hex(JPEG)));
    let meta = format!(r"{{\nonshppict{{\pict\wmetafile8 {}}}}}", hex(&[7; 999]));
    let rtf = format!(r"{{\rtf1\ansi a{{\*\shppict{one}}}{meta}b\par {two}{one}}}");
    let document = document(&rtf);
    assert_eq!((document.text.as_str(), document.unshown), ("ab\r\n", 0));
    // The same picture twice is one part.
    let [first, second] = document.pictures.as_slice() else { panic!("{:?}", document.pictures) };
    assert_eq!((first.media, first.bytes.as_slice()), ("image/png", PNG));
    assert_eq!((second.media, second.bytes.as_slice()), ("image/jpeg", JPEG));
    let shown = format!("<img src=\"cid:{}\" width=\"100\" height=\"100\">", first.id);
    assert_eq!(
        body(&document),
        format!("<p>a{shown}b</p>\r\n<p><img src=\"cid:{}\">{shown}</p>\r\n", second.id)
    );
}

#[test]
fn what_mail_cannot_show_is_counted() {
    for (rtf, unshown) in [
        (format!(r"{{\pict\wmetafile8 {}}}", hex(&[7; 99])), 1),
        (format!(r"{{\pict\emfblip {}}}", hex(&[7; 99])), 1),
        // Bytes that are no picture.
        (format!(r"{{\pict\pngblip {}}}", hex(JPEG)), 1),
        (r"{\pict\pngblip}".to_owned(), 1),
        // An object, and what it looks like.
        (format!(r"{{\object\objemb{{\*\objdata {}}}{{\result{{\pict\wmetafile8 00}}}}}}", hex(&[7; 99])), 1),
        (format!(r"{{\header {}}}{{\v {}}}", png(""), png("")), 0),
    ] {
        let document = document(&format!(r"{{\rtf1\ansi a{rtf}b}}"));
        assert_eq!((document.text.as_str(), document.unshown), ("ab", unshown), "{rtf}");
        assert!(document.pictures.is_empty() && body(&document) == "<p>ab</p>\r\n", "{rtf}");
    }
    // Encapsulated HTML has its own pictures.
    let html = document(&format!(r"{{\rtf1\ansi\fromhtml1 a{}b}}", png("")));
    assert_eq!((html.html.as_deref(), html.pictures.len(), html.unshown), (Some("ab"), 0, 0));
}

/// RTF 1.9.1: the picture of a shape is one of its properties, and again in its result.
#[test]
fn the_picture_of_a_shape_is_shown_once() {
    let shape = format!(r"{{\*\shpinst{{\sp{{\sn pib}}{{\sv {}}}}}}}", png(""));
    let result = format!(r"{{\shprslt{{\*\do}}{}}}", png(""));
    for rtf in [format!(r"{{\shp{shape}{result}}}"), format!(r"{{\shp{{\*\shpinst}}{result}}}"), png("")] {
        let document = document(&format!(r"{{\rtf1\ansi a{rtf}b}}"));
        assert_eq!((document.pictures.len(), body(&document).matches("<img").count()), (1, 1), "{rtf}");
    }
}

#[test]
fn binary_data_is_read_as_digits_are() {
    let mut rtf = br"{\rtf1 a{\pict\pngblip\bin".to_vec();
    rtf.extend(format!("{} ", PNG.len()).bytes());
    rtf.extend(PNG);
    rtf.extend(br"}{\pict\wmetafile8\bin4 }}}}}\bin3 }}}b}");
    let slim = slim(&rtf, LIMITS).expect("RTF");
    assert_eq!(slim.picture_len, PNG.len());
    let document = read(&slim.rtf, 1 << 20).expect("RTF");
    assert_eq!((document.text.as_str(), document.unshown), ("ab", 1));
    assert_eq!(document.pictures[0].bytes, PNG);
    // Data that claims more than there is.
    for kind in ["pngblip", "wmetafile8"] {
        let rtf = format!(r"{{\rtf1 a{{\pict\{kind}\bin9999 x}}}}");
        let at = rtf.find(" x").expect("it") + 1;
        let expected = Damage::Truncated { what: DATA, at };
        assert_eq!(decompress_to_read(&compress(rtf.as_bytes()), LIMITS), Err(expected));
    }
}

/// Digits do not count as text, and pictures have a limit of their own.
#[test]
fn text_and_pictures_are_bounded_apart() {
    let rtf = format!(r"{{\rtf1 a{}{{\pict\wmetafile8 {}}}b}}", png(""), hex(&[7; 9_999]));
    let whole = decompress(&compress(rtf.as_bytes()), 1 << 20).expect("RTF");
    assert!(whole.len() > 20_000);
    let limits = Limits { text: 200, pictures: PNG.len() };
    let found = slim(rtf.as_bytes(), limits).expect("RTF");
    assert_eq!(found.picture_len, PNG.len());
    let text_len = found.rtf.len() - found.picture_len;
    let tight = Limits { text: text_len - 1, ..limits };
    assert_eq!(slim(rtf.as_bytes(), tight), Err(Damage::Expands { limit: text_len - 1 }));
    // A picture beyond the limit is left out, and counted.
    let found = slim(rtf.as_bytes(), Limits { pictures: PNG.len() - 1, ..limits }).expect("RTF");
    assert_eq!(found.picture_len, 0);
    let document = read(&found.rtf, 1000).expect("RTF");
    assert_eq!((document.text.as_str(), document.unshown, document.pictures.len()), ("ab", 2, 0));
    // So is one that is too much for a conversion.
    let many: String = (0..3_u8).map(|n| format!(r"{{\pict\jpegblip {}{n:02x}}}", hex(JPEG))).collect();
    let found = slim(format!(r"{{\rtf1 {many}}}").as_bytes(), LIMITS).expect("RTF");
    let document = crate::rtf::read_within(&found.rtf, 1000, 2).expect("RTF");
    assert_eq!((document.unshown, document.pictures.len()), (1, 2));
}

/// What is removed has a bound, too.
#[test]
fn rtf_that_never_ends_is_refused() {
    let mut slimmer = Slimmer::new(LIMITS);
    for byte in br"{\rtf1{\pict " {
        slimmer.put(*byte).expect("room");
    }
    slimmer.raw_len = RAW_MAX - 1;
    assert_eq!(slimmer.put(b'0'), Ok(()));
    assert_eq!(slimmer.put(b'0'), Err(Damage::Expands { limit: RAW_MAX }));
}
