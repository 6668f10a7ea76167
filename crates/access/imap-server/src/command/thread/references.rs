//! REFERENCES: RFC 5256 §3. The numbers in the comments are those of its steps.
//!
//! Parents are all that is kept while messages are linked. All messages are sorted once, at the end
//! ([`super::forest::Forest`]). The order of children follows from that, so the sorts of steps 4
//! and 6 are done once.

use super::forest::{NODE_STEPS, NONE, Parents};
use crate::heavy::Pace;
use crate::keys::{LinkColumn, Texts};

/// A message of the result, and its relation to others.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadedMessage {
    /// The message's Message-ID, and the messages to which it refers.
    pub(super) link: crate::keys::Link,
    /// The number of its base subject.
    pub(super) subject: u32,
}

/// Steps up a thread, for each message, that looking for loops may take. Mail that people write
/// takes a few. Messages made to take more are not linked any further, so that the cost stays
/// linear.
const STEPS_PER_MESSAGE: u64 = 256;

/// Steps up a thread that one search for a loop may take: some 1 ms, without a pause.
const CLIMB_MAX: u64 = 200_000;
/// Steps of looking at a node above.
const CLIMB_STEPS: u64 = 8;

/// Links of messages, and of identifiers that no message has.
struct Links {
    /// The parents by node; messages come first.
    parents: Vec<u32>,
    /// Whether a node ever had a child.
    had_child: Vec<bool>,
    /// Steps that are left for finding loops.
    steps: u64,
}

