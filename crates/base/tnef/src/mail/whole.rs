//! A rich message as MIME entities.

use std::borrow::Cow;
use std::collections::HashSet;

use posthaste_mime_summary::InBounds;

use super::body::{Bodies, TextBudget};
use super::calendar::{Meeting, Method, calendar};
use super::card;
use super::entity::Entity;
use super::header;
use super::headers::{header_of_embedded, subject};
use super::item::{CodePages, Disposition, ID_MAX, Inner, Item, extension_of};
use super::people::People;
use super::{report, task};
use crate::error::Damage;
use crate::model::{Attachment, Content, Message, Value, find, find_attribute};
use crate::rtf::Picture;
use crate::tags::{attribute, property};

/// The contents of a rich message, as entities.
pub(super) struct Whole<'m> {
    /// The message's text, if it has any.
    pub text: Option<String>,
    /// The message's HTML.
    pub html: Option<String>,
    /// The images that the HTML shows.
    pub shown: Vec<Entity<'m>>,
    /// A meeting, as one more form of the text.
    pub meeting: Option<Entity<'m>>,
    /// Everything else, in its order.
    pub attachments: Vec<Entity<'m>>,
}

impl<'m> Whole<'m> {
    /// `people` and `subject` are those of the message, or of the header around it.
    pub fn of(
        message: &'m Message,
        people: &People,
        subject: Option<&str>,
        budget: &mut TextBudget,
    ) -> Result<Self, Damage> {
        let Bodies { text, html, pictures } = Bodies::of(message, budget)?;
        let (mut shown, mut attachments) = (Vec::new(), Vec::new());
        let shown_ones = ReferredParts::of(html.as_deref().unwrap_or_default());
        for (place, picture) in pictures.into_iter().enumerate() {
            let is_shown = shown_ones.ids.contains(picture.id.as_str());
            let entity = picture_entity(picture, place + 1);
            // A picture that the chosen text does not show becomes an attachment, so it is not
            // lost.
            if is_shown { shown.push(entity) } else { attachments.push(entity.attached()) }
        }
        let code_pages = CodePages { text: message.text_code_page(), attributes: message.code_page };
        let method = Method::of(message);
        let said = Said::of(message);
        for (place, attachment) in message.attachments.iter().enumerate() {
            if method.is_some() && is_changed_occurrence(attachment, &said) {
                continue;
            }
            let Some(item) = Item::of(attachment, code_pages) else { continue };
            match &item.inner {
                Inner::Message(inner) => attachments.push(embedded(&item, inner, budget)?),
                Inner::Bytes(bytes) if shown_ones.has(&item) => {
                    shown.push(item.entity(bytes, Disposition::Inline, place + 1));
                }
                Inner::Bytes(bytes) => {
                    attachments.push(item.entity(bytes, Disposition::Attachment, place + 1))
                }
                Inner::Elsewhere(path) => attachments.push(item.reference(path)),
            }
        }
        let meeting = method.and_then(|method| {
            let description = text.as_deref();
            let room = (budget.left() / 2).min(CHANGED_MAX);
            let text = calendar(Meeting { message, method, people, subject, description }, room)?;
            // It has as much of the budget as there is.
            let _ = budget.take(text.len().min(budget.left()));
            let media = format!("text/calendar; method={}", method.name());
            Some(Entity::Text { media, fields: vec![], text })
        });
        let more =
            [card::of_message(message, text.as_deref()), task::task(message, subject, text.as_deref())];
        for (media, name, text) in more.into_iter().flatten() {
            let _ = budget.take(text.len().min(budget.left()));
            let name = header::parameter("filename", name);
            let fields = vec![("Content-Disposition", format!("attachment{name}"))];
            attachments.push(Entity::Text { media: media.to_owned(), fields, text });
        }
        Ok(Self { text, html, shown, meeting, attachments })
    }

