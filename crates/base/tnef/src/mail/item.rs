//! An attachment: its name, its type, its dates, its bytes.

use std::borrow::Cow;

use posthaste_mime_summary::{InBounds, is_charset};

use super::dates;
use super::entity::Entity;
use super::file::{AsItIs, MESSAGE};
use super::header;
use super::mac::{MACBINARY, MacBinary};
use crate::model::{Attachment, Content, Message, Value, attribute_text, find, find_attribute};
use crate::tags::{attribute, property};

/// The content of an attachment.
pub(super) enum Inner<'m> {
    Bytes(&'m [u8]),
    Message(&'m Message),
    /// The data is elsewhere, under this path: MS-OXCMSG §2.2.2.9.
    Elsewhere(String),
}

/// The code pages of a message's 8-bit text: found once, not for each attachment.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodePages {
    /// The code page of properties.
    pub text: u32,
    /// The code page of attributes.
    pub attributes: u32,
}

/// Longest Content-ID: with its brackets and name it stays within a line of 998.
pub(super) const ID_MAX: usize = 250;

/// The way of showing a part (RFC 2183).
#[derive(Clone, Copy)]
pub enum Disposition {
    Inline,
    Attachment,
}

/// An attachment as mail has it.
pub(super) struct Item<'m> {
    name: Option<String>,
    /// The end of the name, for a file without a name.
    extension: Option<String>,
    media: String,
    /// The charset of a text, as a parameter.
    charset: String,
    /// Content-ID without its brackets.
    pub id: Option<String>,
    /// Content-Location: how HTML names it, if not by its id.
    pub location: Option<String>,
    fields: String,
    pub inner: Inner<'m>,
}

impl<'m> Item<'m> {
    /// An attachment of a message with these code pages. `None` if it has neither data nor
    /// a path nor a name.
    pub fn of(attachment: &'m Attachment, code_pages: CodePages) -> Option<Self> {
        let text = |id| find(&attachment.properties, id)?.text(code_pages.text);
        let extension = text(property::ATTACH_EXTENSION).and_then(|extension| extension_named(&extension));
        let name = name_of(attachment, code_pages, extension.as_deref());
        let found = found(attachment, code_pages);
        let is_lost = found.is_none();
        // The reader sees that there was a file.
        let (inner, is_tnef) = found.or_else(|| name.is_some().then_some((Inner::Bytes(&[]), false)))?;
        let name = if is_tnef { Some("winmail.dat".to_owned()) } else { name };
        let mac = mac_binary(attachment, &inner);
        let is_mac = mac.is_some();
        let is_whole_mac = mac.as_ref().is_some_and(|mac| mac.has_resources);
        let (inner, name) = match mac {
            Some(mac) => of_mac(&mac, inner, name),
            None => (inner, name),
        };
        let id = text(property::ATTACH_CONTENT_ID).and_then(|id| content_id(&id));
        let location = text(property::ATTACH_CONTENT_LOCATION).and_then(|location| content_id(&location));
        let media = text(property::ATTACH_MIME_TAG).and_then(|tag| media_type(&tag));
        // That is the type of the whole file, and only its data is left.
        let media = media.filter(|media| !is_mac || !media.ends_with("macbinary"));
        let media = match (is_tnef, media) {
            _ if is_lost => "application/octet-stream".to_owned(),
            _ if is_whole_mac => MACBINARY.to_owned(),
            (true, _) => "application/ms-tnef".to_owned(),
            (_, Some(media)) => media,
            (_, None) => {
                media_of_name(name.as_ref().or(extension.as_ref()).map_or("", String::as_str)).to_owned()
            }
        };
        let charset =
            text(property::TEXT_ATTACHMENT_CHARSET).filter(|name| is_charset(name.trim().as_bytes()));
        let charset = charset.filter(|_| media.starts_with("text/"));
        let charset = charset.map(|name| header::parameter("charset", name.trim())).unwrap_or_default();
        let fields = date_parameters(attachment);
        Some(Self { name, extension, media, charset, id, location, fields, inner })
    }

