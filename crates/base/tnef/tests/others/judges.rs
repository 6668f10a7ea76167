//! Other people's decoders read what our encoder writes: Debian's `tnef` and `ytnef`. A test fails
//! if its program is not installed (`scripts/test` installs it). It is passed over only if
//! POSTHASTE_TEST_CLIENTS is `no`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use posthaste_testkit::client_tests_wanted;
use posthaste_tnef::samples::{self, FILE, FILE_NAME, IMAGE};
use posthaste_tnef::tags::{attribute, property};
use posthaste_tnef::{Attribute, Message, encode, rtf};

/// A message whose attachments have names in ASCII, which every decoder reads, and all byte values.
fn message() -> Message {
    let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let mut message = samples::note();
    message.attachments.truncate(1);
    message.attachments.extend([
        samples::file("every byte.bin", &all),
        samples::file("file.bin", FILE),
        samples::file("empty.txt", b""),
        samples::file(FILE_NAME, FILE),
    ]);
    let body = Attribute { id: attribute::BODY, data: b"plain\0".to_vec() };
    message.attributes.push(body);
    message
}

/// Files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read(entry.path()).expect("a file"))
    };
    entries.map(read).collect()
}

/// Runs a decoder over our bytes, in a folder that it fills. `None` if it is not wanted.
fn extracted(program: &str, arguments: &[&str]) -> Option<BTreeMap<String, Vec<u8>>> {
    if !client_tests_wanted() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("winmail.dat");
    std::fs::write(&input, encode(&message()).expect("valid")).expect("a file");
    let out = folder.path().join("out");
    std::fs::create_dir(&out).expect("a folder");
    let output = Command::new(program).args(arguments).arg(&input).current_dir(&out).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}; scripts/test installs it"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(files(&out))
}

fn expect_files(found: &BTreeMap<String, Vec<u8>>, program: &str) {
    let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    for (name, bytes) in [("logo.png", IMAGE), ("every byte.bin", &all), ("file.bin", FILE)] {
        // In the locale C, `tnef` escapes spaces; `ytnef` writes underscores for them.
        let is_name = |found: &str| found.replace("%20", " ") == name || found == name.replace(' ', "_");
        let same = |(found, content): (&String, &Vec<u8>)| is_name(found) && content == bytes;
        assert!(found.iter().any(same), "{program}: {name} among {:?}", found.keys());
    }
}

#[test]
fn tnef_of_debian_extracts_every_byte() {
    let arguments = ["--save-body", "--unix-paths", "-f"];
    let Some(found) = extracted("tnef", &arguments) else { return };
    expect_files(&found, "tnef");
    assert_eq!(found.get("empty.txt").map(Vec::as_slice), Some(&b""[..]), "{:?}", found.keys());
    // The file whose name is not ASCII is there too, under whatever name.
    assert_eq!(found.values().filter(|content| *content == FILE).count(), 2);
    // It decompresses our RTF to what we compressed.
    let text = found.iter().find(|(name, _)| name.ends_with(".rtf")).map(|(_, content)| content.clone());
    let expected = rtf::wrap_html(samples::HTML);
    assert_eq!(
        text.map(|text| String::from_utf8_lossy(&text).into_owned()),
        Some(String::from_utf8_lossy(&expected).into_owned())
    );
}

#[test]
fn ytnef_extracts_every_byte() {
    let Some(found) = extracted("ytnef", &["-f", "."]) else { return };
    expect_files(&found, "ytnef");
}

/// The message has everything that the judges should find.
#[test]
fn the_message_is_what_it_says() {
    let message = message();
    assert_eq!(message.attachments.len(), 5);
    assert!(message.property(property::RTF_COMPRESSED).is_some());
}
