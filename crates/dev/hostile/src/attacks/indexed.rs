//! The work that new messages leave to the search index.

use std::time::Duration;

use crate::stage::{Scale, Stage};

/// CPU time that the index may take for a copy of a message. It took 17 µs; each may be indexed
/// twice, before and after the MOVE.
const INDEXED_MAX: Duration = Duration::from_micros(50);

/// The work of the search index for so many messages, which begins only now: a bound for each. On a
/// small scale nothing that depends on time is judged.
pub(super) fn indexed(stage: &Stage, count: usize) -> Result<String, String> {
    if stage.scale == Scale::Quick {
        return Ok(String::new());
    }
    let each = stage.neighbour.quiet(|| stage.gauge.cpu_until_idle()) / u32::try_from(count).unwrap_or(1);
    match each <= INDEXED_MAX {
        true => Ok(format!("; indexed in {} µs each", each.as_micros())),
        false => Err(format!("the index takes {} µs of CPU for each copy", each.as_micros())),
    }
}
