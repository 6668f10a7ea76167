//! The header fields of a message, out of its properties.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_mime_summary::{HeaderFields, InBounds, Structure, decode_words};

use super::body::TextBudget;
use super::calendar::Method;
use super::dates;
use super::header;
use super::people::{self, People, Person, Role, reply_recipients};
use crate::model::{Message, Name, NameKey, Value, find_attribute};
use crate::tags::{SET_INTERNET_HEADERS, attribute, named, property};

/// Octets of a header that an embedded message may have.
const HEADER_MAX: usize = 64 * 1024;

/// The header of an embedded message: the fields with which it came, and what these lack
/// (MS-OXOMSG §2.2.1.61). Content-* and MIME-Version are left out. They describe the content as it
/// was.
pub(super) fn header_of_embedded(message: &Message, people: &People, budget: &mut TextBudget) -> String {
    let came = message.text(property::TRANSPORT_MESSAGE_HEADERS).unwrap_or_default();
    let came = format!("{}\r\n\r\n", came.in_bounds(..came.floor_char_boundary(HEADER_MAX)).trim_end());
    let mut out = String::new();
    let mut known = HashSet::new();
    let structure = Structure::parse(came.as_bytes());
    let header = structure.parts().first().map(|part| part.header).unwrap_or_default();
    for field in HeaderFields::new(came.as_bytes(), header) {
        let lines = came.in_bounds(field.span().range().start..field.value_span().range().end);
        let name = String::from_utf8_lossy(field.name(came.as_bytes())).to_ascii_lowercase();
        if !may_name(&name) || !may_stand(lines) {
            continue;
        }
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            out.push_str(line);
            out.push_str("\r\n");
        }
        known.insert(name);
    }
    for (name, value) in header_fields(message, people).into_iter().chain(embedded_fields(message, people)) {
        if known.insert(name.to_ascii_lowercase()) {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    add_named_fields(&mut out, message, known, budget);
    out
}

/// Whether a field with this name, in lower case, may be in the header of an embedded message.
fn may_name(name: &str) -> bool {
    // RFC 2046 §5.1.1: two hyphens might begin a delimiter of a multipart around the message.
    let is_name =
        !name.is_empty() && !name.starts_with("--") && name.bytes().all(|b| matches!(b, b'!'..=b'~'));
    is_name && !name.starts_with("content-") && name != "mime-version"
}

/// Fields that properties have under their own names: MS-OXCMAIL, PS_INTERNET_HEADERS. Those that
/// Exchange reserves for itself are left out, as that document wants it. `known` are the names of
/// fields that the header has.
fn add_named_fields(
    out: &mut String,
    message: &Message,
    mut known: HashSet<String>,
    budget: &mut TextBudget,
) {
    /// Octets of a name at most, so that a line has room for the value.
    const NAME_MAX: usize = 76;
    /// A message of a long way through filters has some fifty.
    const COUNT_MAX: usize = 1_000;
    const RESERVED: [&str; 2] = ["x-microsoft-exchange-organization", "x-microsoft-exchange-forest"];
    let code_page = message.text_code_page();
    let (mut room, mut count) = ((budget.left() / 2).min(HEADER_MAX), 0);
    for property in &message.properties {
        let Some(Name { set, key: NameKey::Text(name) }) = property.name.as_deref() else { continue };
        let lower = name.to_ascii_lowercase();
        let is_field = *set == SET_INTERNET_HEADERS
            && may_name(&lower)
            && name.len() <= NAME_MAX
            && !name.contains(':')
            && !RESERVED.iter().any(|begin| lower.starts_with(begin));
        if !is_field || count == COUNT_MAX {
            continue;
        }
        let Some(value) = property.value.text(code_page) else { continue };
        let value = header::value(&value);
        let field = format!("{name}: {value}\r\n");
        let fits = !value.is_empty() && field.len() <= room;
        if fits && known.insert(lower) && budget.take(field.len()).is_ok() {
            room -= field.len();
            count += 1;
            out.push_str(&field);
        }
    }
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

/// The same, or the subject in the header around it: a writer may leave out what that has.
pub(super) fn subject_or(message: &Message, field: Option<Vec<u8>>) -> Option<String> {
    let around = || field.map(|value| header::clean(&decode_words(&value))).filter(|text| !text.is_empty());
    subject(message).or_else(around)
}

/// Names of DISPLAY_TO or DISPLAY_CC that are read at most. A header with more would be over the
/// bounds for mail. Each takes some fifty bytes, and two bytes of the property.
const NAMES_MAX: usize = 1 << 17;

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
            let names = names.take(NAMES_MAX).map(|name| format!("{}:;", header::phrase(&name)));
            let names: Vec<_> = names.collect();
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
    fields.extend(thread_fields(message));
    let time = |id| message.property(id).and_then(dates::of_value).map(dates::in_mail);
    fields.extend(time(property::EXPIRY_TIME).map(|at| ("Expires", at)));
    // MS-OXCMAIL: a message has a time for the answer only if it has a flag.
    if let Some(flag) = message.named_text(named::FLAG_REQUEST).filter(|flag| !flag.trim().is_empty()) {
        fields.push(("X-Message-Flag", header::text(&flag)));
        fields.extend(time(property::REPLY_TIME).map(|at| ("Reply-By", at)));
    }
    // RFC 2369 §3.
    for (name, id) in [
        ("List-Help", property::LIST_HELP),
        ("List-Subscribe", property::LIST_SUBSCRIBE),
        ("List-Unsubscribe", property::LIST_UNSUBSCRIBE),
    ] {
        let value = message.text(id).map(|text| header::value(&text)).filter(|value| !value.is_empty());
        fields.extend(value.map(|value| (name, value)));
    }
    fields
}

/// The fields by which Outlook joins a conversation: MS-OXOMSG §2.2.1.3 and §2.2.1.5.
fn thread_fields(message: &Message) -> Vec<(&'static str, String)> {
    /// A header of 22 bytes, and five for each answer: this has room for 200 of them.
    const INDEX_MAX: usize = 1_024;
    /// Bytes that become 64 characters of a line.
    const PIECE: usize = 48;
    let topic = message.text(property::CONVERSATION_TOPIC).map(|topic| header::text(&topic));
    let topic = topic.filter(|topic| !topic.is_empty()).map(|topic| ("Thread-Topic", topic));
    let index = message.property(property::CONVERSATION_INDEX).and_then(Value::bytes);
    let index = index.filter(|index| !index.is_empty() && index.len() <= INDEX_MAX);
    let pieces = |index: &[u8]| index.chunks(PIECE).map(|piece| STANDARD.encode(piece)).collect::<Vec<_>>();
    let index = index.map(|index| ("Thread-Index", pieces(index).join("\r\n ")));
    topic.into_iter().chain(index).collect()
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
