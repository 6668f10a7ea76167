//! The mailboxes that a filter names: NOTIFY (RFC 5465 §6) and ESEARCH (RFC 7377 §2.2).
//!
//! A name is looked up by itself and by the levels above it. So the cost does not grow with the
//! names of a filter.

use std::collections::BTreeSet;

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::MailboxFilter;
use posthaste_mail_model::MailboxName;
use posthaste_sharing::Namespace;
use posthaste_store::MailboxList;

/// Steps of comparing a name with one filter.
pub(crate) const FILTER_STEPS: u64 = 2000;

/// A filter without the selected mailbox.
#[derive(Debug)]
pub(crate) enum Filter {
    /// The user's own mailboxes, all of them. Sieve may file mail into any of them, so INBOXES is
    /// the same (RFC 5465 §6.2).
    Personal,
    /// The mailboxes that are subscribed now.
    Subscribed,
    /// These mailboxes and all below them.
    Subtree(BTreeSet<MailboxName>),
    /// These mailboxes and those directly below them.
    SubtreeOne(BTreeSet<MailboxName>),
    /// These mailboxes.
    Mailboxes(BTreeSet<MailboxName>),
}

impl Filter {
    /// `None` for the selected mailbox.
    pub(crate) fn of(filter: &MailboxFilter) -> Option<Self> {
        Some(match filter {
            MailboxFilter::Selected | MailboxFilter::SelectedDelayed => return None,
            MailboxFilter::Inboxes | MailboxFilter::Personal => Self::Personal,
            MailboxFilter::Subscribed => Self::Subscribed,
            MailboxFilter::Subtree(names) => Self::Subtree(existing(names)),
            MailboxFilter::SubtreeOne(names) => Self::SubtreeOne(existing(names)),
            MailboxFilter::Mailboxes(names) => Self::Mailboxes(existing(names)),
        })
    }

    /// Octets of its names: each is an allocation, and has a place in a tree.
    pub(crate) fn bytes(&self) -> usize {
        const NAME_BYTES: usize = 80;
        match self {
            Self::Personal | Self::Subscribed => 0,
            Self::Subtree(names) | Self::SubtreeOne(names) | Self::Mailboxes(names) => {
                names.iter().map(|name| NAME_BYTES + name.as_str().len()).sum()
            }
        }
    }

    /// Whether it may name mailboxes of others. Personal ones are one's own (RFC 5465 §6.3).
    pub(crate) fn may_reach_others(&self, list: &MailboxList) -> bool {
        let is_theirs =
            |name: &MailboxName| Namespace::is_root(name.as_str()) || Namespace::split(name).is_some();
        match self {
            Self::Personal => false,
            Self::Subscribed => list.subscribed.iter().any(is_theirs),
            Self::Subtree(names) | Self::SubtreeOne(names) | Self::Mailboxes(names) => {
                names.iter().any(is_theirs)
            }
        }
    }

    /// Whether it may name a mailbox below the level of another account's mailboxes.
    pub(crate) fn reaches(&self, top: &MailboxName, own: &MailboxList) -> bool {
        let meets = |name: &MailboxName| name == top || name.is_below(top) || top.is_below(name);
        match self {
            Self::Personal => false,
            Self::Subscribed => own.subscribed.iter().any(meets),
            Self::Subtree(names) | Self::SubtreeOne(names) | Self::Mailboxes(names) => {
                names.iter().any(meets)
            }
        }
    }

    /// Whether it names a mailbox, by the name by which the user knows it. `own` is the list of the
    /// user's own mailboxes, with the subscriptions.
    pub(crate) fn has(&self, name: &MailboxName, own: &MailboxList) -> bool {
        match self {
            Self::Personal => Namespace::split(name).is_none_or(|shown| shown.is_among(own)),
            Self::Subscribed => own.subscribed.contains(name),
            Self::Mailboxes(names) => names.contains(name),
            Self::Subtree(names) => {
                let mut levels = std::iter::successors(Some(name.clone()), MailboxName::parent);
                levels.any(|level| names.contains(&level))
            }
            Self::SubtreeOne(names) => {
                names.contains(name) || name.parent().is_some_and(|parent| names.contains(&parent))
            }
        }
    }
}

/// Names that a mailbox can have. The others are no error: they name none (RFC 5465 §6).
fn existing(names: &[MailboxArg]) -> BTreeSet<MailboxName> {
    names.iter().filter_map(|name| name.name().ok()).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{AccountId, Id};

    use super::*;

    #[test]
    fn names_and_the_levels_above_them() {
        let names = |names: &[&str]| names.iter().map(|name| MailboxArg::from_text(name)).collect::<Vec<_>>();
        let mut list = MailboxList::empty(AccountId(Id::new(1, 1)));
        list.subscribed.insert(MailboxName::new("a").unwrap());
        let has = |filter: MailboxFilter| {
            let filter = Filter::of(&filter).unwrap();
            ["INBOX", "a", "a/b", "a/b/c", "ab"]
                .map(|name| filter.has(&MailboxName::new(name).unwrap(), &list))
        };
        assert_eq!(has(MailboxFilter::Personal), [true; 5]);
        assert_eq!(has(MailboxFilter::Inboxes), [true; 5]);
        assert_eq!(has(MailboxFilter::Subscribed), [false, true, false, false, false]);
        let subtree = MailboxFilter::Subtree(names(&["a", "Inbox", "no//name"]));
        assert_eq!(has(subtree), [true, true, true, true, false]);
        assert_eq!(has(MailboxFilter::SubtreeOne(names(&["a"]))), [false, true, true, false, false]);
        assert_eq!(has(MailboxFilter::Mailboxes(names(&["a/b", "ab"]))), [false, false, true, false, true]);
        let reaches =
            |filter: MailboxFilter, list: &MailboxList| Filter::of(&filter).unwrap().may_reach_others(list);
        assert!(!reaches(MailboxFilter::Personal, &list) && !reaches(MailboxFilter::Subscribed, &list));
        assert!(!reaches(MailboxFilter::Subtree(names(&["a", "Sharedx/a"])), &list));
        assert!(reaches(MailboxFilter::Subtree(names(&["a", "Other Users"])), &list));
        assert!(reaches(MailboxFilter::Mailboxes(names(&["Shared/b@example.org/x"])), &list));
        list.subscribed.insert(MailboxName::new("Shared/b@example.org/x").unwrap());
        assert!(reaches(MailboxFilter::Subscribed, &list));
    }
}
