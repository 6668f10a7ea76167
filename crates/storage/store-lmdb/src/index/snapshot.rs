//! The store at one instant: the state that a backup reads while a server runs.
//!
//! A snapshot is one reading transaction of the index, and every pack that this index names, held
//! open. Both stay as they are. LMDB reuses no page that the transaction sees, and bytes of a pack
//! below its recorded end never change. An open file outlives its name when maintenance removes it.
//! No pack is cut while a snapshot lives.
//!
//! The instant is the index's last transaction when the snapshot begins. The store is opened
//! before. That redoes the commits that an ended process left, and waits until a server's commits
//! are in the index. So the snapshot has every commit that was acknowledged before the call.
//!
//! While a snapshot lives, the index cannot reuse pages: it grows by the changes made meanwhile.
//! Removed packs keep their space on disk. One file descriptor is open for each pack.

use std::io;

use posthaste_store::{Result, StoreError};

use crate::log::readers;
use crate::shared::Shared;

/// The attempts to begin a snapshot while maintenance removes a pack between its two halves. Each
/// time it emptied a whole pack in less than a millisecond: three times in a row means that packs
/// are missing.
const ATTEMPTS_MAX: u32 = 3;

/// Makes an engine that writes nothing read one instant from now on.
pub(crate) fn pin(shared: &Shared) -> Result<()> {
    let mut missing = io::Error::from(io::ErrorKind::NotFound);
    let unavailable = |e| StoreError::Unavailable(format!("{}: {e}", shared.packs.display()));
    let lock = readers::protect(&shared.packs).map_err(unavailable)?;
    for _ in 0..ATTEMPTS_MAX {
        let txn = shared.index.read_for_good()?;
        let packs: Vec<u32> = shared.index.all_packs(&txn)?.into_iter().map(|(pack, _)| pack).collect();
        match shared.reader.open_all(&packs) {
            Ok(files) => {
                shared.reader.pin(files, lock);
                shared.index.pin(txn);
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing = error,
            Err(error) => {
                return Err(StoreError::Unavailable(format!(
                    "opening {} packs: {error}; `ulimit -n` must be above their number",
                    packs.len()
                )));
            }
        }
    }
    Err(StoreError::Unavailable(format!(
        "{}: packs that the index names are missing ({missing}); `posthaste check` names them",
        shared.packs.display()
    )))
}