/// Steps 1 to 3: links the messages, and leaves out the parents that the mailbox lacks, except the
/// first of a thread with several children.
pub(super) async fn link(messages: &[ThreadedMessage], column: &LinkColumn, pace: &mut Pace) -> Parents {
    let count = messages.len();
    let mut node_of = vec![NONE; column.identifiers()];
    for (node, message) in (0u32..).zip(messages) {
        // Step 1: of several messages with one Message-ID, only the first has it.
        let own = message.link.own.map(|own| &mut node_of[own as usize]);
        if let Some(slot) = own.filter(|slot| **slot == NONE) {
            *slot = node;
        }
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
    let steps = count as u64 * STEPS_PER_MESSAGE;
    let mut links = Links { parents: vec![NONE; count], had_child: vec![false; count], steps };
    for (node, message) in (0u32..).zip(messages) {
        // 1 (A)
        let mut last = NONE;
        for identifier in column.references(message.link) {
            let next = links.node(&mut node_of[*identifier as usize]);
            let mut climbed = 0;
            if last != NONE && links.parent(next) == NONE {
                climbed = links.put_below(next, last);
            }
            last = next;
            if pace.count(NODE_STEPS + climbed * CLIMB_STEPS) {
                pace.rest().await;
            }
        }
        // 1 (B)
        if links.parent(node) != last {
            links.cut(node);
            if last != NONE {
                let climbed = links.put_below(node, last);
                pace.worked(climbed * CLIMB_STEPS).await;
            }
        }
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
    prune(links.parents, count, pace).await
}

impl Links {
    fn parent(&self, node: u32) -> u32 {
        self.parents[node as usize]
    }

    /// The node of an identifier. One that no message has gets a node of its own.
    fn node(&mut self, slot: &mut u32) -> u32 {
        if *slot == NONE {
            *slot = self.parents.len() as u32;
            self.parents.push(NONE);
            self.had_child.push(false);
        }
        *slot
    }

    fn cut(&mut self, node: u32) {
        self.parents[node as usize] = NONE;
    }

    /// Makes one node the parent of another, unless that makes a loop. Returns how far it looked.
    fn put_below(&mut self, child: u32, parent: u32) -> u64 {
        let (is_loop, climbed) = self.is_below(parent, child);
        self.steps = self.steps.saturating_sub(climbed);
        if !is_loop {
            self.parents[child as usize] = parent;
            self.had_child[parent as usize] = true;
        }
        climbed
    }

    /// Whether a node is another one or below it, and how many nodes above it were looked at. Also
    /// if there are no steps left to find out.
    fn is_below(&self, mut node: u32, top: u32) -> (bool, u64) {
        if !self.had_child[top as usize] {
            return (node == top, 0);
        }
        let most = self.steps.min(CLIMB_MAX);
        let mut climbed = 0;
        while node != NONE {
            if node == top || climbed == most {
                return (true, climbed);
            }
            climbed += 1;
            node = self.parent(node);
        }
        (false, climbed)
    }
}

/// Step 3.
async fn prune(links: Vec<u32>, count: usize, pace: &mut Pace) -> Parents {
    let parent = |node: u32| links[node as usize];
    let dummies = links.len() - count;
    // For each dummy: itself or the first node above it that is not removed. That is a message,
    // or the first node of the thread.
    let mut stays = vec![NONE; dummies];
    let (mut of, mut children) = (vec![NONE; count], vec![0u32; dummies]);
    let mut path = Vec::new();
    for (node, kept) in (0u32..).zip(&mut of) {
        let mut at = parent(node);
        while let Some(dummy) = (at as usize).checked_sub(count).filter(|_| at != NONE) {
            let known = stays[dummy];
            if known != NONE {
                at = known;
                break;
            }
            path.push(dummy);
            if parent(at) == NONE {
                break;
            }
            at = parent(at);
            if pace.count(NODE_STEPS) {
                pace.rest().await;
            }
        }
        for dummy in path.drain(..) {
            stays[dummy] = at;
        }
        *kept = at;
        if let Some(several) = (at as usize).checked_sub(count).and_then(|dummy| children.get_mut(dummy)) {
            *several += 1;
        }
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
    for parent in &mut of {
        let several = (*parent as usize).checked_sub(count).and_then(|dummy| children.get(dummy));
        if several == Some(&1) {
            *parent = NONE;
        }
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
    Parents { of, dummies }
}

/// Step 5: threads with the same base subject become one. `ordered` names the messages by date
/// (step 4).
pub(super) async fn merge_subjects(
    parents: &mut Parents,
    messages: &[ThreadedMessage],
    texts: &Texts,
    ordered: &[u32],
    pace: &mut Pace,
) {
    let count = messages.len();
    let is_reply = |node: u32| messages.get(node as usize).is_some_and(|message| message.link.is_reply);
    let is_dummy = |node: u32| node as usize >= count;
    let threads = with_subjects(parents, messages, texts, ordered, pace).await;
    let mut table = first_of_subjects(&threads, messages, texts.len(), pace).await;
    // Step 5 (C). A dummy may be merged into another. Its children are moved at the end.
    let mut merged = vec![NONE; parents.dummies];
    for (root, subject) in &threads {
        let Some(first) = table.get_mut(*subject) else { continue };
        let was_merged = !is_dummy(*root) && parents.of.get(*root as usize) != Some(&NONE);
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
        if first == root || was_merged {
            continue;
        }
        let new = match (is_dummy(*first), is_dummy(*root)) {
            (_, true) => {
                if let Some(slot) = merged.get_mut((*root as usize).wrapping_sub(count)) {
                    *slot = *first;
                }
                continue;
            }
            (true, false) => *first,
            (false, false) if is_reply(*root) && !is_reply(*first) => *first,
            (false, false) => {
                let new = (count + parents.dummies) as u32;
                parents.dummies += 1;
                if let Some(parent) = parents.of.get_mut(*first as usize) {
                    *parent = new;
                }
                *first = new;
                new
            }
        };
        if let Some(parent) = parents.of.get_mut(*root as usize) {
            *parent = new;
        }
    }
    for parent in &mut parents.of {
        let into = merged.get((*parent as usize).wrapping_sub(count)).copied();
        *parent = into.filter(|into| *into != NONE).unwrap_or(*parent);
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
}

/// The roots of the threads with a subject, each with the subject of its first message.
async fn with_subjects(
    parents: &Parents,
    messages: &[ThreadedMessage],
    texts: &Texts,
    ordered: &[u32],
    pace: &mut Pace,
) -> Vec<(u32, usize)> {
    let mut threads = Vec::new();
    let mut is_seen = vec![false; parents.dummies];
    for node in ordered {
        let parent = parents.of.get(*node as usize).copied().unwrap_or(NONE);
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
        let root = match is_seen.get_mut((parent as usize).wrapping_sub(messages.len())) {
            Some(seen) if *seen => continue,
            Some(seen) => {
                *seen = true;
                parent
            }
            None if parent == NONE => *node,
            None => continue,
        };
        let subject = messages.get(*node as usize).map_or(0, |message| message.subject);
        if texts.empty() != Some(subject) {
            threads.push((root, subject as usize));
        }
    }
    threads
}

/// 5 (B): the thread that others with its subject join, by subject.
async fn first_of_subjects(
    threads: &[(u32, usize)],
    messages: &[ThreadedMessage],
    subjects: usize,
    pace: &mut Pace,
) -> Vec<u32> {
    let is_reply = |node: u32| messages.get(node as usize).is_some_and(|message| message.link.is_reply);
    let is_dummy = |node: u32| node as usize >= messages.len();
    let mut table = vec![NONE; subjects];
    for (root, subject) in threads {
        let Some(first) = table.get_mut(*subject) else { continue };
        let replaces = *first == NONE
            || (!is_dummy(*first) && (is_dummy(*root) || (is_reply(*first) && !is_reply(*root))));
        if replaces {
            *first = *root;
        }
        if pace.count(NODE_STEPS) {
            pace.rest().await;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of this many nodes, each below the one before it.
    fn chain(count: u32, steps: u64) -> Links {
        let parents = (0..count).map(|node| node.checked_sub(1).unwrap_or(NONE)).collect();
        Links { parents, had_child: vec![true; count as usize], steps }
    }

    #[test]
    fn looking_for_loops_is_bounded() {
        let count = CLIMB_MAX as u32 + 5;
        let mut links = chain(count, 2 * CLIMB_MAX + 7);
        // The top of a chain is not put below the chain's end: that end is too far away, so there
        // is no link.
        let looked: Vec<u64> = (0..4).map(|_| links.put_below(0, count - 1)).collect();
        assert_eq!(looked, [CLIMB_MAX, CLIMB_MAX, 7, 0]);
        assert_eq!((links.parent(0), links.steps), (NONE, 0));
        // A node that never had a child cannot make a loop, so no search is needed.
        links.parents.push(NONE);
        links.had_child.push(false);
        assert_eq!((links.put_below(count, count - 1), links.parent(count)), (0, count - 1));
    }

    #[test]
    fn loops_are_found() {
        let mut links = chain(10, 1000);
        assert_eq!((links.put_below(3, 9), links.parent(3)), (6, 2));
        assert_eq!((links.put_below(5, 5), links.parent(5)), (0, 4));
        assert_eq!((links.put_below(9, 2), links.parent(9)), (3, 2));
    }
}
