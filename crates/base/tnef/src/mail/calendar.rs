//! Meeting requests, answers and cancellations as iCalendar: MS-OXCICAL, RFC 5545, RFC 5546.
//!
//! Times are UTC, except those of a meeting that recurs: see [`super::recurrence`].

use std::fmt::Write;

use posthaste_mime_summary::InBounds;
use time::OffsetDateTime;

use super::dates;
use super::occurrence::Scope;
use super::people::{self, People, Person, Role};
use super::recurrence::{Changed, Recurrence};
use super::zone::Zone;
use crate::model::{Message, Value, find_attribute};
use crate::tags::{Guid, SET_APPOINTMENT, attribute, named, property};

/// The kind of a meeting's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Request,
    Cancel,
    /// An answer, with the participation that it says.
    Reply(&'static str),
    /// An answer that proposes another time, with the participation that it says.
    Counter(&'static str),
    /// An appointment that someone sends on. It requests no answer.
    Publish,
}

impl Method {
    /// The method of a message; `None` if it is no meeting. An answer that proposes another time
    /// is a counter-proposal: RFC 5546 §3.2.7.
    pub fn of(message: &Message) -> Option<Self> {
        let is_counter = message.named(named::COUNTER_PROPOSAL).and_then(Value::number) == Some(1);
        match Self::of_class(&message.class())? {
            Method::Reply(participation) if is_counter && proposed_start(message).is_some() => {
                Some(Method::Counter(participation))
            }
            method => Some(method),
        }
    }

    /// By the class of a message: MS-OXCICAL §2.1.3.1.1.1. A program may add a name of its own.
    fn of_class(class: &str) -> Option<Self> {
        const CLASSES: [(&str, Method); 6] = [
            ("ipm.appointment", Method::Publish),
            ("ipm.schedule.meeting.request", Method::Request),
            ("ipm.schedule.meeting.canceled", Method::Cancel),
            ("ipm.schedule.meeting.resp.pos", Method::Reply("ACCEPTED")),
            ("ipm.schedule.meeting.resp.neg", Method::Reply("DECLINED")),
            ("ipm.schedule.meeting.resp.tent", Method::Reply("TENTATIVE")),
        ];
        let lower = class.to_ascii_lowercase();
        let is = |name: &str| {
            let more = lower.strip_prefix(name);
            more.is_some_and(|more| more.is_empty() || more.starts_with('.'))
        };
        CLASSES.into_iter().find(|(name, _)| is(name)).map(|(_, method)| method)
    }

    pub fn name(self) -> &'static str {
        match self {
            Method::Request => "REQUEST",
            Method::Cancel => "CANCEL",
            Method::Reply(_) => "REPLY",
            Method::Counter(_) => "COUNTER",
            Method::Publish => "PUBLISH",
        }
    }
}

/// PidLidRecurrencePattern.
const RECURRENCE_PATTERN: (Guid, u32) = (SET_APPOINTMENT, 0x8232);

fn proposed_start(message: &Message) -> Option<OffsetDateTime> {
    message.named(named::PROPOSED_START_WHOLE).and_then(dates::of_value)
}

/// The time that a counter-proposal proposes for a meeting of this time. Without an end, the
/// meeting stays as long as it was.
fn proposed(
    message: &Message,
    (start, end): (OffsetDateTime, Option<OffsetDateTime>),
) -> (OffsetDateTime, Option<OffsetDateTime>) {
    let Some(new) = proposed_start(message) else { return (start, end) };
    let new_end = message.named(named::PROPOSED_END_WHOLE).and_then(dates::of_value);
    let as_long = || new.checked_add(end? - start);
    (new, new_end.or_else(as_long).filter(|end| *end >= new))
}

/// The properties that a calendar is made of.
#[derive(Clone, Copy)]
pub(super) struct Meeting<'a> {
    pub message: &'a Message,
    pub method: Method,
    pub people: &'a People,
    pub subject: Option<&'a str>,
    pub description: Option<&'a str>,
}

