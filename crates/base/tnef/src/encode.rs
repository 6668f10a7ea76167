//! A [`Message`] to TNEF bytes: the inverse of [`crate::decode`].
//!
//! The same message always gives the same bytes. Attributes are in the order that MS-OXTNEF
//! §2.1.3.3 requires: version and code page first, then the message, then its attachments.

use crate::decode::{SIGNATURE, checksum};
use crate::error::EncodeError;
use crate::model::{Attachment, Attribute, Content, Message, Name, NameKey, Object, Property, Value};
use crate::tags::attribute;

/// attTnefVersion: MS-OXTNEF §2.1.3.3.1.
const VERSION: u32 = 0x0001_0000;

/// Attributes at level 1 that [`Message`] has fields for.
const OF_MESSAGE: [u32; 4] =
    [attribute::TNEF_VERSION, attribute::OEM_CODEPAGE, attribute::MSG_PROPS, attribute::RECIP_TABLE];
/// Attributes at level 2 that [`Attachment`] has fields for.
const OF_ATTACHMENT: [u32; 2] = [attribute::ATTACHMENT, attribute::ATTACH_REND_DATA];

/// Writes a message as TNEF.
pub fn encode(message: &Message) -> Result<Vec<u8>, EncodeError> {
    encode_after(&[], message)
}

/// Writes these bytes, and a message as TNEF after them.
pub(crate) fn encode_after(begin: &[u8], message: &Message) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(begin.len() + len_without_objects(message));
    out.extend_from_slice(begin);
    write_message(&mut out, message)?;
    Ok(out)
}

/// The room that a stream needs at most, if its message has no objects and no lists of values: so
/// the stream is not copied while it grows.
pub(crate) fn len_without_objects(message: &Message) -> usize {
    /// Signature, key, version, code page, and a long name.
    const OF_MESSAGE: usize = 256;
    /// Level, id, length and checksum, of up to three attributes.
    const OF_PART: usize = 64;
    let attributes =
        |all: &[Attribute]| all.iter().map(|attribute| OF_PART + attribute.data.len()).sum::<usize>();
    let properties = |all: &[Property]| all.iter().map(property_len).sum::<usize>();
    let attachment = |one: &Attachment| OF_PART + attributes(&one.attributes) + properties(&one.properties);
    let recipients = message.recipients.iter().map(|row| OF_PART + properties(row)).sum::<usize>();
    let attachments = message.attachments.iter().map(attachment).sum::<usize>();
    let own = attributes(&message.attributes) + properties(&message.properties);
    OF_MESSAGE + own + recipients + attachments
}

fn property_len(property: &Property) -> usize {
    /// Type, id, count, length, NUL and padding. No value of a fixed length is longer.
    const AROUND: usize = 24;
    let value = match &property.value {
        Value::String8(bytes) | Value::Binary(bytes) => bytes.len(),
        // UTF-16 has no more than two bytes for one of UTF-8.
        Value::String(text) => text.len().saturating_mul(2),
        _ => 0,
    };
    AROUND + value
}

fn write_message(out: &mut Vec<u8>, message: &Message) -> Result<(), EncodeError> {
    out.extend(SIGNATURE.to_le_bytes());
    out.extend(message.key.to_le_bytes());
    write_attribute(out, 1, attribute::TNEF_VERSION, |out| write_u32(out, VERSION))?;
    write_attribute(out, 1, attribute::OEM_CODEPAGE, |out| {
        write_u32(out, message.code_page)?;
        write_u32(out, message.code_page_secondary)
    })?;
    write_attributes(out, 1, &message.attributes)?;
    if !message.properties.is_empty() {
        write_attribute(out, 1, attribute::MSG_PROPS, |out| write_properties(out, &message.properties))?;
    }
    if !message.recipients.is_empty() {
        write_attribute(out, 1, attribute::RECIP_TABLE, |out| {
            write_len(out, message.recipients.len())?;
            message.recipients.iter().try_for_each(|row| write_properties(out, row))
        })?;
    }
    message.attachments.iter().try_for_each(|attachment| write_attachment(out, attachment))
}

fn write_attachment(out: &mut Vec<u8>, attachment: &Attachment) -> Result<(), EncodeError> {
    let rendering = &attachment.rendering;
    write_attribute(out, 2, attribute::ATTACH_REND_DATA, |out| {
        out.extend(rendering.kind.to_le_bytes());
        out.extend(rendering.position.to_le_bytes());
        out.extend(rendering.width.to_le_bytes());
        out.extend(rendering.height.to_le_bytes());
        write_u32(out, rendering.flags)
    })?;
    write_attributes(out, 2, &attachment.attributes)?;
    if attachment.properties.is_empty() {
        return Ok(());
    }
    write_attribute(out, 2, attribute::ATTACHMENT, |out| write_properties(out, &attachment.properties))
}

fn write_attributes(out: &mut Vec<u8>, level: u8, attributes: &[Attribute]) -> Result<(), EncodeError> {
    for one in attributes {
        let fields: &[u32] = if level == 1 { &OF_MESSAGE } else { &OF_ATTACHMENT };
        if fields.contains(&one.id) {
            return Err(EncodeError::Structural(one.id));
        }
        write_attribute(out, level, one.id, |out| {
            out.extend_from_slice(&one.data);
            Ok(())
        })?;
    }
    Ok(())
}

