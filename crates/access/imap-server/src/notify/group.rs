//! The events that a client requests for one group of mailboxes (RFC 5465 §3.1).

use posthaste_mail_model::MailboxName;
use posthaste_store::MailboxList;

use crate::mailbox_filter::Filter;

/// A filter of mailboxes, and the events that are wanted of them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) filter: Filter,
    /// MessageNew and MessageExpunge, which go together.
    pub(super) messages: bool,
    /// FlagChange or AnnotationChange
    pub(super) flags: bool,
    pub(super) names: bool,
    pub(super) subscriptions: bool,
    pub(super) metadata: bool,
}

/// The first group that names a mailbox decides for it. `own` is the user's own list.
pub(super) fn group_of<'g>(groups: &'g [Group], name: &MailboxName, own: &MailboxList) -> Option<&'g Group> {
    groups.iter().find(|group| group.filter.has(name, own))
}
