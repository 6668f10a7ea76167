//! Senders and recipients, out of properties and out of header fields.

use std::collections::HashMap;

use posthaste_mime_summary::{InBounds, address_list, decode_words};

use super::header;
use crate::charset;
use crate::model::{Message, Property, Value, find, find_attribute};
use crate::reader::Reader;
use crate::tags::{Guid, attribute, named, property};

/// Someone with a name, an address, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Person {
    pub name: Option<String>,
    /// `local@domain`: any other kind of address means nothing outside of its system.
    pub address: Option<String>,
}

impl Person {
    fn new(name: Option<String>, address: Option<String>) -> Option<Self> {
        let address = address.as_deref().and_then(mail_address);
        let name = name.map(|name| header::clean(&name)).filter(|name| !name.is_empty());
        // Programs put the address into the name, with quotes.
        let name = name.filter(|name| Some(name.trim_matches('\'')) != address.as_deref());
        (name.is_some() || address.is_some()).then_some(Self { name, address })
    }

    /// The person as an address of a header field. Someone without an address is a group without
    /// members (RFC 5322 §3.4, RFC 6854 §2.1): the name is kept and nobody is written to.
    pub fn in_header(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), Some(address)) => format!("{} <{address}>", header::phrase(name)),
            (None, Some(address)) => address.clone(),
            (Some(name), None) => format!("{}:;", header::phrase(name)),
            (None, None) => String::new(),
        }
    }
}

/// The role of a person: PidTagRecipientType.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    To,
    /// The organizer of a meeting, among those who are invited to it.
    Organizer,
    Cc,
    /// A blind copy; of a meeting, a room or other equipment.
    Bcc,
}

impl Role {
    /// The header field that names such a person.
    pub fn field(self) -> &'static str {
        match self {
            Role::To | Role::Organizer => "To",
            Role::Cc => "Cc",
            Role::Bcc => "Bcc",
        }
    }
}

/// Everyone whom a message names.
#[derive(Debug, Clone, Default)]
pub(super) struct People {
    pub from: Option<Person>,
    pub recipients: Vec<(Role, Person)>,
}

impl People {
    /// The people in a message's properties.
    pub fn of_message(message: &Message) -> Self {
        let code_page = message.text_code_page();
        let recipient = |row: &Vec<Property>| recipient(row, code_page);
        let recipients = message.recipients.iter().filter_map(recipient).collect();
        Self { from: sender(message), recipients }
    }

    /// The same, with the values of From, To and Cc in place of those that they name. A recipient
    /// of whom only a name came gets the address that To or Cc has for it.
    pub fn with_header(mut self, field: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let list = |name: &str| field(name).map(|value| people_of(&value)).unwrap_or_default();
        if let Some(from) = list("from").into_iter().find(|person| person.address.is_some()) {
            self.from = Some(from);
        }
        if !self.recipients.iter().any(|(_, person)| person.address.is_some()) {
            let to = list("to").into_iter().map(|person| (Role::To, person));
            self.recipients = to.chain(list("cc").into_iter().map(|person| (Role::Cc, person))).collect();
        } else if self.recipients.iter().any(|(_, person)| person.address.is_none()) {
            let mut named = list("to");
            named.append(&mut list("cc"));
            let addresses = addresses_by_name(&named);
            for (_, person) in &mut self.recipients {
                if person.address.is_none()
                    && let Some(name) = person.name.as_deref()
                {
                    person.address = addresses.get(name).copied().flatten().map(str::to_owned);
                }
            }
        }
        self
    }
}

/// The address of each name; `None` if two people with different addresses have it.
fn addresses_by_name(people: &[Person]) -> HashMap<&str, Option<&str>> {
    let mut addresses = HashMap::new();
    for person in people {
        if let (Some(name), Some(address)) = (person.name.as_deref(), person.address.as_deref()) {
            let known = addresses.entry(name).or_insert(Some(address));
            *known = known.filter(|one| *one == address);
        }
    }
    addresses
}

fn people_of(value: &[u8]) -> Vec<Person> {
    let text = |bytes: &[u8]| decode_words(bytes).into_owned();
    let person = |address: &posthaste_mime_summary::Address<'_>| {
        let (mailbox, host) = (address.mailbox.as_deref()?, address.host.as_deref()?);
        let name = address.name.as_deref().map(text);
        Person::new(name, Some(format!("{}@{}", text(mailbox), text(host))))
    };
    address_list(value).iter().filter_map(person).collect()
}

/// The tags of a person's properties.
struct Fields {
    name: u16,
    smtp: u16,
    kind: u16,
    address: u16,
    entry: u16,
}

