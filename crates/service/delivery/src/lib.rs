//! The one path by which mail comes in: LMTP, submission, APPEND and import all end here.
//!
//! What happens here happens once per message, so that nothing has to happen when it is read: its
//! size is checked, its summary is made (all that FETCH, SEARCH, SORT and THREAD will ever ask of
//! it, in the very bytes in which it is sent), one body id is given to it however many recipients
//! it has, and it is appended to their mailboxes side by side, so that the engine's group commit
//! takes them together.
//!
//! | module | what |
//! | --- | --- |
//! | [`Delivery`] | recipients, messages, quotas |
//! | [`summarize`] | a message's summary |
//! | [`UrlPart`] | messages and their parts by URL |
//! | [`Forms`] | rich mail (TNEF) as MIME, for the accounts that want it so |
//! | [`import`] | mbox, Maildir, `.eml` and folders of them, read into mailboxes |
//! | [`export`] | mailboxes written as mbox or Maildir |
//!
//! What always holds: a message is delivered byte for byte, except rich mail to accounts of the
//! format `mime`; when `deliver` says yes it is on disk;
//! no message, however broken, is refused for what is in it.

mod by_url;
mod deliver;
mod error;
pub mod export;
mod folders;
mod format;
pub mod import;
mod quota;
mod rich;
mod summarize;
#[cfg(test)]
mod tests;

pub use by_url::{UrlPart, UrlPlace, UrlReader, UrlRefusal};
pub use deliver::{DEFAULT_MAILBOXES, Delivered, Delivery, DeliveryOptions, Summarize};
pub use error::{DeliveryError, Kind};
pub use export::{ExportError, ExportForm, ExportReport};
pub use folders::Opening;
pub use import::{ImportError, ImportOptions, ImportReport};
pub use posthaste_directory::{Recipient, ResolveError};
pub use posthaste_mime_summary::summary_memory_max;
pub use quota::{MESSAGE_COST, Quota, Room, Usage};
pub use rich::Forms;
pub use summarize::summarize;
