//! The contents of a disk after a crash: from a recorded log, everything that was synced, and any
//! part of the rest.
//!
//! - A file's durable content is what its last sync covered; a write through a file opened with
//!   `O_DSYNC` is durable when it returns.
//! - After later writes, each sector of 512 bytes has the content that any one of them gave it, or
//!   the durable one. Writes are widened to whole sectors by the page cache's bytes beside them: no
//!   disk ever sees half a sector.
//! - A name (made, moved or removed) is durable when its directory was synced. Any subset of later
//!   changes of names is kept. Or, as on a journalling file system, all of them up to some moment
//!   are kept, not before the last sync of anything.
//! - After a failed sync, bytes that were not durable become so by chance, and no later sync
//!   changes that.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::op::{Data, Node, Op};
use crate::random::Random;

/// The unit that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A write, widened to whole sectors, or a new length.
#[derive(Clone)]
enum Pending {
    Write { at: usize, data: Arc<[u8]>, len: usize, number: usize },
    Resize { len: usize, number: usize },
}

impl Pending {
    fn number(&self) -> usize {
        match self {
            Self::Write { number, .. } | Self::Resize { number, .. } => *number,
        }
    }

    /// The file's length right after it.
    fn len(&self) -> usize {
        match self {
            Self::Write { len, .. } | Self::Resize { len, .. } => *len,
        }
    }
}

#[derive(Clone, Default)]
struct File {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone)]
enum NameChange {
    Add(Node, String, Node),
    Move((Node, String), (Node, String)),
    Exchange((Node, String), (Node, String)),
    Remove(Node, String),
}

#[derive(Clone)]
struct PendingName {
    change: NameChange,
    number: usize,
    /// Durable on a journalling file system: something was synced since.
    journalled: bool,
}

#[derive(Clone)]
enum Kind {
    File(File),
    /// Live and durable entries.
    Directory(BTreeMap<String, Node>, BTreeMap<String, Node>),
}

/// A disk while operations are applied to it.
#[derive(Clone)]
pub struct Image {
    nodes: BTreeMap<Node, Kind>,
    names: Vec<PendingName>,
    /// Operations applied.
    applied: usize,
    /// Random choices for the effects of a failed sync.
    chance: Random,
}

/// Which of the unsynced operations survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All of it: the process was killed, the machine keeps running.
    All,
    /// Nothing.
    None,
    /// Operations before a moment.
    Earlier,
    /// Each sector by itself.
    Any,
    /// All but a few writes.
    Most,
    /// Only a few writes.
    Few,
}

/// How changes of names survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// In order, and any sync takes earlier ones along: ext4, XFS, btrfs.
    Journalled,
    /// Each by itself until its directory is synced: what POSIX promises.
    Posix,
}

/// The files of a crashed disk.
pub type Files = BTreeMap<String, Option<Vec<u8>>>;

impl Image {
    /// The disk with these files, all of it durable. Numbers nodes as
    /// [`Recorder::watch`](crate::record::Recorder::watch) does: a directory, then its contents by
    /// name.
    pub fn of_files(files: &Files, seed: u64) -> Self {
        let chance = Random::new(seed, 3);
        let mut image = Self { nodes: BTreeMap::new(), names: Vec::new(), applied: 0, chance };
        image.add_tree(files, "");
        image
    }

    fn add_tree(&mut self, files: &Files, path: &str) -> Node {
        let node = self.nodes.len() as Node;
        if let Some(Some(bytes)) = files.get(path) {
            let (live, durable) = (bytes.clone(), bytes.clone());
            self.nodes.insert(node, Kind::File(File { live, durable, pending: Vec::new() }));
            return node;
        }
        self.nodes.insert(node, Kind::Directory(BTreeMap::new(), BTreeMap::new()));
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let below = files.keys().filter_map(|p| p.strip_prefix(&prefix));
        let mut names: Vec<&str> = below.filter(|n| !n.is_empty() && !n.contains('/')).collect();
        names.sort_unstable();
        let entries: BTreeMap<String, Node> = names
            .into_iter()
            .map(|name| (name.to_owned(), self.add_tree(files, &format!("{prefix}{name}"))))
            .collect();
        self.nodes.insert(node, Kind::Directory(entries.clone(), entries));
        node
    }

