//! NOTIFY, for a client: RFC 5465 §8.

use super::command::CommandPrinter;
use crate::command::{Event, EventGroup, MailboxFilter, Notify};

impl CommandPrinter {
    pub(super) fn notify(&mut self, notify: &Notify) {
        match notify {
            Notify::None => self.put("NOTIFY NONE"),
            Notify::Set { status, groups } => {
                self.put(if *status { "NOTIFY SET STATUS " } else { "NOTIFY SET " });
                self.spaced(groups, &mut Self::event_group);
            }
        }
    }

    fn event_group(&mut self, group: &EventGroup) {
        self.put("(");
        self.mailbox_filter(&group.mailboxes);
        self.put(" ");
        match group.events.as_slice() {
            [] => self.put("NONE"),
            events => self.list(events, Self::event),
        }
        self.put(")");
    }

    pub(super) fn mailbox_filter(&mut self, filter: &MailboxFilter) {
        self.put(filter.name());
        match filter.names() {
            [] => {}
            [one] => self.sp_mailbox(one),
            several => {
                self.put(" ");
                self.list(several, Self::mailbox);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        self.put(event.name());
        if let Event::MessageNew(items) = event
            && !items.is_empty()
        {
            self.put(" ");
            self.list(items, Self::fetch_item);
        }
    }
}
