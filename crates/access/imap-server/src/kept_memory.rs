//! The memory of what a session keeps to report changes by it: what NOTIFY requested, lists of
//! mailboxes of others, and hashes of annotations.
//!
//! It comes from the budget for results that are kept up to date. A session keeps little without a
//! reservation.

use posthaste_imap_codec::SectionText;
use posthaste_imap_codec::command::FetchItem;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::AccountId;
use posthaste_net::{ByteBudget, BytePermit, Holder};

use crate::reply::{Failure, Reply};
use crate::service::ImapService;

/// Octets that need no reservation: the names of some tens of mailboxes.
const UNRESERVED_BYTES_MAX: usize = 4 * 1024;

/// Memory that is held as long as a session needs it.
#[derive(Debug)]
pub(crate) struct KeptMemory {
    budget: ByteBudget,
    holder: Holder,
    permit: Option<BytePermit>,
}

/// There is no memory for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl From<NoMemory> for Failure {
    /// RFC 5465 §5.8
    fn from(_: NoMemory) -> Self {
        let text = "There is no memory to report so much: name fewer mailboxes, or try again later";
        Reply::no(Code::NotificationOverflow, text).into()
    }
}

impl KeptMemory {
    /// Nothing is reserved yet.
    pub(crate) fn new(service: &ImapService, account: AccountId) -> Self {
        let holder = Holder::Account(account.0.to_bytes());
        Self { budget: service.contexts.clone(), holder, permit: None }
    }

    /// Has memory for so many octets in all. Without room it keeps what it has.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), NoMemory> {
        if bytes <= UNRESERVED_BYTES_MAX {
            self.permit = None;
            return Ok(());
        }
        if let Some(permit) = &self.permit {
            permit.shrink_to(bytes);
            return permit.grow_to(bytes).map_err(|_| NoMemory);
        }
        let permit = self.budget.begin(self.holder);
        permit.grow_to(bytes).map_err(|_| NoMemory)?;
        // No other session may displace it: what it is for is kept.
        permit.complete();
        self.permit = Some(permit);
        Ok(())
    }
}

/// The memory of items to fetch, about. Their debug text is longer than the numbers in them. Each
/// name is an allocation of its own.
pub(crate) fn items_bytes(items: &[FetchItem]) -> usize {
    const NAME_BYTES: usize = size_of::<String>() + 32;
    let names = |item: &FetchItem| match item {
        FetchItem::BodySection { section, .. } => match &section.text {
            SectionText::HeaderFields(names) | SectionText::HeaderFieldsNot(names) => names.len(),
            _ => 0,
        },
        FetchItem::Annotation(item) => item.entries.len(),
        _ => 0,
    };
    let of = |item: &FetchItem| format!("{item:?}").len() + names(item) * NAME_BYTES;
    size_of_val(items) + items.iter().map(of).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::{PartPath, Section};

    use super::*;

    #[test]
    fn each_name_of_a_header_field_counts() {
        let text = SectionText::HeaderFields(vec!["x".to_owned(); 1000]);
        let section = Section { part: PartPath::default(), text };
        let items = [FetchItem::BodySection { section, partial: None, peek: true }];
        assert!(items_bytes(&items) >= 1000 * (size_of::<String>() + 32));
    }

    #[test]
    fn memory_grows_and_shrinks_and_is_given_back() {
        let budget = ByteBudget::new(400_000);
        let holder = Holder::Account([1; 16]);
        let mut memory = KeptMemory { budget: budget.clone(), holder, permit: None };
        memory.resize(UNRESERVED_BYTES_MAX).unwrap();
        assert_eq!(budget.available(), 400_000);
        memory.resize(90_000).unwrap();
        assert_eq!(memory.resize(110_000), Err(NoMemory), "an account has a quarter");
        assert_eq!(budget.available(), 310_000);
        memory.resize(50_000).unwrap();
        assert_eq!(budget.available(), 350_000);
        drop(memory);
        assert_eq!(budget.available(), 400_000);
    }
}
