//! Readers on files as programs write them, and on files nobody should have written.

use std::fs;
use std::io::{self, BufReader, Read};
use std::process::Command;

use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use super::*;
use crate::format::{is_quotable, lines};

/// Keeps everything.
#[derive(Default)]
struct CollectedMessages {
    found: Vec<ImportedMessage>,
    faults: Vec<Fault>,
}

impl Sink for CollectedMessages {
    fn message(&mut self, found: ImportedMessage) -> ControlFlow<()> {
        self.found.push(found);
        ControlFlow::Continue(())
    }
    fn fault(&mut self, fault: Fault) -> ControlFlow<()> {
        self.faults.push(fault);
        ControlFlow::Continue(())
    }
}

const LIMIT: u64 = 1 << 20;

fn mbox(file: &[u8]) -> CollectedMessages {
    let mut kept = CollectedMessages::default();
    let path = Arc::from(Path::new("test.mbox"));
    // A small buffer, so that lines fall across its ends.
    let mut input = BufReader::with_capacity(7, file);
    let peek = peek(file);
    let source = mbox::Source { path: &path, mailbox: "", peek: &peek };
    assert!(mbox::read(&mut input, &source, LIMIT, &mut kept).is_continue());
    kept
}

/// Reads at an offset, as of a file.
fn peek(file: &[u8]) -> impl Fn(u64, &mut [u8]) -> io::Result<usize> {
    move |at, out| file.get(usize::try_from(at).unwrap()..).unwrap_or_default().read(out)
}

fn texts(kept: &CollectedMessages) -> Vec<&str> {
    kept.found.iter().map(|found| std::str::from_utf8(&found.bytes).unwrap()).collect()
}

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn read_tree(dir: &tempfile::TempDir) -> (Vec<(String, String)>, Vec<String>) {
    let mut kept = CollectedMessages::default();
    read(dir.path(), LIMIT, &mut kept).unwrap();
    let found = kept.found.iter().map(|f| (f.mailbox.clone(), String::from_utf8(f.bytes.clone()).unwrap()));
    (found.collect(), kept.faults.iter().map(ToString::to_string).collect())
}

const FROM: &str = "From ben@example.net Tue Nov 14 22:13:20 2023\n";

#[test]
fn messages_of_an_mbox() {
    let file = format!(
        "{FROM}A: 1\n\none\n\n{FROM}B: 2\n\n>From two\n>>From\n>>From two\n> From\n\n\n{FROM}C: 3\n\nFrom here on\n"
    );
    let kept = mbox(file.as_bytes());
    assert_eq!(
        texts(&kept),
        [
            "A: 1\r\n\r\none\r\n",
            "B: 2\r\n\r\nFrom two\r\n>>From\r\n>From two\r\n> From\r\n\r\n",
            "C: 3\r\n\r\nFrom here on\r\n"
        ]
    );
    assert!(kept.found.iter().all(|found| found.date == Some(1_700_000_000)));
    assert_eq!(kept.found[1].origin.offset, (FROM.len() + "A: 1\n\none\n\n".len()) as u64);
}

#[test]
fn an_mbox_with_crlf_without_an_end_or_without_a_beginning() {
    let file = format!("{FROM}A: 1\n\none\n\n{FROM}B: 2\n\ntwo\n\n").replace('\n', "\r\n");
    assert_eq!(texts(&mbox(file.as_bytes())), ["A: 1\r\n\r\none\r\n", "B: 2\r\n\r\ntwo\r\n"]);
    assert_eq!(texts(&mbox(format!("{FROM}A: 1\n\nno end").as_bytes())), ["A: 1\r\n\r\nno end"]);
    let headless = format!("\nlost: its first line\n\nx\n\n{FROM}A: 1\n\n");
    assert_eq!(texts(&mbox(headless.as_bytes())), ["lost: its first line\r\n\r\nx\r\n", "A: 1\r\n"]);
    assert_eq!(texts(&mbox(b"From nobody, never\nA: 1\n\nx\n")), ["A: 1\r\n\r\nx\r\n"]);
    let dated = mbox(b"From nobody, never\nDate: Tue, 14 Nov 2023 22:13:20 +0000\n\nx\n");
    assert_eq!(dated.found[0].date, Some(1_700_000_000));
    assert_eq!(texts(&mbox(format!("{FROM}{FROM}").as_bytes())), [FROM.replace('\n', "\r\n").as_str()]);
    assert!(mbox(b"").found.is_empty() && mbox(b"\n\n\n").found.is_empty());
    assert_eq!(texts(&mbox(FROM.as_bytes())), [""]);
}