/// The values in which the events of a calendar may differ.
struct Event<'e> {
    /// DTSTART, DTEND, RRULE and so on.
    times: Vec<String>,
    subject: Option<&'e str>,
    place: Option<&'e str>,
    description: Option<&'e str>,
    /// PidLidBusyStatus.
    busy: Option<i64>,
}

/// The lines in which the events of a calendar do not differ. They are made once: a message may
/// have thousands of events, and a hundred thousand properties that are looked through.
struct CommonLines {
    /// Those before the status of an event's time.
    before_status: String,
    /// Those after it.
    after_status: String,
}

impl CommonLines {
    fn of(meeting: Meeting<'_>) -> Self {
        let Meeting { message, method, .. } = meeting;
        let (mut before, mut after) = (Lines(String::new()), Lines(String::new()));
        categories(&mut before, message);
        let sequence = message.named(named::APPOINTMENT_SEQUENCE).and_then(Value::number).unwrap_or(0);
        before.line(&format!("SEQUENCE:{}", sequence.max(0)));
        match method {
            Method::Request => before.line("STATUS:CONFIRMED"),
            Method::Cancel => before.line("STATUS:CANCELLED"),
            Method::Reply(_) | Method::Counter(_) | Method::Publish => {}
        }
        // A request also says which status the attendee's own copy should have.
        if method == Method::Request {
            let intended = message.named(named::INTENDED_BUSY_STATUS).and_then(Value::number);
            after.text("X-MICROSOFT-CDO-INTENDEDSTATUS", intended.and_then(busy_word));
        }
        class_and_priority(&mut after, message);
        participants(&mut after, meeting);
        alarm(&mut after, message, method);
        after.line("END:VEVENT");
        Self { before_status: before.0, after_status: after.0 }
    }
}

/// A meeting as iCalendar. `None` if it has no start: such an event would be refused. `None` also
/// if it is one occurrence of a series and does not say which one. The events of changed
/// occurrences take at most `room` bytes. Those that have no room keep the usual time.
pub(super) fn calendar(meeting: Meeting<'_>, room: usize) -> Option<String> {
    let Meeting { message, method, .. } = meeting;
    let (start, end) = start_and_end(message)?;
    let scope = Scope::of(message)?;
    let series = match (method, &scope) {
        // It proposes one time, and no rule.
        (Method::Counter(_), _) | (_, Scope::Occurrence(_)) => None,
        _ => Recurrence::of(message),
    };
    let mut out = Lines(String::new());
    out.line("BEGIN:VCALENDAR");
    out.line("PRODID:-//Posthaste//Rich mail//EN");
    out.line("VERSION:2.0");
    out.line(&format!("METHOD:{}", method.name()));
    series.iter().flat_map(|series| &series.zone).for_each(|line| out.line(line));
    let head = [
        format!("UID:{}", escape(&uid(message, start))),
        format!("DTSTAMP:{}", dates::in_calendar(stamp(message, method).unwrap_or(start))),
    ];
    let place = message.named_text(named::LOCATION).or_else(|| message.named_text(named::WHERE));
    let pattern = message.named_text(RECURRENCE_PATTERN);
    let description = [pattern.as_deref(), meeting.description].into_iter().flatten();
    let description = description.collect::<Vec<_>>().join("\n\n");
    let mut event = Event {
        times: Vec::new(),
        subject: meeting.subject,
        place: place.as_deref(),
        description: Some(&description),
        busy: message.named(named::BUSY_STATUS).and_then(Value::number),
    };
    let common = CommonLines::of(meeting);
    let (own, changed) = match &series {
        Some(series) => changed_events(meeting, (&head, &common), (series, &event), room),
        None => (0, String::new()),
    };
    event.times = match &series {
        Some(series) => series.lines(own),
        None if matches!(method, Method::Counter(_)) => times(message, proposed(message, (start, end))),
        None => times(message, (start, end)),
    };
    if let Scope::Occurrence(id) = scope {
        event.times.push(id);
    }
    add_event(&mut out, (&head, &common), &event);
    out.0.push_str(&changed);
    out.line("END:VCALENDAR");
    Some(out.0)
}

