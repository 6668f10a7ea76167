//! The walk through all trees of the index, in slices.
//!
//! A slice is one snapshot. Its reading transaction keeps LMDB from using freed pages again. So
//! the transaction must not be held for as long as a large index takes. Between slices the walk
//! keeps the last key that it has read, and continues after it in the next snapshot. Rules that
//! hold at one moment only are checked within each slice: the counts of the trees that the slice
//! read from end to end, and double use of the pages that it read.

use posthaste_store::Result;

use super::file::{PageFile, Snapshot};
use super::judge::{ExpectedPage, Order, judge};
use super::layout::{NO_PAGE, Node, OVERFLOW, PAGE_HEADER, Page, Tree, Value, u64_at};

/// Faults that a walk lists at most. A destroyed file has one for each page.
const FAULTS_MAX: usize = 100;

/// The end of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// Everything was read.
    Done,
    /// The rest needs another snapshot.
    More,
}

/// A walk through the index's file.
#[derive(Default)]
pub(crate) struct PageWalk {
    /// The faults, a sentence each.
    pub(crate) faults: Vec<String>,
    /// Pages read.
    pub(crate) examined: u64,
    /// The tree in which the last slice ended, and the last key that was read.
    resume: Option<(Vec<u8>, Vec<u8>)>,
    is_begun: bool,
}

impl PageWalk {
    /// Walks a slice of about this many pages.
    pub(crate) fn slice(&mut self, file: &PageFile, snapshot: &Snapshot, pages: u64) -> Result<WalkEnd> {
        // By the length of the file: a damaged meta page may name any last page.
        let met = vec![0; (snapshot.pages / 64 + 1) as usize];
        let mut slice = Slice { walk: self, file, snapshot, met, left: u64::MAX };
        if !std::mem::replace(&mut slice.walk.is_begun, true) {
            slice.tree(Branch::new(b"free pages", Order::Numbers), snapshot.meta.free, None)?;
        }
        // The main tree is small, and names the roots of the others in this snapshot.
        let mut main = Branch::new(b"main", Order::Bytes);
        main = slice.tree(main, snapshot.meta.main, None)?.0;
        slice.left = pages.max(1);
        let resume = slice.walk.resume.take();
        for (name, tree) in main.named {
            let passed = match &resume {
                Some((at, _)) if name < *at => continue,
                Some((at, key)) if name == *at => Some(key.clone()),
                _ => None,
            };
            let (_, stopped_at) = slice.tree(Branch::new(&name, Order::Bytes), tree, passed)?;
            if let Some(key) = stopped_at {
                slice.walk.resume = Some((name, key));
                return Ok(WalkEnd::More);
            }
        }
        Ok(WalkEnd::Done)
    }

    fn fault(&mut self, sentence: String) {
        if self.faults.len() < FAULTS_MAX && !self.faults.contains(&sentence) {
            self.faults.push(sentence);
        }
    }
}

/// A tree that is being walked.
struct Branch<'t> {
    name: &'t [u8],
    order: Order,
    /// The last key of an earlier slice; keys up to it were checked then.
    passed: Option<Vec<u8>>,
    /// The number of pages and records read.
    counted: Tree,
    /// The trees that this one names.
    named: Vec<(Vec<u8>, Tree)>,
}

impl<'t> Branch<'t> {
    fn new(name: &'t [u8], order: Order) -> Self {
        Self { name, order, passed: None, counted: Tree::default(), named: Vec::new() }
    }
}

/// The keys that a page may have: at or above the first, and below the second.
type Keys<'k> = (Option<&'k [u8]>, Option<&'k [u8]>);

/// Whether the slice continues.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Stop,
}

struct Slice<'s> {
    walk: &'s mut PageWalk,
    file: &'s PageFile,
    snapshot: &'s Snapshot,
    /// A bit for each page that was met.
    met: Vec<u64>,
    /// Pages until the slice ends.
    left: u64,
}

