//! Rounds that were measured later are added to a result. So a study that takes a day is measured
//! in several sittings.

use posthaste_load_results::{StudyPoint, StudyResult};

use crate::analysis::analyse;
use crate::file::Study;

/// Two windows are of one length if they differ by less. A window ends with the last transaction.
const WINDOW_TOLERANCE_S: f64 = 2.0;

/// Whether rounds of a study may be added to this result, which was measured on a machine.
///
/// # Errors
/// What differs.
pub fn may_add(earlier: &StudyResult, study: &Study, cpu_model: &str) -> Result<(), String> {
    let differs = |what: &str, was: &str, is: &str| {
        Err(format!("rounds are added to the same study alone: {what} was {was}, and is {is}"))
    };
    if earlier.study != study.name {
        return differs("the study", &earlier.study, &study.name);
    }
    if earlier.toml != study.source {
        return Err("rounds are added to the same study alone: its file has changed".into());
    }
    if earlier.machine.cpu_model != cpu_model {
        return differs("the processor", &earlier.machine.cpu_model, cpu_model);
    }
    Ok(())
}

/// One result of an earlier one and of rounds that were measured later. Figures are then taken over
/// the rounds of both.
///
/// # Errors
/// What differs: the servers, or how long their windows are.
pub fn add(earlier: StudyResult, study: &Study, later: StudyResult) -> Result<StudyResult, String> {
    let versions = |result: &StudyResult| -> Vec<String> {
        result.servers.iter().map(|server| format!("{} ({})", server.name, server.version)).collect()
    };
    if versions(&earlier) != versions(&later) {
        let [was, is] = [&earlier, &later].map(|result| versions(result).join(", "));
        return Err(format!("the servers were {was}, and are {is}"));
    }
    if let (Some(was), Some(is)) = (window_s(&earlier.points), window_s(&later.points))
        && (was - is).abs() > WINDOW_TOLERANCE_S
    {
        return Err(format!("windows had {was:.0} s, and have {is:.0} s"));
    }
    let first = earlier.points.iter().map(|point| point.round + 1).max().unwrap_or(0);
    let StudyResult { mut points, mut caveats, servers, .. } = earlier;
    points.extend(later.points.into_iter().map(|point| StudyPoint { round: first + point.round, ..point }));
    for caveat in later.caveats {
        if !caveats.contains(&caveat) {
            caveats.push(caveat);
        }
    }
    caveats.push(format!("rounds from {} on were added by: {}", first + 1, later.command.join(" ")));
    Ok(StudyResult {
        analysis: analyse(study.analysis, &servers, &points),
        points,
        caveats,
        servers,
        ..earlier
    })
}

/// The length of the windows of some points, by the first that was measured.
fn window_s(points: &[StudyPoint]) -> Option<f64> {
    let run = points.iter().find_map(|point| point.run.as_ref().ok())?;
    Some(run.window.end_s - run.window.start_s)
}
