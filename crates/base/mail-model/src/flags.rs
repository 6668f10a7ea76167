//! Flags of a message as one 64-bit set: five system flags, then the mailbox's own keywords by
//! slot.
//!
//! A set only has meaning with the [`KeywordTable`] that it was made with. A slot whose keyword
//! no message has may get another keyword. So a set from one state of a mailbox must not be read
//! with the table of another: [`KeywordTable::renamed_since`] returns the affected slots.

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

/// A keyword: an IMAP atom, compared without regard to ASCII case (RFC 9051 §2.3.2), shown as
/// first written.
#[derive(Clone, Debug)]
pub struct Keyword(Arc<str>);

/// The slots that a keyword may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeywordKind {
    /// One of [`KeywordTable::COMMON`], which have slots reserved.
    Common,
    /// Any other.
    Own,
}

/// The reason why a text is not a keyword.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeywordError {
    /// Empty, or a character that an atom cannot hold.
    #[error("a keyword is made of printable ASCII without space ( ) {{ % * \" \\ ]")]
    NotAnAtom,
    /// Over [`Keyword::LEN_MAX`] bytes.
    #[error("a keyword may have at most 128 bytes")]
    TooLong,
    /// The mailbox's messages have as many different keywords as it can hold.
    #[error("the messages of a mailbox may have at most 51 different keywords besides the common ones")]
    TableFull,
}

impl Keyword {
    /// Bytes. Twice as much would let one mailbox's table outgrow the 16 KiB an untagged FLAGS line
    /// may take.
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
    /// The set without a flag.
    pub const EMPTY: Self = Self(0);
    /// Every flag there can be.
    pub const ALL: Self = Self(u64::MAX);
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

    /// The set with the stored bits.
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
    /// Flags of both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// Whether any flag is set in both.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
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

/// The keywords a mailbox has used, by slot. A slot is given to another keyword only when no
/// message has its keyword.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeywordTable(Vec<Keyword>);

impl KeywordTable {
    /// 64 bits less the five system flags.
    pub const SLOTS: usize = 59;

    /// Keywords that always have a slot: those of RFC 9051 §2.3.2, RFC 8457 (`$Important`) and
    /// RFC 5550 §5.9. Clients set them by themselves. Each takes a slot from all others, so
    /// keywords that few clients set are not among them.
    pub const COMMON: [&str; 8] = [
        "$Forwarded",
        "$MDNSent",
        "$Junk",
        "$NotJunk",
        "$Phishing",
        "$Important",
        "$SubmitPending",
        "$Submitted",
    ];

    /// Keywords besides the common ones that a mailbox may have.
    pub const OWN_MAX: usize = Self::SLOTS - Self::COMMON.len();

    /// Whether the keyword always has a slot.
    pub fn is_common(keyword: &Keyword) -> bool {
        Self::COMMON.iter().any(|common| keyword.as_str().eq_ignore_ascii_case(common))
    }

    fn kind_of(keyword: &Keyword) -> KeywordKind {
        if Self::is_common(keyword) { KeywordKind::Common } else { KeywordKind::Own }
    }

    /// The table of the stored keywords, in slot order.
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

    /// The slot of a keyword, assigned now if it had no slot. `in_use` are the flags that any
    /// message has. If the table is full, the slot of a keyword that is not among them is given
    /// to the new one.
    pub fn slot_or_insert(&mut self, keyword: &Keyword, in_use: FlagSet) -> Result<usize, KeywordError> {
        if let Some(slot) = self.slot(keyword) {
            return Ok(slot);
        }
        let kind = Self::kind_of(keyword);
        let full = self.0.len() >= Self::SLOTS || (kind == KeywordKind::Own && self.own() >= Self::OWN_MAX);
        if !full {
            self.0.push(keyword.clone());
            return Ok(self.0.len() - 1);
        }
        let slot = self.unused(in_use, kind).ok_or(KeywordError::TableFull)?;
        if let Some(place) = self.0.get_mut(slot) {
            *place = keyword.clone();
        }
        Ok(slot)
    }

    /// Keywords that are not among the common ones.
    fn own(&self) -> usize {
        self.0.iter().filter(|keyword| !Self::is_common(keyword)).count()
    }

    /// A slot whose keyword no message has. The slot of a common keyword is given only to another
    /// common one.
    fn unused(&self, in_use: FlagSet, kind: KeywordKind) -> Option<usize> {
        let unused = |(slot, keyword): &(usize, &Keyword)| {
            !in_use.contains(FlagSet::keyword(*slot))
                && (kind == KeywordKind::Common || !Self::is_common(keyword))
        };
        // A common one is the last choice: it is the likeliest to come back.
        let slots = self.0.iter().enumerate().filter(unused);
        slots.min_by_key(|(_, keyword)| Self::is_common(keyword)).map(|(slot, _)| slot)
    }

    /// Whether a keyword that is not among the common ones can be added: `\*` of PERMANENTFLAGS
    /// (RFC 9051 §7.1). `in_use` as in [`KeywordTable::slot_or_insert`].
    pub fn has_room(&self, in_use: FlagSet) -> bool {
        let free = self.0.len() < Self::SLOTS && self.own() < Self::OWN_MAX;
        free || self.unused(in_use, KeywordKind::Own).is_some()
    }

    /// The common keywords that are not in the table.
    pub fn absent_common(&self) -> impl Iterator<Item = &'static str> + '_ {
        let has = |common: &str| self.0.iter().any(|keyword| keyword.as_str().eq_ignore_ascii_case(common));
        Self::COMMON.into_iter().filter(move |common| !has(common))
    }