#[test]
fn a_content_length_counts_where_a_message_ends_there() {
    // As Dovecot and mutt write: nothing is quoted, and a message has another inside.
    let body = format!("one\n\n{FROM}no: header\n\nstill one\n");
    let wire = |body: &str| body.replace('\n', "\r\n");
    for end in ["", "\n", "\n\n"] {
        let len = body.len();
        let file = format!(
            "{FROM}content-length: {len}\n\n{body}\n{FROM}A: 2\nContent-Length: {len}\n\n{body}{end}"
        );
        let kept = mbox(file.as_bytes());
        let read: Vec<&str> =
            texts(&kept).iter().map(|text| text.split_once("\r\n\r\n").unwrap().1).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], wire(&body));
        assert_eq!(read[1].trim_end(), wire(&body).trim_end());
    }
    // One that is wrong, in any way, changes nothing.
    for wrong in ["0", "3", "17", "5000", "18446744073709551615", "99999999999999999999", "-1", "x", ""] {
        let file =
            format!("{FROM}Content-Length: {wrong}\n\none\n\n{FROM}A: 2\n\ntwo\n\n{FROM}A: 3\n\nthree\n");
        let kept = mbox(file.as_bytes());
        let read: Vec<&str> =
            texts(&kept).iter().map(|text| text.split_once("\r\n\r\n").unwrap().1).collect();
        assert_eq!(read, ["one\r\n", "two\r\n", "three\r\n"], "{wrong}");
    }
}

#[test]
fn a_senders_own_fields_swallow_and_delete_nothing() {
    let from = "From - Tue Nov 14 22:13:20 2023\n";
    let later = format!("{from}Status: O\nA: 2\n\ntwo\n\n");
    let body = format!("one\n\n{later}");
    // The length reaches to the end of a later message.
    let own = format!("Received: x\nContent-Length: {}\nX-Status: D\n", body.len() - 1);
    let file = format!("{from}Status: O\n{own}\n{body}{from}Status: O\nA: 3\n\nthree\n\n");
    let kept = mbox(file.as_bytes());
    let first = format!("{own}\none\n").replace('\n', "\r\n");
    assert_eq!(texts(&kept), [first.as_str(), "A: 2\r\n\r\ntwo\r\n", "A: 3\r\n\r\nthree\r\n"]);
    assert!(kept.found.iter().all(|found| found.flags.is_empty()));

    let notes = "Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\n\ntext\n\n";
    assert_eq!(mbox(format!("{from}Status: O\n{notes}").as_bytes()).found.len(), 1);

    let dir = tree(&[("a.eml", "X-Status: DF\nA: 1\n\n")]);
    let mut kept = CollectedMessages::default();
    read(dir.path(), LIMIT, &mut kept).unwrap();
    assert_eq!(kept.found[0].flags, [Flag::Flagged]);
}

#[test]
fn a_line_without_end_and_a_message_over_the_limit() {
    let long = "x".repeat(500_000);
    let larger = "y".repeat(3_000_000);
    let file = format!("{FROM}A: 1\n\n{long}\n\n{FROM}B: 2\n\n{larger}\n\n{FROM}C: 3\n\n>From{long}\n\n");
    let kept = mbox(file.as_bytes());
    assert_eq!(texts(&kept), [format!("A: 1\r\n\r\n{long}\r\n"), format!("C: 3\r\n\r\n>From{long}\r\n")]);
    assert_eq!(kept.faults.len(), 1);
    assert!(kept.faults[0].why.contains("3000008 octets") && kept.faults[0].origin.offset > 500_000);
}

/// A disk that fails in the middle of the second message.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out)? {
            0 => Err(io::Error::other("bad sector")),
            n => Ok(n),
        }
    }
}

#[test]
fn a_failing_disk_costs_no_more_than_it_must() {
    let file = format!("{FROM}A: 1\n\none\n\n{FROM}B: 2\n\ntw");
    let mut kept = CollectedMessages::default();
    let path = Arc::from(Path::new("test.mbox"));
    let mut input = BufReader::new(Failing(file.as_bytes()));
    let peek = peek(file.as_bytes());
    let source = mbox::Source { path: &path, mailbox: "", peek: &peek };
    let _ = mbox::read(&mut input, &source, LIMIT, &mut kept);
    assert_eq!(texts(&kept), ["A: 1\r\n\r\none\r\n", "B: 2\r\n\r\ntw"]);
    assert_eq!(kept.faults[0].why, "bad sector");
}

