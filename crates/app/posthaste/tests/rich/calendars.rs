//! The calendars and cards of rich mail, as ical.js reads them: the parser that Thunderbird uses.

use std::process::Command;

use posthaste_testkit::{client_library, client_tests_wanted, run_client, run_python};
use posthaste_tnef::tags::{named, property};
use posthaste_tnef::{Message, Property, Value, samples};

use crate::clients::{foreign, three_formats};
use crate::{ANA, BEN, CYD, PASSWORD};

/// Writes the calendar or card of each message in INBOX to a file, with the method that its part
/// declares. Arguments: a port, a user, a password, the file.
const TAKE_TEXTS: &str = r#"
import email, email.policy, imaplib, json, sys
port, user, password, file = sys.argv[1:]
client = imaplib.IMAP4("127.0.0.1", int(port))
client.login(user, password)
count = int(client.select("INBOX", readonly=True)[1][0])
found = []
for number in range(1, count + 1):
    raw = client.fetch(str(number), "(BODY.PEEK[])")[1][0][1]
    parts = email.message_from_bytes(raw, policy=email.policy.default).walk()
    texts = [part for part in parts if part.get_content_type() in ("text/calendar", "text/vcard")]
    assert len(texts) == 1, (number, len(texts))
    text = texts[0].get_payload(decode=True).decode(texts[0].get_content_charset())
    found.append({"declared": texts[0].get_param("method"), "text": text})
with open(file, "w") as out:
    json.dump(found, out)
"#;

/// A message with properties before its own, which count then.
fn with(mut message: Message, properties: Vec<Property>) -> Message {
    message.properties.splice(0..0, properties);
    message
}

/// The pattern of six meetings, on day 30 of each month from 2023-11-30 on: MS-OXOCAL §2.2.1.44.1.
fn on_day_30() -> Property {
    /// Minutes from 1601 to the first day.
    const FIRST: u32 = 222_429_600;
    const LAST: u32 = FIRST + 152 * 24 * 60;
    let versions_and_kind: [u16; 5] = [0x3004, 0x3004, 0x200C, 2, 0];
    let numbers: [u32; 15] =
        [0, 1, 0, 30, 0x2022, 6, 0, 0, 0, FIRST, LAST, 0x3006, 0x3009, 9 * 60, 10 * 60 + 30];
    let mut pattern: Vec<u8> = versions_and_kind.iter().flat_map(|n| n.to_le_bytes()).collect();
    pattern.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    Property::named(named::APPOINTMENT_RECUR, Value::Binary(pattern))
}

/// The messages that `calendars.js` expects, in its order.
fn meetings_a_task_and_a_contact() -> Vec<Message> {
    const REQUEST: &str = "IPM.Schedule.Meeting.Request";
    const CANCELLATION: &str = "IPM.Schedule.Meeting.Canceled";
    let cancelled = vec![samples::text(property::MESSAGE_CLASS, CANCELLATION)];
    let name = vec![samples::text(property::DISPLAY_NAME, "Ana B")];
    let whole_days = vec![Property::named(named::APPOINTMENT_SUB_TYPE, Value::Bool(true))];
    vec![
        samples::meeting(REQUEST),
        samples::meeting("IPM.Appointment"),
        samples::meeting("IPM.Schedule.Meeting.Resp.Pos"),
        samples::meeting("IPM.Schedule.Meeting.Resp.Neg"),
        samples::meeting("IPM.Schedule.Meeting.Resp.Tent"),
        samples::counter_proposal(),
        samples::meeting(CANCELLATION),
        samples::occurrence(CANCELLATION),
        samples::occurrence(REQUEST),
        samples::whole_days(),
        samples::series_into_summer(),
        samples::changed_series(),
        with(samples::changed_series(), cancelled),
        with(samples::series(), whole_days),
        with(samples::series(), vec![on_day_30()]),
        samples::task(),
        with(samples::contact(), name),
    ]
}

/// The values of each calendar: method, times and their offsets from UTC, people and their answers,
/// the occurrences of series. Then those of a card. They are the same in each format.
#[test]
fn ical_js_reads_calendars_and_a_card() {
    if !client_tests_wanted() {
        return;
    }
    let Some(library) = client_library("ical.js-2.2.1", "node") else { return };
    let mail: Vec<_> = meetings_a_task_and_a_contact().iter().map(samples::mail).collect();
    // An appointment that Outlook wrote.
    let mail = [mail, vec![foreign("triples.tnef")]].concat();
    let server = three_formats(&mail);
    let port = server.address("imap").port().to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path().to_str().unwrap();
    for user in [ANA, BEN, CYD] {
        run_python(TAKE_TEXTS, &[&port, user, PASSWORD, file]);
        let mut node = Command::new("node");
        node.env("NODE_PATH", library.join("node_modules"));
        node.args(["-e", include_str!("calendars.js"), "--", file]);
        assert_eq!(run_client(node).trim(), "ical.js: done", "{user}");
    }
}
