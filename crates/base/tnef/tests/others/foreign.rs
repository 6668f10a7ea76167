//! TNEF that programs of others wrote: the samples with which Python's `tnefparse` tests itself,
//! and those of `ytnef` and of Perl's `Convert::TNEF`. Debian's `tnef` and `ytnef` extract the same
//! files as our decoder. The mail that is made of a sample has these files, with their names and
//! types, and the text that `tnef` extracts. `scripts/test` fetches the samples and installs the
//! programs; without them the test fails. It is passed over only if POSTHASTE_TEST_CLIENTS is
//! `no`. The samples of `ytnef` and Perl are in Debian's source packages. Where those cannot be
//! fetched, they are left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_mime_summary::{Disposition, Kind, Part, Structure, decode_transfer};
use posthaste_testkit::client_tests_wanted;
use posthaste_tnef::tags::{attribute, property};
use posthaste_tnef::{
    Attachment, Content, Message, Outcome, Value, convert, decode, encode, enrich, restore, rtf,
};

/// The folders with samples, and what the names of samples end with.
const FOLDERS: [(&str, &[&str]); 3] = [
    ("tnefparse-1.4.0/tests/examples", &[".tnef"]),
    ("ytnef-2.0/test-data", &[".tnef", "winmail.dat", "SwapWord"]),
    ("Convert-TNEF-0.18/t", &[".doc"]),
];

/// Where `scripts/test` puts what it fetches.
fn fetched() -> PathBuf {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&std::env::var_os("HOME").expect("a home")).join(".cache"),
    };
    cache.join("posthaste")
}

/// The samples.
fn samples() -> Vec<PathBuf> {
    let mut samples = Vec::new();
    for (number, (folder, ends)) in FOLDERS.iter().enumerate() {
        let folder = fetched().join(folder);
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(_) if number > 0 => continue,
            Err(error) => panic!("{}: {error}; scripts/test fetches the samples", folder.display()),
        };
        let paths = entries.map(|entry| entry.expect("an entry").path());
        samples.extend(paths.filter(|path| {
            let name = path.to_string_lossy();
            ends.iter().any(|end| name.ends_with(end))
        }));
    }
    samples
}

/// The files that a program extracts, by name; `None` if it refuses the bytes.
fn extracted(program: &str, options: &[&str], sample: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
    command.args(options);
    match program {
        "tnef" => command.arg("-f").arg(sample).arg("-C").arg(out.path()),
        _ => command.arg("-f").arg(out.path()).arg(sample),
    };
    let run = command.output().unwrap_or_else(|e| panic!("{program}: {e}; scripts/test installs it"));
    if !run.status.success() {
        return None;
    }
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read(entry.path()).expect("a file"))
    };
    Some(std::fs::read_dir(out.path()).expect("a folder").map(read).collect())
}

/// The bytes of a file or an OLE object, as both places have them.
fn content(attachment: &Attachment) -> Vec<&[u8]> {
    let attributes = attachment.attributes.iter().filter(|a| a.id == attribute::ATTACH_DATA);
    let properties = attachment.properties.iter().filter(|p| p.id == property::ATTACH_DATA);
    let binary = properties.filter_map(|property| match &property.value {
        Value::Binary(bytes) => Some(&bytes[..]),
        Value::Object(object) => match &object.content {
            Content::Bytes(bytes) => Some(&bytes[..]),
            Content::Message(_) => None,
        },
        _ => None,
    });
    attributes.map(|attribute| &attribute.data[..]).chain(binary).collect()
}

/// In front of an object, `tnef` writes the 16 bytes of its interface.
fn has(message: &Message, file: &[u8]) -> bool {
    let is_file = |content: &&[u8]| *content == file || file.get(16..) == Some(*content);
    message.attachments.iter().any(|attachment| content(attachment).iter().any(is_file))
}

/// The mail that is made of a sample; `None` if it stays as it is.
fn mail_of(sample: &[u8]) -> Option<Vec<u8>> {
    let head = b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    match convert(&[&head[..], sample].concat()) {
        Ok(Outcome::Converted(mime)) => Some(mime),
        _ => None,
    }
}

