//! TNEF that programs of others wrote: the samples with which Python's `tnefparse` tests itself.
//! `scripts/test` fetches them. Debian's `tnef` extracts the same files as our decoder. The test
//! says so and passes if one of both is not here, or if POSTHASTE_TEST_CLIENTS is `no`.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::client_tests_wanted;
use posthaste_tnef::tags::{attribute, property};
use posthaste_tnef::{Attachment, Content, Message, Outcome, Value, convert, decode};

/// The folder with the samples.
fn folder() -> Option<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&std::env::var_os("HOME")?).join(".cache"),
    };
    let folder = cache.join("posthaste/tnefparse-1.4.0/tests/examples");
    folder.is_dir().then_some(folder)
}

/// The files that Debian's `tnef` extracts; `None` if it refuses the bytes.
fn extracted(sample: &Path) -> Option<Vec<Vec<u8>>> {
    let out = tempfile::tempdir().expect("a folder");
    let run = Command::new("tnef").arg("-f").arg(sample).arg("-C").arg(out.path()).output();
    if !run.expect("tnef runs").status.success() {
        return None;
    }
    let entries = std::fs::read_dir(out.path()).expect("a folder");
    Some(entries.map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file")).collect())
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

#[test]
fn samples_of_others_are_read() {
    let Some(folder) = folder().filter(|_| client_tests_wanted()) else {
        eprintln!("SKIPPED: there are no samples (scripts/test fetches them)");
        return;
    };
    if Command::new("tnef").arg("--version").output().is_err() {
        eprintln!("SKIPPED: tnef is not installed (scripts/test installs it)");
        return;
    }
    let (mut read, mut files) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file");
        let ours = decode(&bytes);
        // Damaged ones are among them. Where `tnef` gives up, we may read more, or say why not.
        let Some(theirs) = extracted(&path) else { continue };
        let message = ours.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        for file in theirs.iter().filter(|file| !file.is_empty()) {
            assert!(has(&message, file), "{}: a file of {} bytes is missing", path.display(), file.len());
            files += 1;
        }
        let head = b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
        let mime = convert(&[&head[..], &bytes].concat());
        assert!(matches!(mime, Ok(Outcome::Converted(_))), "{}: {mime:?}", path.display());
        read += 1;
    }
    assert!(read >= 10 && files >= 10, "{read} samples, {files} files");
}