    /// Slots that had another keyword in `older`, an earlier table of the same mailbox. This table
    /// does not say what a set of that time means by them.
    pub fn renamed_since(&self, older: &Self) -> FlagSet {
        let pairs = older.0.iter().enumerate();
        let renamed = pairs.filter(|(slot, keyword)| self.0.get(*slot) != Some(keyword));
        renamed.fold(FlagSet::EMPTY, |set, (slot, _)| set.union(FlagSet::keyword(slot)))
    }

    /// A set made with `older`, an earlier table of the same mailbox, by this table. Keywords that
    /// it lacks are left out.
    pub fn set_from(&self, older: &Self, set: FlagSet) -> FlagSet {
        let renamed = set.intersection(self.renamed_since(older));
        let named = older.flags_of(renamed).filter_map(|flag| self.set_of(&flag));
        named.fold(set.difference(renamed), FlagSet::union)
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

    /// The set of several flags; keywords that are new get a slot, as by
    /// [`KeywordTable::slot_or_insert`].
    pub fn set_or_insert<'a>(
        &mut self,
        flags: impl IntoIterator<Item = &'a Flag>,
        in_use: FlagSet,
    ) -> Result<FlagSet, KeywordError> {
        let mut set = FlagSet::EMPTY;
        for flag in flags {
            if let Flag::Keyword(k) = flag {
                self.slot_or_insert(k, in_use.union(set))?;
            }
            let one = self.set_of(flag);
            debug_assert!(one.is_some(), "a keyword that was inserted has no slot");
            set = set.union(one.unwrap_or_default());
        }
        Ok(set)
    }

    /// The flags of a set, system flags first. A slot the table does not have is skipped.
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
        let set = table.set_or_insert(&flags, FlagSet::ALL).unwrap();
        let names: Vec<_> = table.flags_of(set).map(|f| f.to_string()).collect();
        assert_eq!(names, ["\\Answered", "\\Seen", "$Junk"]);
        assert_eq!(table.slot(&Keyword::new("$JUNK").unwrap()), Some(0));
    }

    fn keyword(text: &str) -> Keyword {
        Keyword::new(text).unwrap()
    }

    fn with_own(count: usize) -> KeywordTable {
        KeywordTable::from_keywords((0..count).map(|n| keyword(&format!("k{n}"))).collect()).unwrap()
    }

    #[test]
    fn there_is_always_room_for_the_common_ones() {
        let mut table = KeywordTable::default();
        for n in 0..KeywordTable::OWN_MAX {
            table.slot_or_insert(&keyword(&format!("k{n}")), FlagSet::ALL).unwrap();
        }
        assert_eq!(table.slot_or_insert(&keyword("more"), FlagSet::ALL), Err(KeywordError::TableFull));
        assert_eq!(table.slot_or_insert(&keyword("K50"), FlagSet::ALL), Ok(50));
        assert!(!table.has_room(FlagSet::ALL));
        assert_eq!(table.absent_common().count(), KeywordTable::COMMON.len());
        for (n, common) in KeywordTable::COMMON.into_iter().enumerate() {
            assert_eq!(table.slot_or_insert(&keyword(common), FlagSet::ALL), Ok(KeywordTable::OWN_MAX + n));
        }
        assert_eq!(table.keywords().len(), KeywordTable::SLOTS);
        assert_eq!(table.absent_common().count(), 0);
    }

    #[test]
    fn a_slot_that_no_message_needs_is_given_again() {
        let mut table = with_own(KeywordTable::OWN_MAX);
        let older = table.clone();
        let in_use = FlagSet::ALL.difference(FlagSet::keyword(7)).difference(FlagSet::keyword(9));
        assert!(table.has_room(in_use));
        let flags = [Flag::Keyword(keyword("a")), Flag::Keyword(keyword("b"))];
        let set = table.set_or_insert(&flags, in_use).unwrap();
        // Two keywords of one change never share a slot.
        assert_eq!(set, FlagSet::keyword(7).union(FlagSet::keyword(9)));
        assert_eq!(table.renamed_since(&older), set);
        assert_eq!(table.slot(&keyword("k7")), None);
        let was = FlagSet::SEEN.union(FlagSet::keyword(7)).union(FlagSet::keyword(8));
        assert_eq!(table.set_from(&older, was), FlagSet::SEEN.union(FlagSet::keyword(8)));
        assert_eq!(with_own(5).renamed_since(&with_own(3)), FlagSet::EMPTY);
        let third = [&flags[0], &flags[1], &Flag::Keyword(keyword("c"))];
        assert_eq!(table.set_or_insert(third, in_use), Err(KeywordError::TableFull));
    }

    #[test]
    fn an_old_table_makes_room_for_common_keywords_if_it_can() {
        // As tables were filled when no slots were reserved.
        let mut table = with_own(KeywordTable::SLOTS);
        assert_eq!(table.slot_or_insert(&keyword("$Junk"), FlagSet::ALL), Err(KeywordError::TableFull));
        let in_use = FlagSet::ALL.difference(FlagSet::keyword(30));
        assert_eq!(table.slot_or_insert(&keyword("$junk"), in_use), Ok(30));
        // The slot of a common keyword is not given to another that is not.
        assert_eq!(table.slot_or_insert(&keyword("x"), in_use), Err(KeywordError::TableFull));
        assert_eq!(table.slot_or_insert(&keyword("$Phishing"), in_use), Ok(30));
    }

    #[test]
    fn only_atoms_are_keywords() {
        for text in ["", "a b", "a(", "\\Seen", "ü", "a]", "a\"b", "a*"] {
            assert!(Keyword::new(text).is_err(), "{text}");
        }
    }
}
