//! Messages as trees: parents first, then children in order. No function here is recursive: a
//! thread may be as deep as the mailbox has messages.

use std::sync::Arc;

use crate::heavy::Pace;
use crate::keys::ThreadStep;

/// Steps of looking at a node, which mostly is not in the processor's cache.
pub(super) const NODE_STEPS: u64 = 20;

/// The number that means that there is no node.
pub(super) const NONE: u32 = u32::MAX;

/// The parent of each message. Messages are numbered as in the mailbox, from 0. Larger numbers are
/// parents that the mailbox lacks: they have no parent themselves.
#[derive(Debug)]
pub(super) struct Parents {
    /// The parent by message; [`NONE`] for the first message of a thread.
    pub(super) of: Vec<u32>,
    /// The number of parents that are not messages.
    pub(super) dummies: usize,
}

/// A forest, children in order.
#[derive(Debug)]
pub(super) struct Forest {
    messages: usize,
    /// The first messages of the threads.
    roots: Vec<u32>,
    /// The position in `children` where those of each node begin; one more for the end.
    starts: Vec<u32>,
    children: Vec<u32>,
}

impl Forest {
    /// Puts the children of each node, and the threads, in the order of `ordered`, which names
    /// each message once. A parent that is not a message takes the place of its first child (RFC
    /// 5256 §3, REFERENCES step 6).
    pub(super) async fn new(parents: &Parents, ordered: &[u32], pace: &mut Pace) -> Self {
        let messages = parents.of.len();
        let mut starts = vec![0u32; messages + parents.dummies + 1];
        for parent in &parents.of {
            if let Some(count) = starts.get_mut(*parent as usize).filter(|_| *parent != NONE) {
                *count += 1;
            }
            if pace.count(NODE_STEPS) {
                pace.rest().await;
            }
        }
        let mut before = 0;
        for start in &mut starts {
            before += std::mem::replace(start, before);
        }
        let mut next = starts.clone();
        let mut children = vec![NONE; before as usize];
        let mut roots = Vec::new();
        for message in ordered {
            let parent = parents.of.get(*message as usize).copied().unwrap_or(NONE);
            if pace.count(NODE_STEPS) {
                pace.rest().await;
            }
            let Some(place) = next.get_mut(parent as usize).filter(|_| parent != NONE) else {
                roots.push(*message);
                continue;
            };
            let is_first = starts.get(parent as usize) == Some(&*place);
            if is_first && parent as usize >= messages {
                roots.push(parent);
            }
            if let Some(slot) = children.get_mut(*place as usize) {
                *slot = *message;
            }
            *place += 1;
        }
        Self { messages, roots, starts, children }
    }

    fn children(&self, node: u32) -> &[u32] {
        let node = node as usize;
        let bounds = || Some(*self.starts.get(node)? as usize..*self.starts.get(node + 1)? as usize);
        let children = bounds().and_then(|bounds| self.children.get(bounds));
        debug_assert!(children.is_some(), "no node {node} in the forest");
        children.unwrap_or_default()
    }

    /// Puts the threads in the order of their messages with the highest rank. Each message has a
    /// rank of its own.
    pub(super) async fn by_latest(&mut self, ranks: &[u32], pace: &mut Pace) {
        let mut latest = vec![NONE; ranks.len()];
        let mut walk = self.walk();
        let mut thread = None;
        while let Some((node, root)) = walk.next_node() {
            let rank = ranks.get(node as usize).copied();
            thread = match thread {
                Some((same, best)) if same == root => Some((root, rank.max(best))),
                before => {
                    enter_thread(&mut latest, before);
                    Some((root, rank))
                }
            };
            if pace.count(NODE_STEPS) {
                pace.rest().await;
            }
        }
        enter_thread(&mut latest, thread);
        latest.retain(|root| *root != NONE);
        self.roots = latest;
    }

    /// The nodes, each before its children.
    pub(super) async fn steps(&self, pace: &mut Pace) -> Arc<[ThreadStep]> {
        let mut steps = Vec::with_capacity(self.starts.len() - 1);
        let mut walk = self.walk();
        while let Some((node, _)) = walk.next_node() {
            let place = if (node as usize) < self.messages { node } else { NONE };
            steps.push(ThreadStep { place, children: self.children(node).len() as u32 });
            if pace.count(NODE_STEPS) {
                pace.rest().await;
            }
        }
        steps.into()
    }

    fn walk(&self) -> ForestWalk<'_> {
        ForestWalk { forest: self, roots: self.roots.iter(), root: NONE, open: Vec::new() }
    }
}

/// Enters a thread at the highest rank in it.
fn enter_thread(latest: &mut [u32], thread: Option<(u32, Option<u32>)>) {
    if let Some((root, Some(rank))) = thread
        && let Some(slot) = latest.get_mut(rank as usize)
    {
        *slot = root;
    }
}

/// A walk over all nodes, each before its children.
struct ForestWalk<'f> {
    forest: &'f Forest,
    roots: std::slice::Iter<'f, u32>,
    /// The first node of this thread.
    root: u32,
    /// Children that are still to come, of the node last returned and of those above it. Lists that
    /// are used up are not in it, so a chain takes one place.
    open: Vec<&'f [u32]>,
}

impl<'f> ForestWalk<'f> {
    /// The next node, and the first node of its thread.
    fn next_node(&mut self) -> Option<(u32, u32)> {
        let node = match self.open.pop().and_then(<[u32]>::split_first) {
            Some((node, others)) => {
                self.open_list(others);
                *node
            }
            None => {
                self.root = *self.roots.next()?;
                self.root
            }
        };
        let forest = self.forest;
        self.open_list(forest.children(node));
        Some((node, self.root))
    }

    fn open_list(&mut self, nodes: &'f [u32]) {
        if !nodes.is_empty() {
            self.open.push(nodes);
        }
    }
}
