//! Reads the statements of records about packs.

use super::controls::Says;
use crate::log::entry;
use crate::log::range::{self, Rows, Table};
use crate::log::record::{Header, Kind};
use crate::log::scan::{LocatedRecord, Scan};
use crate::log::search::Search;

/// The statements of a record about packs; nothing if it is about something else.
pub(super) fn says(search: &Search<'_>, found: &LocatedRecord) -> Vec<Says> {
    let Header { kind, id, .. } = found.header;
    let is_of_packs = match kind {
        Kind::Abandon | Kind::Retire | Kind::Cut => true,
        Kind::Range => id.to_bytes()[0] == Table::Packs as u8,
        _ => false,
    };
    if !is_of_packs {
        return Vec::new();
    }
    let content = Scan::new(search.file, search.format, 0, search.size).content(found).ok();
    let says = content.and_then(|content| match kind {
        Kind::Abandon => entry::abandon_from(&content).map(|at| vec![Says::Abandoned(at)]),
        Kind::Cut => entry::abandon_from(&content).map(|at| vec![Says::Cut(at)]),
        Kind::Range => said_of_packs(&content),
        _ => entry::retire_from(&content).map(|pack| vec![Says::Retired(pack)]),
    });
    says.unwrap_or_else(|| vec![Says::Damaged(kind)])
}

/// The statements of a checkpoint of the table of packs.
fn said_of_packs(content: &[u8]) -> Option<Vec<Says>> {
    let Rows::Packs(packs) = range::from_content(content)?.rows else { return None };
    let retired = packs.retired.iter().map(Says::Retired);
    Some(retired.chain(packs.sealed.iter().copied().map(Says::Abandoned)).collect())
}