const SENT_REPRESENTING: Fields = Fields {
    name: property::SENT_REPRESENTING_NAME,
    smtp: property::SENT_REPRESENTING_SMTP_ADDRESS,
    kind: property::SENT_REPRESENTING_ADDRESS_TYPE,
    address: property::SENT_REPRESENTING_EMAIL_ADDRESS,
    entry: property::SENT_REPRESENTING_ENTRY_ID,
};
const SENDER: Fields = Fields {
    name: property::SENDER_NAME,
    smtp: property::SENDER_SMTP_ADDRESS,
    kind: property::SENDER_ADDRESS_TYPE,
    address: property::SENDER_EMAIL_ADDRESS,
    entry: property::SENDER_ENTRY_ID,
};
const RECIPIENT: Fields = Fields {
    name: property::DISPLAY_NAME,
    smtp: property::SMTP_ADDRESS,
    kind: property::ADDRESS_TYPE,
    address: property::EMAIL_ADDRESS,
    entry: property::ENTRY_ID,
};

impl Fields {
    /// The person that they describe. The address is that in SMTP, or one whose type is SMTP, or
    /// that of a one-off entry. `untyped` is what an address without a type is.
    fn person(&self, properties: &[Property], code_page: u32, untyped: Untyped) -> Option<Person> {
        let text = |id| find(properties, id)?.text(code_page);
        let is_smtp = match text(self.kind) {
            Some(kind) => kind.eq_ignore_ascii_case("SMTP"),
            None => untyped == Untyped::Smtp,
        };
        let entry = find(properties, self.entry).and_then(Value::bytes);
        let entry = entry.and_then(|entry| OneOff::read(entry, code_page));
        let (entry_name, entry_address) = entry.map(|one| (one.name, one.address)).unwrap_or_default();
        let addresses = [text(self.smtp), text(self.address).filter(|_| is_smtp), entry_address];
        let address = addresses.into_iter().flatten().find(|address| mail_address(address).is_some());
        Person::new(text(self.name).or(entry_name), address)
    }
}

/// The kind of an address without a type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Untyped {
    Smtp,
    Unknown,
}

/// An entry of no address book: MS-OXCDATA §2.2.5.1.
struct OneOff {
    name: Option<String>,
    /// If its type is SMTP.
    address: Option<String>,
}

impl OneOff {
    const PROVIDER: Guid =
        [0x81, 0x2B, 0x1F, 0xA4, 0xBE, 0xA3, 0x10, 0x19, 0x9D, 0x6E, 0x00, 0xDD, 0x01, 0x0F, 0x54, 0x02];

    fn read(entry: &[u8], code_page: u32) -> Option<Self> {
        const WHAT: &str = "a one-off entry";
        const IS_UNICODE: u16 = 0x8000;
        let mut reader = Reader::new(entry);
        reader.u32(WHAT).ok()?;
        if reader.guid(WHAT).ok()? != Self::PROVIDER {
            return None;
        }
        reader.u16(WHAT).ok()?;
        let is_unicode = reader.u16(WHAT).ok()? & IS_UNICODE != 0;
        let mut rest = reader.rest();
        // Three texts, each with its NUL.
        let mut text = || {
            let width = if is_unicode { 2 } else { 1 };
            let len = rest.chunks(width).take_while(|unit| unit.iter().any(|byte| *byte != 0)).count();
            let (bytes, after) = rest.split_at((len * width).min(rest.len()));
            rest = after.get(width..).unwrap_or_default();
            let code_page = if is_unicode { UTF_16 } else { code_page };
            Some(charset::decode(code_page, bytes).into_owned()).filter(|text| !text.is_empty())
        };
        let (name, kind, address) = (text(), text(), text());
        let is_smtp = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("SMTP"));
        Some(Self { name, address: address.filter(|_| is_smtp) })
    }
}

/// The code page of UTF-16.
const UTF_16: u32 = 1200;

/// The sender. If it was sent on behalf of another person, that person (MS-OXOMSG §2.2.1.48). Old
/// clients have attFrom. Of these, one who has an address counts, since a name alone cannot be
/// answered.
fn sender(message: &Message) -> Option<Person> {
    let old = || of_attribute(find_attribute(&message.attributes, attribute::FROM)?, message.code_page);
    let mut all = [represented(message), agent(message), old()].into_iter().flatten();
    let first = all.next()?;
    if first.address.is_some() {
        return Some(first);
    }
    all.find(|person| person.address.is_some()).or(Some(first))
}

/// The person on whose behalf a message was sent, or the sender: PidTagSentRepresentingName and
/// similar properties.
fn represented(message: &Message) -> Option<Person> {
    SENT_REPRESENTING.person(&message.properties, message.text_code_page(), Untyped::Unknown)
}

