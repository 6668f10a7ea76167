//! Flags of a message as one 64-bit set: five system flags, then the mailbox's own keywords by slot.
//!
//! A set only has meaning beside the [`KeywordTable`] of its mailbox. The table only grows, so a set
//! read yesterday still says the same today.

use std::fmt;
use std::sync::Arc;

/// A system flag or keyword by name: RFC 9051 §2.3.2.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Flag {
    /// `\Answered`
    Answered,
    /// `\Flagged`
    Flagged,
    /// `\Deleted`
    Deleted,
    /// `\Seen`
    Seen,
    /// `\Draft`
    Draft,
    /// A keyword.
    Keyword(Keyword),
}

/// A keyword: an IMAP atom, compared without regard to ASCII case (RFC 9051 §2.3.2), shown as first written.
#[derive(Clone, Debug)]
pub struct Keyword(Arc<str>);

/// Why a text is no keyword.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeywordError {
    /// Empty, or a character that an atom cannot hold.
    #[error("a keyword is made of printable ASCII without space ( ) {{ % * \" \\ ]")]
    NotAnAtom,
    /// Over [`Keyword::LEN_MAX`] bytes.
    #[error("a keyword may have at most 128 bytes")]
    TooLong,
    /// The mailbox's table is full.
    #[error("a mailbox may use at most 59 different keywords")]
    TableFull,
}

impl Keyword {
    /// Bytes. Twice as much would let one mailbox's table outgrow the 16 KiB an untagged FLAGS line may take.
    pub const LEN_MAX: usize = 128;

    /// A keyword from its text.
    pub fn new(text: &str) -> Result<Self, KeywordError> {
        let atom = |b: u8| b.is_ascii_graphic() && !b"(){%*\"\\]".contains(&b);
        if text.is_empty() || !text.bytes().all(atom) {
            return Err(KeywordError::NotAnAtom);
        }
        if text.len() > Self::LEN_MAX {
            return Err(KeywordError::TooLong);
        }
        Ok(Self(text.into()))
    }

    /// The text as first written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Keyword {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}
impl Eq for Keyword {}
impl std::hash::Hash for Keyword {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for b in self.0.bytes() {
            state.write_u8(b.to_ascii_lowercase());
        }
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "\\Answered",
            Self::Flagged => "\\Flagged",
            Self::Deleted => "\\Deleted",
            Self::Seen => "\\Seen",
            Self::Draft => "\\Draft",
            Self::Keyword(k) => k.as_str(),
        })
    }
}

/// The flags of one message. Bits 0–4 are the system flags, bit `5 + n` the keyword in slot `n`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FlagSet(u64);

impl FlagSet {
    /// No flag.
    pub const EMPTY: Self = Self(0);
    /// `\Answered`
    pub const ANSWERED: Self = Self(1);
    /// `\Flagged`
    pub const FLAGGED: Self = Self(1 << 1);
    /// `\Deleted`
    pub const DELETED: Self = Self(1 << 2);
    /// `\Seen`
    pub const SEEN: Self = Self(1 << 3);
    /// `\Draft`
    pub const DRAFT: Self = Self(1 << 4);

    /// From the stored bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// The bits to store.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Flags of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Flags of this one that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// Whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The set of the keyword in `slot` alone.
    pub const fn keyword(slot: usize) -> Self {
        Self(1 << (5 + slot))
    }
}

impl fmt::Debug for FlagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlagSet({:#x})", self.0)
    }
}

/// The keywords a mailbox has used, by slot. Slots are never reused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeywordTable(Vec<Keyword>);

impl KeywordTable {
    /// 64 bits less the five system flags.
    pub const SLOTS: usize = 59;

    /// From the stored keywords, in slot order.
    pub fn from_keywords(keywords: Vec<Keyword>) -> Result<Self, KeywordError> {
        if keywords.len() > Self::SLOTS { Err(KeywordError::TableFull) } else { Ok(Self(keywords)) }
    }

    /// The keywords in slot order.
    pub fn keywords(&self) -> &[Keyword] {
        &self.0
    }

    /// The slot of a keyword, if the mailbox has used it.
    pub fn slot(&self, keyword: &Keyword) -> Option<usize> {
        self.0.iter().position(|k| k == keyword)
    }

    /// The slot of a keyword, given one now if it had none.
    pub fn slot_or_insert(&mut self, keyword: &Keyword) -> Result<usize, KeywordError> {
        if let Some(slot) = self.slot(keyword) {
            return Ok(slot);
        }
        if self.0.len() == Self::SLOTS {
            return Err(KeywordError::TableFull);
        }
        self.0.push(keyword.clone());
        Ok(self.0.len() - 1)
    }

    /// The set of one flag; `None` for a keyword this mailbox has never used.
    pub fn set_of(&self, flag: &Flag) -> Option<FlagSet> {
        Some(match flag {
            Flag::Answered => FlagSet::ANSWERED,
            Flag::Flagged => FlagSet::FLAGGED,
            Flag::Deleted => FlagSet::DELETED,
            Flag::Seen => FlagSet::SEEN,
            Flag::Draft => FlagSet::DRAFT,
            Flag::Keyword(k) => FlagSet::keyword(self.slot(k)?),
        })
    }

    /// The set of several flags; keywords that are new get a slot.
    pub fn set_or_insert<'a>(
        &mut self,
        flags: impl IntoIterator<Item = &'a Flag>,
    ) -> Result<FlagSet, KeywordError> {
        let mut set = FlagSet::EMPTY;
        for flag in flags {
            if let Flag::Keyword(k) = flag {
                self.slot_or_insert(k)?;
            }
            set = set.union(self.set_of(flag).unwrap_or_default());
        }
        Ok(set)
    }

    /// The flags of a set, system flags first. A slot the table does not have is passed over.
    pub fn flags_of(&self, set: FlagSet) -> impl Iterator<Item = Flag> + '_ {
        let system = [Flag::Answered, Flag::Flagged, Flag::Deleted, Flag::Seen, Flag::Draft];
        let system = system.into_iter().enumerate().filter(move |(i, _)| set.bits() >> i & 1 == 1);
        let own = self.0.iter().enumerate().filter(move |(i, _)| set.contains(FlagSet::keyword(*i)));
        system.map(|(_, flag)| flag).chain(own.map(|(_, k)| Flag::Keyword(k.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_becomes_flags_and_flags_a_set() {
        let mut table = KeywordTable::default();
        let flags = [Flag::Seen, Flag::Keyword(Keyword::new("$Junk").unwrap()), Flag::Answered];
        let set = table.set_or_insert(&flags).unwrap();
        let names: Vec<_> = table.flags_of(set).map(|f| f.to_string()).collect();
        assert_eq!(names, ["\\Answered", "\\Seen", "$Junk"]);
        assert_eq!(table.slot(&Keyword::new("$JUNK").unwrap()), Some(0));
    }

    #[test]
    fn the_sixtieth_keyword_is_refused() {
        let mut table = KeywordTable::default();
        for n in 0..KeywordTable::SLOTS {
            table.slot_or_insert(&Keyword::new(&format!("k{n}")).unwrap()).unwrap();
        }
        let one_more = Keyword::new("k59").unwrap();
        assert_eq!(table.slot_or_insert(&one_more), Err(KeywordError::TableFull));
        assert_eq!(table.slot_or_insert(&Keyword::new("K58").unwrap()), Ok(58));
    }

    #[test]
    fn what_is_no_atom_is_no_keyword() {
        for text in ["", "a b", "a(", "\\Seen", "ü", "a]", "a\"b", "a*"] {
            assert!(Keyword::new(text).is_err(), "{text}");
        }
    }
}
