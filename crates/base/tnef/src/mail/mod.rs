//! Rich mail as MIME.
//!
//! ```text
//! message ─► find TNEF parts ─► decode ─► bodies, attachments, calendar … ─► entities ─► bytes
//!   convert                     crate::decode  body, item, calendar, card     entity
//! ```
//!
//! [`convert`] changes the rich parts of a message and leaves every other byte as it was.

mod body;
mod calendar;
mod card;
mod changes;
mod convert;
mod dates;
mod entity;
mod file;
mod frame;
mod header;
mod headers;
mod item;
mod look;
mod mac;
mod occurrence;
mod outer_text;
mod people;
mod recurrence;
mod report;
mod sources;
mod task;
mod whole;
mod zone;

pub use convert::{
    Outcome, conversion_memory_max, convert, convert_and_name, hash_in_boundaries, leaving_out,
};
pub use frame::{enrich, enrich_after, enrich_parsed, restore, restore_memory_max};
pub use look::{declares_rich, might_be_rich, says_it_is_rich};
