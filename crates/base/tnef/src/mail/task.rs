//! Tasks as iCalendar: MS-OXOTASK, RFC 5545 §3.6.2.

use std::fmt::Write;

use time::OffsetDateTime;

use super::calendar::{Lines, TextFile, categories, class_and_priority, escape};
use super::dates;
use crate::model::{Message, Value};
use crate::tags::{Guid, named, property};

/// Whether a message of this class is a task. A request for one has it as an attachment.
fn is_task(class: &str) -> bool {
    class.split_at_checked(8).is_some_and(|(begin, more)| {
        begin.eq_ignore_ascii_case("IPM.Task") && (more.is_empty() || more.starts_with('.'))
    })
}

/// A task as iCalendar. `None` if it is no task, or says nothing that its text does not say.
pub(super) fn task(message: &Message, subject: Option<&str>, description: Option<&str>) -> Option<TextFile> {
    if !is_task(&message.class()) {
        return None;
    }
    let number = |name| message.named(name).and_then(Value::number);
    let start = date(message, named::TASK_START_DATE);
    let due = date(message, named::TASK_DUE_DATE);
    let completed = date(message, named::TASK_DATE_COMPLETED);
    let status = number(named::TASK_STATUS);
    let stamp = [property::LAST_MODIFICATION_TIME, property::CLIENT_SUBMIT_TIME].into_iter();
    let stamp = stamp.filter_map(|id| message.property(id)).find_map(dates::of_value);
    let first = start.or(due).or(completed);
    // A task without any of these is its subject and its text.
    if first.is_none() && !matches!(status, Some(1..=4)) {
        return None;
    }
    let stamp = stamp.or(first).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let mut out = Lines(String::new());
    out.line("BEGIN:VCALENDAR");
    out.line("PRODID:-//Posthaste//Rich mail//EN");
    out.line("VERSION:2.0");
    out.line("BEGIN:VTODO");
    out.line(&format!("UID:{}", escape(&uid(message, stamp))));
    out.line(&format!("DTSTAMP:{}", dates::in_calendar(stamp)));
    // MS-OXOTASK §2.2.2.2.4: days on the user's clock, as midnight of that day.
    let day = |at: OffsetDateTime| dates::day(dates::nearest_day(at));
    // RFC 5545 §3.8.2.3: what is due is due after the start. Both may be one day in Outlook.
    let due = due.filter(|due| start.is_none_or(|start| start <= *due));
    if let Some(start) = start.filter(|start| due.is_none_or(|due| day(*start) < day(due))) {
        out.line(&format!("DTSTART;VALUE=DATE:{}", day(start)));
    }
    if let Some(due) = due {
        out.line(&format!("DUE;VALUE=DATE:{}", day(due)));
    }
    out.text("SUMMARY", subject);
    out.text("DESCRIPTION", description);
    categories(&mut out, message);
    // RFC 5545 §3.8.1.11 has no word for a task that waits, or is put off.
    out.line(match status {
        Some(1) => "STATUS:IN-PROCESS",
        Some(2) => "STATUS:COMPLETED",
        _ => "STATUS:NEEDS-ACTION",
    });
    if let Some(percent) = message.named(named::PERCENT_COMPLETE).and_then(percent) {
        out.line(&format!("PERCENT-COMPLETE:{percent}"));
    }
    if let Some(at) = completed {
        out.line(&format!("COMPLETED:{}", dates::in_calendar(at)));
    }
    class_and_priority(&mut out, message);
    out.line("END:VTODO");
    out.line("END:VCALENDAR");
    Some(("text/calendar", "task.ics", out.0))
}

/// A date of a task. The year 4501 means that it has none.
fn date(message: &Message, name: (Guid, u32)) -> Option<OffsetDateTime> {
    message.named(name).and_then(dates::of_value).filter(|at| at.year() < 4500)
}

/// PidLidPercentComplete: a number from 0 to 1.
fn percent(value: &Value) -> Option<u8> {
    let Value::Float64(bits) = value else { return None };
    let most = f64::from_bits(*bits) * 100.0 + 0.5;
    (0..=100).rev().find(|percent| f64::from(*percent) <= most)
}

