//! A TNEF message as values: what [`crate::decode`] returns and [`crate::encode`] takes.

use crate::charset;
use crate::tags::{Guid, SET_PUBLIC_STRINGS, attribute, property};

/// A message: the properties that TNEF has attributes for, all others, its recipients and its
/// attachments. The default is an empty message in the code page 1252.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// A number that ties attachments of old clients to their message. Nothing reads it.
    pub key: u16,
    /// The code page of 8-bit text (attOemCodepage).
    pub code_page: u32,
    /// The second number of attOemCodepage; nothing reads it.
    pub code_page_secondary: u32,
    /// Attributes of the message that have no field here, in their order.
    pub attributes: Vec<Attribute>,
    /// The message's properties (attMsgProps).
    pub properties: Vec<Property>,
    /// One row of properties for each recipient (attRecipTable).
    pub recipients: Vec<Vec<Property>>,
    /// The message's attachments.
    pub attachments: Vec<Attachment>,
}

impl Default for Message {
    fn default() -> Self {
        Self {
            key: 0,
            code_page: 1252,
            code_page_secondary: 0,
            attributes: Vec::new(),
            properties: Vec::new(),
            recipients: Vec::new(),
            attachments: Vec::new(),
        }
    }
}

/// An attribute as the stream has it: MS-OXTNEF §2.1.3.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The attribute's id: one of [`crate::tags::attribute`], or any other.
    pub id: u32,
    /// The attribute's data, without the checksum.
    pub data: Vec<u8>,
}

/// An attachment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attachment {
    /// The way of showing the attachment (attAttachRendData).
    pub rendering: Rendering,
    /// The attachment's attributes that have no field here, in their order; attAttachData is one
    /// of them.
    pub attributes: Vec<Attribute>,
    /// The attachment's properties (attAttachment).
    pub properties: Vec<Property>,
}

/// The place and the way of showing an attachment: MS-OXTNEF §2.1.3.3.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rendering {
    /// 1 is a file, 2 an OLE object.
    pub kind: u16,
    /// The position in the text; 0xFFFF_FFFF means none.
    pub position: u32,
    /// Width of its icon.
    pub width: u16,
    /// Height of its icon.
    pub height: u16,
    /// 1 says that the data is MacBinary.
    pub flags: u32,
}

impl Default for Rendering {
    fn default() -> Self {
        Self { kind: 1, position: u32::MAX, width: 32, height: 32, flags: 0 }
    }
}

/// A property: MS-OXTNEF §2.1.3.4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// The property's id. From 0x8000 on it means nothing, and the name counts.
    pub id: u16,
    /// The property's name; there is one exactly if the id is 0x8000 or more.
    pub name: Option<Box<Name>>,
    /// The property's value.
    pub value: Value,
}

impl Property {
    /// A property without a name.
    pub fn new(id: u16, value: Value) -> Self {
        Self { id, name: None, value }
    }

    /// A property with a number for a name: one of [`crate::tags::named`].
    pub fn named((set, number): (Guid, u32), value: Value) -> Self {
        Self { id: 0x8000, name: Some(Box::new(Name { set, key: NameKey::Number(number) })), value }
    }
}

/// The name of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The set it belongs to.
    pub set: Guid,
    /// The property's name there.
    pub key: NameKey,
}

/// A name within a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameKey {
    /// A number.
    Number(u32),
    /// A word.
    Text(String),
}

/// A property's value: MS-OXCDATA §2.11.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// 16 bits.
    Int16(i16),
    /// 32 bits.
    Int32(i32),
    /// The bits of a 32-bit floating-point number.
    Float32(u32),
    /// The bits of a 64-bit floating-point number.
    Float64(u64),
    /// An amount, in ten-thousandths.
    Currency(i64),
    /// The bits of a 64-bit floating-point number: days since 1899-12-30.
    AppTime(u64),
    /// An error code.
    Error(u32),
    /// Yes or no.
    Bool(bool),
    /// A message or an OLE storage.
    Object(Box<Object>),
    /// 64 bits.
    Int64(i64),
    /// Text in the message's code page, without the NUL at its end.
    String8(Vec<u8>),
    /// Text.
    String(String),
    /// 100 ns since 1601-01-01 UTC.
    Time(u64),
    /// A GUID.
    Guid(Guid),
    /// Bytes.
    Binary(Vec<u8>),
    /// Several values of one type; the list may be empty.
    Many(Kind, Vec<Value>),
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Kind {
    Null = 0x0001,
    Int16 = 0x0002,
    Int32 = 0x0003,
    Float32 = 0x0004,
    Float64 = 0x0005,
    Currency = 0x0006,
    AppTime = 0x0007,
    Error = 0x000A,
    Bool = 0x000B,
    Object = 0x000D,
    Int64 = 0x0014,
    String8 = 0x001E,
    String = 0x001F,
    Time = 0x0040,
    Guid = 0x0048,
    Binary = 0x0102,
}

