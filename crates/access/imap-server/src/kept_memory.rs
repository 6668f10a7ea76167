//! The memory of what a session keeps to report changes by it: what NOTIFY requested, lists of
//! mailboxes of others, and hashes of annotations.
//!
//! It comes from the budget for results that are kept up to date. A session keeps little without a
//! reservation.

use posthaste_imap_codec::command::FetchItem;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{AnnotationItem, SectionText};
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

/// The memory of items to fetch.
pub(crate) fn items_bytes(items: &[FetchItem]) -> usize {
    size_of_val(items) + items.iter().map(item_bytes).sum::<usize>()
}

/// Octets of what an item refers to: numbers and names.
fn item_bytes(item: &FetchItem) -> usize {
    match item {
        FetchItem::BodySection { section, .. } => {
            let names: &[String] = match &section.text {
                SectionText::HeaderFields(names) | SectionText::HeaderFieldsNot(names) => names,
                _ => &[],
            };
            let texts: usize = names.iter().map(|name| list_bytes(name.as_bytes())).sum();
            list_bytes(&section.part.0) + list_bytes(names) + texts
        }
        FetchItem::Binary { part, .. } | FetchItem::BinarySize { part } => list_bytes(&part.0),
        FetchItem::Annotation(AnnotationItem { entries, attributes }) => {
            let texts: usize = entries.iter().map(|entry| list_bytes(entry.as_str().as_bytes())).sum();
            list_bytes(entries) + texts + list_bytes(attributes)
        }
        _ => 0,
    }
}

/// Octets of a list, or of the text of a name.
fn list_bytes<T>(list: &[T]) -> usize {
    const ALLOCATION_BYTES: usize = 32;
    if list.is_empty() { 0 } else { ALLOCATION_BYTES + size_of_val(list) }
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::{EntryPattern, PartPath, Section, ValueAttribute, ValueKind};

    use super::*;

    fn section(part: PartPath, text: SectionText) -> FetchItem {
        FetchItem::BodySection { section: Section { part, text }, partial: None, peek: true }
    }

    #[test]
    fn each_name_of_a_header_field_counts() {
        let names = vec!["List-Id".to_owned(); 1000];
        let bytes = size_of::<FetchItem>() + 32 + 1000 * (size_of::<String>() + 32 + 7);
        for text in [SectionText::HeaderFields(names.clone()), SectionText::HeaderFieldsNot(names)] {
            assert_eq!(items_bytes(&[section(PartPath::default(), text)]), bytes);
        }
    }

    #[test]
    fn each_number_and_each_entry_counts() {
        let part = PartPath(vec![1; 100]);
        let binary = FetchItem::Binary { part: part.clone(), partial: None, peek: true };
        let size = FetchItem::BinarySize { part: part.clone() };
        for item in [section(part, SectionText::Text), binary, size] {
            assert_eq!(items_bytes(&[item]), size_of::<FetchItem>() + 32 + 400);
        }
        let entries = vec![EntryPattern::new("/comment").unwrap(); 10];
        let attributes = vec![ValueAttribute { kind: ValueKind::Size, scope: None }; 3];
        let in_entries = 32 + 10 * (size_of::<EntryPattern>() + 32 + 8);
        let in_attributes = 32 + 3 * size_of::<ValueAttribute>();
        let item = FetchItem::Annotation(AnnotationItem { entries, attributes });
        let bytes = 2 * size_of::<FetchItem>() + in_entries + in_attributes;
        assert_eq!(items_bytes(&[item, FetchItem::Flags]), bytes);
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
