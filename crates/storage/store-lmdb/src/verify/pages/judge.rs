//! Finds the faults of one page at its place in its tree.

use super::layout::{BRANCH, LEAF, NO_PAGE, Node, Page, Value};

/// The longest key that LMDB takes, in bytes.
const KEY_MAX: usize = 511;

/// The order of the keys of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As bytes.
    Bytes,
    /// As little-endian numbers of eight bytes: the tree of free pages, by transaction.
    Numbers,
}

impl Order {
    pub(super) fn is_before(self, a: &[u8], b: &[u8]) -> bool {
        let number = |key: &[u8]| key.first_chunk().copied().map_or(0, u64::from_le_bytes);
        match self {
            Self::Bytes => a < b,
            Self::Numbers => number(a) < number(b),
        }
    }
}

/// The requirements for a page.
#[derive(Clone, Copy)]
pub(super) struct ExpectedPage<'k> {
    pub(super) number: u64,
    pub(super) is_leaf: bool,
    /// Keys are not below this.
    pub(super) low: Option<&'k [u8]>,
    /// Keys are below this.
    pub(super) high: Option<&'k [u8]>,
    pub(super) order: Order,
    pub(super) last_page: u64,
}

/// The nodes of a page, or its fault.
pub(super) fn judge<'p>(page: Page<'p>, place: ExpectedPage<'_>) -> Result<Vec<Node<'p>>, &'static str> {
    if page.number() != Some(place.number) {
        return Err("its header has the number of another page");
    }
    if page.flags() != Some(if place.is_leaf { LEAF } else { BRANCH }) {
        return Err("it is of another kind than its place in the tree");
    }
    let (count, used) = page.nodes().ok_or("its nodes overlap, or lie beyond it")?;
    // The tree of free pages may have branches with one child.
    let least = if place.is_leaf || place.order == Order::Numbers { 1 } else { 2 };
    if count < least {
        return Err("it has too few nodes");
    }
    let mut nodes: Vec<Node<'p>> = Vec::with_capacity(count);
    let mut space = 0;
    for at in 0..count {
        let node = page.node(at).ok_or("a node reaches beyond it, or is of no known kind")?;
        space += node.space;
        // The first key of a branch covers everything below the second.
        if place.is_leaf || at > 0 {
            let before = nodes.last().filter(|_| place.is_leaf || at > 1).map(|node| node.key);
            key_fault(node.key, before, place).map_or(Ok(()), Err)?;
        }
        value_fault(&node.value, place).map_or(Ok(()), Err)?;
        nodes.push(node);
    }
    // LMDB keeps the nodes of a page side by side: an offset or a length that changed leaves a gap,
    // or overlaps.
    if space != used { Err("its nodes do not fill it") } else { Ok(nodes) }
}

fn key_fault(key: &[u8], before: Option<&[u8]>, place: ExpectedPage<'_>) -> Option<&'static str> {
    if key.is_empty() || key.len() > KEY_MAX || (place.order == Order::Numbers && key.len() != 8) {
        return Some("a key has an impossible length");
    }
    if before.is_some_and(|before| !place.order.is_before(before, key)) {
        return Some("its keys are not in ascending order");
    }
    let below = place.low.is_some_and(|low| place.order.is_before(key, low));
    let above = place.high.is_some_and(|high| !place.order.is_before(key, high));
    (below || above).then_some("a key belongs to another page")
}

fn value_fault(value: &Value<'_>, place: ExpectedPage<'_>) -> Option<&'static str> {
    let is_page = |number: u64| (2..=place.last_page).contains(&number);
    match value {
        Value::Child(number) if !is_page(*number) => Some("a child is not in the file"),
        Value::Overflow { page, .. } if !is_page(*page) => Some("data lies outside the file"),
        Value::Tree(tree) if tree.root != NO_PAGE && !is_page(tree.root) => {
            Some("a tree lies outside the file")
        }
        _ => None,
    }
}