/// The address of a sender who acts for another person. The properties must name both: a header
/// around them may have another address of the same person.
pub(super) fn delegate(message: &Message) -> Option<String> {
    let (represented, agent) = (represented(message)?.address?, agent(message)?.address?);
    (!agent.eq_ignore_ascii_case(&represented)).then_some(agent)
}

/// The sender of a message, on behalf of another person or not: PidTagSenderName and similar
/// properties.
pub(super) fn agent(message: &Message) -> Option<Person> {
    SENDER.person(&message.properties, message.text_code_page(), Untyped::Unknown)
}

/// The people to whom answers go: PidTagReplyRecipientEntries, a list of entries (MS-OXCDATA
/// §2.3.3). Entries of an address book have no address that means something elsewhere.
pub(super) fn reply_recipients(message: &Message) -> Vec<Person> {
    const WHAT: &str = "a list of entries";
    const COUNT_MAX: usize = 100;
    let bytes =
        message.property(property::REPLY_RECIPIENT_ENTRIES).and_then(Value::bytes).unwrap_or_default();
    let mut reader = Reader::new(bytes);
    let count = reader.len(WHAT).unwrap_or_default().min(COUNT_MAX);
    // The length of all of them.
    let _ = reader.u32(WHAT);
    let code_page = message.text_code_page();
    let entries = (0..count).map_while(|_| {
        let len = reader.len(WHAT).ok()?;
        let entry = reader.take(len, WHAT).ok()?;
        reader.skip_padding(len);
        Some(entry)
    });
    let people = entries.filter_map(|entry| OneOff::read(entry, code_page));
    let people = people.filter_map(|one| Person::new(one.name, one.address));
    people.filter(|person| person.address.is_some()).collect()
}

/// The members of a list of people: PidLidDistributionListOneOffMembers, entries that have names
/// and addresses. Outlook keeps it under 15,000 bytes.
pub(super) fn members(message: &Message) -> Vec<Person> {
    const COUNT_MAX: usize = 1_000;
    let code_page = message.text_code_page();
    let entries =
        message.named(named::DISTRIBUTION_LIST_ONE_OFF_MEMBERS).map(Value::each).unwrap_or_default();
    let entries = entries.iter().take(COUNT_MAX).filter_map(Value::bytes);
    let people = entries.filter_map(|entry| OneOff::read(entry, code_page));
    people.filter_map(|one| Person::new(one.name, one.address)).collect()
}

/// attFrom: MS-OXTNEF §2.1.3.3.8. Four numbers of 16 bits (a mark, the length of all, of the name
/// and of the address), the name and the address as `SMTP:local@domain`.
fn of_attribute(data: &[u8], code_page: u32) -> Option<Person> {
    const WHAT: &str = "a sender";
    let mut reader = Reader::new(data);
    let mut number = || reader.u16(WHAT).ok().map(usize::from);
    let (_mark, _len, name_len, address_len) = (number()?, number()?, number()?, number()?);
    let name = reader.take(name_len, WHAT).ok()?;
    let address = reader.take(address_len, WHAT).ok()?;
    let text = |bytes: &[u8]| {
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        charset::decode(code_page, bytes.in_bounds(..end)).into_owned()
    };
    let address = text(address);
    let is_smtp = address.get(..5).is_some_and(|kind| kind.eq_ignore_ascii_case("SMTP:"));
    Person::new(Some(text(name)), address.get(5..).filter(|_| is_smtp).map(str::to_owned))
}

/// A recipient of a message, out of a row of its table.
pub(super) fn recipient(row: &[Property], code_page: u32) -> Option<(Role, Person)> {
    /// The bit recipOrganizer: MS-OXOCAL §2.2.4.10.1.
    const IS_ORGANIZER: i64 = 2;
    let person = RECIPIENT.person(row, code_page, Untyped::Smtp)?;
    let number = |id| find(row, id).and_then(Value::number);
    let is_organizer = number(property::RECIPIENT_FLAGS).is_some_and(|flags| flags & IS_ORGANIZER != 0);
    // The upper bits say whether the server has taken charge: MS-OXOMSG §2.2.3.1.2.
    let role = match number(property::RECIPIENT_TYPE).map(|n| n & 0xF) {
        Some(2) => Role::Cc,
        Some(3) => Role::Bcc,
        Some(0) => return None,
        _ if is_organizer => Role::Organizer,
        _ => Role::To,
    };
    Some((role, person))
}