    /// The item as an entity. A file without a name is named by `number`.
    pub fn entity(&self, bytes: &'m [u8], disposition: Disposition, number: usize) -> Entity<'m> {
        let name = self.name.clone().unwrap_or_else(|| {
            let extension = self.extension.clone().unwrap_or_else(|| extension_of(&self.media));
            format!("attachment-{number}{extension}")
        });
        let mut fields = vec![self.disposition(&name, disposition, Some(bytes.len()))];
        if let Some(id) = &self.id {
            fields.push(("Content-ID", format!("<{id}>")));
        }
        if let Some(location) = &self.location {
            fields.push(("Content-Location", location.clone()));
        }
        let params = header::parameter("name", &name);
        if self.media != MESSAGE {
            let media = format!("{}{}{params}", self.media, self.charset);
            return Entity::Bytes { media, fields, bytes: Cow::Borrowed(bytes) };
        }
        match AsItIs::of(bytes) {
            Some(encoding) => Entity::File { params, fields, bytes, encoding },
            None => {
                let media = format!("application/octet-stream{params}");
                Entity::Bytes { media, fields, bytes: Cow::Borrowed(bytes) }
            }
        }
    }

    /// A text in place of a file that is elsewhere: it names the file and its path.
    pub fn reference(&self, path: &str) -> Entity<'m> {
        let name = self.name.as_deref().unwrap_or("The file");
        let path = header::clean(path);
        let text = format!("{name} is not part of this message. It is at\r\n{path}\r\n");
        let fields = vec![("Content-Disposition", "inline".to_owned())];
        Entity::Text { media: "text/plain".to_owned(), fields, text }
    }

    /// The fields of the part that has an embedded message.
    pub fn message_fields(&self, subject: Option<String>) -> Vec<(&'static str, String)> {
        let name = self.name.clone().or(subject.map(|subject| file_name(&subject)));
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "message".to_owned());
        let name = if name.to_ascii_lowercase().ends_with(".eml") { name } else { format!("{name}.eml") };
        vec![self.disposition(&name, Disposition::Attachment, None)]
    }

    /// RFC 2183.
    fn disposition(
        &self,
        name: &str,
        disposition: Disposition,
        size: Option<usize>,
    ) -> (&'static str, String) {
        let kind = match disposition {
            Disposition::Inline => "inline",
            Disposition::Attachment => "attachment",
        };
        let size = size.map(|size| format!(";\r\n size={size}")).unwrap_or_default();
        let name = header::parameter("filename", name);
        ("Content-Disposition", format!("{kind}{name}{size}{}", self.fields))
    }
}

/// The name of an attachment. A name without an extension gets the one that the attachment has
/// (MS-OXCMSG §2.2.2.12).
fn name_of(attachment: &Attachment, code_pages: CodePages, extension: Option<&str>) -> Option<String> {
    let text = |id| find(&attachment.properties, id)?.text(code_pages.text);
    let old = |id| attribute_text(&attachment.attributes, id, code_pages.attributes);
    let name = text(property::ATTACH_LONG_FILENAME)
        .or_else(|| text(property::ATTACH_FILENAME))
        .or_else(|| old(attribute::ATTACH_TITLE))
        .or_else(|| text(property::DISPLAY_NAME))
        .or_else(|| text(property::ATTACH_TRANSPORT_NAME))
        .or_else(|| old(attribute::ATTACH_TRANSPORT_FILENAME));
    let name = name.map(|name| file_name(&name)).filter(|name| !name.is_empty())?;
    let more = extension.filter(|_| !name.contains('.')).unwrap_or_default();
    Some(format!("{name}{more}"))
}

/// The file of classic Mac OS that an attachment says it is: MS-OXTNEF §2.1.3.3.15, or
/// PidTagAttachEncoding (MS-OXCMSG §2.2.2.20).
fn mac_binary<'m>(attachment: &Attachment, inner: &Inner<'m>) -> Option<MacBinary<'m>> {
    const IS_MAC_BINARY: u32 = 1;
    const ENCODING: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x14, 0x03, 0x0B, 0x01];
    let encoding = || find(&attachment.properties, property::ATTACH_ENCODING).and_then(Value::bytes);
    let is_flagged = attachment.rendering.flags & IS_MAC_BINARY != 0;
    match inner {
        Inner::Bytes(bytes) if is_flagged || encoding() == Some(ENCODING) => MacBinary::of(bytes),
        _ => None,
    }
}

