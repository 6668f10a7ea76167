//! The namespaces of mailboxes that belong to others: RFC 2342.

use posthaste_directory::Account;
use posthaste_mail_model::{MailboxName, SEPARATOR};
use posthaste_store::MailboxList;

/// Where an account sees mailboxes of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Namespace {
    /// Mailboxes of other users.
    Others,
    /// Mailboxes of accounts that nobody logs in to.
    Shared,
}

/// A name in one of these namespaces, in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedName<'n> {
    /// Which namespace.
    pub namespace: Namespace,
    /// The level below it: the name of an account.
    pub owner: &'n str,
    /// The name in the account's own list; `None` where it ends at the account.
    pub name: Option<MailboxName>,
}

impl SharedName<'_> {
    /// Whether an account has mailboxes of its own there, as one may that had them before there
    /// were namespaces. Then the name is one of its own.
    pub fn is_among(&self, own: &MailboxList) -> bool {
        let top = MailboxName::new(&self.namespace.top(self.owner));
        top.is_ok_and(|top| own.find(&top).is_some() || own.has_children(&top))
    }
}

impl Namespace {
    /// Both namespaces.
    pub const ALL: [Self; 2] = [Self::Others, Self::Shared];

    /// The first level of the namespace.
    pub const fn root(self) -> &'static str {
        match self {
            Self::Others => "Other Users",
            Self::Shared => "Shared",
        }
    }

    /// The place of an account's mailboxes in the namespace.
    pub const fn of(owner: &Account) -> Self {
        if owner.shared { Self::Shared } else { Self::Others }
    }

    /// The level above an account's mailboxes.
    pub fn top(self, owner: &str) -> String {
        format!("{}{SEPARATOR}{owner}", self.root())
    }

    /// Whether a name is the first level of a namespace.
    pub fn is_root(name: &str) -> bool {
        Self::ALL.iter().any(|namespace| namespace.root() == name)
    }

    /// The parts of a name; `None` if it is in neither namespace.
    pub fn split(name: &MailboxName) -> Option<SharedName<'_>> {
        Self::ALL.into_iter().find_map(|namespace| {
            let rest = name.as_str().strip_prefix(namespace.root())?.strip_prefix(SEPARATOR)?;
            let (owner, name) = match rest.split_once(SEPARATOR) {
                // Its levels are levels of a valid name.
                Some((owner, name)) => (owner, MailboxName::new(name).ok()),
                None => (rest, None),
            };
            Some(SharedName { namespace, owner, name })
        })
    }

    /// Whether a pattern of LIST, as a whole, may match a name in one of the namespaces.
    pub fn may_match(pattern: &str) -> bool {
        let fixed = pattern.find(['*', '%']).map_or(pattern, |at| &pattern[..at]);
        Self::ALL.iter().any(|namespace| {
            let root = namespace.root();
            root.starts_with(fixed)
                || fixed.strip_prefix(root).is_some_and(|rest| rest.starts_with(SEPARATOR))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Option<(Namespace, String, Option<String>)> {
        let name = MailboxName::new(text).unwrap();
        let shown = Namespace::split(&name)?;
        Some((shown.namespace, shown.owner.to_owned(), shown.name.map(|name| name.to_string())))
    }

    #[test]
    fn names_have_an_owner_and_a_rest() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(split("Other Users/a@b/x/y"), Some((Namespace::Others, "a@b".into(), some("x/y"))));
        assert_eq!(split("Shared/a@b/inbox"), Some((Namespace::Shared, "a@b".into(), some("INBOX"))));
        assert_eq!(split("Shared/a@b"), Some((Namespace::Shared, "a@b".into(), None)));
        for own in ["Shared", "Shareds/x", "shared/a@b/x", "Other Users", "INBOX/Shared/x"] {
            assert_eq!(split(own), None, "{own}");
        }
    }

    #[test]
    fn patterns_that_cannot_match_are_known() {
        for pattern in ["*", "%", "", "S*", "Shared", "Shared/*", "Shared/a@b/%", "Other%", "Sh%/x"] {
            assert!(Namespace::may_match(pattern), "{pattern}");
        }
        for pattern in ["INBOX", "Sent*", "SharedX*", "Archive/%", "other*"] {
            assert!(!Namespace::may_match(pattern), "{pattern}");
        }
    }
}
