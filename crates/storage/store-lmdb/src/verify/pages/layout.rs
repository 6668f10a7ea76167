//! The bytes of a page: numbers are read with bounds, and nothing is followed.
//!
//! | bytes of a page | field |
//! | --- | --- |
//! | 0–7 | page number |
//! | 8–9 | unused |
//! | 10–11 | flags: 1 branch, 2 leaf, 4 overflow, 8 meta |
//! | 12–13, 14–15 | branch and leaf: where the table of nodes ends, where the nodes begin |
//! | 12–15 | overflow: number of pages |
//! | 16–… | branch and leaf: offset of each node (2), in the order of the keys |
//!
//! | bytes of a node | field |
//! | --- | --- |
//! | 0–3 | leaf: length of the data; branch: low bytes of the page number |
//! | 4–5 | leaf: flags: 1 data on overflow pages, 2 a database; branch: high bytes of the page number |
//! | 6–7 | length of the key |
//! | 8–… | key, then data, or the number of the first overflow page (8) |
//!
//! | bytes of a meta page, from byte 16 | field |
//! | --- | --- |
//! | 0–3, 4–7 | `beefc0de`, version 1 |
//! | 8–15, 16–23 | address (unused), bytes of the map |
//! | 24–71, 72–119 | tree of free pages (whose first field is the page size), main tree |
//! | 120–127, 128–135 | last page, transaction |
//!
//! | bytes of a tree | field |
//! | --- | --- |
//! | 0–3, 4–5, 6–7 | unused, flags, depth |
//! | 8–15, 16–23, 24–31 | branch, leaf and overflow pages |
//! | 32–39, 40–47 | records, root page |

/// Bytes before the table of nodes, or before the data of an overflow page.
pub(super) const PAGE_HEADER: usize = 16;
/// Bytes of a node before its key.
const NODE_HEADER: usize = 8;
/// Bytes of a tree's record.
pub(super) const TREE_LEN: usize = 48;
/// Bytes of a meta page that LMDB uses, its header included.
pub(super) const META_LEN: usize = PAGE_HEADER + 136;
/// "No page": the root of an empty tree.
pub(super) const NO_PAGE: u64 = u64::MAX;
/// Levels of the deepest tree that LMDB can walk.
pub(super) const DEPTH_MAX: u16 = 32;

pub(super) const BRANCH: u16 = 1;
pub(super) const LEAF: u16 = 2;
pub(super) const OVERFLOW: u16 = 4;
const META: u16 = 8;

const BIG_DATA: u16 = 1;
const SUB_TREE: u16 = 2;

const MAGIC: u32 = 0xBEEF_C0DE;
const DATA_VERSION: u32 = 1;
/// Flag of the tree of free pages: its keys are numbers.
const INTEGER_KEY: u16 = 8;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// The record of a tree in a meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tree {
    pub(super) flags: u16,
    pub(super) depth: u16,
    pub(super) branch_pages: u64,
    pub(super) leaf_pages: u64,
    pub(super) overflow_pages: u64,
    pub(super) entries: u64,
    pub(super) root: u64,
}

impl Tree {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            flags: u16_at(bytes, 4)?,
            depth: u16_at(bytes, 6)?,
            branch_pages: u64_at(bytes, 8)?,
            leaf_pages: u64_at(bytes, 16)?,
            overflow_pages: u64_at(bytes, 24)?,
            entries: u64_at(bytes, 32)?,
            root: u64_at(bytes, 40)?,
        })
    }

    /// The reason why this cannot be a tree.
    fn fault(&self, last_page: u64) -> Option<&'static str> {
        let is_empty = self.root == NO_PAGE;
        let pages = self.branch_pages.saturating_add(self.leaf_pages).saturating_add(self.overflow_pages);
        if is_empty {
            return (self.depth != 0 || pages != 0 || self.entries != 0)
                .then_some("an empty tree with records");
        }
        if self.root < 2 || self.root > last_page {
            return Some("its root is not in the file");
        }
        if self.depth == 0 || self.depth > DEPTH_MAX || self.leaf_pages == 0 || self.entries == 0 {
            return Some("a tree with a root and no records");
        }
        (pages > last_page).then_some("it has more pages than the file")
    }

    /// The reason why this cannot be one of the index's own trees.
    pub(super) fn named_fault(&self, last_page: u64) -> Option<&'static str> {
        if self.flags != 0 { Some("it has unknown flags") } else { self.fault(last_page) }
    }
}

/// The content of a meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: u32,
    pub(super) free: Tree,
    pub(super) main: Tree,
    pub(super) last_page: u64,
    pub(crate) transaction: u64,
}

/// The fields that LMDB itself verifies in a meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetaHead {
    pub(super) page_size: u32,
    pub(super) transaction: u64,
}

impl MetaHead {
    /// Reads the head of the meta page of this number, or says why it is invalid.
    pub(super) fn read(bytes: &[u8], number: u64) -> Result<Self, &'static str> {
        const SHORT: &str = "it is too short";
        if u64_at(bytes, 0) != Some(number) || u16_at(bytes, 10) != Some(META) {
            return Err("it has the wrong number or is no meta page");
        }
        let body = bytes.get(PAGE_HEADER..META_LEN).ok_or(SHORT)?;
        if u32_at(body, 0) != Some(MAGIC) || u32_at(body, 4) != Some(DATA_VERSION) {
            return Err("it is not of this version of LMDB");
        }
        let page_size = u32_at(body, 24).ok_or(SHORT)?;
        if !page_size.is_power_of_two() || !(512..=65_536).contains(&page_size) {
            return Err("its page size is not valid");
        }
        Ok(Self { page_size, transaction: u64_at(body, 128).ok_or(SHORT)? })
    }
}