impl Slice<'_> {
    fn fault(&mut self, branch: &Branch<'_>, page: u64, why: &str) {
        let name = String::from_utf8_lossy(branch.name);
        self.walk.fault(format!("the index: page {page}, of the tree {name}: {why}"));
    }

    /// Walks a tree, or the rest of it. Returns the trees that it names and, if the slice ended,
    /// the last key.
    fn tree<'t>(
        &mut self,
        mut branch: Branch<'t>,
        tree: Tree,
        passed: Option<Vec<u8>>,
    ) -> Result<(Branch<'t>, Option<Vec<u8>>)> {
        if branch.order == Order::Bytes
            && let Some(why) = tree.named_fault(self.snapshot.meta.last_page)
        {
            self.fault(&branch, tree.root, why);
            return Ok((branch, None));
        }
        if tree.root == NO_PAGE {
            return Ok((branch, None));
        }
        let (is_whole, faults) = (passed.is_none(), self.walk.faults.len());
        branch.passed = passed;
        if self.page(&mut branch, tree.root, tree.depth, (None, None))? == Flow::Stop {
            let last = branch.passed.take();
            return Ok((branch, last));
        }
        let counts = |tree: &Tree| (tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries);
        if is_whole && self.walk.faults.len() == faults && counts(&branch.counted) != counts(&tree) {
            self.fault(&branch, tree.root, "the tree has other pages or records than it counts");
        }
        Ok((branch, None))
    }

    /// Checks a page and all pages below it. `levels`: those of the tree from this page on.
    fn page(&mut self, branch: &mut Branch<'_>, number: u64, levels: u16, keys: Keys<'_>) -> Result<Flow> {
        let mut bytes = Vec::new();
        if !self.meet(branch, number, 1) {
            return Ok(Flow::On);
        }
        if self.file.page(self.snapshot, number, &mut bytes)?.is_none() {
            self.fault(branch, number, "it cannot be read");
            return Ok(Flow::On);
        }
        let is_leaf = levels <= 1;
        let last_page = self.snapshot.meta.last_page;
        let place =
            ExpectedPage { number, is_leaf, low: keys.0, high: keys.1, order: branch.order, last_page };
        let nodes = match judge(Page::new(&bytes), place) {
            Ok(nodes) => nodes,
            Err(why) => {
                self.fault(branch, number, why);
                return Ok(Flow::On);
            }
        };
        if is_leaf {
            return self.leaf(branch, number, &nodes);
        }
        branch.counted.branch_pages += 1;
        for (at, node) in nodes.iter().enumerate() {
            let Value::Child(child) = node.value else { continue };
            let low = if at == 0 { keys.0 } else { Some(node.key) };
            let high = nodes.get(at + 1).map(|next| next.key).or(keys.1);
            // All keys below are before the last key of an earlier slice.
            let is_behind = high.zip(branch.passed.as_deref()).is_some_and(|(high, passed)| high <= passed);
            if !is_behind && self.page(branch, child, levels - 1, (low, high))? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    fn leaf(&mut self, branch: &mut Branch<'_>, number: u64, nodes: &[Node<'_>]) -> Result<Flow> {
        let last = nodes.last().map(|node| node.key);
        if branch.passed.as_deref().is_some_and(|passed| last <= Some(passed)) {
            // The leaf in which an earlier slice ended.
            return Ok(Flow::On);
        }
        branch.counted.leaf_pages += 1;
        branch.counted.entries += nodes.len() as u64;
        for node in nodes {
            match &node.value {
                Value::Overflow { page, len } => self.overflow(branch, *page, *len)?,
                Value::Data(data) if branch.order == Order::Numbers => self.free_pages(branch, number, data),
                Value::Tree(tree) if branch.name == b"main" => branch.named.push((node.key.to_vec(), *tree)),
                Value::Tree(_) => self.fault(branch, number, "it names a tree where there is none"),
                Value::Data(_) | Value::Child(_) => {}
            }
        }
        if self.left > 0 {
            return Ok(Flow::On);
        }
        branch.passed = last.map(<[u8]>::to_vec);
        Ok(Flow::Stop)
    }

    /// Checks a record's data on overflow pages.
    fn overflow(&mut self, branch: &mut Branch<'_>, number: u64, len: u32) -> Result<()> {
        let mut bytes = Vec::new();
        if self.file.page(self.snapshot, number, &mut bytes)?.is_none() {
            self.fault(branch, number, "it cannot be read");
            return Ok(());
        }
        let page = Page::new(&bytes);
        let size = u64::from(self.snapshot.meta.page_size);
        let needed = (PAGE_HEADER as u64 + u64::from(len)).div_ceil(size);
        let pages = u64::from(page.overflow_pages().unwrap_or(0));
        if page.number() != Some(number) || page.flags() != Some(OVERFLOW) {
            self.fault(branch, number, "it is not the first page of a record's data");
        } else if pages < needed || number + pages > self.snapshot.pages {
            self.fault(branch, number, "a record's data does not fit its pages");
        } else {
            branch.counted.overflow_pages += pages;
            if self.meet(branch, number, pages) && branch.order == Order::Numbers {
                self.free_pages_at(branch, number, len)?;
            }
        }
        Ok(())
    }

    /// A list of free pages on overflow pages.
    fn free_pages_at(&mut self, branch: &mut Branch<'_>, number: u64, len: u32) -> Result<()> {
        match self.file.data(self.snapshot, number, len) {
            Some(data) => self.free_pages(branch, number, &data),
            None => self.fault(branch, number, "it cannot be read"),
        }
        Ok(())
    }

    /// A list of free pages: their count, then their numbers, falling.
    fn free_pages(&mut self, branch: &mut Branch<'_>, number: u64, data: &[u8]) {
        let count = u64_at(data, 0).and_then(|count| usize::try_from(count).ok());
        let pages = count.and_then(|count| data.get(8..count.checked_mul(8)?.checked_add(8)?));
        let Some(pages) = pages else {
            return self.fault(branch, number, "a list of free pages has an impossible length");
        };
        let mut before = u64::MAX;
        for page in pages.as_chunks::<8>().0.iter().copied().map(u64::from_le_bytes) {
            if page >= before || !(2..=self.snapshot.meta.last_page).contains(&page) {
                return self.fault(branch, number, "a list of free pages is out of order");
            }
            before = page;
            if !self.meet(branch, page, 1) {
                return;
            }
        }
    }

    /// Notes that pages are used; `false` if one is used twice, so that its subtree is not walked
    /// again.
    fn meet(&mut self, branch: &Branch<'_>, first: u64, count: u64) -> bool {
        self.walk.examined += count;
        self.left = self.left.saturating_sub(count);
        for page in first..first.saturating_add(count) {
            let bit = 1 << (page % 64);
            let Some(word) = self.met.get_mut((page / 64) as usize) else { continue };
            if *word & bit != 0 {
                self.fault(branch, page, "it is used in two places");
                return false;
            }
            *word |= bit;
        }
        true
    }
}
