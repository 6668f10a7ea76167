//! How many rounds the cells of a study have, and when they were measured: for the first screen.

use std::collections::BTreeMap;

use posthaste_load_results::{Sitting, StudyResult};
use posthaste_load_text::figure::whole;
use posthaste_load_text::quantity::{show_duration, utc};

use crate::markup::Markup;

/// The line of one study.
pub fn line(study: &StudyResult, out: &mut Markup) {
    let said = sentences(study).join(" ");
    if !said.is_empty() {
        out.element("p", &[("class", &"quiet")], &said);
    }
}

/// `Each cell has 3 rounds. They were measured in 2 sittings: …`
fn sentences(study: &StudyResult) -> Vec<String> {
    let mut said: Vec<String> = rounds(study).into_iter().collect();
    if study.unmeasured > 0 {
        let (left, all) = (whole(study.unmeasured as u64), whole(study.planned as u64));
        said.push(format!("{left} of {all} points are still to be measured."));
    }
    said.extend(sittings(study));
    said.extend(took(study));
    said
}

/// The number of rounds of the cells.
fn rounds(study: &StudyResult) -> Option<String> {
    let mut cells: Vec<(&str, &str, &BTreeMap<String, f64>, usize)> = Vec::new();
    for point in study.points.iter().filter(|point| point.measured().is_some()) {
        let place = (point.server.as_str(), point.workload.as_str(), &point.at);
        match cells.iter_mut().find(|cell| (cell.0, cell.1, cell.2) == place) {
            Some(cell) => cell.3 += 1,
            None => cells.push((place.0, place.1, place.2, 1)),
        }
    }
    let mut by_rounds: BTreeMap<usize, usize> = BTreeMap::new();
    cells.iter().for_each(|cell| *by_rounds.entry(cell.3).or_default() += 1);
    let counts: Vec<(usize, usize)> = by_rounds.into_iter().collect();
    match counts[..] {
        [] => None,
        [(1, _)] => Some("Each cell has one round, so its spread is not known.".into()),
        [(rounds, _)] => Some(format!("Each cell has {rounds} rounds.")),
        [(least, _), .., (most, _)] => {
            let cells = |(rounds, cells): &(usize, usize)| {
                let plural = if *cells == 1 { "" } else { "s" };
                format!("{} cell{plural} {rounds}", whole(*cells as u64))
            };
            let each: Vec<String> = counts.iter().map(cells).collect();
            Some(format!("Cells have {least} to {most} rounds ({}).", each.join(", ")))
        }
    }
}

/// The times at which the points were measured.
fn sittings(study: &StudyResult) -> Option<String> {
    let started = study.points.iter().filter_map(|point| Some(point.measured()?.started_unix));
    let with_points: Vec<&Sitting> = study.sittings.iter().filter(|s| s.points > 0).collect();
    let time = |sitting: &Sitting| {
        let points = match sitting.points {
            1 => "1 point".to_owned(),
            count => format!("{} points", whole(count as u64)),
        };
        format!("{} ({points})", span(sitting.started_unix, sitting.ended_unix))
    };
    match with_points[..] {
        // A result of an earlier version.
        [] => {
            let (first, last) = (started.clone().min()?, started.max()?);
            Some(format!("The points began {}.", span(first, last)))
        }
        [one] => Some(format!(
            "All points were measured in one sitting: {}.",
            span(one.started_unix, one.ended_unix)
        )),
        _ => {
            let times: Vec<String> = with_points.iter().map(|sitting| time(sitting)).collect();
            Some(format!("They were measured in {} sittings: {}.", times.len(), times.join("; ")))
        }
    }
}

/// The time that all of it took.
fn took(study: &StudyResult) -> Option<String> {
    let took = show_duration(study.took()?);
    let so_far = if study.unmeasured > 0 { " so far" } else { "" };
    Some(format!("Filling and measuring took {took}{so_far}."))
}

/// `2026-11-26 21:04 to 22:31 UTC`.
fn span(from: u64, to: u64) -> String {
    let minute = |unix: u64| {
        let (hour, minute, _) = utc(unix).to_hms();
        format!("{hour:02}:{minute:02}")
    };
    let [first, last] = [from, to].map(|unix| utc(unix).date());
    let date = if first == last { String::new() } else { format!("{last} ") };
    format!("{first} {} to {date}{} UTC", minute(from), minute(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const NIGHT: u64 = 1_764_190_800;

    fn sitting(started_unix: u64, points: usize) -> Sitting {
        Sitting { started_unix, ended_unix: started_unix + 5_400, points, ..Sitting::default() }
    }

    #[test]
    fn rounds_and_sittings_are_in_one_line() {
        let mut study = sample::item_count(&["A", "B"]);
        study.sittings = vec![sitting(NIGHT, 15)];
        assert_eq!(
            sentences(&study).join(" "),
            "Each cell has one round, so its spread is not known. All points were measured in one sitting: \
             2025-11-26 21:00 to 22:30 UTC. Filling and measuring took 1 h 30 min."
        );
        let mut second = study.points.clone();
        second.iter_mut().for_each(|point| point.round = 1);
        study.points.extend(second.iter().cloned());
        study.sittings.extend([sitting(NIGHT + 7_200, 15), sitting(NIGHT + 9_000, 0)]);
        assert_eq!(
            sentences(&study).join(" "),
            "Each cell has 2 rounds. They were measured in 2 sittings: 2025-11-26 21:00 to 22:30 UTC (15 points); \
             2025-11-26 23:00 to 2025-11-27 00:30 UTC (15 points). Filling and measuring took 4 h 30 min."
        );
        study.points.pop();
        study.points.pop();
        (study.planned, study.unmeasured) = (32, 1);
        let said = sentences(&study).join(" ");
        assert!(
            said.starts_with("Cells have 1 to 2 rounds (1 cell 1, 14 cells 2). 1 of 32 points are still"),
            "{said}"
        );
        assert!(said.ends_with(" Filling and measuring took 4 h 30 min so far."), "{said}");
    }

    #[test]
    fn a_result_of_an_earlier_version_has_the_dates_of_its_runs() {
        let mut study = sample::item_count(&["A"]);
        for (point, start) in study.points.iter_mut().zip((NIGHT..).step_by(600)) {
            point.run.as_mut().unwrap().started_unix = start;
        }
        let said = sentences(&study).join(" ");
        assert!(said.ends_with("The points began 2025-11-26 21:00 to 22:10 UTC."), "{said}");
        study.points.clear();
        assert_eq!(sentences(&study), Vec::<String>::new());
    }
}
