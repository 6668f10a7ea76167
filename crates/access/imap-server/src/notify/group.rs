//! The events that a client requests of mailboxes that are not selected (RFC 5465 §3.1, §6).

use posthaste_mail_model::MailboxName;
use posthaste_store::MailboxList;

use crate::mailbox_filter::Filter;

/// Events of one mailbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Events {
    /// MessageNew and MessageExpunge, which go together.
    pub(super) messages: bool,
    /// FlagChange or AnnotationChange
    pub(super) flags: bool,
    pub(super) names: bool,
    pub(super) subscriptions: bool,
    pub(super) metadata: bool,
}

impl Events {
    fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages || other.messages,
            flags: self.flags || other.flags,
            names: self.names || other.names,
            subscriptions: self.subscriptions || other.subscriptions,
            metadata: self.metadata || other.metadata,
        }
    }
}

/// A filter of mailboxes, and the events that are wanted of them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) filter: Filter,
    /// `None` for NONE.
    pub(super) events: Option<Events>,
}

/// The events that are wanted of a mailbox. RFC 5465 §6: "multiple <event-group>s can apply to the
/// same mailbox". NONE ends the list: no group after it adds an event. `own` is the user's own
/// list.
pub(super) fn events_of(groups: &[Group], name: &MailboxName, own: &MailboxList) -> Events {
    let naming = groups.iter().filter(|group| group.filter.has(name, own));
    naming.map_while(|group| group.events).fold(Events::default(), Events::and)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use posthaste_mail_model::{AccountId, Id};

    use super::*;

    const NONE: Events =
        Events { messages: false, flags: false, names: false, subscriptions: false, metadata: false };

    #[test]
    fn groups_that_name_a_mailbox_add_up_to_the_first_none() {
        let list = MailboxList::empty(AccountId(Id::new(1, 1)));
        let of = |names: &[&str]| names.iter().map(|name| MailboxName::new(name).unwrap()).collect();
        let (messages, flags) = (Events { messages: true, ..NONE }, Events { flags: true, ..NONE });
        let groups = [
            Group { filter: Filter::Mailboxes(of(&["a", "b"])), events: Some(messages) },
            Group { filter: Filter::Mailboxes(of(&["b", "c"])), events: None },
            Group { filter: Filter::Personal, events: Some(flags) },
            Group { filter: Filter::Mailboxes(BTreeSet::new()), events: None },
        ];
        let events = |name: &str| events_of(&groups, &MailboxName::new(name).unwrap(), &list);
        assert_eq!(events("a"), Events { messages: true, flags: true, ..NONE });
        assert_eq!(events("b"), messages);
        assert_eq!(events("c"), NONE);
        assert_eq!(events("d"), flags);
    }
}