/// The begin and the end of the meeting.
fn start_and_end(message: &Message) -> Option<(OffsetDateTime, Option<OffsetDateTime>)> {
    let time = |name| message.named(name).and_then(dates::of_value);
    let old = |id| dates::of_attribute(find_attribute(&message.attributes, id)?);
    let of_property = |id| message.property(id).and_then(dates::of_value);
    let start = time(named::APPOINTMENT_START_WHOLE)
        .or_else(|| of_property(property::START_DATE))
        .or_else(|| old(attribute::DATE_START))?;
    let end = time(named::APPOINTMENT_END_WHOLE)
        .or_else(|| of_property(property::END_DATE))
        .or_else(|| old(attribute::DATE_END))
        .filter(|end| *end >= start);
    Some((start, end))
}

/// PidLidBusyStatus: the time is free.
const FREE: i64 = 0;

/// The events of a series' changed occurrences, and how many these are. The cancellation of a
/// series and an answer are about all of it.
fn changed_events(
    meeting: Meeting<'_>,
    (head, common): (&[String], &CommonLines),
    (series, usual): (&Recurrence, &Event<'_>),
    room: usize,
) -> (usize, String) {
    let (mut own, mut all) = (0, String::new());
    if !matches!(meeting.method, Method::Request | Method::Publish) {
        return (own, all);
    }
    for Changed { times, change } in series.changed() {
        let event = Event {
            times,
            subject: change.subject.as_deref().or(usual.subject),
            place: change.place.as_deref().or(usual.place),
            description: meeting.description,
            busy: change.busy.map(i64::from).or(usual.busy),
        };
        let mut one = Lines(String::new());
        add_event(&mut one, (head, common), &event);
        if all.len() + one.0.len() > room {
            break;
        }
        all.push_str(&one.0);
        own += 1;
    }
    (own, all)
}

fn add_event(out: &mut Lines, (head, common): (&[String], &CommonLines), event: &Event<'_>) {
    out.line("BEGIN:VEVENT");
    head.iter().chain(&event.times).for_each(|line| out.line(line));
    out.text("SUMMARY", event.subject);
    out.text("LOCATION", event.place);
    out.text("DESCRIPTION", event.description);
    out.0.push_str(&common.before_status);
    out.line(if event.busy == Some(FREE) { "TRANSP:TRANSPARENT" } else { "TRANSP:OPAQUE" });
    out.text("X-MICROSOFT-CDO-BUSYSTATUS", event.busy.and_then(busy_word));
    out.0.push_str(&common.after_status);
}

/// MS-OXCICAL §2.1.3.1.1.20.25, .31 and .34: TRANSP cannot say whether the time is tentative, or
/// out of the office.
fn busy_word(status: i64) -> Option<&'static str> {
    const WORDS: [&str; 4] = ["FREE", "TENTATIVE", "BUSY", "OOF"];
    WORDS.get(usize::try_from(status).ok()?).copied()
}

fn times(message: &Message, (start, end): (OffsetDateTime, Option<OffsetDateTime>)) -> Vec<String> {
    let is_whole_days = dates::has_whole_days(message);
    let print = |name: &str, at: OffsetDateTime| match is_whole_days {
        true => format!("{name};VALUE=DATE:{}", dates::day(Zone::day(message, at))),
        false => format!("{name}:{}", dates::in_calendar(at)),
    };
    // RFC 5545 §3.8.2.2: the end is later than the beginning, or is left out.
    let end = end.filter(|end| print("", *end) > print("", start)).map(|end| print("DTEND", end));
    std::iter::once(print("DTSTART", start)).chain(end).collect()
}

