//! Rich mail as clients of others read it, in each format.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use posthaste_testkit::{Mbsync, Server, client_tests_wanted, run_client, run_python};
use posthaste_tnef::samples;

use crate::{ANA, BEN, CYD, PASSWORD, send, server};

/// An account of each format, with these messages, delivered by LMTP.
pub(crate) fn three_formats(messages: &[Vec<u8>]) -> Server {
    let server = server();
    let added = server.command(&["account", "add", CYD, "--format", "rich", "--password-stdin"], PASSWORD);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    for message in messages {
        send(&server, "lmtp", &[ANA, BEN, CYD], message);
    }
    server
}

/// A note, a meeting and a plain message.
fn ours() -> Vec<Vec<u8>> {
    let plain = b"From: a@x.example\r\nSubject: Plain\r\n\r\nplain\r\n".to_vec();
    let meeting = samples::mail(&samples::meeting("IPM.Schedule.Meeting.Request"));
    vec![samples::mail(&samples::note()), meeting, plain]
}

/// mbsync and NeoMutt see the same messages in each format.
#[test]
fn mbsync_and_neomutt_read_every_format() {
    if client_tests_wanted() {
        read_by_mbsync_and_neomutt(&three_formats(&ours()), "logo@x.example");
    }
}

/// The same for mail of Microsoft's programs.
#[test]
fn mbsync_and_neomutt_read_mail_of_others_in_every_format() {
    if client_tests_wanted() {
        let mail: Vec<_> = FOREIGN.map(foreign).to_vec();
        read_by_mbsync_and_neomutt(&three_formats(&mail), "THE BILL OF RIGHTS");
    }
}

/// Three messages are read, and NeoMutt copies the first one, which has these words.
fn read_by_mbsync_and_neomutt(server: &Server, words: &str) {
    let dir = tempfile::tempdir().unwrap();
    let imap = server.address("imap");
    let expected = server.mail(ANA, PASSWORD, "INBOX", 3);
    for (user, name) in [(ANA, "ana"), (BEN, "ben"), (CYD, "cyd")] {
        assert!(server.mail(user, PASSWORD, "INBOX", 3) == expected, "{user}");
        let home = dir.path().join(name);
        std::fs::create_dir(&home).unwrap();
        let mirror = Mbsync::new(&home, imap, user, PASSWORD, "INBOX");
        mirror.run();
        let files: Vec<_> = mirror.files("INBOX").iter().map(|file| std::fs::read(file).unwrap()).collect();
        assert_eq!(files.len(), 3, "{user}");
        for text in &files {
            // mbsync adds a field of its own.
            let lines = |text: &[u8]| {
                let text = String::from_utf8_lossy(text);
                let own = |line: &&str| !line.starts_with("X-TUID:");
                text.lines().filter(own).map(str::to_owned).collect::<Vec<_>>()
            };
            let is_it = |bytes: &Vec<u8>| lines(bytes) == lines(text);
            assert!(expected.iter().any(is_it), "{user}: {}", String::from_utf8_lossy(text));
        }
        let (rc, copied) = (home.join("muttrc"), home.join("copied.mbox"));
        let settings = format!(
            "set imap_user=\"{user}\"\nset imap_pass=\"{PASSWORD}\"\nset ssl_starttls=no\nset ssl_force_tls=no\n\
             set confirmappend=no\nset confirmcreate=no\nset quit=yes\nset mbox_type=mbox\nset move=no\n\
             set wait_key=no\nset imap_idle=no\nset sort=mailbox-order\nset auto_tag=no\nset header_cache=\"\"\n\
             set folder=\"imap://127.0.0.1:{}/\"\n",
            imap.port()
        );
        std::fs::write(&rc, settings).unwrap();
        let folder = format!("imap://127.0.0.1:{}/INBOX", imap.port());
        let keys = format!("<first-entry><copy-message><kill-line>{}<enter><quit>", copied.display());
        let script = include_str!("../clients/neomutt_round.py");
        let said = run_python(script, &[&folder, rc.to_str().unwrap(), &keys]);
        let copied = std::fs::read(&copied).unwrap_or_else(|e| panic!("{e}\n{said}"));
        let copied = String::from_utf8_lossy(&copied);
        assert!(copied.contains(words) && !copied.contains("ms-tnef"), "{user}: {copied}");
    }
}