/// The data of such a file, if it has nothing else. Otherwise the file stays whole, so that
/// nothing is lost, and its name says what it is.
fn of_mac<'m>(mac: &MacBinary<'m>, whole: Inner<'m>, name: Option<String>) -> (Inner<'m>, Option<String>) {
    let name = name.or_else(|| Some(file_name(&mac.name())).filter(|name| !name.is_empty()));
    if !mac.has_resources {
        return (Inner::Bytes(mac.data), name);
    }
    let is_named = |name: &str| name.to_ascii_lowercase().ends_with(".bin");
    (whole, name.map(|name| if is_named(&name) { name } else { format!("{name}.bin") }))
}

/// An extension with its dot, if it is one.
fn extension_named(text: &str) -> Option<String> {
    const LEN_MAX: usize = 16;
    let word = text.trim().trim_start_matches('.');
    let is_word =
        !word.is_empty() && word.len() <= LEN_MAX && word.bytes().all(|b| b.is_ascii_alphanumeric());
    is_word.then(|| format!(".{word}"))
}

/// The parameters of RFC 2183 §2.4 and §2.5.
fn date_parameters(attachment: &Attachment) -> String {
    let date = |id: u16, old: u32| {
        let own = find(&attachment.properties, id).and_then(dates::of_value);
        own.or_else(|| dates::of_attribute(find_attribute(&attachment.attributes, old)?))
    };
    let created = date(property::CREATION_TIME, attribute::ATTACH_CREATE_DATE);
    let changed = date(property::LAST_MODIFICATION_TIME, attribute::ATTACH_MODIFY_DATE);
    let both = [("creation-date", created), ("modification-date", changed)].into_iter();
    both.filter_map(|(field, at)| Some(header::parameter(field, &dates::in_mail(at?)))).collect()
}

/// The data of an attachment, or where it is, and whether it is TNEF that stays as it is. One by
/// reference may have empty data beside its path.
fn found(attachment: &Attachment, code_pages: CodePages) -> Option<(Inner<'_>, bool)> {
    const BY_VALUE: i64 = 1;
    let text = |id| find(&attachment.properties, id)?.text(code_pages.text);
    let method = find(&attachment.properties, property::ATTACH_METHOD).and_then(Value::number);
    match data(attachment) {
        None => {}
        Some((Inner::Bytes([]), _)) if method != Some(BY_VALUE) => {}
        found => return found,
    }
    let path = text(property::ATTACH_LONG_PATHNAME).or_else(|| text(property::ATTACH_PATHNAME));
    let path = path.filter(|path| !path.trim().is_empty()).map(|path| (Inner::Elsewhere(path), false));
    path.or_else(|| data(attachment))
}

/// The data of an attachment, and whether it is TNEF that stays as it is. Of two that should be
/// the same, the one that is not empty counts.
fn data(attachment: &Attachment) -> Option<(Inner<'_>, bool)> {
    let old = find_attribute(&attachment.attributes, attribute::ATTACH_DATA);
    let (bytes, is_tnef) = match find(&attachment.properties, property::ATTACH_DATA) {
        Some(Value::Object(object)) => match &object.content {
            Content::Message(message) => return Some((Inner::Message(message), false)),
            Content::Bytes(bytes) => (Some(bytes.as_slice()), crate::has_signature(bytes)),
        },
        Some(Value::Binary(bytes)) => (Some(bytes.as_slice()), false),
        _ => (None, false),
    };
    let bytes = bytes.filter(|bytes| !bytes.is_empty()).or(old).or(bytes);
    bytes.map(|bytes| (Inner::Bytes(bytes), is_tnef))
}

/// The last part of a path, without characters that have a meaning in a file system or a header.
fn file_name(text: &str) -> String {
    const NAME_MAX: usize = 255;
    let text = text.trim_end_matches(['/', '\\']);
    let last = text.rsplit_once(['/', '\\']).map_or(text, |(_, last)| last);
    let name = header::clean(last);
    // A name may begin with a dot. Windows drops dots at its end, and they alone are no name.
    let name = name.trim_end_matches(['.', ' ']).trim_start();
    name.in_bounds(..name.floor_char_boundary(NAME_MAX)).to_owned()
}

