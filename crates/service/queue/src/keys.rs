//! For whom visits to hosts count, and messages that are in memory for them.
//!
//! Users and strangers can cause mail to hosts that answer slowly. Each such host keeps a slot and
//! memory for a long time. So there are bounds for each payer, and for each registered domain.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

use posthaste_directory::registered_domain;

/// The account because of which a message waits, as a number. Its name would take more memory for
/// each item. Mail that an account submits, and mail that is sent on for it, have two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PayerId(u64);

impl PayerId {
    /// No account: reports of this server, and mail that other hosts bring.
    pub const NOBODY: Self = Self(0);

    /// The payer of a message that an account has submitted, or that is sent on for one.
    pub fn of(submitter: Option<&str>, sent_on_by: Option<&str>) -> Self {
        match (submitter, sent_on_by) {
            (Some(name), _) => Self(number_of(("submitted by", name))),
            (None, Some(name)) => Self(number_of(("sent on by", name))),
            (None, None) => Self::NOBODY,
        }
    }
}

/// One of the two for whom a visit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The payer of a message.
    Payer(PayerId),
    /// The registered domain of the destination: its owner can make names below it at will.
    Domain(u64),
}

/// The payer and the domain for which a visit counts. Deliveries to mailboxes here have none: no
/// host can delay them.
pub(crate) type Keys = Option<[Key; 2]>;

impl Key {
    /// The key of a domain.
    pub fn of_domain(domain: &str) -> Self {
        Self::Domain(number_of(registered_domain(domain)))
    }

    /// Whether the key may hold so much if so much is still free then.
    ///
    /// What is free decides, so a further key may hold less than those before it, and leaves
    /// something to the next. A domain that is alone may hold a quarter, an account half, and
    /// nobody three quarters.
    pub const fn may_hold(self, held: u64, free: u64) -> bool {
        match self {
            Self::Domain(_) => held.saturating_mul(3) <= free,
            Self::Payer(PayerId::NOBODY) => held <= free.saturating_mul(3),
            Self::Payer(_) => held <= free,
        }
    }
}

/// A number for a name. Nobody can choose two names with the same number.
fn number_of(name: impl Hash) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    STATE.hash_one(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submitted_mail_and_mail_that_is_sent_on_have_two_payers() {
        let (ana, ben) = (Some("ana@example.org"), Some("ben@example.org"));
        assert_eq!(PayerId::of(ana, None), PayerId::of(ana, ben));
        assert_ne!(PayerId::of(ana, None), PayerId::of(None, ana));
        assert_ne!(PayerId::of(ana, None), PayerId::of(ben, None));
        assert_eq!(PayerId::of(None, None), PayerId::NOBODY);
    }

    #[test]
    fn names_below_a_registered_domain_have_its_key() {
        let of = Key::of_domain;
        assert_eq!(of("a.evil.test"), of("b.c.evil.test"));
        assert_ne!(of("evil.test"), of("good.test"));
    }

    #[test]
    fn a_key_that_is_alone_holds_its_part() {
        let most = |key: Key| (0..=64).rev().find(|held| key.may_hold(*held, 64 - held));
        let account = Key::Payer(PayerId::of(Some("ana@example.org"), None));
        let keys = [Key::of_domain("evil.test"), account, Key::Payer(PayerId::NOBODY)];
        assert_eq!(keys.map(most), [Some(16), Some(32), Some(48)]);
    }
}