/// The time of the sender's last change. DTSTAMP and SEQUENCE say which copy is newer. Those of
/// an answer are its attendee's: RFC 5546 §2.1.5.
fn stamp(message: &Message, method: Method) -> Option<OffsetDateTime> {
    let sent = || message.property(property::CLIENT_SUBMIT_TIME).and_then(dates::of_value);
    let sent_of_old = || dates::of_attribute(find_attribute(&message.attributes, attribute::DATE_SENT)?);
    let sent = || sent().or_else(sent_of_old);
    let of = |name| message.named(name).and_then(dates::of_value);
    let of_owner = || of(named::OWNER_CRITICAL_CHANGE);
    let of_attendee = || of(named::ATTENDEE_CRITICAL_CHANGE);
    match method {
        // Without a time of its own, an answer was made when it was sent.
        Method::Reply(_) | Method::Counter(_) => of_attendee().or_else(sent).or_else(of_owner),
        _ => of_owner().or_else(of_attendee).or_else(sent),
    }
}

/// MS-OXOCAL §2.2.1.27: 16 bytes of a mark, 4 of an exception's date, 8 of a time, 8 reserved, 4
/// of a length, and data.
fn object_id(message: &Message) -> Option<&[u8]> {
    let id = message.named(named::CLEAN_GLOBAL_OBJECT_ID).or_else(|| message.named(named::GLOBAL_OBJECT_ID));
    id.and_then(Value::bytes).filter(|id| id.len() >= 40)
}

/// MS-OXCICAL §2.1.3.1.1.20.26: an id that came from another calendar is in the data, after a
/// mark. Any other is the whole of its bytes in hexadecimal, without an exception's date.
fn uid(message: &Message, start: OffsetDateTime) -> String {
    const FOREIGN: &[u8] = b"vCal-Uid\x01\0\0\0";
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        })
    };
    let Some(id) = object_id(message) else {
        // Nothing names it: the same message gives the same id.
        return format!("{}-{}", dates::in_calendar(start), message.key);
    };
    let data = id.in_bounds(40..);
    if let Some(foreign) = data.strip_prefix(FOREIGN) {
        let end = memchr::memchr(0, foreign).unwrap_or(foreign.len());
        let text = String::from_utf8_lossy(foreign.in_bounds(..end)).into_owned();
        if !text.trim().is_empty() {
            return text;
        }
    }
    let mut id = id.to_vec();
    id.iter_mut().skip(16).take(4).for_each(|byte| *byte = 0);
    hex(&id)
}

/// RFC 5545 §3.8.1.2, and RFC 2426 §3.7.1.
pub(super) fn categories(out: &mut Lines, message: &Message) {
    let keywords = message.keywords();
    if !keywords.is_empty() {
        let keywords: Vec<_> = keywords.iter().map(|keyword| escape(keyword.trim())).collect();
        out.line(&format!("CATEGORIES:{}", keywords.join(",")));
    }
}

pub(super) fn class_and_priority(out: &mut Lines, message: &Message) {
    // MS-OXCICAL §2.1.3.1.1.20.4 and .17.
    out.line(match message.property(property::SENSITIVITY).and_then(Value::number) {
        Some(1 | 2) => "CLASS:PRIVATE",
        Some(3) => "CLASS:CONFIDENTIAL",
        _ => "CLASS:PUBLIC",
    });
    out.line(match message.importance() {
        Some(0) => "PRIORITY:9",
        Some(2) => "PRIORITY:1",
        _ => "PRIORITY:5",
    });
}

