//! The file `reserve`: disk space that is kept for deletions.
//!
//! Every commit needs space: a record in a pack, pages of the index. On a full disk nothing could
//! be deleted, and so no space could be freed. So a file of bytes without a meaning is kept. When
//! a commit without new messages meets a full disk, the file is truncated, and the commit is
//! tried again.
//!
//! - A change of flags may cut the first half, a deletion and maintenance all of it ([`Purpose`]).
//!   Otherwise clients that only read would use up what deletions need.
//! - As long as the file is not whole, new messages make no file of the store longer. Otherwise
//!   they would take the space that was released. Any process knows it by the file's length.
//! - The file is filled again when the disk has space: before new messages take it, and by
//!   maintenance.
//!
//! It is as large as the packs, within limits. Deletions need more space where there is more
//! mail, and a store that only keeps accounts stays small. Its bytes are random, so that no file
//! system can compress them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_store::{Result, StoreError};

use crate::log::Preallocation;
use crate::log::disk::{Disk, failed, is_full, open_no_link};

/// Bytes of the reserve of a small store. They are enough for some hundred deletions, each with a
/// dozen pages of the index, and once 256 KiB after them.
const MIN: u64 = 1 << 20;
/// The share of the file system that the reserve takes at most: a sixteenth, for stores on very
/// small disks.
const SHARE: u64 = 16;
/// Bytes written at a time.
const PIECE: usize = 256 * 1024;

/// The purpose for which disk space is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// New messages: they never use the reserve.
    Content,
    /// Changes of existing records (flags, the directory, new names in mailbox lists): they may
    /// use half of it.
    Change,
    /// Expunges, removals from mailbox lists, maintenance, redo: they may use all of it.
    Deletion,
}

/// The reserve of a data directory.
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    /// Bytes at most; 0: there is none.
    max: u64,
}

impl Reserve {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, max: u64) -> Self {
        Self { disk, dir: dir.to_owned(), path: dir.join("reserve"), max }
    }

    /// Bytes that the file takes from the disk. After a power cut it may have a length and no
    /// blocks.
    fn len(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |found| found.len().min(found.blocks() * 512))
    }

    /// Bytes that it should have if the packs have `packs` bytes.
    fn target(&self, packs: u64) -> u64 {
        let max = self.disk.space(&self.dir).map_or(self.max, |space| self.max.min(space.all / SHARE));
        packs.checked_next_power_of_two().unwrap_or(max).clamp(MIN.min(max), max)
    }

    /// Bytes of the disk that this user may write; the maximum if the system does not say.
    fn free(&self) -> u64 {
        self.disk.space(&self.dir).map_or(u64::MAX, |space| space.free)
    }

    /// Bytes that maintenance may write.
    pub(crate) fn writable(&self) -> u64 {
        self.free().saturating_add(self.len())
    }

    /// Whether nothing is left to release.
    pub(crate) fn is_used_up(&self) -> bool {
        self.len() == 0
    }

    /// Whether a file may be made longer for this purpose, and how far. `packs`: bytes of all
    /// packs.
    pub(crate) fn admit(&self, purpose: Purpose, packs: u64) -> Result<Preallocation> {
        let (there, target) = (self.len(), self.target(packs));
        if there >= target {
            return Ok(Preallocation::Step);
        }
        match purpose {
            Purpose::Content => self.complete(packs).map(|()| Preallocation::Step),
            _ if self.has_room_for(target - there, target) => Ok(Preallocation::Step),
            // The rest is for deletions.
            Purpose::Change if there < target / 2 => Err(self.lack(target - there)),
            _ => Ok(Preallocation::Needed),
        }
    }

    /// Fills the file to its full size. `Full` if there is no space for it.
    pub(crate) fn complete(&self, packs: u64) -> Result<()> {
        let (there, target) = (self.len(), self.target(packs));
        if there >= target {
            return Ok(());
        }
        if !self.has_room_for(target - there, target) {
            return Err(self.lack(target - there));
        }
        self.grow(there, target).map_err(failed(self.path.display()))
    }

    /// Whether it can be filled, with space left for the present commit.
    fn has_room_for(&self, missing: u64, target: u64) -> bool {
        self.free() >= missing + target / 4
    }

    fn lack(&self, missing: u64) -> StoreError {
        StoreError::Full(format!("{}: there is no space for its {} KiB", self.path.display(), missing >> 10))
    }

    fn grow(&self, there: u64, target: u64) -> io::Result<()> {
        let file = open_no_link(OpenOptions::new().write(true).create(true).truncate(false), &self.path)?;
        // Another process fills it. Both would write the same bytes, but a release in between
        // must not be undone in part.
        if file.try_lock().is_err() {
            return Ok(());
        }
        let written = write_random(&file, there, target).and_then(|()| file.sync_all());
        written.inspect_err(|error| {
            if is_full(error) {
                let _ = file.set_len(there);
            }
        })
    }

    /// Releases space for this purpose. Returns whether there was any.
    pub(crate) fn release(&self, purpose: Purpose, packs: u64) -> bool {
        let there = self.len();
        if purpose == Purpose::Content || there == 0 {
            return false;
        }
        let half = self.target(packs) / 2;
        let left = match purpose {
            // Deletions, too, take the first half first.
            _ if there > half => half,
            Purpose::Deletion => 0,
            _ => return false,
        };
        let cut = || {
            let file = open_no_link(OpenOptions::new().write(true), &self.path)?;
            file.set_len(left)?;
            // A journal gives freed blocks back when it commits.
            file.sync_all()
        };
        if let Err(error) = cut() {
            tracing::error!(path = %self.path.display(), %error, "the reserve for deletions cannot be released");
            return false;
        }
        tracing::warn!(
            released = there - left,
            left,
            "the disk is full: no new mail is accepted, and deletions use the reserve; free space on the disk"
        );
        true
    }
}

/// Writes bytes that no file system can leave out or compress.
fn write_random(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ from;
    let mut piece = vec![0; PIECE];
    let mut at = from;
    while at < to {
        for word in piece.chunks_exact_mut(8) {
            // xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let n = (to - at).min(PIECE as u64);
        file.write_all_at(&piece[..n as usize], at)?;
        at += n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::disk::RealDisk;

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let other = elsewhere.path().join("other");
        std::os::unix::fs::symlink(&other, dir.path().join("reserve")).unwrap();
        let reserve = Reserve::new(Arc::new(RealDisk), dir.path(), MIN);
        assert!(reserve.complete(0).is_err() && !other.exists());
        std::fs::write(&other, vec![1; MIN as usize]).unwrap();
        assert!(!reserve.release(Purpose::Deletion, 0));
        assert_eq!(std::fs::metadata(&other).unwrap().len(), MIN);
    }
}