    /// Operations applied so far.
    pub fn applied(&self) -> usize {
        self.applied
    }

    /// Applies the operations of a log up to number `to`.
    pub fn advance(&mut self, ops: &[Op], to: usize) {
        while self.applied < to {
            if let Some(op) = ops.get(self.applied) {
                // It was carried over from before the log: its number is 0.
                self.apply(op, self.applied + 1);
            }
            self.applied += 1;
        }
    }

    fn file(&mut self, node: Node) -> Option<&mut File> {
        match self.nodes.get_mut(&node) {
            Some(Kind::File(file)) => Some(file),
            _ => None,
        }
    }

    fn entries(&mut self, node: Node) -> Option<&mut BTreeMap<String, Node>> {
        match self.nodes.get_mut(&node) {
            Some(Kind::Directory(live, _)) => Some(live),
            _ => None,
        }
    }

    fn apply(&mut self, op: &Op, number: usize) {
        match op {
            Op::Create { dir, name, node } => {
                self.add(*node, Kind::File(File::default()));
                self.name(NameChange::Add(*dir, name.clone(), *node), number);
            }
            Op::MakeDirectory { dir, name, node } => {
                self.add(*node, Kind::Directory(BTreeMap::new(), BTreeMap::new()));
                self.name(NameChange::Add(*dir, name.clone(), *node), number);
            }
            Op::Link { dir, name, node } => self.name(NameChange::Add(*dir, name.clone(), *node), number),
            Op::Rename { from, to } => self.name(NameChange::Move(from.clone(), to.clone()), number),
            Op::Exchange { one, other } => {
                self.name(NameChange::Exchange(one.clone(), other.clone()), number)
            }
            Op::Remove { dir, name } => self.name(NameChange::Remove(*dir, name.clone()), number),
            Op::Write { node, at, data, durable } => {
                if let Some(file) = self.file(*node) {
                    file.write(*at as usize, data, number);
                    if *durable {
                        file.make_durable(1);
                    }
                }
            }
            Op::Resize { node, len } => {
                if let Some(file) = self.file(*node) {
                    file.live.resize(*len as usize, 0);
                    file.pending.push(Pending::Resize { len: *len as usize, number });
                }
            }
            Op::Sync { node } => self.sync(*node),
            Op::SyncFailed { node } => {
                let mut chance = self.chance.clone();
                if let Some(file) = self.file(*node) {
                    file.durable = file.after(Keep::Any, 0, &mut chance);
                    file.pending.clear();
                }
                self.chance = chance;
            }
            Op::Failed(_) => {}
        }
    }

    fn add(&mut self, node: Node, kind: Kind) {
        self.nodes.insert(node, kind);
    }

    /// The disk after a process was killed: the machine keeps running, and bytes that were not
    /// durable still are not. Nodes are numbered as for the files that are there, as in
    /// [`Image::of_files`].
    pub fn carried(&self) -> Self {
        let mut order = Vec::new();
        self.walk(0, &mut order);
        // Files without a name keep out of the way of numbers that are still to be given.
        let lost = self.nodes.keys().filter(|node| !order.contains(node));
        let lost = lost.enumerate().map(|(n, node)| (*node, u32::MAX - n as u32));
        let there = order.iter().enumerate().map(|(n, node)| (*node, n as Node));
        let new: BTreeMap<Node, Node> = there.chain(lost).collect();
        let number = |node: &Node| new.get(node).copied().unwrap_or(u32::MAX);
        let all = |entries: &BTreeMap<String, Node>| {
            entries.iter().map(|(name, node)| (name.clone(), number(node))).collect()
        };
        let nodes = self.nodes.iter().map(|(node, kind)| {
            let kind = match kind {
                Kind::File(file) => Kind::File(file.carried()),
                Kind::Directory(live, durable) => Kind::Directory(all(live), all(durable)),
            };
            (number(node), kind)
        });
        let nodes = nodes.collect();
        let names = self.names.iter().map(|pending| {
            let change = match &pending.change {
                NameChange::Add(dir, name, node) => NameChange::Add(number(dir), name.clone(), number(node)),
                NameChange::Remove(dir, name) => NameChange::Remove(number(dir), name.clone()),
                NameChange::Move(from, to) => {
                    NameChange::Move((number(&from.0), from.1.clone()), (number(&to.0), to.1.clone()))
                }
                NameChange::Exchange(one, other) => {
                    NameChange::Exchange((number(&one.0), one.1.clone()), (number(&other.0), other.1.clone()))
                }
            };
            PendingName { change, number: 0, journalled: pending.journalled }
        });
        let names = names.collect();
        Self { nodes, names, applied: 0, chance: self.chance.clone() }
    }

