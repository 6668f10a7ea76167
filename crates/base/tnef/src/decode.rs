//! TNEF bytes to a [`Message`]: MS-OXTNEF §2.1.3.
//!
//! ```text
//! signature key  attribute…           attribute: level id length data checksum
//! ```
//!
//! What is refused: a wrong signature, a length beyond its container, a wrong checksum, an unknown
//! type. White space and NULs after the last attribute are passed over: mailing lists add them. A
//! message inside an attachment that is damaged or too deep stays as bytes.

use crate::error::Damage;
use crate::model::{
    Attachment, Attribute, Content, Kind, Message, Name, NameKey, Object, Property, Rendering, Value,
};
use crate::reader::Reader;
use crate::tags::{IID_MESSAGE, attribute};

/// The first bytes of a TNEF stream: MS-OXTNEF §2.1.3.1.
pub(crate) const SIGNATURE: u32 = 0x223E_9F78;

/// The most levels of nested messages: a message below them stays as bytes. Forwards of forwards
/// stay under ten; each level costs some kilobytes of stack.
pub const DEPTH_MAX: usize = 16;

/// The most properties, values, recipients, attributes and attachments that a message may have,
/// nested messages included. A meeting with a thousand attendees has 20,000 values. Each costs up
/// to 100 bytes, so all of them stay under 10 MiB.
pub const VALUES_MAX: usize = 100_000;

/// Whether bytes begin as TNEF does.
pub fn has_signature(bytes: &[u8]) -> bool {
    bytes.starts_with(&SIGNATURE.to_le_bytes())
}

/// Reads a TNEF stream. The result holds each byte of the stream at most once, and at most 100
/// bytes for each of at most [`VALUES_MAX`] values.
pub fn decode(bytes: &[u8]) -> Result<Message, Damage> {
    decode_and_name(bytes, &mut |_| {})
}

/// The same. `left` gets why a message inside it stays bytes: of several, of the first one.
pub(crate) fn decode_and_name(bytes: &[u8], left: &mut dyn FnMut(Damage)) -> Result<Message, Damage> {
    let mut decoder = Decoder::default();
    let message = decoder.message(bytes, 1)?;
    decoder.left.into_iter().for_each(left);
    Ok(message)
}

/// Counts what it reads.
pub(crate) struct Decoder {
    values_left: usize,
    /// The reason why a message inside it stays bytes: the first such reason.
    left: Option<Damage>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { values_left: VALUES_MAX, left: None }
    }
}

/// The most values for which memory is reserved before they are read.
const RESERVED_MAX: usize = 64;

impl Decoder {
    pub fn count(&mut self) -> Result<(), Damage> {
        self.values_left = self.values_left.checked_sub(1).ok_or(Damage::TooMany { limit: VALUES_MAX })?;
        Ok(())
    }

