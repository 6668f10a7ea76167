//! Results that are kept up to date: CONTEXT=SEARCH and CONTEXT=SORT (RFC 5267 §4.3).
//!
//! A SEARCH or SORT with UPDATE leaves a **context**: its criteria, and the UIDs of its result.
//! When the session's view of the mailbox changes, only the changed messages are evaluated again.
//! ADDTO and REMOVEFROM report messages that entered or left the result. No search is repeated.
//!
//! * `kept` decides which criteria can be kept up to date.
//! * `members` holds the UIDs of a result, and `ordered` those of a sorted one in their order.
//! * `order` finds the places of new members.
//! * `update` evaluates a difference of views, and reports.
//!
//! A session has at most [`CONTEXTS_MAX`] contexts. Their bytes come from a budget that all
//! sessions share ([`ImapService::contexts`]). They end with the selected mailbox.

pub(crate) mod kept;
mod members;
pub(crate) mod open;
mod order;
mod ordered;
mod print;
pub(crate) mod update;

use posthaste_imap_codec::command::{FetchItem, SearchKey, SortCriterion};
use posthaste_imap_codec::{Numbering, Tag};
use posthaste_mail_model::{AccountId, NumSet};
use posthaste_net::{BytePermit, Holder};

use self::members::Members;
use self::ordered::OrderedMembers;
use crate::service::ImapService;

/// Contexts of one session. A client shows one or two folders by a few criteria each. Twice as many
/// would double the cost of a change of one message.
const CONTEXTS_MAX: usize = 8;

/// Bytes that the contexts of one session take without the budget, so that every client gets
/// contexts of small results (RFC 5267 §4.3.1: "at least one"). With those of `$` they are the
/// 16 KiB that the plan of memory counts for each connection.
const UNRESERVED_BYTES_MAX: usize = 12 * 1024;
/// Bytes taken from the budget at once, at least: so a growing result takes them rarely.
const RESERVED_BYTES_MIN: usize = 64 * 1024;

/// The contexts of a session.
#[derive(Default)]
pub(crate) struct Contexts {
    list: Vec<Context>,
    /// UIDs of messages whose evaluation has to be tried again.
    pending: NumSet,
    /// The memory that was reserved.
    paid: Vec<BytePermit>,
    paid_bytes: usize,
}

/// A result that is kept up to date.
struct Context {
    /// The tag of the command that requested it.
    tag: Tag,
    numbering: Numbering,
    /// The criteria, with sets of messages as UIDs.
    key: SearchKey,
    /// The items that are fetched of new messages that enter the result (RFC 5465 §7).
    items: Vec<FetchItem>,
    /// Bytes of the criteria and the items.
    asked_bytes: usize,
    members: Members,
    sorted: Option<SortedContext>,
}

/// The order of a SORT.
struct SortedContext {
    criteria: Vec<SortCriterion>,
    /// The members in order.
    order: OrderedMembers,
}

impl Context {
    fn bytes(&self) -> usize {
        let sorted = self.sorted.as_ref().map_or(0, |sorted| {
            sorted.order.bytes() + sorted.criteria.capacity() * size_of::<SortCriterion>()
        });
        size_of::<Self>() + self.tag.as_str().len() + self.asked_bytes + self.members.bytes() + sorted
    }
}

impl Contexts {
    /// Whether there is no context.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether to evaluate messages although nothing changed.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a context has this tag.
    pub(crate) fn has(&self, tag: &Tag) -> bool {
        self.list.iter().any(|context| context.tag == *tag)
    }

    /// CANCELUPDATE: RFC 5267 §4.3.5.
    pub(crate) fn cancel(&mut self, tags: &[Tag]) {
        self.list.retain(|context| !tags.contains(&context.tag));
        self.tidy();
    }

    /// Gives everything back after the last context.
    fn tidy(&mut self) {
        if self.list.is_empty() {
            *self = Self::default();
        }
    }

    /// Reserves the memory of the contexts. Returns whether there was room.
    fn pay(&mut self, service: &ImapService, account: AccountId) -> bool {
        let bytes: usize = self.list.iter().map(Context::bytes).sum();
        let missing = bytes.saturating_sub(UNRESERVED_BYTES_MAX + self.paid_bytes);
        if missing == 0 {
            return true;
        }
        let more = missing.max(RESERVED_BYTES_MIN);
        let permit = service.contexts.begin(Holder::Account(account.0.to_bytes()));
        if permit.grow_to(more).is_err() {
            return false;
        }
        // The permit is kept as long as the contexts.
        permit.complete();
        self.paid.push(permit);
        self.paid_bytes += more;
        true
    }
}
