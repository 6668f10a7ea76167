//! Reads and checks the pages of the index's file without LMDB.
//!
//! LMDB trusts its pages. It follows page numbers, offsets and lengths without checking them. A
//! flipped bit in one of them ends the process with a signal or makes records vanish. Pages carry
//! no checksum, so damage to *contents* is left to the records' own checksums. This module checks
//! the *structure*, which has enough redundancy. Every page has its number, keys rise, and nodes
//! fill their page without gaps. A tree has its depth and the numbers of its pages and records.
//! Every page below the last is in one tree or in one list of free pages.
//!
//! `layout` reads one page, and never reads beyond it. `file` reads pages of one snapshot.
//! `judge` names the faults of one page. `walk` goes through whole trees, `first_pages` through
//! the top of them.
//!
//! The structure is that of LMDB 0.9.70 (data version 1) on a little-endian machine with 64 bits.

#[cfg(any(test, feature = "fuzzing"))]
mod any;
mod file;
mod first_pages;
mod judge;
mod layout;
mod walk;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use any::walk_any;
pub(crate) use file::PageFile;
pub(crate) use first_pages::{Extent, examine};
pub(crate) use walk::{PageWalk, WalkEnd};

/// The remedy for damage: the end of each sentence about it.
pub(crate) const REMEDY: &str =
    "the index is damaged and is not used; `posthaste check --rebuild` rebuilds it from the packs";