    /// Gives a report without any text the one that its properties say.
    pub fn add_report(&mut self, message: &Message, budget: &mut TextBudget) -> Result<(), Damage> {
        if self.text.is_none() && self.html.is_none() {
            self.text = report::text(message);
            budget.take(self.text.as_ref().map_or(0, String::len))?;
        }
        Ok(())
    }

    /// Whether it has nothing that mail can show.
    pub fn is_empty(&self) -> bool {
        self.text.is_none() && self.html.is_none() && self.meeting.is_none() && self.attachments.is_empty()
    }

    /// Whether a file that is a message has octets over 127, which are printed unchanged.
    pub fn is_8bit(&self) -> bool {
        self.shown.iter().chain(&self.attachments).any(Entity::is_8bit)
    }

    /// Takes the message's plain text.
    pub fn take_text(&mut self) -> Option<Entity<'m>> {
        self.text.take().map(|text| text_entity("text/plain", text))
    }

    /// The HTML of the message, with the images that it shows. RFC 2387: the HTML comes first.
    pub fn take_html(&mut self) -> Option<Entity<'m>> {
        let mut parts = vec![text_entity("text/html", self.html.take()?)];
        parts.append(&mut self.shown);
        Entity::group("related", parts)
    }

    /// Drops the HTML. Its images become attachments.
    pub fn drop_html(&mut self) {
        self.html = None;
        let images = std::mem::take(&mut self.shown).into_iter().map(Entity::attached);
        self.attachments.splice(0..0, images);
    }

    /// The text in all its forms, simplest first: RFC 2046 §5.1.4.
    pub fn take_body(&mut self) -> Option<Entity<'m>> {
        let forms = [self.take_text(), self.take_html(), self.meeting.take()];
        Entity::group("alternative", forms.into_iter().flatten().collect())
    }

    /// The whole message as one entity. A message without anything has an empty text.
    pub fn into_entity(mut self) -> Entity<'m> {
        let mut parts: Vec<_> = self.take_body().into_iter().collect();
        parts.append(&mut self.attachments);
        Entity::group("mixed", parts).unwrap_or_else(|| text_entity("text/plain", String::new()))
    }
}

fn text_entity<'m>(media: &str, text: String) -> Entity<'m> {
    Entity::Text { media: media.to_owned(), fields: vec![], text }
}

/// The properties that may have a message's text.
const TEXTS: [u16; 3] = [property::BODY, property::HTML, property::RTF_COMPRESSED];

/// The texts of a message, as it has them. They are found once, not for each attachment.
struct Said<'m> {
    values: [Option<&'m Value>; TEXTS.len()],
    old: Option<&'m [u8]>,
}

impl<'m> Said<'m> {
    fn of(message: &'m Message) -> Self {
        let values = TEXTS.map(|id| message.property(id).filter(|value| !value.is_empty()));
        let is_blank = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0);
        let old = find_attribute(&message.attributes, attribute::BODY).filter(|text| !is_blank(text));
        Self { values, old }
    }

    /// Whether one of these texts is another one than `usual` has in its place.
    fn has_other_than(&self, usual: &Self) -> bool {
        let mut both = self.values.iter().zip(&usual.values);
        both.any(|(own, usual)| own.is_some() && own != usual) || self.old.is_some() && self.old != usual.old
    }
}

/// Whether it is a changed occurrence of a series (MS-OXOCAL §2.2.10.1) with these texts, and the
/// calendar says all of it. One with a text or a file of its own stays a message: these are nowhere
/// else.
fn is_changed_occurrence(attachment: &Attachment, usual: &Said<'_>) -> bool {
    const CLASS: &str = "IPM.OLE.CLASS.{00061055-0000-0000-C000-000000000046}";
    let Some(Value::Object(object)) = find(&attachment.properties, property::ATTACH_DATA) else {
        return false;
    };
    let Content::Message(inner) = &object.content else { return false };
    inner.class().eq_ignore_ascii_case(CLASS)
        && inner.attachments.is_empty()
        && !Said::of(inner).has_other_than(usual)
}

