//! Senders and recipients, out of properties and out of header fields.

use posthaste_mime_summary::{InBounds, address_list, decode_words};

use super::header;
use crate::charset;
use crate::model::{Message, Property, Value, find, find_attribute};
use crate::reader::Reader;
use crate::tags::{attribute, property};

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

    /// As an address of a header field. Someone without an address is a group without members
    /// (RFC 5322 §3.4, RFC 6854 §2.1): the name is kept and nobody is written to.
    pub fn in_header(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), Some(address)) => format!("{} <{address}>", header::phrase(name)),
            (None, Some(address)) => address.clone(),
            (Some(name), None) => format!("{}:;", header::phrase(name)),
            (None, None) => String::new(),
        }
    }
}

/// How someone takes part: PidTagRecipientType.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    To,
    Cc,
    /// A blind copy, or a room and the like of a meeting.
    Bcc,
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

    /// The same, with the values of From, To and Cc in place of those that they name.
    pub fn with_header(mut self, field: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let list = |name: &str| field(name).map(|value| people_of(&value)).unwrap_or_default();
        if let Some(from) = list("from").into_iter().find(|person| person.address.is_some()) {
            self.from = Some(from);
        }
        if !self.recipients.iter().any(|(_, person)| person.address.is_some()) {
            let to = list("to").into_iter().map(|person| (Role::To, person));
            self.recipients = to.chain(list("cc").into_iter().map(|person| (Role::Cc, person))).collect();
        }
        self
    }
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

/// The sender. If it was sent on behalf of another person, that person (MS-OXOMSG §2.2.1.48).
fn sender(message: &Message) -> Option<Person> {
    let person = |name, smtp, kind, address| {
        let is_smtp = message.text(kind).is_some_and(|kind| kind.eq_ignore_ascii_case("SMTP"));
        let address = message.text(address).filter(|_| is_smtp);
        Person::new(message.text(name), message.text(smtp).or(address))
    };
    person(
        property::SENT_REPRESENTING_NAME,
        property::SENT_REPRESENTING_SMTP_ADDRESS,
        property::SENT_REPRESENTING_ADDRESS_TYPE,
        property::SENT_REPRESENTING_EMAIL_ADDRESS,
    )
    .or_else(|| {
        person(
            property::SENDER_NAME,
            property::SENDER_SMTP_ADDRESS,
            property::SENDER_ADDRESS_TYPE,
            property::SENDER_EMAIL_ADDRESS,
        )
    })
    .or_else(|| of_attribute(find_attribute(&message.attributes, attribute::FROM)?, message.code_page))
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

fn recipient(row: &[Property], code_page: u32) -> Option<(Role, Person)> {
    let text = |id| find(row, id)?.text(code_page);
    let is_smtp = text(property::ADDRESS_TYPE).is_none_or(|kind| kind.eq_ignore_ascii_case("SMTP"));
    let address = text(property::EMAIL_ADDRESS).filter(|_| is_smtp);
    let person = Person::new(text(property::DISPLAY_NAME), text(property::SMTP_ADDRESS).or(address))?;
    // The upper bits say whether the server has taken charge: MS-OXOMSG §2.2.3.1.2.
    let role = match find(row, property::RECIPIENT_TYPE).and_then(Value::number).map(|n| n & 0xF) {
        Some(2) => Role::Cc,
        Some(3) => Role::Bcc,
        Some(0) => return None,
        _ => Role::To,
    };
    Some((role, person))
}

/// An address that may stand in a header as it is.
pub(super) fn mail_address(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('\'');
    let (local, domain) = text.rsplit_once('@')?;
    let is_plain = |part: &str| {
        let fits = |b: u8| b > b' ' && b != 0x7F && !b"<>()[]\\,;:\"@".contains(&b);
        !part.is_empty() && part.len() <= 255 && part.bytes().all(fits)
    };
    (is_plain(local) && is_plain(domain)).then(|| text.to_owned())
}
