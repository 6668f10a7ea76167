//! A rich message as MIME entities.

use std::collections::HashSet;

use posthaste_mime_summary::InBounds;

use super::body::{Bodies, TextBudget};
use super::calendar::{self, Method};
use super::card;
use super::dates;
use super::entity::Entity;
use super::header;
use super::item::{CodePages, Disposition, ID_MAX, Inner, Item};
use super::people::{People, Role};
use crate::error::Damage;
use crate::model::{Message, Value, find_attribute};
use crate::tags::{attribute, property};

/// The contents of a rich message, as entities.
pub(super) struct Whole<'m> {
    /// Its text, if it has any.
    pub text: Option<Entity<'m>>,
    /// Its HTML, with the images that it shows.
    pub html: Option<Entity<'m>>,
    /// A meeting, as one more form of the text.
    pub meeting: Option<Entity<'m>>,
    /// Everything else, in its order.
    pub attachments: Vec<Entity<'m>>,
}

impl<'m> Whole<'m> {
    /// `people` are those of the message, or of the header around it.
    pub fn of(message: &'m Message, people: &People, budget: &mut TextBudget) -> Result<Self, Damage> {
        let Bodies { text, html } = Bodies::of(message, budget)?;
        let (mut shown, mut attachments) = (Vec::new(), Vec::new());
        let ids = shown_ids(html.as_deref().unwrap_or_default());
        let is_shown = |id: Option<&str>| id.is_some_and(|id| ids.contains(id));
        let code_pages = CodePages { text: message.text_code_page(), attributes: message.code_page };
        for (place, attachment) in message.attachments.iter().enumerate() {
            let Some(item) = Item::of(attachment, code_pages) else { continue };
            match item.inner {
                Inner::Message(inner) => attachments.push(embedded(&item, inner, budget)?),
                Inner::Bytes(bytes) if is_shown(item.id.as_deref()) => {
                    shown.push(item.entity(bytes, Disposition::Inline, place + 1));
                }
                Inner::Bytes(bytes) => {
                    attachments.push(item.entity(bytes, Disposition::Attachment, place + 1))
                }
            }
        }
        let class = message.class();
        let subject = subject(message);
        let meeting = Method::of(&class).and_then(|method| {
            let text = calendar::calendar(message, method, people, subject.as_deref(), text.as_deref())?;
            let media = format!("text/calendar; method={}", method.name());
            Some(Entity::Text { media, fields: vec![], text })
        });
        if card::is_contact(&class) {
            let name = header::parameter("filename", "contact.vcf");
            let fields = vec![("Content-Disposition", format!("attachment{name}"))];
            let text = card::card(message);
            attachments.push(Entity::Text { media: "text/vcard".to_owned(), fields, text });
        }
        let entity = |media: &str, text| Entity::Text { media: media.to_owned(), fields: vec![], text };
        // RFC 2387: the HTML comes first, then the parts to which it refers.
        let html = html.map(|html| {
            let mut parts = vec![entity("text/html", html)];
            parts.append(&mut shown);
            Entity::group("related", parts)
        });
        let text = text.map(|text| entity("text/plain", text));
        Ok(Self { text, html: html.flatten(), meeting, attachments })
    }

    /// The text in all its forms, simplest first: RFC 2046 §5.1.4.
    pub fn take_body(&mut self) -> Option<Entity<'m>> {
        let forms = [self.text.take(), self.html.take(), self.meeting.take()];
        Entity::group("alternative", forms.into_iter().flatten().collect())
    }

    /// All of it as one entity. A message without anything has an empty text.
    pub fn into_entity(mut self) -> Entity<'m> {
        let mut parts: Vec<_> = self.take_body().into_iter().collect();
        parts.append(&mut self.attachments);
        let empty = || Entity::Text { media: "text/plain".to_owned(), fields: vec![], text: String::new() };
        Entity::group("mixed", parts).unwrap_or_else(empty)
    }
}

/// The Content-IDs that HTML refers to: RFC 2392.
fn shown_ids(html: &str) -> HashSet<&str> {
    /// Images that HTML shows at most; others are attachments. It bounds the memory of their ids.
    const SHOWN_MAX: usize = 10_000;
    let mut ids = HashSet::new();
    for at in memchr::memchr_iter(b':', html.as_bytes()) {
        if ids.len() >= SHOWN_MAX {
            break;
        }
        let is_cid = at.checked_sub(3).and_then(|from| html.get(from..at));
        if is_cid.is_some_and(|scheme| scheme.eq_ignore_ascii_case("cid")) {
            let rest = html.in_bounds(at + 1..);
            // No id is longer than a line, so that colons in a row cost no more than a line each.
            let ends = |b: &u8| b.is_ascii_whitespace() || b"\"'<>()&".contains(b);
            let len = rest.bytes().take(ID_MAX + 1).position(|b| ends(&b)).unwrap_or(ID_MAX + 1);
            ids.extend(rest.get(..len).filter(|id| !id.is_empty() && id.len() <= ID_MAX));
        }
    }
    ids
}

/// A message inside an attachment.
fn embedded<'m>(item: &Item<'_>, inner: &'m Message, budget: &mut TextBudget) -> Result<Entity<'m>, Damage> {
    let people = People::of_message(inner);
    let content = Whole::of(inner, &people, budget)?.into_entity();
    let fields = item.message_fields(subject(inner));
    Ok(Entity::Message { fields, header: header_fields(inner, &people), content: Box::new(content) })
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
    for (name, wanted, shown) in
        [("To", Role::To, property::DISPLAY_TO), ("Cc", Role::Cc, property::DISPLAY_CC)]
    {
        let list = people.recipients.iter().filter(|(role, _)| *role == wanted);
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
    let importance = match message.property(property::IMPORTANCE).and_then(Value::number) {
        Some(0) => Some("low"),
        Some(2) => Some("high"),
        _ => None,
    };
    fields.extend(importance.map(|word| ("Importance", word.to_owned())));
    fields
}

/// Ids that may stand in a header as they are: RFC 5322 §3.6.4.
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