    /// Nodes that have a name, in the order in which [`Image::of_files`] numbers them.
    fn walk(&self, node: Node, order: &mut Vec<Node>) {
        order.push(node);
        if let Some(Kind::Directory(live, _)) = self.nodes.get(&node) {
            live.values().for_each(|child| self.walk(*child, order));
        }
    }

    fn name(&mut self, change: NameChange, number: usize) {
        let dirs = match &change {
            NameChange::Add(dir, ..) | NameChange::Remove(dir, _) => vec![*dir],
            NameChange::Move((one, _), (other, _)) | NameChange::Exchange((one, _), (other, _)) => {
                vec![*one, *other]
            }
        };
        let mut live = BTreeMap::new();
        for dir in dirs {
            if let Entry::Vacant(place) = live.entry(dir) {
                place.insert(self.entries(dir).map(std::mem::take).unwrap_or_default());
            }
        }
        apply_name(&mut live, &change);
        for (dir, entries) in live {
            if let Some(place) = self.entries(dir) {
                *place = entries;
            }
        }
        self.names.push(PendingName { change, number, journalled: false });
    }

    fn sync(&mut self, node: Node) {
        self.names.iter_mut().for_each(|pending| pending.journalled = true);
        match self.nodes.get_mut(&node) {
            Some(Kind::File(file)) => file.make_durable(usize::MAX),
            Some(Kind::Directory(..)) => {
                let of = |change: &NameChange| match change {
                    NameChange::Add(dir, ..) | NameChange::Remove(dir, _) => *dir == node,
                    NameChange::Move((from, _), (to, _)) | NameChange::Exchange((from, _), (to, _)) => {
                        *from == node || *to == node
                    }
                };
                let (durable, rest): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut self.names).into_iter().partition(|p| of(&p.change));
                self.names = rest;
                let mut entries = self.durable_entries();
                durable.iter().for_each(|p| apply_name(&mut entries, &p.change));
                self.put_durable_entries(entries);
            }
            None => {}
        }
    }

    fn durable_entries(&self) -> BTreeMap<Node, BTreeMap<String, Node>> {
        let of = |(node, kind): (&Node, &Kind)| match kind {
            Kind::Directory(_, durable) => Some((*node, durable.clone())),
            Kind::File(_) => None,
        };
        self.nodes.iter().filter_map(of).collect()
    }

    fn put_durable_entries(&mut self, entries: BTreeMap<Node, BTreeMap<String, Node>>) {
        for (node, new) in entries {
            if let Some(Kind::Directory(_, durable)) = self.nodes.get_mut(&node) {
                *durable = new;
            }
        }
    }

    /// The state after a crash now. `next` is the operation in progress.
    pub fn crash(&self, next: Option<&Op>, keep: Keep, names: Names, random: &mut Random) -> Files {
        let in_progress = next.filter(|_| keep != Keep::All).and_then(|next| self.in_progress(next));
        let moment = self.moment(random);
        let entries = self.surviving_names(keep, names, moment, random);
        let mut files = Files::new();
        let mut stack = vec![(String::new(), 0 as Node)];
        while let Some((path, node)) = stack.pop() {
            match self.nodes.get(&node) {
                Some(Kind::File(file)) => {
                    let written = in_progress.as_ref().filter(|(of, _)| *of == node).map(|(_, file)| file);
                    files.insert(path, Some(written.unwrap_or(file).after(keep, moment, random)));
                }
                Some(Kind::Directory(..)) => {
                    for (name, child) in entries.get(&node).into_iter().flatten() {
                        let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                        stack.push((below, *child));
                    }
                    if !path.is_empty() {
                        files.insert(path, None);
                    }
                }
                None => {}
            }
        }
        files
    }

    /// The target of the next operation: the write has not returned, so it is not durable,
    /// whatever the file was opened for.
    fn in_progress(&self, next: &Op) -> Option<(Node, File)> {
        let Op::Write { node, at, data, .. } = next else { return None };
        let Some(Kind::File(file)) = self.nodes.get(node) else { return None };
        let mut file = file.clone();
        file.write(*at as usize, data, self.applied + 1);
        Some((*node, file))
    }

    /// A moment between the first operation that is not durable and now.
    fn moment(&self, random: &mut Random) -> usize {
        let writes = self.nodes.values().flat_map(|kind| match kind {
            Kind::File(file) => file.pending.as_slice(),
            Kind::Directory(..) => &[],
        });
        let mut numbers: Vec<usize> =
            writes.map(Pending::number).chain(self.names.iter().map(|p| p.number)).collect();
        numbers.sort_unstable();
        let at = random.below(numbers.len() + 1);
        numbers.get(at).copied().unwrap_or(self.applied + 1)
    }

    fn surviving_names(
        &self,
        keep: Keep,
        names: Names,
        moment: usize,
        random: &mut Random,
    ) -> BTreeMap<Node, BTreeMap<String, Node>> {
        let mut entries = self.durable_entries();
        let pending = &self.names;
        let cut = random.below(pending.len() + 1);
        for (at, change) in pending.iter().enumerate() {
            let by_chance = match (keep, names) {
                (Keep::All, _) => true,
                (Keep::None, _) => false,
                (Keep::Earlier, _) => change.number < moment,
                (_, Names::Journalled) => at < cut,
                (Keep::Any, Names::Posix) => random.chance(50),
                (Keep::Most, Names::Posix) => random.chance(85),
                (Keep::Few, Names::Posix) => random.chance(15),
            };
            if by_chance || (names == Names::Journalled && change.journalled) {
                apply_name(&mut entries, &change.change);
            }
        }
        entries
    }
}