impl Kind {
    /// The types that exist.
    pub const ALL: [Kind; 16] = [
        Kind::Null,
        Kind::Int16,
        Kind::Int32,
        Kind::Float32,
        Kind::Float64,
        Kind::Currency,
        Kind::AppTime,
        Kind::Error,
        Kind::Bool,
        Kind::Object,
        Kind::Int64,
        Kind::String8,
        Kind::String,
        Kind::Time,
        Kind::Guid,
        Kind::Binary,
    ];

    /// The type with this number.
    pub(crate) fn of(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    /// Whether its values have lengths of their own in a stream.
    pub(crate) fn is_sized(self) -> bool {
        matches!(self, Kind::Object | Kind::String8 | Kind::String | Kind::Binary)
    }
}

impl Value {
    /// The value's type: of several values, the type of each.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Null => Kind::Null,
            Value::Int16(_) => Kind::Int16,
            Value::Int32(_) => Kind::Int32,
            Value::Float32(_) => Kind::Float32,
            Value::Float64(_) => Kind::Float64,
            Value::Currency(_) => Kind::Currency,
            Value::AppTime(_) => Kind::AppTime,
            Value::Error(_) => Kind::Error,
            Value::Bool(_) => Kind::Bool,
            Value::Object(_) => Kind::Object,
            Value::Int64(_) => Kind::Int64,
            Value::String8(_) => Kind::String8,
            Value::String(_) => Kind::String,
            Value::Time(_) => Kind::Time,
            Value::Guid(_) => Kind::Guid,
            Value::Binary(_) => Kind::Binary,
            Value::Many(kind, _) => *kind,
        }
    }

    /// The value as a number; `None` if it is not a number.
    pub fn number(&self) -> Option<i64> {
        match self {
            Value::Int16(n) => Some(i64::from(*n)),
            Value::Int32(n) => Some(i64::from(*n)),
            Value::Int64(n) => Some(*n),
            Value::Bool(yes) => Some(i64::from(*yes)),
            _ => None,
        }
    }

    /// The values of a list, or this one alone.
    pub fn each(&self) -> &[Value] {
        match self {
            Value::Many(_, values) => values,
            value => std::slice::from_ref(value),
        }
    }

    /// The value as bytes; `None` if it has none.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Binary(bytes) | Value::String8(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether it says nothing: no value, no bytes, or text without words.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Value::Null | Value::Error(_) => true,
            Value::String(text) => text.starts_with('\0') || text.chars().all(char::is_whitespace),
            Value::String8(bytes) => {
                bytes.first() == Some(&0) || bytes.iter().all(|byte| byte.is_ascii_whitespace())
            }
            Value::Binary(bytes) => bytes.is_empty(),
            Value::Object(object) => matches!(&object.content, Content::Bytes(bytes) if bytes.is_empty()),
            Value::Many(_, values) => values.is_empty(),
            _ => false,
        }
    }

    /// The value as text, of which 8-bit text is in this code page. A NUL ends it. `None` if it
    /// is no text, or empty.
    pub fn text(&self, code_page: u32) -> Option<String> {
        let mut text = match self {
            Value::String(text) => text.clone(),
            Value::String8(bytes) => charset::decode(code_page, bytes).into_owned(),
            _ => return None,
        };
        if let Some(end) = text.find('\0') {
            text.truncate(end);
        }
        (!text.is_empty()).then_some(text)
    }
}

/// The content of an object property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The interface that reads the content.
    pub interface: Guid,
    /// The content.
    pub content: Content,
}

/// The content of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A message: the interface is [`crate::tags::IID_MESSAGE`] and the bytes are TNEF.
    Message(Message),
    /// Anything else, and a message that is damaged or nested deeper than
    /// [`crate::DEPTH_MAX`].
    Bytes(Vec<u8>),
}

/// The value of a property without a name: of several, the first one that is not empty.
pub(crate) fn find(properties: &[Property], id: u16) -> Option<&Value> {
    let values = properties.iter().filter(|p| p.id == id && p.name.is_none()).map(|p| &p.value);
    first_full(values, |value| value.is_empty())
}

/// The data of an attribute: of several, the first one that is not empty. The text of an
/// attribute ends with a NUL.
pub(crate) fn find_attribute(attributes: &[Attribute], id: u32) -> Option<&[u8]> {
    let found = attributes.iter().filter(|a| a.id == id).map(|a| a.data.as_slice());
    first_full(found, |data| matches!(data, [] | [0]))
}

/// The first one that is not empty; if all are, the first one.
fn first_full<T: Copy>(mut all: impl Iterator<Item = T>, is_empty: impl Fn(T) -> bool) -> Option<T> {
    let first = all.next()?;
    if is_empty(first) { all.find(|one| !is_empty(*one)).or(Some(first)) } else { Some(first) }
}

impl Message {
    /// The value of a property without a name: of several, the first one that is not empty.
    pub fn property(&self, id: u16) -> Option<&Value> {
        find(&self.properties, id)
    }

    /// The value of a property whose name is a number.
    pub fn named(&self, (set, number): (Guid, u32)) -> Option<&Value> {
        let is_it = |name: &Name| name.set == set && name.key == NameKey::Number(number);
        self.properties.iter().find(|p| p.name.as_deref().is_some_and(is_it)).map(|p| &p.value)
    }

