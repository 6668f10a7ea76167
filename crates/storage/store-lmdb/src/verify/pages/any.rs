//! Checks the pages of any file, for the fuzz target.

use std::fs::File;
use std::path::Path;

use super::file::PageFile;
use super::walk::PageWalk;
use super::{Extent, examine};

/// Checks each snapshot of a file, as an opening and `check` do, without LMDB.
pub(crate) fn walk_any(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    let _ = PageFile::prove_metas(path);
    let file = PageFile::new(file);
    for snapshot in file.snapshots().into_iter().flatten() {
        let _ = examine(&file, &snapshot, Extent::First);
        let mut walk = PageWalk::default();
        // A slice ends with a leaf; a damaged tree may have no more leaves.
        for _ in 0..1_000 {
            if !walk.slice(&file, &snapshot, 3).is_ok_and(|end| end == super::WalkEnd::More) {
                break;
            }
        }
    }
}
