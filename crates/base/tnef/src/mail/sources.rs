//! The bytes of a stream that a frame refers to. Nothing is copied, and no model is made.
//!
//! They are those that [`crate::decode()`] finds. What no frame refers to is skipped.

use crate::decode::{Decoder, SIGNATURE, attribute_of, sized, utf_16};
use crate::error::Damage;
use crate::model::Kind;
use crate::reader::Reader;
use crate::tags::{Guid, attribute, property};

/// The parts of a message that a frame refers to. Each is the first of its kind, and `None` if
/// that is not bytes.
#[derive(Debug, Default)]
pub(super) struct Sources<'b> {
    pub frame: Option<Option<&'b [u8]>>,
    pub text: Option<Option<&'b [u8]>>,
    pub html: Option<Option<&'b [u8]>>,
    /// One for each attachment.
    pub files: Vec<Option<&'b [u8]>>,
}

/// Finds them. The frame is the property with this name.
pub(super) fn sources<'b>(bytes: &'b [u8], frame: (&Guid, &str)) -> Result<Sources<'b>, Damage> {
    let mut skim = Skim { frame, count: Decoder::default(), found: Sources::default() };
    skim.stream(bytes)?;
    Ok(skim.found)
}

struct Skim<'b, 'n> {
    frame: (&'n Guid, &'n str),
    count: Decoder,
    found: Sources<'b>,
}

impl<'b> Skim<'b, '_> {
    fn stream(&mut self, bytes: &'b [u8]) -> Result<(), Damage> {
        let mut reader = Reader::new(bytes);
        if reader.u32("the signature")? != SIGNATURE {
            return Err(Damage::Signature);
        }
        reader.u16("the key")?;
        while !reader.rest().iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
            self.count.count()?;
            let at = reader.at();
            let level = reader.u8("an attribute")?;
            let (id, data) = attribute_of(&mut reader)?;
            match level {
                1 if id == attribute::MSG_PROPS => self.properties(&mut Reader::new(data))?,
                1 => {}
                2 => self.of_attachment(id, data),
                _ => return Err(Damage::Level { level, at }),
            }
        }
        Ok(())
    }

    fn of_attachment(&mut self, id: u32, data: &'b [u8]) {
        let files = &mut self.found.files;
        if id == attribute::ATTACH_REND_DATA || files.is_empty() {
            files.push(None);
        }
        if let Some(file) = files.last_mut().filter(|_| id == attribute::ATTACH_DATA) {
            file.get_or_insert(data);
        }
    }

    fn properties(&mut self, reader: &mut Reader<'b>) -> Result<(), Damage> {
        for _ in 0..reader.len("the number of properties")? {
            self.count.count()?;
            let kind = reader.u16("a property's type")?;
            let id = reader.u16("a property's id")?;
            let is_frame = id >= 0x8000 && self.is_frame(reader)?;
            let value = self.value(reader, id, kind)?;
            match id {
                _ if is_frame => _ = self.found.frame.get_or_insert(value),
                property::BODY => _ = self.found.text.get_or_insert(value),
                property::HTML => _ = self.found.html.get_or_insert(value),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a name.
    fn is_frame(&self, reader: &mut Reader<'b>) -> Result<bool, Damage> {
        const WHAT: &str = "a property's name";
        let set = reader.guid(WHAT)?;
        if reader.u32(WHAT)? == 0 {
            reader.u32(WHAT)?;
            return Ok(false);
        }
        let name = sized(reader)?;
        Ok(set == *self.frame.0 && utf_16(name) == self.frame.1)
    }

    /// Reads a value; its bytes, if it is one of bytes.
    fn value(&mut self, reader: &mut Reader<'b>, id: u16, number: u16) -> Result<Option<&'b [u8]>, Damage> {
        const SEVERAL: u16 = 0x1000;
        let kind = Kind::of(number & !SEVERAL).ok_or(Damage::Type { id, kind: number })?;
        let is_list = number & SEVERAL != 0;
        if !is_list && !kind.is_sized() {
            return one(reader, kind);
        }
        let count = reader.len("the number of values")?;
        if !is_list && count == 1 {
            return one(reader, kind);
        }
        for _ in 0..count {
            self.count.count()?;
            one(reader, kind)?;
        }
        Ok(None)
    }
}

/// Reads one value.
fn one<'b>(reader: &mut Reader<'b>, kind: Kind) -> Result<Option<&'b [u8]>, Damage> {
    let len = match kind {
        Kind::Null => 0,
        Kind::Int16 | Kind::Bool => 2,
        Kind::Int32 | Kind::Float32 | Kind::Error => 4,
        Kind::Float64 | Kind::AppTime | Kind::Time | Kind::Currency | Kind::Int64 => 8,
        Kind::Guid => 16,
        Kind::String8 => {
            let bytes = sized(reader)?;
            return Ok(Some(bytes.strip_suffix(b"\0").unwrap_or(bytes)));
        }
        Kind::Binary => return sized(reader).map(Some),
        Kind::String | Kind::Object => return sized(reader).map(|_| None),
    };
    reader.take(len, "a property's value")?;
    if len == 2 {
        reader.skip_padding(len);
    }
    Ok(None)
}