/// An address that may be in a header as it is.
pub(super) fn mail_address(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('\'');
    let (local, domain) = text.rsplit_once('@')?;
    let is_plain = |part: &str| {
        let fits = |b: u8| b > b' ' && b != 0x7F && !b"<>()[]\\,;:\"@".contains(&b);
        !part.is_empty() && part.len() <= 255 && part.bytes().all(fits)
    };
    (is_plain(local) && is_plain(domain)).then(|| text.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Attribute;
    use crate::samples::text;

    fn from(properties: Vec<Property>, attributes: Vec<Attribute>) -> Option<String> {
        let message = Message { properties, attributes, ..Message::default() };
        People::of_message(&message).from.map(|person| person.in_header())
    }

    fn one_off(kind: &str, flags: u16, encode: fn(&str) -> Vec<u8>) -> Vec<u8> {
        let mut bytes = [&[0; 4][..], &OneOff::PROVIDER, &[0, 0], &flags.to_le_bytes()].concat();
        for text in ["Zo\u{eb}", kind, "zoe@x.example"] {
            bytes.extend(encode(&format!("{text}\0")));
        }
        bytes
    }

    fn utf_16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn latin_1(text: &str) -> Vec<u8> {
        text.chars().map(|c| c as u8).collect()
    }

    /// An entry of someone with this name and address.
    pub fn one_off_entry(name: &str, address: &str) -> Vec<u8> {
        let mut bytes = [&[0; 4][..], &OneOff::PROVIDER, &[0, 0, 1, 0x90]].concat();
        for text in [name, "SMTP", address] {
            bytes.extend(utf_16(&format!("{text}\0")));
        }
        bytes
    }

    fn entry(id: u16, bytes: Vec<u8>) -> Property {
        Property::new(id, Value::Binary(bytes))
    }

    /// A name does not replace an address that the message has elsewhere.
    #[test]
    fn a_sender_who_has_an_address_counts() {
        let name = || text(property::SENT_REPRESENTING_NAME, "Ana");
        let sender =
            || vec![text(property::SENDER_NAME, "Ana"), text(property::SENDER_SMTP_ADDRESS, "ana@x.example")];
        let old = [&[4, 0, 0, 0, 4, 0, 19, 0][..], b"Ana\0SMTP:ana@x.example\0"].concat();
        let old = || vec![Attribute { id: attribute::FROM, data: old.clone() }];
        let expected = Some("\"Ana\" <ana@x.example>".to_owned());
        assert_eq!(from([vec![name()], sender()].concat(), vec![]), expected);
        assert_eq!(from(vec![name()], old()), expected);
        assert_eq!(from(vec![name()], vec![]).as_deref(), Some("\"Ana\":;"));
        // A name within Exchange is no address either.
        let exchange = vec![
            name(),
            text(property::SENT_REPRESENTING_ADDRESS_TYPE, "EX"),
            text(property::SENT_REPRESENTING_EMAIL_ADDRESS, "/o=Org/cn=ana"),
        ];
        assert_eq!(from([exchange, sender()].concat(), vec![]), expected);
        // On behalf of another person.
        let both = vec![name(), text(property::SENT_REPRESENTING_SMTP_ADDRESS, "boss@x.example")];
        assert_eq!(from([both, sender()].concat(), vec![]).as_deref(), Some("\"Ana\" <boss@x.example>"));
    }

    /// MS-OXCDATA §2.2.5.1.
    #[test]
    fn a_one_off_entry_has_an_address() {
        let expected = Some("=?utf-8?B?Wm/Dqw==?= <zoe@x.example>".to_owned());
        for bytes in [one_off("SMTP", 0x9001, utf_16), one_off("smtp", 0x1001, latin_1)] {
            for id in [property::SENDER_ENTRY_ID, property::SENT_REPRESENTING_ENTRY_ID] {
                assert_eq!(from(vec![entry(id, bytes.clone())], vec![]), expected);
            }
            let recipients = vec![vec![entry(property::ENTRY_ID, bytes.clone())]];
            let people = People::of_message(&Message { recipients, ..Message::default() });
            assert_eq!(people.recipients.first().map(|(_, person)| person.in_header()), expected);
            for len in 0..bytes.len() - 2 {
                let cut = from(vec![entry(property::SENDER_ENTRY_ID, bytes[..len].to_vec())], vec![]);
                assert_ne!(cut, expected, "{len}");
            }
        }
        let other = one_off("FAX", 0x9001, utf_16);
        let found = from(vec![entry(property::SENDER_ENTRY_ID, other)], vec![]);
        assert_eq!(found.as_deref(), Some("=?utf-8?B?Wm/Dqw==?=:;"));
    }
}