/// A part of mail that holds no other parts.
struct Leaf {
    media: String,
    name: Option<String>,
    bytes: Vec<u8>,
}

impl Leaf {
    fn of(mime: &[u8], part: &Part) -> Self {
        let media = part.media(mime);
        let word = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_lowercase();
        let disposition = part.fields.disposition.and_then(|span| Disposition::parse(span.of(mime)));
        Self {
            media: format!("{}/{}", word(media.top), word(media.sub)),
            name: disposition.and_then(|disposition| disposition.params.decoded("filename")),
            bytes: decode_transfer(part.encoding, part.body.of(mime)).expect("an encoding"),
        }
    }

    /// Whether it is a file that a program wrote.
    fn is(&self, name: &str, file: &[u8]) -> bool {
        let is_named = self.name.as_deref().is_some_and(|own| letters(own) == letters(name));
        is_named && (self.bytes == file || file.get(16..) == Some(&self.bytes[..]))
    }

    /// The words of a text.
    fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        if self.media == "text/html" { shown(&text) } else { text.into_owned() }
    }
}

fn leaves(mime: &[u8]) -> Vec<Leaf> {
    let structure = Structure::parse(mime);
    let parts = structure.parts().iter().filter(|part| part.kind == Kind::Leaf);
    parts.map(|part| Leaf::of(mime, part)).collect()
}

/// What all programs leave of a name: `ytnef` has other marks, and `tnef` another charset.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect()
}

/// The type of a file with this name.
fn type_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "doc" => "application/msword",
        "htm" => "text/html",
        "jpg" => "image/jpeg",
        "mp3" => "audio/mp3",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "txt" => "text/plain",
        _ => "application/octet-stream",
    }
}

/// HTML without elements and entities.
fn shown(html: &str) -> String {
    let (mut out, mut rest) = (String::new(), html);
    while let Some(at) = rest.find(['<', '&']) {
        let (text, mark) = rest.split_at(at);
        out.push_str(text);
        out.push(' ');
        let end = if mark.starts_with('<') { '>' } else { ';' };
        rest = mark.split_once(end).map_or("", |(_, after)| after);
    }
    out + rest
}

/// Each file that a program extracts is a part of the mail.
fn assert_in_mail(program: &str, path: &Path, mime: &[u8], theirs: &BTreeMap<String, Vec<u8>>) {
    let leaves = leaves(mime);
    // `ytnef` writes a meeting as a file of its own.
    for (name, file) in theirs.iter().filter(|(name, _)| *name != "calendar.ics") {
        let found = leaves.iter().find(|leaf| leaf.is(name, file));
        let media = found.map(|leaf| leaf.media.as_str());
        assert_eq!(media, Some(type_of(name)), "{program} {}: {name}", path.display());
    }
    if program == "tnef" {
        let files = leaves.iter().filter(|leaf| leaf.name.is_some()).count();
        assert_eq!(files, theirs.len(), "{}: files of the mail, and of tnef", path.display());
    }
}

/// Reads each sample that a program reads, and finds its files. Answers with the number of samples
/// and of files.
fn compare_with(program: &str) -> (usize, usize) {
    let (mut read, mut files) = (0, 0);
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a file");
        let ours = decode(&bytes);
        // Damaged ones are among them. Where the program gives up, we may read more, or say why
        // not.
        let Some(theirs) = extracted(program, &[], &path) else { continue };
        let message = match ours {
            Ok(message) => message,
            // `ytnef` goes on after a wrong checksum, with what it has by then.
            Err(_) if program == "ytnef" && theirs.is_empty() => continue,
            Err(why) => panic!("{}: {why}", path.display()),
        };
        // `ytnef` writes a meeting as a file of its own.
        for (name, file) in theirs.iter().filter(|(name, file)| !file.is_empty() && *name != "calendar.ics") {
            assert!(has(&message, file), "{program} {}: {name} is missing", path.display());
            files += 1;
        }
        let Some(mime) = mail_of(&bytes) else { panic!("{}: it stays as it is", path.display()) };
        assert_in_mail(program, &path, &mime, &theirs);
        read += 1;
    }
    (read, files)
}