impl Meta {
    /// Reads the meta page of this number, or says why it is invalid.
    pub(super) fn read(bytes: &[u8], number: u64) -> Result<Self, &'static str> {
        const SHORT: &str = "it is too short";
        let MetaHead { page_size, transaction } = MetaHead::read(bytes, number)?;
        let body = bytes.get(PAGE_HEADER..META_LEN).ok_or(SHORT)?;
        let tree = |at: usize| body.get(at..at + TREE_LEN).and_then(Tree::read).ok_or(SHORT);
        let last_page = u64_at(body, 120).ok_or(SHORT)?;
        let meta = Self { page_size, free: tree(24)?, main: tree(72)?, last_page, transaction };
        // LMDB would map as many bytes as the number of the last page makes necessary.
        if u64_at(body, 16).is_none_or(|map| last_page >= map / u64::from(page_size)) {
            return Err("its last page lies beyond the map");
        }
        if meta.last_page < 1 || meta.free.flags & INTEGER_KEY == 0 {
            return Err("LMDB does not write such fields");
        }
        if let Some(why) = meta.free.fault(meta.last_page) {
            return Err(why);
        }
        if let Some(why) = meta.main.named_fault(meta.last_page) {
            return Err(why);
        }
        Ok(meta)
    }
}

/// A page of the file.
#[derive(Clone, Copy)]
pub(super) struct Page<'p> {
    bytes: &'p [u8],
}

/// A node of a page.
pub(super) struct Node<'p> {
    pub(super) key: &'p [u8],
    pub(super) value: Value<'p>,
    /// Bytes of its page that it takes.
    pub(super) space: usize,
}

/// The content of a node.
pub(super) enum Value<'p> {
    /// The page one level below.
    Child(u64),
    Data(&'p [u8]),
    /// A value of `len` bytes from this page on.
    Overflow {
        page: u64,
        len: u32,
    },
    Tree(Tree),
}

impl<'p> Page<'p> {
    pub(super) fn new(bytes: &'p [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn number(self) -> Option<u64> {
        u64_at(self.bytes, 0)
    }

    pub(super) fn flags(self) -> Option<u16> {
        u16_at(self.bytes, 10)
    }

    /// The number of pages in the run of overflow pages that begins here.
    pub(super) fn overflow_pages(self) -> Option<u32> {
        u32_at(self.bytes, 12)
    }

    /// The number of its nodes, and the bytes that they take; `None` if the two contradict each
    /// other.
    pub(super) fn nodes(self) -> Option<(usize, usize)> {
        let (lower, upper) = (usize::from(u16_at(self.bytes, 12)?), usize::from(u16_at(self.bytes, 14)?));
        let sane =
            lower >= PAGE_HEADER && lower.is_multiple_of(2) && lower <= upper && upper <= self.bytes.len();
        sane.then(|| ((lower - PAGE_HEADER) / 2, self.bytes.len() - upper))
    }

    /// A node; `None` if it reaches beyond the page or into the table of nodes.
    pub(super) fn node(self, at: usize) -> Option<Node<'p>> {
        let offset = usize::from(u16_at(self.bytes, PAGE_HEADER + 2 * at)?);
        let upper = usize::from(u16_at(self.bytes, 14)?);
        let node = self.bytes.get(offset..)?;
        if offset < upper || !offset.is_multiple_of(2) {
            return None;
        }
        let (low, flags, key_len) = (u32_at(node, 0)?, u16_at(node, 4)?, usize::from(u16_at(node, 6)?));
        let (key, data) = node.get(NODE_HEADER..)?.split_at_checked(key_len)?;
        let (value, data_len) = match self.flags()? {
            BRANCH => (Value::Child(u64::from(low) | u64::from(flags) << 32), 0),
            LEAF => match flags {
                0 => {
                    let len = usize::try_from(low).ok()?;
                    (Value::Data(data.get(..len)?), len)
                }
                BIG_DATA => (Value::Overflow { page: u64_at(data, 0)?, len: low }, 8),
                SUB_TREE if low as usize == TREE_LEN => {
                    (Value::Tree(Tree::read(data.get(..TREE_LEN)?)?), TREE_LEN)
                }
                _ => return None,
            },
            _ => return None,
        };
        let space = (NODE_HEADER + key_len + data_len).next_multiple_of(2);
        Some(Node { key, value, space })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the bytes are, reading ends within them.
    #[test]
    fn no_page_reads_beyond_itself() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..2_000_u32 {
            let mut bytes = [0_u8; 512];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            bytes[10..12].copy_from_slice(&(1 + (round % 2) as u16).to_le_bytes());
            if round % 3 == 0 {
                bytes[12..16].copy_from_slice(&[64, 0, 80, 0]);
            }
            let page = Page::new(&bytes);
            let count = page.nodes().map_or(400, |(count, _)| count);
            for at in 0..count {
                if let Some(node) = page.node(at) {
                    assert!(node.space <= bytes.len() + 1);
                }
            }
            assert!(Meta::read(&bytes, 0).is_err());
        }
    }
}
