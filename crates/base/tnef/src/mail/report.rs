//! The text of a report: MS-OXOMSG §2.2.2. Outlook makes it when it shows a report. The report
//! itself has a beginning at most (`Message was read on:`). Its properties have all the rest.

use std::fmt::Write;

use super::people::{Person, recipient};
use super::{dates, header};
use crate::model::{Message, find};
use crate::tags::property;

/// The first line, by the end of the class.
const KINDS: [(&str, &str); 6] = [
    ("ndr", "The message was not delivered."),
    ("dr", "The message was delivered."),
    ("delayed", "The message is not delivered yet."),
    ("ipnrn", "The message was read."),
    ("ipnnrn", "The message was deleted without being read."),
    ("relayed", "The message was relayed to a server that sends no reports."),
];

/// The text of a report that brings none: what happened to the message, and the rest. `None` if
/// this is no report.
pub(super) fn text(message: &Message) -> Option<String> {
    let class = message.class().to_ascii_lowercase();
    let kind = class.strip_prefix("report.")?.rsplit('.').next()?;
    let (_, said) = KINDS.into_iter().find(|(end, _)| *end == kind)?;
    Some(format!("{said}{}", details(message)))
}

/// The text that a report brings (PidTagReportText), and the rest.
pub(super) fn own_text(message: &Message) -> Option<String> {
    let said = message.text(property::REPORT_TEXT).filter(|said| !said.trim().is_empty())?;
    if !message.class().to_ascii_lowercase().starts_with("report.") {
        return Some(said);
    }
    Some(format!("{}{}", said.trim_end(), details(message)))
}

/// The time, the message that the report is about, and its recipients, each with the answer of a
/// server. A blank line is before them.
fn details(message: &Message) -> String {
    let time = |id| message.property(id).and_then(dates::of_value).map(dates::in_mail);
    let text = |id| message.text(id).map(|text| header::clean(&text)).filter(|text| !text.is_empty());
    let mut out = String::new();
    for (name, value) in [
        ("Reported", time(property::REPORT_TIME)),
        ("Subject", text(property::ORIGINAL_SUBJECT)),
        ("Sent", time(property::ORIGINAL_SUBMIT_TIME)),
        ("To", text(property::ORIGINAL_DISPLAY_TO)),
    ] {
        if let Some(value) = value {
            let _ = write!(out, "\r\n{name}: {value}");
        }
    }
    let code_page = message.text_code_page();
    for row in &message.recipients {
        let Some((_, Person { name, address })) = recipient(row, code_page) else { continue };
        match (name, address) {
            (Some(name), Some(address)) => _ = write!(out, "\r\n\r\n{name} <{address}>"),
            (name, address) => _ = write!(out, "\r\n\r\n{}", name.or(address).unwrap_or_default()),
        }
        // The text of the system that reports, or the answer of another one.
        for id in [property::REPORT_TEXT, property::SUPPLEMENTARY_INFO] {
            if let Some(info) = find(row, id).and_then(|value| value.text(code_page)) {
                let _ = write!(out, "\r\n{}", info.trim());
            }
        }
    }
    if out.is_empty() { out } else { format!("\r\n{out}\r\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Property, Value, samples};

    /// Ids by MS-OXPROPS.
    #[test]
    fn a_report_says_what_happened() {
        let recipients = vec![
            vec![
                samples::text(property::DISPLAY_NAME, "Ana"),
                samples::text(property::SMTP_ADDRESS, "ana@y.example"),
                samples::text(0x0C1B, "<mx.y.example #5.1.1 smtp;550 no such user>"),
            ],
            vec![samples::text(property::DISPLAY_NAME, "Ben"), samples::text(0x1001, "The mailbox is full.")],
        ];
        let properties = vec![
            samples::text(property::MESSAGE_CLASS, "REPORT.IPM.Note.NDR"),
            samples::text(0x0049, "Plans"),
            Property::new(0x004E, Value::Time(samples::TIME)),
            samples::text(0x0074, "Ana; Ben"),
            Property::new(0x0032, Value::Time(samples::TIME + samples::HOUR)),
        ];
        let report = Message { properties, recipients, ..Message::default() };
        let expected = "The message was not delivered.\r\n\r\nReported: Tue, 14 Nov 2023 23:13:20 +0000\r\n\
Subject: Plans\r\nSent: Tue, 14 Nov 2023 22:13:20 +0000\r\nTo: Ana; Ben\r\n\r\n\
Ana <ana@y.example>\r\n<mx.y.example #5.1.1 smtp;550 no such user>\r\n\r\nBen\r\nThe mailbox is full.\r\n";
        assert_eq!(text(&report).as_deref(), Some(expected));
        let of_class = |class: &str| {
            let properties = vec![samples::text(property::MESSAGE_CLASS, class)];
            text(&Message { properties, ..Message::default() })
        };
        assert_eq!(of_class("Report.IPM.Note.IPNRN").as_deref(), Some("The message was read."));
        for class in ["IPM.Note", "IPM.Note.NDR", "Report.IPM.Note.Other", "Report.IPM.Note"] {
            assert_eq!(of_class(class), None, "{class}");
        }
    }

    /// As a real receipt has it: its text is only a beginning.
    #[test]
    fn a_receipt_says_when_and_which_message_was_read() {
        let with = |class: &str| Message {
            properties: vec![
                samples::text(property::MESSAGE_CLASS, class),
                samples::text(property::REPORT_TEXT, "Message was read on:"),
                Property::new(0x0032, Value::Time(samples::TIME)),
                samples::text(0x0049, "Plans"),
            ],
            ..Message::default()
        };
        let expected =
            "Message was read on:\r\n\r\nReported: Tue, 14 Nov 2023 22:13:20 +0000\r\nSubject: Plans\r\n";
        assert_eq!(own_text(&with("IPM.Microsoft Mail.Read Receipt")).as_deref(), Some(expected));
        assert_eq!(own_text(&with("IPM.Note")).as_deref(), Some("Message was read on:"));
        assert_eq!(own_text(&Message::default()), None);
    }
}
