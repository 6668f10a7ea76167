//! TNEF: the bytes of `winmail.dat` to values and back, and to MIME.
//!
//! Written from the public specifications: MS-OXTNEF (the stream), MS-OXCDATA and MS-OXPROPS
//! (properties), MS-OXRTFCP (compressed RTF), MS-OXRTFEX (HTML inside RTF), MS-OXCICAL (meetings).
//!
//! | step | function |
//! | --- | --- |
//! | bytes to a [`Message`] | [`decode()`] |
//! | a [`Message`] to bytes | [`encode()`] |
//! | a message with a TNEF part to MIME | [`convert`] |
//! | a MIME message to TNEF, and back byte for byte | [`enrich`], [`restore`] |
//! | compressed RTF | [`rtf::decompress`], [`rtf::compress`] |
//!
//! Invariants: no input makes it panic. Memory is bounded by the input's length
//! ([`conversion_memory_max`]). `decode(encode(m))` is `m`, and the same model always gives the
//! same bytes. Damaged input gives a [`Damage`], which says why.

mod charset;
mod decode;
mod encode;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod mail;
mod model;
mod reader;
pub mod rtf;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod tags;
#[cfg(test)]
mod tests;

pub use decode::{DEPTH_MAX, VALUES_MAX, decode, has_signature};
pub use encode::encode;
pub use error::{Damage, EncodeError};
pub use mail::{
    Outcome, conversion_memory_max, convert, convert_and_name, declares_rich, enrich, enrich_after,
    enrich_parsed, hash_in_boundaries, leaving_out, might_be_rich, restore, restore_memory_max,
    says_it_is_rich,
};
pub use model::{
    Attachment, Attribute, Content, Kind, Message, Name, NameKey, Object, Property, Rendering, Value,
};