#[test]
fn the_folders_own_notes_are_no_message() {
    let notes = "Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\nX-IMAP: 1 2\n\ntext\n";
    let file = format!("{FROM}{notes}\n{FROM}{notes}\n");
    assert_eq!(mbox(file.as_bytes()).found.len(), 1, "only the first can be");
}

#[test]
fn maildirs_with_folders_of_both_kinds() {
    let dir = tree(&[
        ("cur/1700000002.b:2,S", "S: second\n\nx\n"),
        ("cur/1700000001.a:2,a", "S: first\n"),
        ("cur/.hidden", "no mail"),
        ("new/1700000003.c", "S: third\n"),
        ("dovecot-keywords", "0 $Label1\n"),
        ("dovecot.index.log", "no mail"),
        ("tmp/x", "half a message"),
        (".Archive.2024/cur/1.x:2,", "S: archive\n"),
        (".Archive.2024/new/.keep", ""),
        ("Lists/Rust/cur/1.x:2,", "S: rust\n"),
        ("Lists/Rust/new/.keep", ""),
    ]);
    let (found, faults) = read_tree(&dir);
    let pairs: Vec<(&str, &str)> = found.iter().map(|(m, t)| (m.as_str(), t.as_str())).collect();
    assert_eq!(
        pairs,
        [
            ("", "S: first\r\n"),
            ("", "S: second\r\n\r\nx\r\n"),
            ("", "S: third\r\n"),
            ("Archive/2024", "S: archive\r\n"),
            ("Lists/Rust", "S: rust\r\n"),
        ]
    );
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn folders_of_many_programs() {
    let one = &format!("{FROM}A: 1\n\n");
    let dir = tree(&[
        ("Inbox", one),
        ("Inbox.msf", "index"),
        ("Sent.sbd/2023", one),
        ("Apple.mbox/mbox", one),
        ("Apple.mbox/table_of_contents", "\0\0"),
        ("Saved/b.EML", "Date: Tue, 14 Nov 2023 22:13:20 +0000\nX: b\n\n"),
        ("Saved/a.eml", "X: a\r\n\r\n"),
        ("empty", ""),
        (".cache/mail", one),
    ]);
    let (found, faults) = read_tree(&dir);
    let names: Vec<&str> = found.iter().map(|(mailbox, _)| mailbox.as_str()).collect();
    assert_eq!(names, ["Apple", "Inbox", "Saved", "Saved", "Sent/2023"]);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("table_of_contents: passed over: it begins neither"), "{faults:?}");

    let mut kept = CollectedMessages::default();
    read(&dir.path().join("Saved/b.EML"), LIMIT, &mut kept).unwrap();
    assert_eq!(kept.found[0].date, Some(1_700_000_000));
}

