//! The server's cost, which each generator may have measured, used once.

use super::overlap::Axis;
use super::part::Part;
use crate::{Offered, RunResult, ServerCost};

/// The largest difference of two generators' readings without a caveat: their windows begin and
/// end at other moments of the same second.
const SPREAD_MAX: f64 = 0.05;

/// The reading of the server's cost that is used.
pub struct ChosenReading<'a> {
    /// The part whose reading is used; `None` if none watched the server.
    pub part: Option<&'a Part>,
    /// The caveats of these figures.
    pub caveats: Vec<String>,
}

/// Processors that the server used.
pub fn cpus(cost: &ServerCost) -> f64 {
    (cost.cpu_user_s + cost.cpu_system_s) / cost.seconds.max(1e-3)
}

/// Chooses the reading whose window is nearest to the common one. All windows contain that one.
pub fn choose_reading<'a>(parts: &'a [Part], axis: &Axis) -> ChosenReading<'a> {
    let beyond = |p: &Part| (axis.start_s - p.start_s()).abs() + (p.end_s() - axis.end_s).abs();
    let watched = || parts.iter().filter_map(|p| Some((p, p.run.server.as_ref()?)));
    let Some((part, cost)) = watched().min_by(|a, b| beyond(a.0).total_cmp(&beyond(b.0))) else {
        return ChosenReading { part: None, caveats: Vec::new() };
    };
    let own = cpus(cost);
    let apart =
        |(_, other): (&Part, &ServerCost)| if own > 0.0 { (cpus(other) / own - 1.0).abs() } else { 0.0 };
    let spread = watched().map(apart).fold(0.0, f64::max);
    let mut caveats = vec![format!(
        "the server's cost is what {} measured; {} of {} generators watched the server, and differ from it by {:.1} % at \
         most",
        part.name,
        watched().count(),
        parts.len(),
        spread * 100.0
    )];
    if spread > SPREAD_MAX {
        let each: Vec<String> = watched().map(|(p, cost)| format!("{} {:.3}", p.name, cpus(cost))).collect();
        caveats.push(format!(
            "the generators do not agree on the server's CPU within {:.0} %, in processors: {}",
            SPREAD_MAX * 100.0,
            each.join(", ")
        ));
    }
    let blind: Vec<&str> = parts.iter().filter(|p| p.run.server.is_none()).map(|p| p.name.as_str()).collect();
    if !blind.is_empty() {
        caveats.push(format!(
            "{} did not watch the server, and did not count its sessions and messages: there is no cost of a session and of \
             a message; give all generators --agent",
            blind.join(", ")
        ));
    }
    ChosenReading { part: Some(part), caveats }
}

/// Enters the server's cost and the generators' into the merged result, by what all did.
pub fn enter(all: &mut RunResult, parts: &[Part], reading: &ChosenReading) {
    all.server = reading.part.and_then(|p| p.run.server.clone());
    let watched_by_all = parts.iter().all(|p| p.run.server.is_some());
    let rate = |of: fn(&ServerCost) -> u64| {
        parts.iter().filter_map(|p| Some(of(p.run.server.as_ref()?) as f64 / p.seconds())).sum::<f64>()
    };
    let sum =
        |of: fn(&ServerCost) -> u64| parts.iter().filter_map(|p| p.run.server.as_ref()).map(of).sum::<u64>();
    let (sessions, messages) = (rate(|s| s.sessions), rate(|s| s.messages));
    if let Some(server) = &mut all.server {
        server.sessions = sum(|s| s.sessions);
        server.messages = sum(|s| s.messages);
        // By rates: each generator counted in its own window.
        let each_second = server.megacycles / server.seconds.max(1e-3);
        let per = |rate: f64| (rate > 0.0).then(|| each_second / rate);
        server.megacycles_per_session = per(sessions).filter(|_| watched_by_all);
        server.megacycles_per_message = per(messages).filter(|_| watched_by_all);
        server.megacycles_per_transaction = per(all.total.rate_per_s);
    }
    own_cost(all, parts);
    let counted = |p: &Part| p.run.counted.clone().filter(|c| matches!(c, Offered::Value(_)));
    all.counted = reading
        .part
        .and_then(counted)
        .or_else(|| parts.iter().find_map(counted))
        .or_else(|| parts.iter().find_map(|p| p.run.counted.clone()));
}

/// The cost of all generators together.
fn own_cost(all: &mut RunResult, parts: &[Part]) {
    let own = |of: fn(&crate::GeneratorCost) -> f64| parts.iter().map(|p| of(&p.run.generator)).sum::<f64>();
    let (user, system) = (own(|g| g.cpu_user_s), own(|g| g.cpu_system_s));
    let cpus_of = |p: &Part| (p.run.generator.cpu_user_s + p.run.generator.cpu_system_s) / p.seconds();
    let server = all.server.as_ref().map(cpus).filter(|cpus| *cpus > 0.0);
    let late = parts.iter().filter_map(|p| p.run.generator.late_p99_ms);
    all.generator = crate::GeneratorCost {
        cpu_user_s: user,
        cpu_system_s: system,
        cpu_us_per_transaction: (all.total.count > 0).then(|| (user + system) * 1e6 / all.total.count as f64),
        share_of_server: server.map(|server| parts.iter().map(cpus_of).sum::<f64>() / server),
        rss_max_bytes: parts.iter().map(|p| p.run.generator.rss_max_bytes).sum(),
        late_p99_ms: late.fold(None, |most: Option<f64>, ms| Some(most.map_or(ms, |most| most.max(ms)))),
        // Each machine has its own: a sum would describe no machine.
        other_cpus: None,
    };
}
