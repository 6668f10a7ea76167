//! Checks pages each time the index is opened, before LMDB follows any: all of a small index, the
//! top of a large one.
//!
//! A damaged branch page misleads every search below it, and the top pages are the ones that every
//! search takes; there are few. The leaves of a large index are too many to read at each start of a
//! command. They are read by `check`, and at the first start after a process ended by a signal that
//! damage may have caused (`suspicion`).

use std::collections::VecDeque;

use posthaste_store::{Result, StoreError};

use super::REMEDY;
use super::file::{PageFile, Snapshot};
use super::judge::{ExpectedPage, Order, judge};
use super::layout::{NO_PAGE, Page, Tree, Value};
use super::walk::{PageWalk, WalkEnd};

/// Pages checked at an opening: 16 MiB of 4 KiB, some 10 ms of one core if they are in memory.
/// That is all of the index of 10,000 messages, and every branch page of that of 200,000. Twice
/// as many would delay each `posthaste account` noticeably.
const FIRST_PAGES: u64 = 4096;

/// The extent of the check at an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The first pages.
    First,
    /// Every page.
    All,
}

/// Checks a snapshot; `Corrupt` if a page is damaged.
pub(crate) fn examine(file: &PageFile, snapshot: &Snapshot, extent: Extent) -> Result<()> {
    let mut walk = PageWalk::default();
    if extent == Extent::All || snapshot.pages <= FIRST_PAGES {
        let end = walk.slice(file, snapshot, u64::MAX)?;
        debug_assert_eq!(end, WalkEnd::Done);
    } else {
        walk.faults = top(file, snapshot)?;
    }
    let more = walk.faults.len().saturating_sub(1);
    match walk.faults.into_iter().next() {
        None => Ok(()),
        Some(first) if more == 0 => Err(StoreError::Corrupt(format!("{first}: {REMEDY}"))),
        Some(first) => Err(StoreError::Corrupt(format!("{first}, and {more} more faults: {REMEDY}"))),
    }
}

/// A page to check.
struct PageToCheck {
    number: u64,
    levels: u16,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl PageToCheck {
    fn root(tree: &Tree) -> Self {
        Self { number: tree.root, levels: tree.depth, low: None, high: None }
    }
}

/// Checks the main tree, then the branch pages of the trees that it names: the upper levels of
/// all trees before the lower levels.
fn top(file: &PageFile, snapshot: &Snapshot) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut queue = VecDeque::from([PageToCheck::root(&snapshot.meta.main)]);
    let (mut left, mut bytes) = (FIRST_PAGES, Vec::new());
    while let Some(next) = queue.pop_front() {
        if left == 0 {
            break;
        }
        left -= 1;
        let place = ExpectedPage {
            number: next.number,
            is_leaf: next.levels <= 1,
            low: next.low.as_deref(),
            high: next.high.as_deref(),
            order: Order::Bytes,
            last_page: snapshot.meta.last_page,
        };
        let read = file.page(snapshot, next.number, &mut bytes)?;
        let nodes = match read.map_or(Err("it cannot be read"), |()| judge(Page::new(&bytes), place)) {
            Ok(nodes) => nodes,
            Err(why) => {
                faults.push(format!("the index: page {}: {why}", next.number));
                continue;
            }
        };
        for (at, node) in nodes.iter().enumerate() {
            match &node.value {
                Value::Tree(tree) => match tree.named_fault(snapshot.meta.last_page) {
                    Some(why) => faults.push(format!("the index: page {}: {why}", next.number)),
                    None if tree.root == NO_PAGE => {}
                    None => queue.push_back(PageToCheck::root(tree)),
                },
                // Branches only: the leaves of one tree must not use up the limit before the next
                // tree is checked.
                Value::Child(number) if next.levels > 2 || is_main(snapshot, &next) => {
                    let low = if at == 0 { next.low.clone() } else { Some(node.key.to_vec()) };
                    let high = nodes.get(at + 1).map(|n| n.key.to_vec()).or_else(|| next.high.clone());
                    queue.push_back(PageToCheck { number: *number, levels: next.levels - 1, low, high });
                }
                _ => {}
            }
        }
    }
    Ok(faults)
}

/// Whether a page is the main tree's root: its leaves name the other trees.
fn is_main(snapshot: &Snapshot, next: &PageToCheck) -> bool {
    next.number == snapshot.meta.main.root
}