#[test]
fn tnef_of_debian_finds_no_other_files() {
    if client_tests_wanted() {
        let (read, files) = compare_with("tnef");
        assert!(read >= 16 && files >= 20, "{read} samples, {files} files");
    }
}

#[test]
fn ytnef_finds_no_other_files() {
    if client_tests_wanted() {
        let (read, files) = compare_with("ytnef");
        assert!(read >= 16 && files >= 17, "{read} samples, {files} files");
    }
}

/// HTML is that of `tnef`. Its RTF has the words of our text, in the same order.
#[test]
fn the_text_is_that_of_tnef() {
    if !client_tests_wanted() {
        return;
    }
    let (mut pages, mut words) = (0, 0);
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a file");
        let Some(theirs) = extracted("tnef", &["--save-body"], &path) else { continue };
        let (Ok(message), Some(mime)) = (decode(&bytes), mail_of(&bytes)) else { continue };
        let leaves = leaves(&mime);
        let of_type = |media: &str| leaves.iter().find(|leaf| leaf.media == media && leaf.name.is_none());
        if let Some(page) = theirs.get("message.html") {
            let ours = of_type("text/html").unwrap_or_else(|| panic!("{}: no HTML", path.display()));
            let lines = |bytes: &[u8]| bytes.iter().copied().filter(|b| *b != b'\r').collect::<Vec<u8>>();
            assert!(lines(&ours.bytes) == lines(page), "{}", path.display());
            pages += 1;
        }
        let Some(theirs) = theirs.get("message.rtf") else { continue };
        let compressed = message.property(property::RTF_COMPRESSED).and_then(Value::bytes);
        let ours = rtf::decompress(compressed.expect("RTF"), 1 << 20).expect("RTF");
        assert!(ours == *theirs, "{}", path.display());
        let text = of_type("text/html").or_else(|| of_type("text/plain")).map(Leaf::words);
        let text = text.unwrap_or_else(|| panic!("{}: no text", path.display()));
        let mut rest = String::from_utf8_lossy(&ours).into_owned();
        for part in text.split_whitespace().filter(|part| part.is_ascii()) {
            for word in part.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
                let at = rest.find(word);
                let at = at.unwrap_or_else(|| panic!("{}: {word} is missing", path.display()));
                rest.drain(..at + word.len());
                words += 1;
            }
        }
    }
    assert!(pages >= 3 && words >= 500, "{pages} with HTML, {words} words");
}

/// TNEF to a model and back, and its mail to TNEF and back: byte for byte.
#[test]
fn all_samples_go_there_and_back() {
    if !client_tests_wanted() {
        return;
    }
    let mut mails = 0;
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a file");
        let Ok(message) = decode(&bytes) else { continue };
        let again = encode(&message).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        assert!(decode(&again).as_ref() == Ok(&message), "{}", path.display());
        let Some(mime) = mail_of(&bytes) else { continue };
        let rich = enrich(&mime).unwrap_or_else(|| panic!("{}: no rich form", path.display()));
        assert!(restore(&rich, mime.len()).as_ref() == Ok(&mime), "{}", path.display());
        mails += 1;
    }
    assert!(mails >= 16, "{mails} mails");
}

/// The files that `ytnef` ships as those of its samples.
#[test]
fn the_files_that_ytnef_expects_are_found() {
    let Ok(results) = std::fs::read_dir(fetched().join("ytnef-2.0/test-data/results")) else { return };
    let messages: Vec<Message> =
        samples().iter().filter_map(|path| decode(&std::fs::read(path).expect("a file")).ok()).collect();
    let mut files = 0;
    for entry in results {
        let path = entry.expect("an entry").path();
        let file = std::fs::read(&path).expect("a file");
        assert!(messages.iter().any(|message| has(message, &file)), "{}", path.display());
        files += 1;
    }
    assert_eq!(files, 9);
}