    fn message(&mut self, bytes: &[u8], depth: usize) -> Result<Message, Damage> {
        if !has_signature(bytes) {
            return Err(Damage::Signature);
        }
        let mut reader = Reader::new(bytes);
        reader.u32("the signature")?;
        let mut message = Message { key: reader.u16("the key")?, ..Message::default() };
        while !reader.rest().iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
            self.count()?;
            let at = reader.at();
            let level = reader.u8("an attribute")?;
            let (id, data) = attribute_of(&mut reader)?;
            match level {
                1 => self.of_message(&mut message, id, data, depth)?,
                2 => self.of_attachment(&mut message.attachments, id, data, depth)?,
                _ => return Err(Damage::Level { level, at }),
            }
        }
        Ok(message)
    }

    fn of_message(&mut self, into: &mut Message, id: u32, data: &[u8], depth: usize) -> Result<(), Damage> {
        let mut reader = Reader::new(data);
        match id {
            attribute::TNEF_VERSION => {}
            attribute::OEM_CODEPAGE => {
                into.code_page = reader.u32("the code page")?;
                into.code_page_secondary = reader.u32("the code page").unwrap_or_default();
            }
            attribute::MSG_PROPS => self.properties(&mut reader, &mut into.properties, depth)?,
            attribute::RECIP_TABLE => {
                let rows = reader.len("the number of recipients")?;
                for _ in 0..rows {
                    self.count()?;
                    let mut row = Vec::new();
                    self.properties(&mut reader, &mut row, depth)?;
                    into.recipients.push(row);
                }
            }
            _ => into.attributes.push(Attribute { id, data: data.to_vec() }),
        }
        Ok(())
    }

    fn of_attachment(
        &mut self,
        attachments: &mut Vec<Attachment>,
        id: u32,
        data: &[u8],
        depth: usize,
    ) -> Result<(), Damage> {
        // MS-OXTNEF §2.1.3.3.15: attAttachRendData begins an attachment. Some writers leave the
        // first one out.
        if id == attribute::ATTACH_REND_DATA || attachments.is_empty() {
            attachments.push(Attachment::default());
        }
        let Some(attachment) = attachments.last_mut() else { return Ok(()) };
        let mut reader = Reader::new(data);
        match id {
            attribute::ATTACH_REND_DATA => attachment.rendering = rendering(&mut reader)?,
            attribute::ATTACHMENT => self.properties(&mut reader, &mut attachment.properties, depth)?,
            _ => attachment.attributes.push(Attribute { id, data: data.to_vec() }),
        }
        Ok(())
    }

    fn properties(
        &mut self,
        reader: &mut Reader<'_>,
        into: &mut Vec<Property>,
        depth: usize,
    ) -> Result<(), Damage> {
        let count = reader.len("the number of properties")?;
        into.reserve_exact(count.min(RESERVED_MAX));
        for _ in 0..count {
            self.count()?;
            let kind = reader.u16("a property's type")?;
            let id = reader.u16("a property's id")?;
            let name = if id >= 0x8000 { Some(Box::new(name_of(reader)?)) } else { None };
            into.push(Property { id, name, value: self.value(reader, id, kind, depth)? });
        }
        Ok(())
    }

    fn value(
        &mut self,
        reader: &mut Reader<'_>,
        id: u16,
        number: u16,
        depth: usize,
    ) -> Result<Value, Damage> {
        const SEVERAL: u16 = 0x1000;
        let kind = Kind::of(number & !SEVERAL).ok_or(Damage::Type { id, kind: number })?;
        let is_list = number & SEVERAL != 0;
        if !is_list && !kind.is_sized() {
            return self.one(reader, kind, depth);
        }
        // MS-OXTNEF §2.1.3.4: a value with a length of its own has a count before it. The count is
        // 1 unless the type has several values.
        let count = reader.len("the number of values")?;
        if !is_list && count == 1 {
            return self.one(reader, kind, depth);
        }
        let mut values = Vec::with_capacity(count.min(RESERVED_MAX));
        for _ in 0..count {
            self.count()?;
            values.push(self.one(reader, kind, depth)?);
        }
        Ok(Value::Many(kind, values))
    }

    fn one(&mut self, reader: &mut Reader<'_>, kind: Kind, depth: usize) -> Result<Value, Damage> {
        const WHAT: &str = "a property's value";
        // Two bytes are filled up to four, in lists too.
        let short = |reader: &mut Reader<'_>| {
            let value = reader.u16(WHAT)?;
            reader.skip_padding(2);
            Ok::<u16, Damage>(value)
        };
        Ok(match kind {
            Kind::Null => Value::Null,
            Kind::Int16 => Value::Int16(short(reader)?.cast_signed()),
            Kind::Bool => Value::Bool(short(reader)? != 0),
            Kind::Int32 => Value::Int32(reader.u32(WHAT)?.cast_signed()),
            Kind::Float32 => Value::Float32(reader.u32(WHAT)?),
            Kind::Error => Value::Error(reader.u32(WHAT)?),
            Kind::Float64 => Value::Float64(reader.u64(WHAT)?),
            Kind::AppTime => Value::AppTime(reader.u64(WHAT)?),
            Kind::Time => Value::Time(reader.u64(WHAT)?),
            Kind::Currency => Value::Currency(reader.u64(WHAT)?.cast_signed()),
            Kind::Int64 => Value::Int64(reader.u64(WHAT)?.cast_signed()),
            Kind::Guid => Value::Guid(reader.guid(WHAT)?),
            Kind::String8 => {
                let bytes = sized(reader)?;
                Value::String8(bytes.strip_suffix(b"\0").unwrap_or(bytes).to_vec())
            }
            Kind::String => Value::String(utf_16(sized(reader)?)),
            Kind::Binary => Value::Binary(sized(reader)?.to_vec()),
            Kind::Object => Value::Object(Box::new(self.object(sized(reader)?, depth)?)),
        })
    }

    fn object(&mut self, bytes: &[u8], depth: usize) -> Result<Object, Damage> {
        let mut reader = Reader::new(bytes);
        let interface = reader.guid("an object's interface")?;
        let content = reader.rest();
        if interface != IID_MESSAGE {
            return Ok(Object { interface, content: Content::Bytes(content.to_vec()) });
        }
        let message = match depth < DEPTH_MAX {
            true => self.message(content, depth + 1),
            false => Err(Damage::Depth { limit: DEPTH_MAX }),
        };
        let content = message.map_or_else(
            |why| {
                self.left.get_or_insert(why);
                Content::Bytes(content.to_vec())
            },
            Content::Message,
        );
        Ok(Object { interface, content })
    }
}