#[test]
fn files_that_are_no_mail_are_reported_with_a_remedy() {
    let dir = tree(&[
        ("a.eml", &format!("{FROM}A: 1\n\n>From x\n\n{FROM}B: 2\n")),
        ("b.mbox.gz", "\u{1f}\u{8b}"),
        ("c", "A: message\n"),
        ("d.html", "<p>no mail"),
        ("e\u{1b}[2J\n.txt", "Dear Ana"),
        ("f.mbox", "\n\n"),
    ]);
    fs::write(dir.path().join("b.mbox.gz"), b"\x1f\x8b\x08").unwrap();
    let (found, faults) = read_tree(&dir);
    assert_eq!(found, [(String::new(), "A: 1\r\n\r\nFrom x\r\n".into()), (String::new(), "B: 2\r\n".into())]);
    let expected = [
        "/b.mbox.gz: passed over: it is compressed: unpack it first",
        "/c: skipped: let its name end in .eml if it is a message, or in .mbox if it is more",
        "/e\\u{1b}[2J\\n.txt: passed over: it begins neither with `From `",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    assert!(faults.iter().zip(expected).all(|(fault, end)| fault.contains(end)), "{faults:?}");

    // Named by itself, what cannot be read is an error, and what is a message is one by any name.
    let alone = |name: &str| {
        let mut kept = CollectedMessages::default();
        read(&dir.path().join(name), LIMIT, &mut kept).map(|()| kept.found.len()).map_err(|e| e.to_string())
    };
    assert_eq!((alone("c"), alone("a.eml"), alone("f.mbox")), (Ok(1), Ok(2), Ok(0)));
    assert!(alone("b.mbox.gz").unwrap_err().ends_with("b.mbox.gz: it is compressed: unpack it first"));
    assert!(alone("d.html").unwrap_err().contains("let its name end in .eml"));
    assert!(alone("nowhere").unwrap_err().contains("check the name"));
}

#[test]
fn a_maildir_whose_empty_folders_were_left_out() {
    let dir = tree(&[
        ("cur/1.x:2,S", "S: one\n"),
        (".Old/cur/1.x:2,S", "S: old\n"),
        (".New/new/1.x", "S: new\n"),
        (".New/tmp/.keep", ""),
    ]);
    let (found, faults) = read_tree(&dir);
    let names: Vec<&str> = found.iter().map(|(mailbox, _)| mailbox.as_str()).collect();
    assert_eq!((names, faults.len()), (vec!["", "New", "Old"], 0));
}

#[cfg(unix)]
#[test]
fn links_out_of_the_source_are_named_and_not_read() {
    use std::os::unix::fs::symlink;
    let outside = tree(&[
        ("secret", "S: of root\n"),
        ("box/cur/1.x:2,", "S: of root\n"),
        ("m", &format!("{FROM}S: 1\n\n")),
    ]);
    let dir = tree(&[("a/cur/1.x:2,", "S: own\n"), ("b/new/1.x", "S: own\n"), ("b/tmp/.keep", "")]);
    let secret = outside.path().join("secret");
    let links = [
        ("a/cur/2.x:2,", secret.clone()),
        ("a/.Sub", outside.path().join("box")),
        ("b/cur", outside.path().join("box/cur")),
        ("c.eml", secret.clone()),
        ("d.mbox", outside.path().join("m")),
        ("e", outside.path().join("box")),
        ("a/dovecot-keywords", secret),
    ];
    for (name, target) in &links {
        symlink(target, dir.path().join(name)).unwrap();
    }
    let (found, faults) = read_tree(&dir);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(faults.len(), links.len(), "{faults:?}");
    for (name, _) in &links {
        let named = format!("/{name}: it is a symbolic link");
        assert!(faults.iter().any(|fault| fault.contains(&named)), "{name}: {faults:?}");
    }
    // The source itself may be a link: the user has named it.
    let source = outside.path().join("source");
    symlink(dir.path().join("a"), &source).unwrap();
    let mut kept = CollectedMessages::default();
    read(&source, LIMIT, &mut kept).unwrap();
    assert_eq!(kept.found.len(), 1);
}

/// Puts links in place of folders when the first message is found: the walk has listed them.
struct Swapping<'a> {
    dir: &'a Path,
    outside: &'a Path,
    kept: CollectedMessages,
}

