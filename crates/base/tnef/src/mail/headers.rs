//! The header fields of a message, out of its properties.

use posthaste_mime_summary::{HeaderFields, InBounds, Structure};

use super::calendar::Method;
use super::dates;
use super::header;
use super::people::{self, People, Person, Role, reply_recipients};
use crate::model::{Message, Value, find_attribute};
use crate::tags::{attribute, property};

/// Octets of a header that an embedded message may have.
const HEADER_MAX: usize = 64 * 1024;

/// The header of an embedded message: the fields with which it came, and what these lack
/// (MS-OXOMSG §2.2.1.61). Content-* and MIME-Version are left out. They describe the content as it
/// was.
pub(super) fn header_of_embedded(message: &Message, people: &People) -> String {
    let came = message.text(property::TRANSPORT_MESSAGE_HEADERS).unwrap_or_default();
    let came = format!("{}\r\n\r\n", came.in_bounds(..came.floor_char_boundary(HEADER_MAX)).trim_end());
    let mut out = String::new();
    let mut names = Vec::new();
    let structure = Structure::parse(came.as_bytes());
    let header = structure.parts().first().map(|part| part.header).unwrap_or_default();
    for field in HeaderFields::new(came.as_bytes(), header) {
        let lines = came.in_bounds(field.span().range().start..field.value_span().range().end);
        let name = String::from_utf8_lossy(field.name(came.as_bytes())).to_ascii_lowercase();
        // RFC 2046 §5.1.1: two hyphens might begin a delimiter of a multipart around the message.
        let is_name =
            !name.is_empty() && !name.starts_with("--") && name.bytes().all(|b| matches!(b, b'!'..=b'~'));
        if name.starts_with("content-") || name == "mime-version" || !is_name || !may_stand(lines) {
            continue;
        }
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            out.push_str(line);
            out.push_str("\r\n");
        }
        names.push(name);
    }
    for (name, value) in header_fields(message, people).into_iter().chain(embedded_fields(message, people)) {
        if !names.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    out
}

/// Whether the lines of a field are valid as they are: RFC 5322 §2.1.1 and §2.2.
fn may_stand(lines: &str) -> bool {
    let fits = |b: u8| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    lines.bytes().all(fits)
        && !lines.replace("\r\n", "\n").contains('\r')
        && lines.lines().all(|line| line.len() <= 998)
        && lines.lines().skip(1).all(|line| line.starts_with([' ', '\t']))
}

/// A message's subject. The one of attributes and that of properties are the same, except for old
/// clients.
pub(super) fn subject(message: &Message) -> Option<String> {
    message
        .text(property::SUBJECT)
        .or_else(|| message.attribute_text(attribute::SUBJECT))
        .or_else(|| message.text(property::NORMALIZED_SUBJECT))
}