/// The id and the data of an attribute whose level has been read.
pub(crate) fn attribute_of<'b>(reader: &mut Reader<'b>) -> Result<(u32, &'b [u8]), Damage> {
    let id = reader.u32("an attribute")?;
    let len = reader.len("an attribute")?;
    let data = reader.take(len, "an attribute")?;
    // MS-OXTNEF §2.1.3.2: the sum of the data's bytes, modulo 65536.
    if reader.u16("a checksum")? != checksum(data) {
        return Err(Damage::Checksum { id });
    }
    Ok((id, data))
}

/// The checksum of an attribute. Eight bytes are added at a time, in four lanes of 16 bits: a lane
/// has room for two times 128 bytes.
pub(crate) fn checksum(data: &[u8]) -> u16 {
    const EVEN: u64 = 0x00FF_00FF_00FF_00FF;
    const AT_ONCE: usize = 128;
    let (words, rest) = data.as_chunks::<8>();
    let ends = rest.iter().fold(0u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    words.chunks(AT_ONCE).fold(ends, |sum, some| {
        let mut lanes = 0;
        for word in some {
            let word = u64::from_le_bytes(*word);
            lanes += (word & EVEN) + (word >> 8 & EVEN);
        }
        let [a, b, c, d] = [lanes, lanes >> 16, lanes >> 32, lanes >> 48].map(|lane| lane as u16);
        sum.wrapping_add(a).wrapping_add(b).wrapping_add(c).wrapping_add(d)
    })
}

fn rendering(reader: &mut Reader<'_>) -> Result<Rendering, Damage> {
    const WHAT: &str = "an attachment's rendering";
    Ok(Rendering {
        kind: reader.u16(WHAT)?,
        position: reader.u32(WHAT)?,
        width: reader.u16(WHAT)?,
        height: reader.u16(WHAT)?,
        flags: reader.u32(WHAT)?,
    })
}

fn name_of(reader: &mut Reader<'_>) -> Result<Name, Damage> {
    const WHAT: &str = "a property's name";
    let set = reader.guid(WHAT)?;
    let key = match reader.u32(WHAT)? {
        0 => NameKey::Number(reader.u32(WHAT)?),
        _ => NameKey::Text(utf_16(sized(reader)?)),
    };
    Ok(Name { set, key })
}

/// A length, as many bytes, and padding.
pub(crate) fn sized<'b>(reader: &mut Reader<'b>) -> Result<&'b [u8], Damage> {
    let len = reader.len("a property's length")?;
    let bytes = reader.take(len, "a property's value")?;
    reader.skip_padding(len);
    Ok(bytes)
}

/// UTF-16 without the NUL at its end. What is no character becomes U+FFFD.
pub(crate) fn utf_16(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\0\0").filter(|b| b.len() % 2 == 0).unwrap_or(bytes);
    let units = bytes.as_chunks::<2>().0;
    // Most text is ASCII.
    if units.iter().all(|[low, high]| *high == 0 && low.is_ascii())
        && let Ok(text) = String::from_utf8(units.iter().map(|[low, _]| *low).collect())
    {
        return text;
    }
    let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