/// Python reads a note and a meeting right, by its own IMAP and MIME, in each format.
#[test]
fn python_reads_every_format() {
    if !client_tests_wanted() {
        return;
    }
    let server = three_formats(&ours());
    let script = r#"
import email, email.policy, imaplib, sys
client = imaplib.IMAP4("127.0.0.1", int(sys.argv[1]))
client.login(sys.argv[2], sys.argv[3])
client.select("INBOX", readonly=True)
def read(number):
    raw = client.fetch(str(number), "(BODY.PEEK[])")[1][0][1]
    return email.message_from_bytes(raw, policy=email.policy.default)
note = read(1)
assert not any(part.defects for part in note.walk()), [part.defects for part in note.walk()]
assert note.get_body(("plain",)).get_content().strip() == "Grüße, bold &"
assert "<b>bold</b> &amp;" in note.get_body(("html",)).get_content()
files = [(part.get_filename(), part.get_content_type()) for part in note.iter_attachments()]
assert files == [("Prüfung – n° 1.bin", "application/octet-stream"), ("Inner.eml", "message/rfc822")], files
inner = list(note.iter_attachments())[1].get_content()
assert inner["subject"] == "Inner" and inner["from"].addresses[0].display_name == "Émile"
meeting = read(2)
calendar = [part for part in meeting.walk() if part.get_content_type() == "text/calendar"]
assert calendar[0].get_param("method") == "REQUEST"
text = calendar[0].get_content()
assert "\nDTSTART:20231114T221320Z" in text and "mailto:ana@y.example" in text.replace("\r", "").replace("\n ", ""), text
print("read")
"#;
    let port = server.address("imap").port().to_string();
    for user in [ANA, BEN, CYD] {
        assert_eq!(run_python(script, &[&port, user, PASSWORD]).trim(), "read", "{user}");
    }
}

/// Values that `icalendar` and `vobject` read from a request, a series, a contact and a foreign
/// meeting. Then of an answer, a counter-proposal, the cancellation of one occurrence, whole
/// days, and a series with a changed occurrence. The arguments are a port, a user, a password,
/// and the calendar that `ytnef` makes of the foreign meeting.
const CALENDARS_AND_CARDS: &str = r#"
import datetime, email, email.policy, icalendar, imaplib, sys, vobject
client = imaplib.IMAP4("127.0.0.1", int(sys.argv[1]))
client.login(sys.argv[2], sys.argv[3])
client.select("INBOX", readonly=True)
def text(number, media):
    raw = client.fetch(str(number), "(BODY.PEEK[])")[1][0][1]
    parts = email.message_from_bytes(raw, policy=email.policy.default).walk()
    return next(part.get_content() for part in parts if part.get_content_type() == media)
def event(calendar):
    found = icalendar.Calendar.from_ical(calendar)
    assert len(found.walk("VEVENT")) == 1 and not found.walk("VEVENT")[0].errors
    return found, found.walk("VEVENT")[0]
utc = datetime.timezone.utc
meeting = text(1, "text/calendar")
found, event1 = event(meeting)
assert found["METHOD"] == "REQUEST" and found["VERSION"] == "2.0"
assert event1["DTSTART"].dt == datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=utc)
assert event1["DTEND"].dt - event1["DTSTART"].dt == datetime.timedelta(hours=1)
assert event1["UID"].startswith("040000008200E00074C5B7101A82E008") and event1["SEQUENCE"] == 2
assert (event1["SUMMARY"], event1["LOCATION"]) == ("Plans; next, year", "Room 1")
assert event1["DESCRIPTION"].strip() == "Bring tea"
assert event1["ORGANIZER"] == "mailto:sender@x.example"
assert [(person, person.params["CN"], person.params["ROLE"]) for person in event1["ATTENDEE"]] == [
    ("mailto:ana@y.example", "Ana", "REQ-PARTICIPANT"), ("mailto:ben@y.example", "Ben 'B'", "OPT-PARTICIPANT")]
