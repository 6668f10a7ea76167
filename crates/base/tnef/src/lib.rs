//! TNEF: the bytes of `winmail.dat` to values and back, and what they hold as MIME.
//!
//! Written from the public specifications: MS-OXTNEF (the stream), MS-OXCDATA and MS-OXPROPS
//! (properties), MS-OXRTFCP (compressed RTF).
//!
//! | step | function |
//! | --- | --- |
//! | bytes to a [`Message`] | [`decode()`] |
//! | a [`Message`] to bytes | [`encode()`] |
//! | compressed RTF | [`rtf::decompress`], [`rtf::compress`] |
//!
//! What always holds: no input panics; memory is bounded by the input's length; `decode(encode(m))`
//! is `m`, and the same model always gives the same bytes. What is damaged gives a [`Damage`], which
//! says why.

pub mod charset;
mod decode;
mod encode;
mod error;
mod model;
mod reader;
pub mod rtf;
pub mod tags;
#[cfg(test)]
mod tests;

pub use decode::{DEPTH_MAX, VALUES_MAX, decode, has_signature};
pub use encode::encode;
pub use error::{Damage, EncodeError};
pub use model::{
    Attachment, Attribute, Content, Kind, Message, Name, NameKey, Object, Property, Rendering, Value,
};