/// Bytes that the events of changed occurrences take at most. A meeting with a hundred attendees
/// has 12 KiB in each of them.
const CHANGED_MAX: usize = 1 << 20;

/// A picture of RTF, as a part that HTML shows.
fn picture_entity<'m>(picture: Picture, number: usize) -> Entity<'m> {
    let Picture { media, id, bytes } = picture;
    let name = format!("picture-{number}{}", extension_of(media));
    let (size, file) = (bytes.len(), header::parameter("filename", &name));
    let fields = vec![
        ("Content-Disposition", format!("inline{file};\r\n size={size}")),
        ("Content-ID", format!("<{id}>")),
    ];
    let media = format!("{media}{}", header::parameter("name", &name));
    Entity::Bytes { media, fields, bytes: Cow::Owned(bytes) }
}

/// The images and files that HTML refers to.
struct ReferredParts<'h> {
    ids: HashSet<Cow<'h, str>>,
    /// The values of `src` and `background`.
    locations: HashSet<&'h str>,
}

impl<'h> ReferredParts<'h> {
    fn of(html: &'h str) -> Self {
        Self { ids: shown_ids(html), locations: shown_locations(html) }
    }

    fn has(&self, item: &Item<'_>) -> bool {
        item.id.as_deref().is_some_and(|id| self.ids.contains(id))
            || item.location.as_deref().is_some_and(|location| self.locations.contains(location))
    }
}

/// Images that HTML shows at most; others are attachments. It bounds the memory of their ids.
const SHOWN_MAX: usize = 10_000;

/// The Content-IDs that HTML refers to: RFC 2392.
fn shown_ids(html: &str) -> HashSet<Cow<'_, str>> {
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
            let id = rest.get(..len).filter(|id| !id.is_empty() && id.len() <= ID_MAX);
            ids.extend(id.map(Cow::Borrowed));
            // RFC 2392 §2: characters may be escaped.
            ids.extend(id.and_then(unescaped).map(Cow::Owned));
        }
    }
    ids
}

/// An id without its escapes (`%40`); `None` if it has none.
fn unescaped(id: &str) -> Option<String> {
    let (first, rest) = id.split_once('%')?;
    let mut out = first.as_bytes().to_vec();
    for piece in rest.split('%') {
        let byte = piece.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok())?;
        out.push(byte);
        out.extend_from_slice(piece.in_bounds(2..).as_bytes());
    }
    String::from_utf8(out).ok()
}

/// The addresses of images that HTML shows: RFC 2557 §4.2. Each is shorter than a line.
fn shown_locations(html: &str) -> HashSet<&str> {
    let mut locations = HashSet::new();
    for at in memchr::memchr_iter(b'=', html.as_bytes()) {
        if locations.len() >= SHOWN_MAX {
            break;
        }
        let is = |name: &str| {
            let found = at.checked_sub(name.len()).and_then(|from| html.get(from..at));
            found.is_some_and(|found| found.eq_ignore_ascii_case(name))
        };
        if is("src") || is("background") {
            let rest = html.in_bounds(at + 1..);
            let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
            let ends = |b: &u8| b.is_ascii_whitespace() || b"\"'<>".contains(b);
            let len = rest.bytes().take(ID_MAX + 1).position(|b| ends(&b));
            locations.extend(len.and_then(|len| rest.get(..len)).filter(|location| !location.is_empty()));
        }
    }
    locations
}

/// A message inside an attachment.
fn embedded<'m>(item: &Item<'_>, inner: &'m Message, budget: &mut TextBudget) -> Result<Entity<'m>, Damage> {
    let (people, subject) = (People::of_message(inner), subject(inner));
    let mut content = Whole::of(inner, &people, subject.as_deref(), budget)?;
    content.add_report(inner, budget)?;
    let content = content.into_entity();
    let fields = item.message_fields(subject);
    let header = header_of_embedded(inner, &people, budget);
    Ok(Entity::Message { fields, header, content: Box::new(content) })
}
