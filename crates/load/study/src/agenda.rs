//! Everything that a study measures: each place on each server in each round, and their order.
//!
//! Points of several sittings are put together by it. The result does not depend on which points
//! were measured in which sitting.

use std::collections::BTreeMap;

use posthaste_load_results::StudyPoint;

use crate::file::Study;
use crate::plan::Plan;

/// The swept values and the workload of a point.
#[derive(Clone, Debug, PartialEq)]
struct SweptPoint {
    workload: String,
    at: BTreeMap<String, f64>,
}

/// The agenda of a study: all its points.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    servers: Vec<String>,
    places: Vec<SweptPoint>,
    rounds: u32,
}

impl Agenda {
    /// The points of a study on servers with these names.
    pub(crate) fn of(study: &Study, plan: &Plan, servers: Vec<String>) -> Self {
        let mut places: Vec<SweptPoint> = Vec::new();
        for point in plan.stages.iter().flat_map(|stage| &stage.points) {
            let place = SweptPoint { workload: point.name(study).to_owned(), at: point.at.clone() };
            // A value that a file names twice is measured once.
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Self { servers, places, rounds: study.rounds }
    }

    /// Points of all servers and rounds.
    pub(crate) fn planned(&self) -> usize {
        self.servers.len() * self.places.len() * self.rounds as usize
    }

    /// Points that are not measured yet. A place that a server cannot be measured at is not among
    /// them.
    pub(crate) fn unmeasured(&self, points: &[StudyPoint]) -> usize {
        self.servers.iter().map(|server| self.unmeasured_of(points, server)).sum()
    }

    fn unmeasured_of(&self, points: &[StudyPoint], server: &str) -> usize {
        let left = |place: &SweptPoint| {
            let mut here = points.iter().filter(|p| p.server == server && place.is_of(p));
            let done = here.clone().filter(|p| p.measured().is_some()).count();
            match here.any(|p| p.run.is_err()) {
                true => 0,
                false => (self.rounds as usize).saturating_sub(done),
            }
        };
        self.places.iter().map(left).sum()
    }

    /// Whether each point of a server was measured.
    pub(crate) fn is_complete(&self, points: &[StudyPoint], server: &str) -> bool {
        let measured = points.iter().filter(|p| p.server == server && p.measured().is_some());
        measured.count() >= self.places.len() * self.rounds as usize
    }

    /// Puts a point in its place. It replaces one that could not be measured, but not one that
    /// was measured.
    pub(crate) fn put(&self, points: &mut Vec<StudyPoint>, point: StudyPoint) {
        let same = |p: &StudyPoint| {
            p.round == point.round
                && p.server == point.server
                && p.workload == point.workload
                && p.at == point.at
        };
        match points.iter_mut().find(|p| same(p)) {
            Some(known) if known.measured().is_some() => {}
            Some(known) => *known = point,
            None => {
                let position = self.position(&point);
                let at = points.partition_point(|p| self.position(p) <= position);
                points.insert(at, point);
            }
        }
    }

    /// Sorts points, and leaves out those that Ctrl-C ended.
    pub(crate) fn sorted(&self, mut points: Vec<StudyPoint>) -> Vec<StudyPoint> {
        points.retain(|p| p.run.is_err() || p.measured().is_some());
        points.sort_by_key(|p| self.position(p));
        points
    }

    /// The position of a point among all: rounds one after the other, another server first in
    /// each.
    fn position(&self, point: &StudyPoint) -> (u32, usize, usize) {
        let place = self.places.iter().position(|place| place.is_of(point)).unwrap_or(usize::MAX);
        let servers = self.servers.len().max(1);
        let server = self.servers.iter().position(|s| *s == point.server).unwrap_or(0);
        let turn = (server + servers - point.round as usize % servers) % servers;
        (point.round, place, turn)
    }
}

impl SweptPoint {
    fn is_of(&self, point: &StudyPoint) -> bool {
        self.workload == point.workload && self.at == point.at
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::sample;
    use crate::{Length, load};

    /// Points of koka's quick version: seven in each of two mixes, on three servers, three times.
    const ALL: usize = 7 * 2 * 3 * 3;

    fn agenda() -> Agenda {
        let mut study = load("koka", Length::Quick).unwrap();
        study.rounds = 3;
        let plan = Plan::of(&study, 2);
        Agenda::of(&study, &plan, ["A", "B", "C"].map(str::to_owned).to_vec())
    }

    fn all(agenda: &Agenda) -> Vec<StudyPoint> {
        let mut points = Vec::new();
        for round in 0..agenda.rounds {
            for (number, place) in agenda.places.iter().enumerate() {
                for server in &agenda.servers {
                    let run = sample::run(number as f64, 1 + u64::from(round));
                    let point = sample::point(server, &[], run);
                    let (workload, at) = (place.workload.clone(), place.at.clone());
                    points.push(StudyPoint { round, workload, at, ..point });
                }
            }
        }
        points
    }

    fn text(points: &[StudyPoint]) -> String {
        format!("{points:?}")
    }

    fn whole(agenda: &Agenda) -> Vec<StudyPoint> {
        let mut points = Vec::new();
        all(agenda).into_iter().for_each(|point| agenda.put(&mut points, point));
        points
    }

    #[test]
    fn servers_alternate_and_points_are_counted() {
        let agenda = agenda();
        let points = whole(&agenda);
        assert_eq!((points.len(), agenda.planned(), agenda.unmeasured(&points)), (ALL, ALL, 0));
        let first = |round: u32| points.iter().find(|p| p.round == round).unwrap().server.as_str();
        assert_eq!([first(0), first(1), first(2)], ["A", "B", "C"]);
        assert!(agenda.is_complete(&points, "A") && !agenda.is_complete(&points[1..], "A"));
        assert_eq!(agenda.unmeasured(&points[..ALL - 10]), 10);
    }

    #[test]
    fn failed_points_are_measured_again_and_complete_ones_are_kept() {
        let agenda = agenda();
        let mut points = whole(&agenda);
        let measured = points[0].clone();
        agenda.put(&mut points, StudyPoint { run: Err("no".into()), ..measured.clone() });
        assert!(points[0].run.is_ok());
        points[0].run = Err("no".into());
        assert_eq!((agenda.unmeasured(&points), agenda.is_complete(&points, "A")), (0, false));
        agenda.put(&mut points, measured.clone());
        assert_eq!(text(&points), text(&whole(&agenda)));
        points[0].run.as_mut().unwrap().outcome.interrupted = true;
        let kept = agenda.sorted(points);
        assert_eq!((kept.len(), agenda.unmeasured(&kept)), (ALL - 1, 1));
    }

    properties! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Any points of an earlier sitting, and the others in any order, are the whole.
        #[test]
        fn any_part_and_the_rest_are_the_whole(
            order in Just((0..ALL).collect::<Vec<_>>()).prop_shuffle(),
            earlier in 0..=ALL,
        ) {
            let agenda = agenda();
            let all = all(&agenda);
            let pick = |at: &usize| all[*at].clone();
            let mut points = agenda.sorted(order[..earlier].iter().map(pick).collect());
            prop_assert_eq!(agenda.unmeasured(&points), ALL - earlier);
            order[earlier..].iter().map(pick).for_each(|point| agenda.put(&mut points, point));
            prop_assert_eq!(text(&points), text(&whole(&agenda)));
        }
    }
}
