//! A SEARCH or SORT with UPDATE begins a context: RFC 5267 §4.3.

use posthaste_imap_codec::command::{FetchItem, SearchKey, SearchReturn, SortCriterion};
use posthaste_imap_codec::{Numbering, Tag};
use posthaste_mail_model::NumSet;

use super::kept::kept;
use super::members::Members;
use super::ordered::OrderedMembers;
use super::{CONTEXTS_MAX, Context, SortedContext, print};
use crate::heavy::Pace;
use crate::kept_memory::items_bytes;
use crate::offload::Threads;
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::wire::Wire;

/// The result of the command that opens a context.
pub(crate) struct InitialResult {
    /// The UIDs.
    pub(crate) uids: NumSet,
    /// The criteria of a SORT, and the UIDs in order.
    pub(crate) order: Option<(Vec<SortCriterion>, Vec<u32>)>,
}

/// A context that a command requests. Its criteria keep the meaning that they had when the command
/// came: `$` may be another one once it has ended.
pub(crate) struct RequestedContext {
    tag: Tag,
    numbering: Numbering,
    key: Result<(SearchKey, usize), &'static str>,
    items: Vec<FetchItem>,
}

impl RequestedContext {
    /// The request of a command; `None` without UPDATE. CONTEXT is a hint (RFC 5267 §4.2), and the
    /// search index is there without it.
    pub(crate) fn of(
        selected: &Selected,
        tag: &Tag,
        returns: Option<SearchReturn>,
        numbering: Numbering,
        key: &SearchKey,
    ) -> Result<Option<Self>, Failure> {
        if !returns.is_some_and(|returns| returns.update) {
            return Ok(None);
        }
        if selected.contexts.has(tag) {
            // RFC 5267 §4.3
            return Err(Reply::bad("Tag reuse: this tag names a result that is kept up to date").into());
        }
        let key = kept(key, selected);
        Ok(Some(Self { tag: tag.clone(), numbering, key, items: Vec::new() }))
    }

    /// Lets these items be fetched of new messages that enter the result: UPDATE of RFC 5465 §7.
    pub(crate) fn fetching(self, items: Vec<FetchItem>) -> Self {
        Self { items, ..self }
    }

    /// Says that there will be no updates.
    pub(crate) fn refuse(&self, wire: &mut Wire, why: &str) {
        print::no_update(wire, &self.tag, why);
    }

    /// Begins the context, or says that there will be no updates. The command itself ends as
    /// without UPDATE (RFC 5267 §4.3.1).
    pub(crate) async fn open(
        self,
        wire: &mut Wire,
        selected: &mut Selected,
        by: Threads<'_>,
        found: InitialResult,
    ) {
        let Self { tag, numbering, key, items } = self;
        let (key, key_bytes) = match key {
            Ok(key) => key,
            Err(why) => return print::no_update(wire, &tag, why),
        };
        if selected.contexts.list.len() >= CONTEXTS_MAX {
            let why = format!("At most {CONTEXTS_MAX} results are kept up to date");
            return print::no_update(wire, &tag, &why);
        }
        let pace = &mut Pace::default();
        let members = Members::of(&found.uids, pace).await;
        let sorted = match found.order {
            Some((criteria, uids)) => {
                Some(SortedContext { criteria, order: OrderedMembers::of(&uids, pace).await })
            }
            None => None,
        };
        let named = tag.clone();
        let contexts = &mut selected.contexts;
        let asked_bytes = key_bytes + items_bytes(&items);
        contexts.list.push(Context { tag, numbering, key, items, asked_bytes, members, sorted });
        if !contexts.pay(by.service, by.account) {
            contexts.cancel(std::slice::from_ref(&named));
            print::no_update(wire, &named, "The result is too large to be kept up to date now");
        }
    }
}