/// The header fields that properties hold.
pub(super) fn header_fields(message: &Message, people: &People) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    let of_property = |id| message.property(id).and_then(dates::of_value);
    let of_attribute = |id| dates::of_attribute(find_attribute(&message.attributes, id)?);
    let date = of_property(property::CLIENT_SUBMIT_TIME)
        .or_else(|| of_attribute(attribute::DATE_SENT))
        .or_else(|| of_property(property::MESSAGE_DELIVERY_TIME))
        .or_else(|| of_attribute(attribute::DATE_RECD));
    fields.extend(date.map(|at| ("Date", dates::in_mail(at))));
    fields.extend(people.from.as_ref().map(|from| ("From", from.in_header())));
    for (name, shown) in [("To", property::DISPLAY_TO), ("Cc", property::DISPLAY_CC)] {
        let list = people.recipients.iter().filter(|(role, _)| role.field() == name);
        let list: Vec<_> = list.map(|(_, person)| person.in_header()).collect();
        let names = || {
            let names = message.text(shown)?;
            let names = names.split(';').map(header::clean).filter(|name| !name.is_empty());
            let names: Vec<_> = names.map(|name| format!("{}:;", header::phrase(&name))).collect();
            Some(names).filter(|names| !names.is_empty())
        };
        let list = if list.is_empty() { names() } else { Some(list) };
        fields.extend(list.map(|list| (name, list.join(",\r\n "))));
    }
    fields.extend(subject(message).map(|subject| ("Subject", header::text(&subject))));
    for (name, id) in [
        ("Message-ID", property::INTERNET_MESSAGE_ID),
        ("In-Reply-To", property::IN_REPLY_TO_ID),
        ("References", property::INTERNET_REFERENCES),
    ] {
        let ids = message.text(id).map(|ids| message_ids(&ids)).filter(|ids| !ids.is_empty());
        fields.extend(ids.map(|ids| (name, ids.join("\r\n "))));
    }
    let importance = match message.importance() {
        Some(0) => Some("low"),
        Some(2) => Some("high"),
        _ => None,
    };
    fields.extend(importance.map(|word| ("Importance", word.to_owned())));
    // RFC 4021 §2.1.55.
    let sensitivity = match message.property(property::SENSITIVITY).and_then(Value::number) {
        Some(1) => Some("Personal"),
        Some(2) => Some("Private"),
        Some(3) => Some("Company-Confidential"),
        _ => None,
    };
    fields.extend(sensitivity.map(|word| ("Sensitivity", word.to_owned())));
    // RFC 5322 §3.6.5: phrases with commas between them.
    let keywords: Vec<_> = message.keywords().iter().map(|keyword| header::phrase(keyword.trim())).collect();
    if !keywords.is_empty() {
        fields.push(("Keywords", keywords.join(",\r\n ")));
    }
    let replies: Vec<_> = reply_recipients(message).iter().map(Person::in_header).collect();
    if !replies.is_empty() {
        fields.push(("Reply-To", replies.join(",\r\n ")));
    }
    fields
}

/// Fields that an embedded message gets from its properties, and a delivered one does not. Checks
/// of the sender look at Sender. A blind copy came without its Bcc. The header that was delivered
/// says who wants a receipt.
fn embedded_fields(message: &Message, people: &People) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    let has_author = people.from.as_ref().is_some_and(|from| from.address.is_some());
    // RFC 5322 §3.6.2: it is present only where it differs from the author.
    let agent = people::agent(message).filter(|agent| has_author && agent.address.is_some());
    let agent = agent.filter(|agent| people.from.as_ref().is_some_and(|from| from.address != agent.address));
    fields.extend(agent.map(|agent| ("Sender", agent.in_header())));
    // The number of a blind copy in mail means a room in a meeting.
    if Method::of(message).is_none() {
        let blind = people.recipients.iter().filter(|(role, _)| *role == Role::Bcc);
        let blind: Vec<_> = blind.map(|(_, person)| person.in_header()).collect();
        if !blind.is_empty() {
            fields.push(("Bcc", blind.join(",\r\n ")));
        }
    }
    // RFC 8098 §2.1: to whom the receipt goes.
    let wants_receipt = message.property(property::READ_RECEIPT_REQUESTED).and_then(Value::number) == Some(1);
    let receiver = people.from.as_ref().filter(|from| wants_receipt && from.address.is_some());
    fields.extend(receiver.map(|from| ("Disposition-Notification-To", from.in_header())));
    fields
}

/// Ids that may be in a header as they are: RFC 5322 §3.6.4.
fn message_ids(text: &str) -> Vec<String> {
    const IDS_MAX: usize = 100;
    let fits = |word: &&str| {
        let inner = word.strip_prefix('<').and_then(|word| word.strip_suffix('>'));
        inner.is_some_and(|id| {
            !id.is_empty() && id.len() <= 900 && id.bytes().all(|b| matches!(b, b'!'..=b'~'))
        })
    };
    text.split_whitespace().filter(fits).take(IDS_MAX).map(str::to_owned).collect()
}
