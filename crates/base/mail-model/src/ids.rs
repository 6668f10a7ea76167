//! Identifiers.
//!
//! The 32-bit ones come from RFC 9051 §2.3.1, the mod-sequence from RFC 7162 §3.1. The 128-bit ones
//! are ours. The creator of the object makes them, unique without coordination. They rise with
//! time, so that an index keyed by them grows at its end.

use std::fmt;
use std::num::NonZeroU32;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The smallest value.
            pub const MIN: Self = Self(NonZeroU32::MIN);

            /// `None` for 0, which RFC 9051 never allows here.
            pub const fn new(value: u32) -> Option<Self> {
                match NonZeroU32::new(value) {
                    Some(v) => Some(Self(v)),
                    None => None,
                }
            }

            /// The value, 1 … 4,294,967,295.
            pub const fn value(self) -> u32 {
                self.0.get()
            }

            /// The number after this one; `None` once the 32 bits are used up.
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(v) => Some(Self(v)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

number!(
    /// Unique identifier of a message in a mailbox: RFC 9051 §2.3.1.1.
    Uid
);
number!(
    /// Message sequence number, 1 … EXISTS, good only for one session's view: RFC 9051 §2.3.1.2.
    SeqNum
);
number!(
    /// The life of a mailbox name to which its UIDs belong: RFC 9051 §2.3.1.1.
    UidValidity
);

/// Mod-sequence: counts the changes of one mailbox. 63 bits (RFC 7162 §3.1.1); 0 is "before any
/// change".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModSeq(u64);

impl ModSeq {
    /// The mod-sequence before any change; never that of a message.
    pub const ZERO: Self = Self(0);
    /// The largest value the protocol can carry: 2^63 - 1.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// `None` above 63 bits.
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// The value.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The next mod-sequence. 2^63 changes of one mailbox take longer than the mailbox lasts.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for ModSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ModSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModSeq({})", self.0)
    }
}

/// 128 bits: 48 of milliseconds since 1970, 80 of randomness. Prints as 26 characters of base 32
/// (`0-9a-v`), which keep the order and are valid in an RFC 8474 object id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u128);

impl Id {
    /// An id made at `unix_millis` with 80 bits of `randomness` (its upper bits are ignored).
    pub const fn new(unix_millis: u64, randomness: u128) -> Self {
        Self(((unix_millis as u128) << 80) | (randomness & ((1 << 80) - 1)))
    }

    /// The sixteen bytes, most significant first: byte order is time order.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The characters in which it prints.
    pub fn text(self) -> [u8; 26] {
        let mut text = [0; 26];
        for (i, slot) in text.iter_mut().rev().enumerate() {
            let digit = ((self.0 >> (5 * i)) & 31) as u8;
            *slot = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        }
        text
    }

    /// The inverse of [`Id::to_bytes`].
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The inverse of printing; `None` for anything that `Display` does not write.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 26 {
            return None;
        }
        let mut value: u128 = 0;
        for (i, byte) in text.bytes().enumerate() {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'v' => byte - b'a' + 10,
                _ => return None,
            };
            // 26 digits of 5 bits are 130: the first may only hold 3.
            if i == 0 && digit > 7 {
                return None;
            }
            value = (value << 5) | u128::from(digit);
        }
        Some(Self(value))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub Id);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// An account, whatever its name becomes.
    AccountId
);
id!(
    /// A mailbox, whatever its name becomes: MAILBOXID of RFC 8474 §4.
    MailboxId
);
id!(
    /// The bytes of a message, stored once however many mailboxes hold it: EMAILID of
    /// RFC 8474 §5.1.
    BodyId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_and_parses_and_keeps_its_order() {
        let a = Id::new(1_700_000_000_000, 5);
        let b = Id::new(1_700_000_000_001, 0);
        assert!(a < b && a.to_string() < b.to_string());
        for id in [a, b, Id::from_bytes([255; 16]), Id::from_bytes([0; 16])] {
            assert_eq!(Id::parse(&id.to_string()), Some(id));
            assert_eq!(Id::from_bytes(id.to_bytes()), id);
        }
        assert_eq!(Id::parse("z"), None);
        assert_eq!(Id::parse("80000000000000000000000000"), None);
    }

    #[test]
    fn zero_is_no_uid_and_the_last_has_no_next() {
        assert_eq!(Uid::new(0), None);
        assert_eq!(Uid::new(u32::MAX).and_then(Uid::next), None);
        assert_eq!(ModSeq::new(1 << 63), None);
    }
}
