//! The events that a client requests: RFC 5465 §3, §5 and §6.

use posthaste_imap_codec::command::{Event, EventGroup, FetchItem, MailboxFilter};
use posthaste_imap_codec::response::Code;

use super::group::{Events, Group};
use crate::kept_memory::items_bytes;
use crate::mailbox_filter::Filter;
use crate::options::ImapOptions;
use crate::own::Quiet;
use crate::reply::Reply;

/// The events there are (RFC 5465 §5, BADEVENT).
const EVENTS: [&str; 8] = [
    "MessageNew",
    "MessageExpunge",
    "FlagChange",
    ANNOTATION_CHANGE,
    "MailboxName",
    "SubscriptionChange",
    "MailboxMetadataChange",
    "ServerMetadataChange",
];

/// The event that is there only with ANNOTATE-EXPERIMENT-1 (RFC 5257).
const ANNOTATION_CHANGE: &str = "AnnotationChange";

/// The wanted events.
#[derive(Debug)]
pub(crate) struct NotifyRequest {
    pub(super) groups: Vec<Group>,
    pub(crate) selected: SelectedRequest,
    pub(super) server_metadata: bool,
}

/// The wanted events of the selected mailbox.
#[derive(Debug, Default)]
pub(crate) struct SelectedRequest {
    /// MessageNew and MessageExpunge, which go together.
    pub(crate) messages: bool,
    pub(crate) flags: bool,
    /// AnnotationChange
    pub(crate) annotations: bool,
    /// SELECTED: EXPUNGE may come while no command runs.
    pub(crate) at_once: bool,
    /// The items that are fetched of new messages.
    pub(crate) items: Vec<FetchItem>,
}

impl SelectedRequest {
    /// The reports that the client does not want.
    pub(crate) fn quiet(&self) -> Quiet {
        Quiet { messages: !self.messages, flags: !self.flags, annotations: !self.annotations }
    }
}

impl NotifyRequest {
    /// Compiles the groups of NOTIFY SET.
    pub(crate) fn of(groups: Vec<EventGroup>, options: &ImapOptions) -> Result<Self, Reply> {
        let mut request =
            Self { groups: Vec::new(), selected: SelectedRequest::default(), server_metadata: false };
        let mut has_selected = false;
        for EventGroup { mailboxes, events } in groups {
            let is_none = events.is_empty();
            let asked = GroupEvents::of(events, options)?;
            request.server_metadata |= asked.server_metadata;
            if let Some(filter) = Filter::of(&mailboxes) {
                let events = Some(asked.of_others()?).filter(|_| !is_none);
                request.groups.push(Group { filter, events });
                continue;
            }
            if std::mem::replace(&mut has_selected, true) {
                // RFC 5465 §6.1: "Only one of the mailbox specifiers affecting the currently
                // selected mailbox can be specified in any NOTIFY command."
                return Err(Reply::bad("NOTIFY takes one group of SELECTED or SELECTED-DELAYED"));
            }
            request.selected = asked.of_selected(mailboxes == MailboxFilter::Selected)?;
        }
        Ok(request)
    }

    /// Whether this is fetched of new messages.
    pub(crate) fn fetches(&self, item: &FetchItem) -> bool {
        self.selected.items.contains(item)
    }

    /// Whether annotations are wanted.
    pub(super) fn annotations(&self) -> bool {
        self.server_metadata || self.events().any(|events| events.metadata)
    }

    /// Whether names or subscriptions are wanted.
    pub(super) fn names(&self) -> bool {
        self.events().any(|events| events.names || events.subscriptions)
    }

    /// Octets that it takes.
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.groups.iter().map(|group| size_of::<Group>() + group.filter.bytes()).sum();
        names + items_bytes(&self.selected.items)
    }

    fn events(&self) -> impl Iterator<Item = Events> {
        self.groups.iter().filter_map(|group| group.events)
    }
}

/// The events of one group.
#[derive(Default)]
struct GroupEvents {
    items: Option<Vec<FetchItem>>,
    expunge: bool,
    flags: bool,
    annotations: bool,
    names: bool,
    subscriptions: bool,
    metadata: bool,
    server_metadata: bool,
}

impl GroupEvents {
    fn of(events: Vec<Event>, options: &ImapOptions) -> Result<Self, Reply> {
        let mut asked = Self::default();
        for event in events {
            match event {
                Event::MessageNew(items) => asked.items = Some(items),
                Event::MessageExpunge => asked.expunge = true,
                Event::FlagChange => asked.flags = true,
                Event::MailboxName => asked.names = true,
                Event::SubscriptionChange => asked.subscriptions = true,
                Event::MailboxMetadataChange => asked.metadata = true,
                Event::ServerMetadataChange => asked.server_metadata = true,
                Event::AnnotationChange if options.annotations => asked.annotations = true,
                // RFC 5465 §5: NO, with the events that are known.
                Event::AnnotationChange | Event::Other(_) => {
                    let known = |name: &&str| options.annotations || *name != ANNOTATION_CHANGE;
                    let known = EVENTS.into_iter().filter(known).map(str::to_owned).collect();
                    let code = Code::BadEvent(known);
                    return Err(Reply::no(code, format!("{} is not supported", event.name())));
                }
            }
        }
        // RFC 5465 §5: MessageNew and MessageExpunge come together, and events on flags only with
        // them.
        if asked.items.is_some() != asked.expunge {
            return Err(Reply::bad("MessageNew and MessageExpunge go together"));
        }
        if (asked.flags || asked.annotations) && !asked.expunge {
            return Err(Reply::bad("FlagChange and AnnotationChange need MessageNew and MessageExpunge"));
        }
        Ok(asked)
    }

    fn of_selected(self, at_once: bool) -> Result<SelectedRequest, Reply> {
        if self.names || self.subscriptions || self.metadata || self.server_metadata {
            // RFC 5465 §6.1
            return Err(Reply::bad("SELECTED accepts only message events"));
        }
        let Self { items, expunge, flags, annotations, .. } = self;
        let items = items.unwrap_or_default();
        Ok(SelectedRequest { messages: expunge, flags, annotations, at_once, items })
    }

    fn of_others(self) -> Result<Events, Reply> {
        if self.items.is_some_and(|items| !items.is_empty()) {
            // RFC 5465 §5.2: no FETCH is sent for other mailboxes.
            return Err(Reply::bad("MessageNew accepts items to fetch only for SELECTED"));
        }
        let Self { expunge, names, subscriptions, metadata, .. } = self;
        // RFC 5465 §5.1: both events are a STATUS with HIGHESTMODSEQ, which rises for either.
        let flags = self.flags || self.annotations;
        Ok(Events { messages: expunge, flags, names, subscriptions, metadata })
    }
}