fn apply_name(entries: &mut BTreeMap<Node, BTreeMap<String, Node>>, change: &NameChange) {
    match change {
        NameChange::Add(dir, name, node) => {
            entries.entry(*dir).or_default().insert(name.clone(), *node);
        }
        NameChange::Remove(dir, name) => {
            entries.entry(*dir).or_default().remove(name);
        }
        NameChange::Move((from_dir, from), (to_dir, to)) => {
            if let Some(node) = entries.entry(*from_dir).or_default().remove(from) {
                entries.entry(*to_dir).or_default().insert(to.clone(), node);
            }
        }
        NameChange::Exchange((one_dir, one), (other_dir, other)) => {
            let a = entries.entry(*one_dir).or_default().remove(one);
            let b = entries.entry(*other_dir).or_default().remove(other);
            entries.entry(*one_dir).or_default().extend(b.map(|node| (one.clone(), node)));
            entries.entry(*other_dir).or_default().extend(a.map(|node| (other.clone(), node)));
        }
    }
}

impl File {
    /// The same image for later operations: its pending writes are older than any of them.
    fn carried(&self) -> Self {
        let mut file = self.clone();
        for pending in &mut file.pending {
            match pending {
                Pending::Write { number, .. } | Pending::Resize { number, .. } => *number = 0,
            }
        }
        file
    }