impl Sink for Swapping<'_> {
    fn message(&mut self, found: ImportedMessage) -> ControlFlow<()> {
        if self.kept.found.is_empty() {
            for folder in ["a/cur", "b", "c"] {
                let place = self.dir.join(folder);
                fs::rename(&place, self.outside.join(folder.replace('/', "-"))).unwrap();
                std::os::unix::fs::symlink(self.outside.join("box"), place).unwrap();
            }
        }
        self.kept.message(found)
    }
    fn fault(&mut self, fault: Fault) -> ControlFlow<()> {
        self.kept.fault(fault)
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_becomes_a_link_during_the_import_is_not_followed() {
    let root = "S: of root\n";
    let outside = tree(&[
        ("box/1", root),
        ("box/2", root),
        ("box/cur/1", root),
        ("box/x.eml", root),
        ("box/new/1", root),
    ]);
    let own = "S: own\n";
    let dir = tree(&[("a/cur/1", own), ("a/cur/2", own), ("b/cur/1", own), ("c/x.eml", own)]);
    let kept = CollectedMessages::default();
    let mut swapping = Swapping { dir: dir.path(), outside: outside.path(), kept };
    read(dir.path(), LIMIT, &mut swapping).unwrap();
    assert_eq!(texts(&swapping.kept), ["S: own\r\n", "S: own\r\n"]);
    let faults: Vec<_> = swapping.kept.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    for link in ["/b: it is a symbolic link", "/c: it is a symbolic link"] {
        assert!(faults.iter().any(|fault| fault.contains(link)), "{link}: {faults:?}");
    }
}

#[cfg(unix)]
#[test]
fn pipes_and_circles_are_no_mail() {
    let dir = tree(&[("a/cur/1.x:2,", "S: one\n"), ("a/new/.keep", "")]);
    std::os::unix::fs::symlink(dir.path(), dir.path().join("a/circle")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("a/cur/2.x:2,")).unwrap();
    // Opening a pipe into which nobody writes would wait for ever.
    for pipe in ["pipe", "pipe.eml", "a/cur/3.x:2,"] {
        assert!(Command::new("mkfifo").arg(dir.path().join(pipe)).status().unwrap().success());
    }
    std::os::unix::fs::symlink("nowhere", dir.path().join("gone.eml")).unwrap();
    let (found, faults) = read_tree(&dir);
    assert_eq!((found.len(), faults.len()), (1, 4));
    for link in ["a/circle: it is a symbolic link", "/zero: it is", "a/cur/2.x:2,: it is", "/gone.eml: it is"]
    {
        assert!(faults.iter().any(|fault| fault.contains(link)), "{link}: {faults:?}");
    }
    let error = read(Path::new("/dev/null"), LIMIT, &mut CollectedMessages::default()).unwrap_err();
    assert!(error.to_string().contains("neither a file nor a folder"));
}

#[test]
fn a_reader_stops_when_nobody_wants_more() {
    struct Once(usize);
    impl Sink for Once {
        fn message(&mut self, _: ImportedMessage) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Break(())
        }
        fn fault(&mut self, _: Fault) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let dir = tree(&[("a", &format!("{FROM}A: 1\n\n").repeat(5)), ("b", &format!("{FROM}A: 1\n\n"))]);
    let mut once = Once(0);
    read(dir.path(), LIMIT, &mut once).unwrap();
    assert_eq!(once.0, 1);
}

#[test]
fn names_that_no_mailbox_can_have() {
    let name = |base: Option<&str>, relative: &str| {
        mailbox_name(base.map(|b| MailboxName::new(b).unwrap()).as_ref(), relative).to_string()
    };
    assert_eq!(name(None, ""), "INBOX");
    assert_eq!(name(None, "inbox"), "INBOX");
    assert_eq!(name(Some("Old"), ""), "Old");
    assert_eq!(name(Some("Old"), "a/b"), "Old/a/b");
    assert_eq!(name(None, "50%/../a\u{7}*//b"), "50_/_/a__/b");
    assert_eq!(name(Some("Old"), &"x/".repeat(40)), "Old");
    assert_eq!(name(None, &"x".repeat(2000)), "INBOX");
}

fn quote(message: &str) -> String {
    lines(message.as_bytes())
        .map(|line| {
            format!("{}{}", if is_quotable(line) { ">" } else { "" }, std::str::from_utf8(line).unwrap())
        })
        .collect()
}

properties! {
    /// Any messages, written as mboxrd, are read back as they were.
    #[test]
    fn an_mbox_holds_any_messages(bodies in prop::collection::vec("(A: b\n)?((>{0,2}From |[a-z>]{0,3}|From x 10:30 2020)?\n){0,6}", 0..5)) {
        let file: String = bodies.iter().map(|body| format!("{FROM}{}\n", quote(body))).collect();
        let kept = mbox(file.as_bytes());
        let wire: Vec<String> = bodies.iter().map(|body| body.replace('\n', "\r\n")).collect();
        prop_assert_eq!(texts(&kept), wire);
    }

    /// Any bytes at all: nothing panics, and the messages together have no more octets than the
    /// file.
    #[test]
    fn an_mbox_may_hold_anything(pieces in prop::collection::vec(
        one_of![Just(FROM.to_owned()), Just("\n".to_owned()), "[\\PC\r\n\0]{0,20}", Just("Status: R\n".to_owned())],
        0..20,
    )) {
        let file = pieces.concat();
        let kept = mbox(file.as_bytes());
        let lines_read: usize = kept.found.iter().map(|f| lines(&f.bytes).count()).sum();
        prop_assert!(lines_read <= lines(file.as_bytes()).count());
    }
}