    /// The code page of 8-bit text: PidTagMessageCodepage, or attOemCodepage.
    pub fn text_code_page(&self) -> u32 {
        let own = self.property(property::MESSAGE_CODEPAGE).and_then(Value::number);
        let own = own.and_then(|n| u32::try_from(n).ok());
        // MS-OXPROPS: it is that of text which is not Unicode, so UTF-16 says nothing.
        own.filter(|n| !matches!(*n, 0 | 1200 | 1201)).unwrap_or(self.code_page)
    }

    /// A property as text. `None` if it is absent or empty.
    pub fn text(&self, id: u16) -> Option<String> {
        self.property(id)?.text(self.text_code_page())
    }

    /// A named property as text.
    pub fn named_text(&self, name: (Guid, u32)) -> Option<String> {
        self.named(name)?.text(self.text_code_page())
    }

    /// The message's categories: PidNameKeywords (MS-OXCMSG §2.2.1.17). Blank ones are left out.
    pub fn keywords(&self) -> Vec<String> {
        let is_it = |name: &Name| {
            name.set == SET_PUBLIC_STRINGS
                && matches!(&name.key, NameKey::Text(text) if text.eq_ignore_ascii_case("Keywords"))
        };
        let found = self.properties.iter().find(|p| p.name.as_deref().is_some_and(is_it));
        let values = found.map(|property| property.value.each()).unwrap_or_default();
        let code_page = self.text_code_page();
        let texts = values.iter().filter_map(|value| value.text(code_page));
        texts.filter(|text| !text.trim().is_empty()).collect()
    }

    /// The importance of the message: 0 is low, 1 normal, 2 high (PidTagImportance). Old clients
    /// have attPriority alone, where 1 is high and 3 is low.
    pub fn importance(&self) -> Option<i64> {
        let own = self.property(property::IMPORTANCE).and_then(Value::number);
        let of_attribute = || {
            let priority = self.attribute_number(attribute::PRIORITY)?;
            3_i64.checked_sub(i64::from(priority)).filter(|importance| (0..=2).contains(importance))
        };
        own.or_else(of_attribute)
    }

    /// Whether the organizer of a meeting wants an answer: PidTagResponseRequested, or
    /// attRequestRes of old clients. An organizer asks, if nothing is said.
    pub fn wants_answer(&self) -> bool {
        let own = self.property(property::RESPONSE_REQUESTED).and_then(Value::number);
        own.or_else(|| self.attribute_number(attribute::REQUEST_RES).map(i64::from)) != Some(0)
    }

    /// An attribute that is a number of 16 bits.
    fn attribute_number(&self, id: u32) -> Option<u16> {
        let data = find_attribute(&self.attributes, id)?;
        data.first_chunk::<2>().map(|number| u16::from_le_bytes(*number))
    }

    /// An attribute as text, in the code page of attributes.
    pub fn attribute_text(&self, id: u32) -> Option<String> {
        attribute_text(&self.attributes, id, self.code_page)
    }

    /// The message's class: `IPM.Note`, `IPM.Schedule.Meeting.Request` …
    pub fn class(&self) -> String {
        let class = self.text(property::MESSAGE_CLASS);
        let class = class.or_else(|| self.attribute_text(attribute::MESSAGE_CLASS)).unwrap_or_default();
        let class = class.trim();
        let is = |name: &str| class.eq_ignore_ascii_case(name);
        for (old, new) in OLD_CLASSES {
            if is(old) {
                return (*new).to_owned();
            }
        }
        if class.is_empty() { "IPM.Note".to_owned() } else { class.to_owned() }
    }
}

/// Message classes of old clients: MS-OXTNEF §2.1.3.3.11.
const OLD_CLASSES: &[(&str, &str)] = &[
    ("IPM.Microsoft Mail.Note", "IPM.Note"),
    ("IPM.Microsoft Mail.Read Receipt", "Report.IPM.Note.IPNRN"),
    ("IPM.Microsoft Mail.Non-Delivery", "Report.IPM.Note.NDR"),
    ("IPM.Microsoft Schedule.MtgReq", "IPM.Schedule.Meeting.Request"),
    ("IPM.Microsoft Schedule.MtgRespP", "IPM.Schedule.Meeting.Resp.Pos"),
    ("IPM.Microsoft Schedule.MtgRespN", "IPM.Schedule.Meeting.Resp.Neg"),
    ("IPM.Microsoft Schedule.MtgRespA", "IPM.Schedule.Meeting.Resp.Tent"),
    ("IPM.Microsoft Schedule.MtgCncl", "IPM.Schedule.Meeting.Canceled"),
];

/// An attribute as text. `None` if it is absent or empty.
pub(crate) fn attribute_text(attributes: &[Attribute], id: u32, code_page: u32) -> Option<String> {
    let data = find_attribute(attributes, id)?;
    let end = memchr::memchr(0, data).unwrap_or(data.len());
    let text = charset::decode(code_page, data.get(..end)?).into_owned();
    (!text.is_empty()).then_some(text)
}
