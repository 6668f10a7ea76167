//! Operations on the files of a watched directory, as the log has them.

use std::sync::Arc;

/// A file or directory of a watched tree.
pub type Node = u32;

/// The written bytes.
#[derive(Debug, Clone)]
pub enum Data {
    /// This number of zeroes: a file is extended by them.
    Zeroes(usize),
    /// These bytes.
    Bytes(Arc<[u8]>),
}

impl Data {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Zeroes(n) => *n,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One change, as it happened.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are what the variants say")]
pub enum Op {
    /// A file was made in a directory.
    Create { dir: Node, name: String, node: Node },
    /// A directory was made in a directory.
    MakeDirectory { dir: Node, name: String, node: Node },
    /// A second name for a file.
    Link { dir: Node, name: String, node: Node },
    /// A name moved; a file that had the new name lost it.
    Rename { from: (Node, String), to: (Node, String) },
    /// Two names changed places.
    Exchange { one: (Node, String), other: (Node, String) },
    /// A name was removed.
    Remove { dir: Node, name: String },
    /// Bytes were written; `durable` if the file was opened so that a write is synced when it
    /// returns.
    Write { node: Node, at: u64, data: Data, durable: bool },
    /// The length was set.
    Resize { node: Node, len: u64 },
    /// The file, or the directory, was synced.
    Sync { node: Node },
    /// A sync failed: bytes that were not durable may be lost, and no later sync will make them
    /// durable.
    SyncFailed { node: Node },
    /// Something failed and changed nothing.
    Failed(&'static str),
}

/// A file is known by device and inode.
pub(crate) type FileId = (u64, u64);
