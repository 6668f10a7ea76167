//! NOTIFY: RFC 5465. ESEARCH uses its mailbox filters, too (RFC 7377).

use super::FetchItem;
use crate::MailboxArg;

/// `NOTIFY NONE` and `NOTIFY SET …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notify {
    /// No event is reported from now on.
    None,
    /// The events that are wanted from now on, instead of all those before.
    Set {
        /// `STATUS`: the present state of the mailboxes is reported first.
        status: bool,
        /// Never empty. The groups that name a mailbox add up, to the first with `NONE`.
        groups: Vec<EventGroup>,
    },
}

/// `(mailboxes events)`: RFC 5465 §8, event-group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventGroup {
    /// The mailboxes of the group.
    pub mailboxes: MailboxFilter,
    /// The events to report; an empty list is `NONE`.
    pub events: Vec<Event>,
}

/// A choice of mailboxes: RFC 5465 §6, RFC 7377 §2.2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MailboxFilter {
    /// `SELECTED`
    Selected,
    /// `SELECTED-DELAYED`: EXPUNGE waits for a command. Only in NOTIFY.
    SelectedDelayed,
    /// `INBOXES`: those in which mail arrives.
    Inboxes,
    /// `PERSONAL`
    Personal,
    /// `SUBSCRIBED`
    Subscribed,
    /// `SUBTREE`: these and all below them; never empty.
    Subtree(Vec<MailboxArg>),
    /// `SUBTREE-ONE`: these and those directly below them; never empty (RFC 7377).
    SubtreeOne(Vec<MailboxArg>),
    /// `MAILBOXES`: these; never empty.
    Mailboxes(Vec<MailboxArg>),
}

impl MailboxFilter {
    /// The filter's name, as it is written.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Selected => "SELECTED",
            Self::SelectedDelayed => "SELECTED-DELAYED",
            Self::Inboxes => "INBOXES",
            Self::Personal => "PERSONAL",
            Self::Subscribed => "SUBSCRIBED",
            Self::Subtree(_) => "SUBTREE",
            Self::SubtreeOne(_) => "SUBTREE-ONE",
            Self::Mailboxes(_) => "MAILBOXES",
        }
    }

    /// The names that it is given.
    pub fn names(&self) -> &[MailboxArg] {
        match self {
            Self::Subtree(names) | Self::SubtreeOne(names) | Self::Mailboxes(names) => names,
            _ => &[],
        }
    }
}

/// The events that may be reported: RFC 5465 §5.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// `MessageNew`, with the items to fetch of each new message; may be empty.
    MessageNew(Vec<FetchItem>),
    /// `MessageExpunge`
    MessageExpunge,
    /// `FlagChange`
    FlagChange,
    /// `AnnotationChange`: RFC 5257.
    AnnotationChange,
    /// `MailboxName`: created, deleted, renamed.
    MailboxName,
    /// `SubscriptionChange`
    SubscriptionChange,
    /// `MailboxMetadataChange`: RFC 5464.
    MailboxMetadataChange,
    /// `ServerMetadataChange`: RFC 5464.
    ServerMetadataChange,
    /// One that we do not know.
    Other(String),
}

impl Event {
    /// The events without arguments.
    pub(crate) const BARE: [Self; 7] = [
        Self::MessageExpunge,
        Self::FlagChange,
        Self::AnnotationChange,
        Self::MailboxName,
        Self::SubscriptionChange,
        Self::MailboxMetadataChange,
        Self::ServerMetadataChange,
    ];

    /// The event's name, as it is written.
    pub fn name(&self) -> &str {
        match self {
            Self::MessageNew(_) => "MessageNew",
            Self::MessageExpunge => "MessageExpunge",
            Self::FlagChange => "FlagChange",
            Self::AnnotationChange => "AnnotationChange",
            Self::MailboxName => "MailboxName",
            Self::SubscriptionChange => "SubscriptionChange",
            Self::MailboxMetadataChange => "MailboxMetadataChange",
            Self::ServerMetadataChange => "ServerMetadataChange",
            Self::Other(name) => name,
        }
    }
}
