//! The results of a study's points: curves, tables, sentences.

mod at_rest;
mod bottleneck;
mod capacity;
mod compare;
mod extremes;
mod formats;
mod generator;
mod headline;
mod items;
mod koka;
mod koka_parts;
mod memory;
mod offset;
mod operations;
mod points;
mod pop3;
mod regress;
mod roles;
#[cfg(test)]
pub(crate) mod sample;
mod scale_out;
mod scale_up;
mod shares;
mod simulated;
mod spread;
mod versions;
mod work_kind;

use posthaste_load_results::{Analysis, ServerFacts, StudyPoint, StudyResult};

use crate::file;

pub use regress::Judgement;

use points::Points;

/// The whole analysis of these points.
pub fn analyse(which: file::Analysis, servers: &[ServerFacts], points: &[StudyPoint]) -> Analysis {
    let points = Points { servers, points };
    let mut analysis = match which {
        file::Analysis::ItemCount => items::analyse(points),
        file::Analysis::MailboxSize => capacity::analyse(points),
        file::Analysis::Koka => koka::analyse(points),
        file::Analysis::Memory => memory::analyse(points),
        file::Analysis::Pop3 => pop3::analyse(points),
        file::Analysis::Compare => compare::analyse(points),
        file::Analysis::Operations => operations::analyse(points),
        file::Analysis::Regress => regress::analyse(points),
        file::Analysis::StorageFormat => formats::analyse(points),
        file::Analysis::ScaleOut => scale_out::analyse(points),
    };
    analysis.tables.extend(generator::table(points));
    // An analysis of one server may have its own.
    let own = analysis.headline.take();
    analysis.headline = headline::headline(which, points).or(own);
    analysis
}

/// What a reader must know before believing a figure of these points.
pub fn caveats(servers: &[ServerFacts], points: &[StudyPoint]) -> Vec<String> {
    let points = Points { servers, points };
    generator::caveats(points).into_iter().chain(simulated::caveats(points)).collect()
}

/// Whether the second server of a study costs more than the first. `None` if too little was
/// measured.
pub fn judge(study: &StudyResult) -> Option<Judgement> {
    regress::judge(Points { servers: &study.servers, points: &study.points })
}
