//! The RTF in which rich messages have their text.
//!
//! | step | function |
//! | --- | --- |
//! | compressed RTF to RTF, and back | [`decompress`], [`compress`], [`store`] |
//! | RTF to text and HTML | [`read()`] |
//! | HTML or text to RTF | [`wrap_html`], [`wrap_text`] |

mod lzfu;
mod read;
mod simple;
mod style;
mod token;
mod words;
mod wrap;

#[cfg(feature = "fuzzing")]
pub(crate) use lzfu::crc;
pub use lzfu::{compress, decompress, store};
pub use read::{Document, GROUPS_MAX, Origin, origin, read};
pub use wrap::{wrap_html, wrap_text};