assert found.walk("VALARM")[0]["TRIGGER"].dt == datetime.timedelta(minutes=-15)
other = vobject.readOne(meeting).vevent
assert (other.dtstart.value, other.summary.value) == (event1["DTSTART"].dt, event1["SUMMARY"])
series = vobject.readOne(text(2, "text/calendar")).vevent
days = [datetime.datetime(2023, 11, day, 8, tzinfo=utc) for day in (14, 16, 28)]
assert list(series.getrruleset()) == days, list(series.getrruleset())
assert event(text(2, "text/calendar"))[1]["DTEND"].dt == days[0] + datetime.timedelta(minutes=90)
raw = client.fetch("3", "(BODY.PEEK[])")[1][0][1]
parts = email.message_from_bytes(raw, policy=email.policy.default).walk()
card = next(part for part in parts if part.get_content_type() == "text/vcard")
assert card.get_filename() == "contact.vcf"
card = vobject.readOne(card.get_content())
assert (card.fn.value, card.n.value.family, card.email.value) == ("Ana; B", "B", "ana@y.example")
assert (card.tel.value, card.tel.type_paramlist) == ("+1 2", ["CELL", "VOICE"])
assert (card.adr.value.city, card.adr.type_param) == ("Z", "WORK")
assert card.note.value == "notes"
ours, theirs = event(text(4, "text/calendar"))[1], event(open(sys.argv[4]).read())[1]
for name in ("DTSTART", "DTEND"):
    assert ours[name].dt == theirs[name].dt, name
for name in ("SUMMARY", "LOCATION", "DESCRIPTION"):
    assert ours[name].strip() == theirs[name].strip() != "", name
def parsed(number, method):
    calendar = text(number, "text/calendar")
    found, first = event(calendar)
    assert found["METHOD"] == method, found["METHOD"]
    assert first["UID"] == event1["UID"], first["UID"]
    other = vobject.readOne(calendar)
    assert other.method.value == method and other.vevent.dtstart.value == first["DTSTART"].dt
    return first
answer = parsed(5, "REPLY")
assert (answer["ORGANIZER"], answer["ATTENDEE"]) == ("mailto:ana@y.example", "mailto:sender@x.example")
assert answer["ATTENDEE"].params["PARTSTAT"] == "ACCEPTED" and "STATUS" not in answer
counter = parsed(6, "COUNTER")
assert counter["ATTENDEE"].params["PARTSTAT"] == "TENTATIVE"
assert counter["DTSTART"].dt == datetime.datetime(2023, 11, 15, 22, 13, 20, tzinfo=utc)
assert counter["DTEND"].dt - counter["DTSTART"].dt == datetime.timedelta(hours=1)
cancelled = parsed(7, "CANCEL")
assert cancelled["STATUS"] == "CANCELLED" and "RRULE" not in cancelled
assert cancelled["RECURRENCE-ID"].dt == days[0]
whole = parsed(8, "REQUEST")
assert [whole[name].dt for name in ("DTSTART", "DTEND")] == [datetime.date(2023, 11, day) for day in (15, 17)]
changed = icalendar.Calendar.from_ical(text(9, "text/calendar")).walk("VEVENT")
assert len(changed) == 2 and not any(one.errors for one in changed)
assert changed[0]["UID"] == changed[1]["UID"] and "RRULE" in changed[0] and "RRULE" not in changed[1]
assert changed[1]["RECURRENCE-ID"].dt == days[1] and changed[1]["SUMMARY"] == "Moved"
assert changed[1]["DTSTART"].dt == datetime.datetime(2023, 11, 17, 9, tzinfo=utc)
assert changed[1]["DTEND"].dt - changed[1]["DTSTART"].dt == datetime.timedelta(minutes=30)
series = vobject.readOne(text(9, "text/calendar")).vevent_list
assert list(series[0].getrruleset()) == days and series[1].summary.value == "Moved"
print("read")
"#;

/// Python's `icalendar` and `vobject` read all kinds of messages about meetings, and a contact.
/// For the meeting of another program, they read the same as from the output of `ytnef`.
#[test]
fn libraries_of_others_read_calendars_and_cards() {
    if !client_tests_wanted() {
        return;
    }
    let request = samples::meeting("IPM.Schedule.Meeting.Request");
    let rich = [request, samples::series(), samples::contact()];
    let more = [
        samples::meeting("IPM.Schedule.Meeting.Resp.Pos"),
        samples::counter_proposal(),
        samples::occurrence("IPM.Schedule.Meeting.Canceled"),
        samples::whole_days(),
        samples::changed_series(),
    ];
    let foreign = foreign("triples.tnef");
    let mail: Vec<_> =
        rich.iter().map(samples::mail).chain([foreign]).chain(more.iter().map(samples::mail)).collect();
    let server = three_formats(&mail);
    let dir = tempfile::tempdir().unwrap();
    let mut ytnef = Command::new("ytnef");
    ytnef.arg("-f").arg(dir.path()).arg(sample("triples.tnef"));
    run_client(ytnef);
    let port = server.address("imap").port().to_string();
    let theirs = dir.path().join("calendar.ics");
    for user in [ANA, BEN, CYD] {
        // Debian's own interpreter, which has its packages.
        let mut python = Command::new("/usr/bin/python3");
        python.arg("-c").arg(CALENDARS_AND_CARDS).args([&port, user, PASSWORD]).arg(&theirs);
        assert_eq!(run_client(python).trim(), "read", "{user}");
    }
}

