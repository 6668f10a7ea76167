//! NOTIFY (RFC 5465): the server reports changes by others, also in mailboxes that the session has
//! not selected, and while no command runs.
//!
//! * `request` compiles the client's event groups, and refuses invalid ones.
//! * `others` follows mailboxes of other accounts, with their rights.
//! * `report` prints changes of other mailboxes: STATUS, LIST, METADATA.
//!
//! `announce` reports the requested events of the selected mailbox, and `waiting` waits for input
//! and for changes.
//!
//! Nothing is queued for a session. The store keeps one record for each account
//! ([`posthaste_store::AccountWatch`]). The session keeps the number of the last change that it has
//! seen. A client that reads again after a pause gets one response for each mailbox that changed.
//! If these exceed the limit, it gets NOTIFICATIONOVERFLOW (RFC 5465 §5.8).

mod group;
mod names;
mod others;
pub(crate) mod report;
mod request;

use std::sync::Arc;

use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{MailboxId, ModSeq, NumSet};
use posthaste_net::Clock;
use posthaste_store::{AccountWatch, MailboxList, OwnArrivals};

use crate::kept_memory::{KeptMemory, NoMemory};
use crate::metadata_reports::ReportedMetadata;
use crate::reply::Failure;
use crate::resolve::Asker;
use crate::wire::Wire;
use others::FollowedMailboxes;
pub(crate) use request::{NotifyRequest, SelectedRequest};

/// Appends and copies of this session that wait to be left out. A session reports after each
/// command, so there is one, or a few after errors of the store.
const OWN_MAX: usize = 16;

/// A mailbox, and up to where its changes were reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReportedState {
    pub(crate) mailbox: MailboxId,
    pub(crate) modseq: ModSeq,
}

/// The events that a session wants, and those already reported.
pub(crate) struct Notify {
    request: NotifyRequest,
    /// Memory for the request.
    _memory: KeptMemory,
    watch: AccountWatch,
    /// Mailboxes of other accounts, if the client wants to know of any.
    others: Option<Box<FollowedMailboxes>>,
    /// The user's own list, as of the last report.
    own_list: Arc<MailboxList>,
    /// The list whose names and subscriptions the client knows: the same, and what it wants to know
    /// of others.
    list: Arc<MailboxList>,
    /// The annotations that were reported to it, if it wants to know of annotations.
    annotations: Option<Box<ReportedMetadata>>,
    /// The messages that this session added since the last report.
    own: Vec<OwnArrivals>,
    /// The UIDs of what it added to the selected mailbox.
    own_uids: NumSet,
    /// The mailbox that this session closed, and its mod-sequence after it.
    closed: Option<ReportedState>,
    /// The mailbox that was selected at the last report, and up to where it was reported.
    was_selected: Option<ReportedState>,
}

impl Notify {
    /// Begins to notify: what happens from now on. The clock is the session's.
    pub(crate) async fn begin(
        asker: Asker<'_>,
        request: NotifyRequest,
        clock: Clock,
    ) -> Result<Self, Failure> {
        let (service, account) = (asker.service, asker.login.id);
        let mut memory = KeptMemory::new(service, account);
        memory.resize(request.bytes())?;
        let watch = service.store.follow(account).await?;
        let own_list = watch.list();
        let mut others = FollowedMailboxes::begin(asker, &request.groups, &own_list).await?;
        let list = match &mut others {
            Some(others) => Box::pin(others.list_with(&own_list)).await?,
            None => Arc::clone(&own_list),
        };
        let annotations = match request.annotations() {
            true => Some(Box::new(ReportedMetadata::read(service, account, clock).await?.ok_or(NoMemory)?)),
            false => None,
        };
        let (own, own_uids) = (Vec::new(), NumSet::new());
        let (closed, was_selected) = (None, None);
        Ok(Self {
            request,
            _memory: memory,
            watch,
            others,
            own_list,
            list,
            annotations,
            own,
            own_uids,
            closed,
            was_selected,
        })
    }

    /// The wanted events of the selected mailbox.
    pub(crate) fn selected(&self) -> &SelectedRequest {
        &self.request.selected
    }

    /// Whether the client wants to know of annotations.
    pub(crate) fn wants_annotations(&self) -> bool {
        self.request.annotations()
    }

    /// The UIDs of what this session added to the selected mailbox since the last call.
    pub(crate) fn take_own_uids(&mut self) -> NumSet {
        std::mem::take(&mut self.own_uids)
    }

    /// Records that this session's own client closed a mailbox and expunged messages.
    pub(crate) fn note_closed(&mut self, mailbox: MailboxId, modseq: ModSeq) {
        self.closed = Some(ReportedState { mailbox, modseq });
    }

    /// Takes over the list of names: changes by this session's own client are not reported to it
    /// (RFC 5465 §5).
    pub(crate) async fn adopt_list(&mut self) {
        self.own_list = self.watch.list();
        // Without memory for the list, the next report ends the notifications.
        if let Ok(list) = self.list_now().await {
            self.list = list;
        }
    }

    /// The list whose names the client would know after a report.
    async fn list_now(&mut self) -> Result<Arc<MailboxList>, NoMemory> {
        match &mut self.others {
            // Boxed: few sessions need it.
            Some(others) => Box::pin(others.list_with(&self.own_list)).await,
            None => Ok(Arc::clone(&self.own_list)),
        }
    }

    /// Records what this session's own client added: that is not reported to it (RFC 5465 §5).
    /// `uids` are those of the selected mailbox, if the messages are there.
    pub(crate) fn note_own(&mut self, own: OwnArrivals, uids: Option<&NumSet>) {
        if self.own.len() < OWN_MAX {
            self.own.push(own);
        }
        if let Some(uids) = uids {
            self.own_uids = self.own_uids.union(uids);
        }
    }
}

/// RFC 5465 §5.8: from now on the session is as after NOTIFY NONE.
pub(crate) fn overflow(wire: &mut Wire) {
    wire.say_code(Code::NotificationOverflow, "Too many events: synchronise, and send NOTIFY again");
}

/// Whether a command changes the names of mailboxes, or the subscriptions.
pub(crate) fn changes_list(command: &str) -> bool {
    matches!(command, "CREATE" | "DELETE" | "RENAME" | "SUBSCRIBE" | "UNSUBSCRIBE" | "SETMETADATA")
}
