//! The one path by which mail comes in: LMTP, submission, APPEND and import all end here.
//!
//! The work is done once for each message, so that reading it needs none. First its size is
//! checked. Then its summary is made: all that FETCH, SEARCH, SORT and THREAD need of it, in the
//! very bytes in which it is sent. The message gets one body id, however many recipients it has. It
//! is appended to their mailboxes concurrently, so that the engine's group commit takes them
//! together.
//!
//! | module | what |
//! | --- | --- |
//! | [`Delivery`] | recipients, messages, quotas |
//! | [`summarize`] | a message's summary |
//! | [`UrlPart`] | messages and their parts by URL |
//! | [`StoredForms`] | rich mail (TNEF): as MIME or as sent, as each account keeps it |
//! | [`Conversions`] | what clients see of mail that is kept in another form |
//! | [`Renewals`] | new UIDs for mail that an earlier program converted otherwise |
//! | [`convert`] | stored mail in the form of another format |
//! | [`HeldMessages`] | the converted messages that sessions read in pieces |
//! | [`LongWork`] | the places for summaries and conversions, which accounts share |
//! | [`import`] | mbox, Maildir, `.eml` and folders of them, read into mailboxes |
//! | [`export`] | mailboxes written as mbox or Maildir |
//!
//! Invariants: clients see a message byte for byte as it came, except rich mail, which they
//! see as MIME. When `deliver` succeeds, the message is on disk. No message, however broken, is
//! refused for its content.

mod body_change;
mod by_url;
mod conversions;
pub mod convert;
mod deliver;
mod edited;
mod error;
mod estimate;
pub mod export;
mod folders;
mod format;
mod held_messages;
pub mod import;
#[cfg(test)]
mod items_tests;
mod long_work;
mod memory;
mod prepared;
mod quota;
#[cfg(test)]
mod removed_tests;
mod renew;
#[cfg(test)]
mod renew_tests;
mod replace;
mod rich;
mod sample;
mod shared_bodies;
mod summarize;
#[cfg(test)]
mod tests;
mod verified;

pub use body_change::LossPolicy;
pub use by_url::{Decoded, UrlPart, UrlReader, UrlRefusal, UrlUse, has_parts, structure_of_decoded};
pub use conversions::{CONVERSION, Conversions, summarize_stored};
pub use convert::{ConvertMode, ConvertOptions, ConvertReport, Converter, Items, Uids, Unconverted};
pub use deliver::{DEFAULT_MAILBOXES, Delivered, Delivery, DeliveryOptions, Summarize};
pub use error::{DeliveryError, ErrorKind};
pub use estimate::{Estimate, Estimator, Figure};
pub use export::{ExportError, ExportReport, MailFormat};
pub use folders::Opening;
pub use held_messages::{HeldMessages, Holding, LargeMessage};
pub use import::{ImportError, ImportOptions, ImportReport};
pub use long_work::{LongWork, WorkFor};
pub use memory::{SummaryMemory, is_long, summaries_beside};
pub use posthaste_directory::{Recipient, ResolveError};
pub use posthaste_mime_summary::summary_memory_max;
pub use prepared::{NewMessage, Prepared, SummariesHeld};
pub use quota::{MESSAGE_COST, QUOTAS_BYTES_MAX, Quota, QuotaReservation, Usage};
pub use renew::Renewals;
pub use rich::StoredForms;
pub use sample::Sample;
pub use shared_bodies::SharedBodies;
pub use summarize::summarize;
pub use verified::verified_summary;
