//! Where a study is.

use crate::plan::Stage;

/// A point of a round.
#[derive(Clone, Copy)]
pub(super) struct StudyPosition<'a> {
    /// The present start of the servers.
    pub(super) stage: &'a Stage,
    /// The number of the point.
    pub(super) number: usize,
    /// The round, from 0.
    pub(super) round: u32,
}