/// RFC 5546 §3.2: a request and a cancellation come from the organizer, and name the attendees. An
/// answer comes from its only attendee, and goes to the organizer. §3.2.1: a published event has no
/// attendees. The organizer may be among the recipients, and is asked nothing.
fn participants(out: &mut Lines, meeting: Meeting<'_>) {
    let Meeting { message, method, people, .. } = meeting;
    let sent_by = sent_by(meeting);
    if let Method::Reply(participation) | Method::Counter(participation) = method {
        let first = |wanted: Role| people.recipients.iter().find(|(role, _)| *role == wanted);
        let organizer = first(Role::Organizer).or_else(|| first(Role::To)).map(|(_, person)| person);
        out.person("ORGANIZER", "", organizer);
        out.person("ATTENDEE", &format!(";PARTSTAT={participation}{sent_by}"), people.from.as_ref());
        return;
    }
    out.person("ORGANIZER", &sent_by, people.from.as_ref());
    if method == Method::Publish {
        return;
    }
    // MS-OXCICAL §2.1.3.1.1.20.2.
    let asks = match (method, message.wants_answer()) {
        (Method::Request, true) => ";PARTSTAT=NEEDS-ACTION;RSVP=TRUE",
        (Method::Request, false) => ";PARTSTAT=NEEDS-ACTION",
        _ => "",
    };
    for (role, person) in &people.recipients {
        let role = match role {
            Role::Organizer => continue,
            Role::To => ";ROLE=REQ-PARTICIPANT",
            Role::Cc => ";ROLE=OPT-PARTICIPANT",
            Role::Bcc => ";CUTYPE=RESOURCE;ROLE=NON-PARTICIPANT",
        };
        out.person("ATTENDEE", &format!("{role}{asks}"), Some(person));
    }
}

/// RFC 5545 §3.2.18: the address of a delegate, as a parameter.
fn sent_by(meeting: Meeting<'_>) -> String {
    let from = meeting.people.from.as_ref().and_then(|from| from.address.as_deref());
    let is_other = |agent: &String| from.is_none_or(|from| !from.eq_ignore_ascii_case(agent));
    let agent = people::delegate(meeting.message).filter(is_other);
    agent.map(|agent| format!(";SENT-BY=\"mailto:{agent}\"")).unwrap_or_default()
}

fn alarm(out: &mut Lines, message: &Message, method: Method) {
    /// MS-OXORMDR §2.2.1.3: this number says the usual time of the reader, which is 15 minutes in
    /// the programs that write it.
    const USUAL: i64 = 0x5AE9_80E1;
    let number = |name| message.named(name).and_then(Value::number);
    let minutes = number(named::REMINDER_DELTA).map(|minutes| if minutes == USUAL { 15 } else { minutes });
    let minutes = minutes.filter(|minutes| (0..=40_320).contains(minutes));
    if let (Method::Request, Some(1), Some(minutes)) = (method, number(named::REMINDER_SET), minutes) {
        out.line("BEGIN:VALARM");
        out.line("ACTION:DISPLAY");
        out.line("DESCRIPTION:Reminder");
        out.line(&format!("TRIGGER:-PT{minutes}M"));
        out.line("END:VALARM");
    }
}

/// A text that becomes an attachment: its type, its name, and the text.
pub(super) type TextFile = (&'static str, &'static str, String);

/// Lines of iCalendar or vCard.
pub(super) struct Lines(pub String);

impl Lines {
    /// RFC 5545 §3.1: a line has 75 octets at most, and goes on after a line end and a space.
    pub fn line(&mut self, line: &str) {
        let mut rest = line;
        let mut room = 75;
        loop {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(room));
            self.0.push_str(piece);
            self.0.push_str("\r\n");
            if after.is_empty() {
                return;
            }
            self.0.push(' ');
            (rest, room) = (after, 74);
        }
    }

    /// A property with text, if there is any.
    pub fn text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
            self.line(&format!("{name}:{}", escape(text)));
        }
    }

    fn person(&mut self, name: &str, parameters: &str, person: Option<&Person>) {
        let Some(Person { name: called, address: Some(address) }) = person else { return };
        // RFC 5545 §3.2: a quoted parameter has no quotes and no control characters.
        let called = called.as_ref().map(|called| called.replace('"', "'"));
        let called = called.map(|called| format!(";CN=\"{called}\"")).unwrap_or_default();
        self.line(&format!("{name}{called}{parameters}:mailto:{address}"));
    }
}

/// RFC 5545 §3.3.11. Other control characters are left out.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | ';' | ',' => {
                out.push('\\');
                out.push(character);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push(' '),
            character if character.is_control() => {}
            character => out.push(character),
        }
    }
    out
}
