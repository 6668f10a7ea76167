//! The views that a session holds, as they count for its account (`old_views`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use posthaste_mail_model::AccountId;

use crate::mailbox::Mailbox;
use crate::old_views::{HeldSizes, Hold, SessionEnd};
use crate::view::View;

/// A session that has a mailbox open. It counts until this is dropped.
pub struct ViewHolder {
    mailbox: Arc<Mailbox>,
    hold: Arc<Hold>,
}

impl Mailbox {
    /// A session of this account that has the mailbox open. If its account holds too many old
    /// views, and this session's are among the oldest, `end` ends it.
    pub fn holder(self: &Arc<Self>, account: AccountId, end: &Arc<SessionEnd>) -> ViewHolder {
        let hold = Hold::new(account, self.id(), Arc::clone(self.replaced()), Arc::clone(end));
        let holder = ViewHolder { mailbox: Arc::clone(self), hold: Arc::new(hold) };
        self.context().old_views.add(&holder.hold);
        holder
    }
}

impl ViewHolder {
    /// The session holds these views from now on, and no others. Views that the store has not
    /// published may be among them: what they do not share with the newest one counts at once.
    pub fn holds(&self, views: &[&Arc<View>]) {
        // Before the view is read: a change in between may count, although the session has it.
        let at = self.mailbox.replaced().load(Ordering::Acquire);
        let newest = self.mailbox.view();
        let apart = views.iter().filter(|view| !Arc::ptr_eq(view, &newest));
        let own: usize = apart.map(|view| view.bytes_beside(&newest)).sum();
        let largest = views.iter().map(|view| view.memory_bytes()).max().unwrap_or(0);
        // While a report is sent, the session holds one more.
        let most = largest.max(newest.memory_bytes()) * (views.len() + 1);
        let grown = self.hold.set(HeldSizes { at, own: own as u64, most: most as u64 });
        self.mailbox.context().old_views.grew(grown);
    }
}

impl Drop for ViewHolder {
    fn drop(&mut self) {
        self.mailbox.context().old_views.remove(&self.hold);
    }
}