/// `type/subtype` in lower case. A composite type would have to be parsed. It does not count as a
/// type, unless it is a message.
fn media_type(tag: &str) -> Option<String> {
    let media = tag.split(';').next()?.trim().to_ascii_lowercase();
    let (top, sub) = media.split_once('/')?;
    let is_token = |word: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        !word.is_empty() && word.len() <= 127 && word.bytes().all(fits)
    };
    let is_leaf = !matches!(top, "multipart" | "message") || media == MESSAGE;
    (is_token(top) && is_token(sub) && is_leaf).then_some(media)
}

/// An id without brackets, as a Content-ID field may have it.
fn content_id(text: &str) -> Option<String> {
    let id = text.trim().trim_start_matches('<').trim_end_matches('>');
    let fits = |b: u8| matches!(b, b'!'..=b'~') && !matches!(b, b'<' | b'>');
    (!id.is_empty() && id.len() <= ID_MAX && id.bytes().all(fits)).then(|| id.to_owned())
}

/// Types by the extension of a file, and extensions by type: what mail mostly has.
const TYPES: &[(&str, &str)] = &[
    ("txt", "text/plain"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("csv", "text/csv"),
    ("ics", "text/calendar"),
    ("vcf", "text/vcard"),
    ("rtf", "application/rtf"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("doc", "application/msword"),
    ("xls", "application/vnd.ms-excel"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("svg", "image/svg+xml"),
    ("webp", "image/webp"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("msg", "application/vnd.ms-outlook"),
    ("vsd", "application/vnd.visio"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("7z", "application/x-7z-compressed"),
    ("rar", "application/vnd.rar"),
    ("heic", "image/heic"),
    ("emf", "image/emf"),
    ("wmf", "image/wmf"),
    ("ogg", "audio/ogg"),
    ("m4a", "audio/mp4"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("mov", "video/quicktime"),
    ("avi", "video/x-msvideo"),
    ("webm", "video/webm"),
];

fn media_of_name(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let found = TYPES.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known));
    found.map_or("application/octet-stream", |(_, media)| media)
}

/// The extension of a file of this type, with its dot.
pub(super) fn extension_of(media: &str) -> String {
    let found = TYPES.iter().find(|(_, known)| *known == media);
    found.map_or_else(String::new, |(extension, _)| format!(".{extension}"))
}

#[cfg(test)]
mod tests {
    use super::super::mac::tests::file as mac_file;
    use super::*;
    use crate::{Attribute, Property, Rendering};

    #[test]
    fn a_name_gets_the_extension_that_it_lacks() {
        let code_pages = CodePages { text: 1252, attributes: 1252 };
        let text = |id, text: &str| Property::new(id, Value::String(text.to_owned()));
        let transport = Attribute { id: attribute::ATTACH_TRANSPORT_FILENAME, data: b"old.doc\0".to_vec() };
        let named = |properties: Vec<Property>, attributes: Vec<Attribute>| {
            let attachment = Attachment { properties, attributes, ..Attachment::default() };
            Item::of(&attachment, code_pages).and_then(|item| item.name.map(|name| (name, item.media)))
        };
        let display = || text(property::DISPLAY_NAME, "Report");
        let extension = |with: &str| text(property::ATTACH_EXTENSION, with);
        let lost = "application/octet-stream";
        for (properties, name) in [
            (vec![display(), extension(".pdf")], "Report.pdf"),
            (vec![display(), extension("pdf")], "Report.pdf"),
            (vec![display(), extension("../x")], "Report"),
            (vec![text(property::ATTACH_FILENAME, "a.txt"), extension(".pdf")], "a.txt"),
            (vec![text(property::ATTACH_TRANSPORT_NAME, "b.txt")], "b.txt"),
        ] {
            let expected = Some((name.to_owned(), lost.to_owned()));
            assert_eq!(named(properties.clone(), vec![]), expected, "{properties:?}");
        }
        assert_eq!(named(vec![], vec![transport]), Some(("old.doc".to_owned(), lost.to_owned())));
        // The type of a file with bytes is that of its extension, also without a name.
        let bytes = Property::new(property::ATTACH_DATA, Value::Binary(b"x".to_vec()));
        let attachment = Attachment { properties: vec![bytes, extension(".PDF")], ..Attachment::default() };
        let item = Item::of(&attachment, code_pages).expect("a file");
        assert_eq!((item.media.as_str(), item.extension.as_deref()), ("application/pdf", Some(".PDF")));
    }

    #[test]
    fn a_file_of_a_mac_is_its_data_or_stays_whole() {
        let code_pages = CodePages { text: 1252, attributes: 1252 };
        let attachment = |bytes: &[u8], flags: u32, name: Option<&str>| Attachment {
            rendering: Rendering { flags, ..Rendering::default() },
            attributes: vec![Attribute { id: attribute::ATTACH_DATA, data: bytes.to_vec() }],
            properties: name
                .map(|name| Property::new(property::ATTACH_LONG_FILENAME, Value::String(name.to_owned())))
                .into_iter()
                .collect(),
        };
        let (plain, rich) = (mac_file("Read me.txt", b"data", b""), mac_file("Icon", b"data", b"icon"));
        for (bytes, flags, name, expected) in [
            (&plain[..], 1, None, (Some("Read me.txt"), "text/plain", &b"data"[..])),
            (&plain[..], 1, Some("a.pdf"), (Some("a.pdf"), "application/pdf", &b"data"[..])),
            (&rich[..], 1, None, (Some("Icon.bin"), MACBINARY, &rich[..])),
            (&rich[..], 1, Some("a.BIN"), (Some("a.BIN"), MACBINARY, &rich[..])),
            (&plain[..], 0, Some("a.pdf"), (Some("a.pdf"), "application/pdf", &plain[..])),
            (&b"text"[..], 1, Some("a.txt"), (Some("a.txt"), "text/plain", &b"text"[..])),
        ] {
            let attachment = attachment(bytes, flags, name);
            let item = Item::of(&attachment, code_pages).expect("a file");
            let Inner::Bytes(content) = item.inner else { panic!("no bytes") };
            assert_eq!((item.name.as_deref(), item.media.as_str(), content), expected);
        }
    }

    /// MS-OXCMSG §2.2.2.20, without the flag of the rendering.
    #[test]
    fn the_encoding_of_an_attachment_says_macbinary() {
        let code_pages = CodePages { text: 1252, attributes: 1252 };
        let file = mac_file("Read me.txt", b"data", b"");
        let known = b"\x2A\x86\x48\x86\xF7\x14\x03\x0B\x01";
        for (encoding, expected) in
            [(&known[..], &b"data"[..]), (&known[..8], &file[..]), (&known[..0], &file[..])]
        {
            let properties = vec![
                Property::new(0x3702, Value::Binary(encoding.to_vec())),
                Property::new(property::ATTACH_DATA, Value::Binary(file.clone())),
            ];
            let attachment = Attachment { properties, ..Attachment::default() };
            let item = Item::of(&attachment, code_pages).expect("a file");
            let Inner::Bytes(content) = item.inner else { panic!("no bytes") };
            assert_eq!(content, expected, "{encoding:x?}");
        }
    }

    #[test]
    fn names_types_and_ids_are_safe() {
        assert_eq!(file_name("C:\\a\\..\\b.txt"), "b.txt");
        assert_eq!(file_name("../../etc/passwd"), "passwd");
        for name in [".htaccess", ".a.b", "..a"] {
            assert_eq!(file_name(&format!("/x/{name}. .")), name);
        }
        assert!(["..", ".", ". .", " "].iter().all(|name| file_name(name).is_empty()));
        assert_eq!(file_name("a\r\nb"), "a  b");
        assert_eq!(file_name(&"ü".repeat(200)).len(), 254);
        assert_eq!(media_type("Image/PNG; x=y").as_deref(), Some("image/png"));
        assert_eq!(media_type("Message/RFC822").as_deref(), Some(MESSAGE));
        assert_eq!((media_type("message/partial"), media_type("multipart/mixed")), (None, None));
        assert_eq!(media_type("a/b\r\nc: d"), None);
        assert_eq!(content_id("<a@b>").as_deref(), Some("a@b"));
        assert_eq!(content_id("a b"), None);
        assert_eq!(media_of_name("A.PNG"), "image/png");
        assert_eq!(media_of_name("Photo.HEIC"), "image/heic");
        assert_eq!(extension_of("video/mpeg"), ".mpg");
    }
}