/// One attribute, whose data `data` appends.
fn write_attribute(
    out: &mut Vec<u8>,
    level: u8,
    id: u32,
    data: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    out.push(level);
    out.extend(id.to_le_bytes());
    let from = write_later(out);
    data(out)?;
    let sum = checksum(&out[from..]);
    write_now(out, from)?;
    out.extend(sum.to_le_bytes());
    Ok(())
}

/// Reserves space for a length. Returns where the bytes begin that it counts.
fn write_later(out: &mut Vec<u8>) -> usize {
    out.extend([0; 4]);
    out.len()
}

/// Writes the length of the bytes from `from` on into the space before them.
fn write_now(out: &mut [u8], from: usize) -> Result<usize, EncodeError> {
    let len = out.len() - from;
    let bytes = u32::try_from(len).map_err(|_| EncodeError::TooLong)?.to_le_bytes();
    if let Some(room) = from.checked_sub(4).and_then(|at| out.get_mut(at..from)) {
        room.copy_from_slice(&bytes);
    }
    Ok(len)
}

fn write_u32(out: &mut Vec<u8>, number: u32) -> Result<(), EncodeError> {
    out.extend(number.to_le_bytes());
    Ok(())
}

fn write_len(out: &mut Vec<u8>, len: usize) -> Result<(), EncodeError> {
    write_u32(out, u32::try_from(len).map_err(|_| EncodeError::TooLong)?)
}

fn write_properties(out: &mut Vec<u8>, properties: &[Property]) -> Result<(), EncodeError> {
    write_len(out, properties.len())?;
    properties.iter().try_for_each(|property| write_property(out, property))
}

fn write_property(out: &mut Vec<u8>, property: &Property) -> Result<(), EncodeError> {
    let kind = property.value.kind();
    let is_list = matches!(property.value, Value::Many(..));
    let number = kind as u16 | if is_list { 0x1000 } else { 0 };
    out.extend(number.to_le_bytes());
    out.extend(property.id.to_le_bytes());
    match &property.name {
        Some(name) if property.id >= 0x8000 => write_name(out, name)?,
        None if property.id < 0x8000 => {}
        _ => return Err(EncodeError::Name(property.id)),
    }
    match &property.value {
        Value::Many(_, values) => {
            write_len(out, values.len())?;
            for value in values {
                if value.kind() != kind || matches!(value, Value::Many(..)) {
                    return Err(EncodeError::Mixed(property.id));
                }
                write_value(out, value)?;
            }
            Ok(())
        }
        value => {
            if kind.is_sized() {
                write_u32(out, 1)?;
            }
            write_value(out, value)
        }
    }
}

fn write_name(out: &mut Vec<u8>, name: &Name) -> Result<(), EncodeError> {
    out.extend(name.set);
    match &name.key {
        NameKey::Number(number) => {
            write_u32(out, 0)?;
            write_u32(out, *number)
        }
        NameKey::Text(text) => {
            write_u32(out, 1)?;
            write_sized(out, |out| {
                write_utf_16(out, text);
                Ok(())
            })
        }
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value) -> Result<(), EncodeError> {
    match value {
        // A list within a list: `write_property` has refused it.
        Value::Null | Value::Many(..) => {}
        Value::Int16(n) => out.extend(i32::from(*n).to_le_bytes()),
        Value::Bool(yes) => out.extend(u32::from(*yes).to_le_bytes()),
        Value::Int32(n) => out.extend(n.to_le_bytes()),
        Value::Float32(n) | Value::Error(n) => out.extend(n.to_le_bytes()),
        Value::Float64(n) | Value::AppTime(n) | Value::Time(n) => out.extend(n.to_le_bytes()),
        Value::Currency(n) | Value::Int64(n) => out.extend(n.to_le_bytes()),
        Value::Guid(guid) => out.extend(guid),
        Value::String8(bytes) => write_sized(out, |out| {
            out.extend_from_slice(bytes);
            out.push(0);
            Ok(())
        })?,
        Value::String(text) => write_sized(out, |out| {
            write_utf_16(out, text);
            Ok(())
        })?,
        Value::Binary(bytes) => write_sized(out, |out| {
            out.extend_from_slice(bytes);
            Ok(())
        })?,
        Value::Object(object) => write_sized(out, |out| write_object(out, object))?,
    }
    Ok(())
}

fn write_object(out: &mut Vec<u8>, object: &Object) -> Result<(), EncodeError> {
    out.extend(object.interface);
    match &object.content {
        Content::Bytes(bytes) => {
            out.extend_from_slice(bytes);
            Ok(())
        }
        Content::Message(message) => write_message(out, message),
    }
}

/// Writes a length, the bytes that `data` appends, and padding to a multiple of four.
fn write_sized(
    out: &mut Vec<u8>,
    data: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let from = write_later(out);
    data(out)?;
    let len = write_now(out, from)?;
    out.extend(std::iter::repeat_n(0, len.wrapping_neg() & 3));
    Ok(())
}

fn write_utf_16(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        let from = out.len();
        out.resize(from + 2 * text.len(), 0);
        let units = out.get_mut(from..).unwrap_or_default().as_chunks_mut::<2>().0;
        units.iter_mut().zip(text.bytes()).for_each(|([low, _], byte)| *low = byte);
    } else {
        out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    }
    out.extend_from_slice(&[0, 0]);
}
