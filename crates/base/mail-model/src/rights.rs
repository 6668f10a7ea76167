//! Rights of an access control list: RFC 4314 §2.1.

use std::fmt;

/// A set of rights. Each right has a letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rights(u16);

/// The letters, in the order in which RFC 4314 §2.1 has them, and `n` of RFC 5257. The place of a
/// letter is its bit.
const LETTERS: &[u8; 12] = b"lrswipkxtean";

impl Rights {
    /// The set without a right.
    pub const NONE: Self = Self(0);
    /// `l`: the mailbox is seen by LIST.
    pub const LOOKUP: Self = Self(1);
    /// `r`: the mailbox can be opened, and its messages read.
    pub const READ: Self = Self(1 << 1);
    /// `s`: `\Seen` can be changed.
    pub const SEEN: Self = Self(1 << 2);
    /// `w`: flags can be changed, other than `\Seen` and `\Deleted`.
    pub const WRITE: Self = Self(1 << 3);
    /// `i`: messages can be added.
    pub const INSERT: Self = Self(1 << 4);
    /// `p`: mail can be sent to the mailbox.
    pub const POST: Self = Self(1 << 5);
    /// `k`: mailboxes can be made below it.
    pub const CREATE: Self = Self(1 << 6);
    /// `x`: the mailbox can be deleted or renamed.
    pub const DELETE_MAILBOX: Self = Self(1 << 7);
    /// `t`: `\Deleted` can be changed.
    pub const DELETE_MESSAGES: Self = Self(1 << 8);
    /// `e`: messages can be expunged.
    pub const EXPUNGE: Self = Self(1 << 9);
    /// `a`: the access control list can be read and changed.
    pub const ADMINISTER: Self = Self(1 << 10);
    /// `n`: annotations of messages that all share can be changed (RFC 5257 §3.4).
    pub const ANNOTATE: Self = Self(1 << 11);
    /// Every right.
    pub const ALL: Self = Self((1 << LETTERS.len()) - 1);
    /// `c` of RFC 2086, as RFC 4314 §2.1.1 maps it.
    pub const OLD_CREATE: Self = Self::CREATE.union(Self::DELETE_MAILBOX);
    /// `d` of RFC 2086, as RFC 4314 §2.1.1 maps it.
    pub const OLD_DELETE: Self = Self::DELETE_MESSAGES.union(Self::EXPUNGE);

    /// Reads letters, `c` and `d` of RFC 2086 among them. `None` if one is no right: RFC 4314
    /// §3.1 requires that to be an error.
    pub fn parse(letters: &[u8]) -> Option<Self> {
        letters.iter().try_fold(Self::NONE, |rights, letter| {
            let more = match letter {
                b'c' => Self::OLD_CREATE,
                b'd' => Self::OLD_DELETE,
                letter => Self(1 << LETTERS.iter().position(|known| known == letter)?),
            };
            Some(rights.union(more))
        })
    }

    /// The rights of a response. RFC 4314 §2.1.1: a client that knows the new rights ignores `c`
    /// and `d`, and §2.1 leaves room for rights that are not known here.
    pub fn of_response(letters: &[u8]) -> Self {
        let known = letters.iter().filter_map(|letter| LETTERS.iter().position(|known| known == letter));
        known.fold(Self::NONE, |rights, place| rights.union(Self(1 << place)))
    }

    /// The rights one by one.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..LETTERS.len()).map(|place| Self(1 << place)).filter(move |one| self.contains(*one))
    }

    /// The letters for a response: with `c` and `d`, if there is a part of them (RFC 4314
    /// §2.1.1).
    pub fn with_old(self) -> String {
        let mut text = self.to_string();
        for (old, letter) in [(Self::OLD_CREATE, 'c'), (Self::OLD_DELETE, 'd')] {
            if self.intersects(old) {
                text.push(letter);
            }
        }
        text
    }

    /// Whether all rights of the other set are in this one.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the sets have a right in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Rights of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Rights of both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Rights that the other set lacks.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is no right.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, letter) in LETTERS.iter().enumerate() {
            if self.0 & (1 << place) != 0 {
                write!(f, "{}", char::from(*letter))?;
            }
        }
        Ok(())
    }
}
impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_rights_and_back() {
        assert_eq!(Rights::ALL.to_string(), "lrswipkxtean");
        assert_eq!(Rights::parse(b"naetxkpiwsrl"), Some(Rights::ALL));
        for bits in 0..=Rights::ALL.0 {
            let rights = Rights(bits);
            assert_eq!(Rights::parse(rights.to_string().as_bytes()), Some(rights));
            assert_eq!(Rights::of_response(rights.with_old().as_bytes()), rights);
            assert_eq!(rights.each().fold(Rights::NONE, Rights::union), rights);
        }
    }

    #[test]
    fn old_rights_stand_for_new_ones() {
        assert_eq!(Rights::parse(b"c").unwrap().to_string(), "kx");
        assert_eq!(Rights::parse(b"d").unwrap().to_string(), "te");
        assert_eq!(Rights::parse(b"lrd").unwrap().with_old(), "lrted");
        assert_eq!(Rights::parse(b"x").unwrap().with_old(), "xc");
    }

    #[test]
    fn other_letters_are_no_rights() {
        for letters in ["q", "L", "lr0", "lr ", "é"] {
            assert_eq!(Rights::parse(letters.as_bytes()), None, "{letters}");
        }
    }
}