/// PidLidTaskGlobalId. Without one, the same message gives the same id.
fn uid(message: &Message, stamp: OffsetDateTime) -> String {
    const LEN_MAX: usize = 64;
    let id = message.named(named::TASK_GLOBAL_ID).and_then(Value::bytes);
    match id.filter(|id| (1..=LEN_MAX).contains(&id.len())) {
        Some(id) => id.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        }),
        None => format!("{}-{}", dates::in_calendar(stamp), message.key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{HOUR, TIME};
    use crate::{Property, samples};

    fn with(class: &str, properties: Vec<Property>) -> Option<String> {
        let properties = [vec![samples::text(property::MESSAGE_CLASS, class)], properties].concat();
        let message = Message { properties, ..Message::default() };
        task(&message, Some("Bake; a cake"), Some("with\r\nnuts")).map(|(_, _, text)| text)
    }

    fn time(name: (Guid, u32), ticks: u64) -> Property {
        Property::named(name, Value::Time(ticks))
    }

    /// Ids by MS-OXPROPS. The midnight after 2023-11-14.
    #[test]
    fn a_task_has_its_days_and_its_status() {
        const MIDNIGHT: u64 = TIME + 6_400 * 10_000_000;
        let set = named::TASK_STATUS.0;
        let half = Value::Float64(0.5_f64.to_bits());
        let text = with(
            "IPM.Task",
            vec![
                time((set, 0x8104), MIDNIGHT),
                time((set, 0x8105), MIDNIGHT + 24 * HOUR),
                time((set, 0x810F), MIDNIGHT + 48 * HOUR),
                Property::named((set, 0x8101), Value::Int32(1)),
                Property::named((set, 0x8102), half),
                Property::named((named::REMINDER_SET.0, 0x8519), Value::Binary(vec![0xAB, 1])),
                Property::new(property::CLIENT_SUBMIT_TIME, Value::Time(TIME)),
                Property::new(property::IMPORTANCE, Value::Int32(2)),
            ],
        );
        let expected = "BEGIN:VCALENDAR\r\nPRODID:-//Posthaste//Rich mail//EN\r\nVERSION:2.0\r\nBEGIN:VTODO\r\n\
UID:AB01\r\nDTSTAMP:20231114T221320Z\r\nDTSTART;VALUE=DATE:20231115\r\nDUE;VALUE=DATE:20231116\r\n\
SUMMARY:Bake\\; a cake\r\nDESCRIPTION:with\\nnuts\r\nSTATUS:IN-PROCESS\r\nPERCENT-COMPLETE:50\r\n\
COMPLETED:20231117T000000Z\r\nCLASS:PUBLIC\r\nPRIORITY:1\r\nEND:VTODO\r\nEND:VCALENDAR\r\n";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn what_says_no_more_than_its_text_is_no_calendar() {
        let due = || vec![time(named::TASK_DUE_DATE, TIME)];
        assert!(with("ipm.task.own", due()).is_some());
        for class in ["IPM.TaskRequest", "IPM.Note", "IPM.Tas", ""] {
            assert_eq!(with(class, due()), None, "{class}");
        }
        // 0x5AE9_80E0 minutes.
        const NONE: u64 = 0x5AE9_80E0 * 600_000_000;
        assert_eq!(with("IPM.Task", vec![time(named::TASK_DUE_DATE, NONE)]), None);
        let status =
            |status| with("IPM.Task", vec![Property::named(named::TASK_STATUS, Value::Int32(status))]);
        assert_eq!((status(0), status(9)), (None, None));
        assert!(status(2).is_some_and(|text| text.contains("\r\nSTATUS:COMPLETED\r\n")));
        // A due date before the start is refused by programs.
        let start = time(named::TASK_START_DATE, TIME + 48 * HOUR);
        assert!(with("IPM.Task", [due(), vec![start]].concat()).is_some_and(|text| !text.contains("DUE")));
        // A task of one day has the day when it is due.
        let start = time(named::TASK_START_DATE, TIME);
        let text = with("IPM.Task", [due(), vec![start]].concat()).unwrap_or_default();
        assert!(text.contains("\r\nDUE;VALUE=DATE:20231115\r\n") && !text.contains("DTSTART"), "{text}");
    }

    #[test]
    fn percents() {
        let of = |number: f64| percent(&Value::Float64(number.to_bits()));
        assert_eq!((of(0.0), of(0.25), of(0.999), of(1.0)), (Some(0), Some(25), Some(100), Some(100)));
        assert_eq!((of(7.0), of(f64::INFINITY), of(-1.0), of(f64::NAN)), (Some(100), Some(100), None, None));
        assert_eq!(percent(&Value::Int32(1)), None);
    }
}
