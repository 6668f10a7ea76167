//! Which messages may hold a text: trigrams of folded texts, in immutable segments.
//!
//! The index proposes messages, and the text decides. [`Grams`] collects the trigrams of one
//! message, a [`Builder`] makes a [`Segment`] of many messages, and [`Segment::propose`] names the
//! messages that hold all trigrams of a word. A message that holds the word is always proposed; one
//! that lacks it may be.
//!
//! A trigram is three neighbouring bytes of a text, hashed to 20 bits. Two trigrams of the same
//! hash only make more proposals. This crate knows no mail, no files and no clock. The caller folds
//! texts and words in the same way before they come here.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod grams;
mod segment;

pub use grams::{GRAM_LEN, Grams};
pub use segment::{Builder, Damaged, MESSAGES_MAX, Segment};
