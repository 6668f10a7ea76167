//! The RTF in which rich messages have their text.
//!
//! | step | function |
//! | --- | --- |
//! | compressed RTF to RTF, and back | [`decompress`], [`compress`], [`store`] |
//! | compressed RTF to what [`read()`] reads of it | [`decompress_to_read`] |
//! | RTF to text and HTML | [`read()`] |
//! | HTML or text to RTF | [`wrap_html`], [`wrap_text`] |

mod lzfu;
mod pictures;
mod read;
mod simple;
mod slim;
mod style;
mod token;
mod words;
mod wrap;

#[cfg(feature = "fuzzing")]
pub(crate) use lzfu::crc;
pub use lzfu::{compress, decompress, decompress_to_read, store};
pub(crate) use pictures::PICTURES_MAX;
pub use pictures::Picture;
pub(crate) use read::read_within;
pub use read::{Document, GROUPS_MAX, Origin, origin, read};
pub use slim::{Limits, Slim};
pub use wrap::{wrap_html, wrap_text};
