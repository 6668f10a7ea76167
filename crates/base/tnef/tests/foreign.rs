//! TNEF that programs of others wrote: the samples with which Python's `tnefparse` tests itself,
//! and those of `ytnef` and of Perl's `Convert::TNEF`. Debian's `tnef` and `ytnef` extract the same
//! files as our decoder. `scripts/test` fetches the samples and installs the programs; without
//! them the test fails. It is passed over only if POSTHASTE_TEST_CLIENTS is `no`. The samples of
//! `ytnef` and Perl are in Debian's source packages. Where those cannot be fetched, they are left
//! out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::client_tests_wanted;
use posthaste_tnef::tags::{attribute, property};
use posthaste_tnef::{Attachment, Content, Message, Outcome, Value, convert, decode};

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
fn extracted(program: &str, sample: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
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

/// Reads each sample that a program reads, and finds its files. Answers with the number of samples
/// and of files.
fn compare_with(program: &str) -> (usize, usize) {
    let (mut read, mut files) = (0, 0);
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a file");
        let ours = decode(&bytes);
        // Damaged ones are among them. Where the program gives up, we may read more, or say why
        // not.
        let Some(theirs) = extracted(program, &path) else { continue };
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
        let head = b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
        let mime = convert(&[&head[..], &bytes].concat());
        assert!(matches!(mime, Ok(Outcome::Converted(_))), "{}: {mime:?}", path.display());
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