    fn write(&mut self, at: usize, data: &Data, number: usize) {
        let end = at + data.len();
        if self.live.len() < end {
            self.live.resize(end, 0);
        }
        if let Some(place) = self.live.get_mut(at..end) {
            match data {
                Data::Zeroes(_) => place.fill(0),
                Data::Bytes(bytes) => place.copy_from_slice(bytes),
            }
        }
        let from = at / SECTOR * SECTOR;
        let to = end.next_multiple_of(SECTOR).min(self.live.len());
        let data: Arc<[u8]> = self.live[from..to].into();
        self.pending.push(Pending::Write { at: from, data, len: self.live.len(), number });
    }

    /// Makes the last `count` changes durable.
    fn make_durable(&mut self, count: usize) {
        let from = self.pending.len().saturating_sub(count);
        for pending in self.pending.drain(from..) {
            let mut len = self.durable.len();
            match &pending {
                Pending::Write { at, data, .. } => {
                    put(&mut self.durable, *at, data);
                    len = len.max(at + data.len());
                }
                Pending::Resize { len: new, .. } => {
                    self.durable.resize(*new, 0);
                    len = *new;
                }
            }
            self.durable.resize(len, 0);
        }
    }

    /// The content after a crash.
    fn after(&self, keep: Keep, moment: usize, random: &mut Random) -> Vec<u8> {
        if keep == Keep::All {
            return self.live.clone();
        }
        let mut content = self.durable.clone();
        if keep == Keep::None || self.pending.is_empty() {
            return content;
        }
        let mut len = content.len();
        for pending in &self.pending {
            let kept = match keep {
                Keep::Earlier => pending.number() < moment,
                Keep::Most => random.chance(85),
                Keep::Few => random.chance(15),
                _ => random.chance(60),
            };
            if !kept {
                continue;
            }
            match pending {
                Pending::Write { at, data, .. } => {
                    let torn = keep != Keep::Earlier && random.chance(50);
                    if torn {
                        for (n, sector) in data.chunks(SECTOR).enumerate() {
                            if random.chance(50) {
                                put(&mut content, at + n * SECTOR, sector);
                            }
                        }
                    } else {
                        put(&mut content, *at, data);
                    }
                }
                Pending::Resize { len, .. } => content.resize(*len, 0),
            }
            len = pending.len();
        }
        // The length may be any that the file had; bytes written beyond it are lost.
        if keep != Keep::Earlier && random.chance(30) {
            len = random.pick(&self.pending).map_or(len, Pending::len);
        }
        content.resize(len, 0);
        content
    }
}

fn put(content: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    if let Some(place) = content.get_mut(at..end) {
        place.copy_from_slice(data);
    }
}

/// A hash that distinguishes states.
pub fn fingerprint(files: &Files) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, content) in files {
        hasher.write(path.as_bytes());
        match content {
            Some(bytes) => {
                hasher.write_usize(bytes.len());
                // Unused zeroes at the end are most of a small store.
                for (at, page) in bytes.chunks(4096).enumerate().filter(|(_, p)| !is_zero(p)) {
                    hasher.write_usize(at);
                    hasher.write(page);
                }
            }
            None => hasher.write_u8(1),
        }
    }
    hasher.finish()
}

/// Whether a page, of at most 4,096 bytes, is all zeroes.
fn is_zero(page: &[u8]) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    ZEROES.starts_with(page)
}

/// Writes the files into an empty directory.
pub fn materialise(files: &Files, root: &Path) -> io::Result<()> {
    std::fs::create_dir_all(root)?;
    for (path, content) in files {
        let path = root.join(path);
        let Some(bytes) = content else {
            std::fs::create_dir_all(path)?;
            continue;
        };
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        file.set_len(bytes.len() as u64)?;
        let mut start = None;
        for at in (0..=bytes.len()).step_by(4096) {
            let page = &bytes[at..(at + 4096).min(bytes.len())];
            match (is_zero(page), start) {
                (false, None) => start = Some(at),
                (true, Some(from)) => {
                    file.write_all_at(&bytes[from..at], from as u64)?;
                    start = None;
                }
                _ => {}
            }
        }
        if let Some(from) = start {
            file.write_all_at(&bytes[from..], from as u64)?;
        }
    }
    Ok(())
}