/// Python finds the text of each message of others, and the files that Debian's `tnef` finds.
#[test]
fn python_reads_mail_of_others_in_every_format() {
    if !client_tests_wanted() {
        return;
    }
    let mail: Vec<_> = FOREIGN.iter().map(|name| foreign(name)).collect();
    let server = three_formats(&mail);
    let dir = tempfile::tempdir().unwrap();
    for (place, name) in FOREIGN.iter().enumerate() {
        let out = dir.path().join((place + 1).to_string());
        std::fs::create_dir(&out).unwrap();
        let mut tnef = Command::new("tnef");
        run_client({
            tnef.arg("-f").arg(sample(name)).arg("-C").arg(&out);
            tnef
        });
    }
    let script = r#"
import email, email.policy, imaplib, os, sys
client = imaplib.IMAP4("127.0.0.1", int(sys.argv[1]))
client.login(sys.argv[2], sys.argv[3])
client.select("INBOX", readonly=True)
texts = ["THE BILL OF RIGHTS", None, None]
for number, text in enumerate(texts, 1):
    raw = client.fetch(str(number), "(BODY.PEEK[])")[1][0][1]
    message = email.message_from_bytes(raw, policy=email.policy.default)
    parts = [part for part in message.walk() if not part.is_multipart()]
    assert not any(part.defects for part in message.walk()), number
    assert not any("tnef" in part.get_content_type() for part in parts), number
    if text:
        assert text in message.get_body(("html",)).get_content(), number
    files = {part.get_filename(): part.get_payload(decode=True) for part in parts if part.get_filename()}
    folder = os.path.join(sys.argv[4], str(number))
    for name in os.listdir(folder):
        expected = open(os.path.join(folder, name), "rb").read()
        assert expected in files.values(), (number, name, list(files))
    print(number, sorted(files), len(os.listdir(folder)))
"#;
    let port = server.address("imap").port().to_string();
    let mut all = Vec::new();
    for user in [ANA, BEN, CYD] {
        all.push(run_python(script, &[&port, user, PASSWORD, dir.path().to_str().unwrap()]));
    }
    assert!(all.iter().all(|said| *said == all[0]), "{all:?}");
    for file in ["'AUTHORS'", "'README'", "UmlautAnhang-\u{e4}\u{fc}\u{f6}.txt"] {
        assert!(all[0].contains(file), "{file}: {}", all[0]);
    }
}

/// Samples with which Python's `tnefparse` tests itself: HTML, files, and names in other letters.
const FOREIGN: [&str; 3] = ["body.tnef", "two-files.tnef", "umlaut.tnef"];

fn sample(name: &str) -> PathBuf {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&std::env::var_os("HOME").unwrap()).join(".cache"),
    };
    cache.join("posthaste/tnefparse-1.4.0/tests/examples").join(name)
}

/// A message with such a sample. Without it the test fails.
pub(crate) fn foreign(name: &str) -> Vec<u8> {
    let path = sample(name);
    let tnef = std::fs::read(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; scripts/test fetches the samples", path.display()));
    let mut out = format!(
        "From: Sender <sender@x.example>\r\nTo: ana@y.example\r\nSubject: {name}\r\nDate: Tue, 14 Nov 2023 22:13:20 \
         +0000\r\nMessage-ID: <{name}@x.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; \
         boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\ntext\r\n--b\r\nContent-Type: \
         application/ms-tnef; name=\"winmail.dat\"\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    );
    for chunk in tnef.chunks(57) {
        out += &base64::engine::general_purpose::STANDARD.encode(chunk);
        out += "\r\n";
    }
    out += "--b--\r\n";
    out.into_bytes()
}
