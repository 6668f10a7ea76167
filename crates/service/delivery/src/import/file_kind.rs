//! Recognizes a file by its first bytes: an mbox, a message, or something else with its remedy.
//!
//! Only the beginning is looked at, and nothing is refused here: callers know what the file's name
//! promises.

use std::fs::File;
use std::io::{self, Read};

/// Octets looked at: any sane `From ` line or header field, and this many lines of an mbox that one
/// of them must end.
const START_LEN: u64 = 16 * 1024;

/// The kind of file, by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A file that is empty, or has empty lines alone.
    Empty,
    /// A file that begins with a `From ` line.
    Mbox,
    /// A file that begins with a header field.
    Message,
    /// A file that is no mail: the reason and the remedy.
    Other(&'static str),
}

/// Files that people take for mail, by their first octets, and what to do with them.
const FOREIGN: [(&[u8], &str); 11] = [
    (b"\x1f\x8b", COMPRESSED),
    (b"BZh", COMPRESSED),
    (b"\xfd7zXZ\0", COMPRESSED),
    (b"\x28\xb5\x2f\xfd", COMPRESSED),
    (b"PK\x03\x04", COMPRESSED),
    (b"7z\xbc\xaf\x27\x1c", COMPRESSED),
    (b"!BDN", "it is an Outlook data file: convert it to mbox first (readpst does)"),
    (b"\xd0\xcf\x11\xe0", "it is an Outlook message: save it as .eml first"),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"\xef\xbb\xbf", "it begins with a byte order mark: remove that first (dos2unix does)"),
];
const COMPRESSED: &str = "it is compressed: unpack it first";
const UTF_16: &str = "it is in UTF-16: convert it to UTF-8 first (iconv does)";
const CR_ALONE: &str = "its lines end with CR alone: replace each with LF first (tr '\\r' '\\n' does)";
const UNKNOWN: &str = "it begins neither with `From `, as an mbox does, nor with a header field, as a message does: remove \
                       what precedes that, or let its name end in .eml if it is one message nevertheless";

/// Looks at the beginning of a file.
pub(super) fn kind_of_file(file: File) -> io::Result<FileKind> {
    let mut start = Vec::new();
    file.take(START_LEN).read_to_end(&mut start)?;
    Ok(judge(&start))
}

fn judge(start: &[u8]) -> FileKind {
    if let Some((_, why)) = FOREIGN.iter().find(|(mark, _)| start.starts_with(mark)) {
        return FileKind::Other(why);
    }
    // Some programs leave an empty line before the first message.
    let text = start.trim_ascii_start();
    if text.is_empty() {
        return if (start.len() as u64) < START_LEN { FileKind::Empty } else { FileKind::Other(UNKNOWN) };
    }
    if text.starts_with(b"From ") {
        // Mac OS before X wrote such files. Read as they are they would be one message with one
        // line.
        let cr_alone = text.contains(&b'\r') && !text.contains(&b'\n');
        return if cr_alone { FileKind::Other(CR_ALONE) } else { FileKind::Mbox };
    }
    // Some delivery agents quote the first line of a message that they were given with a `From `
    // line.
    if begins_with_field(text) || text.starts_with(b">From ") {
        FileKind::Message
    } else {
        FileKind::Other(UNKNOWN)
    }
}

/// RFC 5322 §2.2, §4.5: a name of printable characters, perhaps spaces, and a colon.
fn begins_with_field(text: &[u8]) -> bool {
    let name = text.iter().take_while(|&&b| b.is_ascii_graphic() && b != b':').count();
    let colon = text[name..].iter().find(|&&b| !matches!(b, b' ' | b'\t'));
    name > 0 && colon == Some(&b':')
}

/// An error of the file system with what can be done about it.
pub(super) fn remedy(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{error}: let the user who imports read it"),
        io::ErrorKind::NotFound => format!("{error}: check the name"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        for (start, expected) in [
            (&b""[..], FileKind::Empty),
            (b"\n\r\n", FileKind::Empty),
            (b"From ben", FileKind::Mbox),
            (b"\n\nFrom ben Tue Nov 14 22:13:20 2023\nA: b\n", FileKind::Mbox),
            (b"From ben Tue Nov 14 22:13:20 2023\rA: b\r\rx\r", FileKind::Other(CR_ALONE)),
            (b"Subject: x\n", FileKind::Message),
            (b"Subject : x\n", FileKind::Message),
            (b">From ben Tue Nov 14 22:13:20 2023\nSubject: x\n", FileKind::Message),
            (b"F\0r\0o\0m\0", FileKind::Other(UNKNOWN)),
            (b"\xff\xfeF\0r\0o\0m\0", FileKind::Other(UTF_16)),
            (b"\x1f\x8b\x08", FileKind::Other(COMPRESSED)),
            (b"PK\x03\x04", FileKind::Other(COMPRESSED)),
            (b": x\n", FileKind::Other(UNKNOWN)),
            (b"Dear Ana,\nnote: x\n", FileKind::Other(UNKNOWN)),
            (b"\0\x01\x02", FileKind::Other(UNKNOWN)),
        ] {
            assert_eq!(judge(start), expected, "{}", start.escape_ascii());
        }
    }
}
