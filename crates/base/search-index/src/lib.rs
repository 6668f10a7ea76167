//! The messages that may contain a text: words of folded texts, in immutable segments.
//!
//! The index proposes messages, and the text decides. A [`Collector`] takes the texts of one
//! message, which become its [`Terms`]. A [`Builder`] makes a [`Segment`] of many messages, and
//! [`merge`] makes one segment of several. A [`Query`] is a key split into pieces of words, and
//! [`Segment::propose`] returns the messages that may match it. A message that holds the key is
//! always proposed. A message that lacks it may be proposed, too.
//!
//! A key is any substring. A segment stores its distinct words one after the other, and a piece
//! of a word is searched in them as in a text. Where a key has several pieces, a message must
//! have a word for each. If the key has a separator next to the piece, the word must begin or end
//! there.
//!
//! A segment also has the keys of SORT and THREAD of its messages, in its [`Front`]: this is read
//! without the words.
//!
//! This crate knows no mail, no files and no clock. The caller folds texts and keys in the same way
//! before they come here.

mod builder;
mod front;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod layout;
mod merge;
mod packed;
mod query;
mod segment;
mod sort_keys;
mod terms;
mod word_set;
mod words;
mod write;

pub use builder::Builder;
pub use front::Front;
pub use layout::{Damaged, MESSAGES_MAX};
pub use merge::merge;
pub use query::Query;
pub use segment::{LookUp, Segment};
pub use sort_keys::{KeyTable, SortKeys, TEXTS, TextColumn};
pub use terms::{Collector, Terms};

/// The texts of a message in which a key is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Short ones, which only some keys are looked for in: subject and addresses.
    Envelope,
    /// All others. Their length is that of the message's text.
    Texts,
}

impl Scope {
    /// The two scopes.
    pub const ALL: [Self; 2] = [Self::Envelope, Self::Texts];
}
