//! Seed 004's Figures 6, 7 and 10 by a simulated processor, and why it has no Figures 8 and 9.

use posthaste_load_results::{
    Offered, ServerFacts, Simulated, SimulatedCounts, SimulatedRun, SimulatedShare, Table,
};

use super::points::{Points, figure, mix};

/// The tables; none if the study has no such step.
pub(super) fn tables(points: Points) -> impl Iterator<Item = Table> {
    let figure_10 = table(points).into_iter().chain(classes(points));
    figure_10.chain(mixes(points)).chain(causes(points)).chain(not_offered(points))
}

/// The realised mixes of both runs, and of what one has beyond the other: the figures are of
/// that. Nothing for a result of an earlier version.
fn mixes(points: Points) -> Option<Table> {
    let head = [
        "Server",
        "mix",
        "transaction",
        "Table 1 (%)",
        "what the figures are of (%)",
        "the run (%)",
        "the run of twice as many (%)",
        "drawn again in these runs",
    ];
    let mut rows = Vec::new();
    for server in points.servers {
        for simulated in &server.simulated {
            let Simulated { workload, runs, .. } = simulated;
            let [once, twice] = &runs[..] else { continue };
            let place = [server.name.clone(), mix(workload).to_owned()];
            rows.extend(twice.mix.iter().map(|part| {
                place.iter().cloned().chain(mix_row(part, once, twice)).collect::<Vec<String>>()
            }));
        }
    }
    let title = "A simulated processor: the realised mix of its runs".to_owned();
    (!rows.is_empty()).then(|| Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

/// A share that is this far from the requested one is a caveat. Fewer than a thousand
/// transactions are drawn, so smaller differences may be chance.
const OFF_REQUESTED: f64 = 0.05;

/// A sentence for each workload on each server, if its figures are of another mix than requested.
pub(super) fn caveats(points: Points) -> Vec<String> {
    let of = |(server, simulated): (&ServerFacts, &Simulated)| -> Option<String> {
        let [once, twice] = &simulated.runs[..] else { return None };
        let asked = twice.mix.iter().filter_map(|part| Some((part, part.share_asked?)));
        let shares = asked.map(|(part, asked)| (part, asked, beyond(part, once, twice)));
        let (part, asked, share) = shares.max_by(|a, b| (a.1 - a.2).abs().total_cmp(&(b.1 - b.2).abs()))?;
        ((share - asked).abs() > OFF_REQUESTED).then(|| {
            format!(
                "{} on a simulated processor, {}: the mix is not the requested one: {} has {} % in place of {} %",
                server.name,
                mix(&simulated.workload),
                part.name,
                figure(share * 100.0),
                figure(asked * 100.0)
            )
        })
    };
    let all = points.servers.iter().flat_map(|server| server.simulated.iter().map(move |s| (server, s)));
    all.filter_map(of).collect()
}

/// The share of a transaction in what the longer run has beyond the other, 0 to 1.
fn beyond(part: &SimulatedShare, once: &SimulatedRun, twice: &SimulatedRun) -> f64 {
    let before = once.mix.iter().find(|other| other.name == part.name).map_or(0, |other| other.count);
    let all = twice.transactions.saturating_sub(once.transactions).max(1);
    (part.count as f64 - before as f64) / all as f64
}

/// The cells of a transaction, after the place.
fn mix_row(part: &SimulatedShare, once: &SimulatedRun, twice: &SimulatedRun) -> [String; 6] {
    let percent = |share: f64| figure(share * 100.0);
    let before = once.mix.iter().find(|other| other.name == part.name);
    [
        part.name.clone(),
        part.share_asked.map_or("–".to_owned(), percent),
        percent(beyond(part, once, twice)),
        percent(before.map_or(0.0, |other| other.share_realised)),
        percent(part.share_realised),
        format!("{} and {}", before.map_or(0, |other| other.redrawn), part.redrawn),
    ]
}

/// Instructions, their mix and all misses.
fn table(points: Points) -> Option<Table> {
    let head = [
        "Server",
        "mix",
        "transactions",
        "instructions per transaction",
        "loads and stores (%)",
        "branches (conditional and indirect) (%)",
        "others (%)",
        "mispredicted (% of branches)",
        "L1 instruction misses per 1,000",
        "L1 data misses per 1,000",
        "last-level misses per 1,000",
    ];
    let mut rows = Vec::new();
    for server in points.servers {
        for simulated in &server.simulated {
            let mut row = vec![server.name.clone(), mix(&simulated.workload).to_owned()];
            match &simulated.counts {
                Offered::NotOffered(why) => row.push(format!("not offered here: {why}")),
                Offered::Value(counts) => row.extend(row_of(counts)),
            }
            row.resize(head.len(), String::new());
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let article = ["the article, IMAP", "both", "", "", "60", "11, of all kinds", "29", "", "", "", ""];
    rows.push(article.map(str::to_owned).to_vec());
    let title = "A simulated processor (cachegrind), user mode: instructions, their mix, misses".to_owned();
    Some(Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

fn row_of(counts: &SimulatedCounts) -> Vec<String> {
    let all = counts.instructions.max(1) as f64;
    let share = |n: u64| n as f64 / all * 100.0;
    let thousand = |n: u64| figure(n as f64 / all * 1000.0);
    let branches = counts.branches + counts.indirect_branches;
    let (memory, branching) = (share(counts.loads + counts.stores), share(branches));
    vec![
        counts.transactions.to_string(),
        figure(all / counts.transactions.max(1) as f64),
        figure(memory),
        figure(branching),
        // An instruction that loads and branches is counted in both.
        figure((100.0 - memory - branching).max(0.0)),
        figure(counts.mispredicted as f64 / branches.max(1) as f64 * 100.0),
        thousand(counts.l1_instruction_misses),
        thousand(counts.l1_data_misses),
        thousand(counts.last_level_misses),
    ]
}

/// The article's five classes of instructions, with what the simulator has of them. Nothing if the
/// study has no such step.
fn classes(points: Points) -> Option<Table> {
    if points.servers.iter().all(|server| server.simulated.is_empty()) {
        return None;
    }
    let head = ["class in Figure 10", "on the simulated processor", "the article, IMAP (%)"];
    let rows = [
        ["loads and stores", "column \"loads and stores\"", "60"],
        ["arithmetic and logic", "not offered here: \"others\" has direct jumps, too", "29, what is left"],
        [
            "unconditional branches",
            "not offered here: indirect ones alone are counted, among \"branches\"",
            "11, with the next two",
        ],
        ["conditional branches, taken", "not offered here: all conditional ones are among \"branches\"", "–"],
        ["conditional branches, not taken", "not offered here: the same", "–"],
    ];
    Some(Table {
        title: "Figure 10: the article's classes of instructions (cachegrind does not have all)".into(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.map(|row| row.map(str::to_owned).to_vec()).to_vec(),
    })
}

/// Misses of a cache by what missed it.
struct Causes {
    cache: &'static str,
    all: u64,
    instructions: u64,
    stores: u64,
}

impl Causes {
    /// Of both levels of caches; none in a result of an earlier version.
    fn of(counts: &SimulatedCounts) -> Vec<Self> {
        let first = counts.l1_store_misses.map(|stores| Self {
            cache: "first level",
            all: counts.l1_instruction_misses + counts.l1_data_misses,
            instructions: counts.l1_instruction_misses,
            stores,
        });
        let last = counts.last_level_instruction_misses.zip(counts.last_level_store_misses);
        let last = last.map(|(instructions, stores)| Self {
            cache: "last level",
            all: counts.last_level_misses,
            instructions,
            stores,
        });
        first.into_iter().chain(last).collect()
    }

    fn cells(&self) -> [String; 5] {
        let share = |n: u64| match self.all {
            0 => "–".to_owned(),
            all => figure(n as f64 / all as f64 * 100.0),
        };
        let loads = self.all.saturating_sub(self.instructions).saturating_sub(self.stores);
        let translation = "not simulated".to_owned();
        [self.cache.to_owned(), share(loads), share(self.stores), share(self.instructions), translation]
    }
}

/// Figure 7 has stall cycles by cause: here are the misses by cause. Nothing where none was
/// counted.
fn causes(points: Points) -> Option<Table> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for server in points.servers {
        for simulated in &server.simulated {
            for causes in simulated.counts.value().map_or_else(Vec::new, Causes::of) {
                let place = [server.name.clone(), mix(&simulated.workload).to_owned()];
                rows.push(place.into_iter().chain(causes.cells()).collect());
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    let article =
        ["the article, IMAP", "both", "second level, stalls", "fewer than stores", "most", "10 to 15", "20"];
    rows.push(article.map(str::to_owned).to_vec());
    let head =
        ["Server", "mix", "cache", "loads (%)", "stores (%)", "instructions (%)", "address translation (%)"];
    let title = "A simulated processor (cachegrind), user mode: misses by cause".to_owned();
    Some(Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

/// Why nothing here has what Figure 8 shows.
const NO_SOURCES: &str = "not offered here: the kernel's general counters do not show what served a miss, and \
                          cachegrind simulates one processor";

/// The same of Figure 9.
const NO_STATES: &str = "not offered here: the kernel's general counters do not show the states of cache blocks, and \
                         cachegrind has no such states";

/// Figures 8 and 9, for which the article has counters of its processor. Nothing if the study has
/// no such step.
fn not_offered(points: Points) -> Option<Table> {
    if points.servers.iter().all(|server| server.simulated.is_empty()) {
        return None;
    }
    let head = [
        "figure",
        "of",
        "misses served by memory (%)",
        "by other caches (%)",
        "blocks that enter exclusive (%)",
        "of these, written later (%)",
    ];
    let rows = [
        ["Figure 8", "all servers", NO_SOURCES, "", "", ""],
        ["Figure 8", "the article, IMAP", "75 to 85", "", "", ""],
        ["Figure 8", "the article, SPECmail", "", "85", "", ""],
        ["Figure 9", "all servers", NO_STATES, "", "", ""],
        ["Figure 9", "the article, all workloads", "", "", "13 to 84", "10 to 61"],
        ["Figure 9", "the article, IMAP", "", "", "", "fewest"],
    ];
    Some(Table {
        title: "Figures 8 and 9: sources of misses, and the exclusive state".into(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.map(|row| row.map(str::to_owned).to_vec()).to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_processor_has_a_row_beside_the_articles() {
        let counts = SimulatedCounts {
            transactions: 10,
            instructions: 1000,
            loads: 300,
            stores: 200,
            branches: 90,
            indirect_branches: 10,
            mispredicted: 5,
            l1_data_misses: 20,
            ..SimulatedCounts::default()
        };
        let of = |name: &str, counts| ServerFacts {
            name: name.into(),
            simulated: vec![Simulated {
                workload: "koka-browse-frequencies".into(),
                counts,
                ..Simulated::default()
            }],
            ..ServerFacts::default()
        };
        let servers = [of("A", Offered::Value(counts)), of("B", Offered::NotOffered("no".into()))];
        let table = table(Points { servers: &servers, points: &[] }).unwrap();
        assert_eq!(table.rows[0][1..8], ["browse", "10", "100", "50.0", "10.0", "40.0", "5.00"]);
        assert_eq!((table.rows[0][9].as_str(), table.rows[1][2].as_str()), ("20.0", "not offered here: no"));
        assert_eq!((table.rows.len(), table.rows[2][4].as_str()), (3, "60"));
        let head = &table.head;
        assert_eq!((head[5].as_str(), head.len()), ("branches (conditional and indirect) (%)", 11));
        assert!(super::table(Points { servers: &[], points: &[] }).is_none());
    }

    #[test]
    fn the_articles_classes_of_instructions_are_named_with_those_that_are_not_offered() {
        let simulated = vec![Simulated::default()];
        let servers = [ServerFacts { name: "A".into(), simulated, ..ServerFacts::default() }];
        let table = classes(Points { servers: &servers, points: &[] }).unwrap();
        let offered = table.rows.iter().map(|row| !row[1].starts_with("not offered here: "));
        assert_eq!(offered.collect::<Vec<_>>(), [true, false, false, false, false]);
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        // A study without this step.
        let servers = [ServerFacts::default()];
        assert!(classes(Points { servers: &servers, points: &[] }).is_none());
    }

    #[test]
    fn the_realised_mix_of_both_runs_is_beside_table_1() {
        let part = |name: &str, share_asked, count: u64, all: u64, redrawn| SimulatedShare {
            name: name.into(),
            share_asked,
            share_realised: count as f64 / all as f64,
            count,
            redrawn,
        };
        let run = |transactions, mix| SimulatedRun { transactions, mix, cut_after_s: None };
        let once = run(40, vec![part("MDEL", Some(0.25), 10, 40, 0), part("SEND", Some(0.8), 30, 40, 1)]);
        let twice = vec![
            part("MDEL", Some(0.25), 12, 80, 9),
            part("SEND", Some(0.8), 68, 80, 2),
            part("(trim)", None, 4, 80, 0),
        ];
        let simulated = |runs| Simulated {
            workload: "koka-manage-frequencies".into(),
            counts: Offered::Value(SimulatedCounts::default()),
            runs,
        };
        let of = |runs| {
            let simulated = vec![simulated(runs)];
            [ServerFacts { name: "A".into(), simulated, ..ServerFacts::default() }]
        };
        let servers = of(vec![once, run(80, twice)]);
        let table = mixes(Points { servers: &servers, points: &[] }).unwrap();
        let mdel = ["A", "manage", "MDEL", "25.0", "5.00", "25.0", "15.0", "0 and 9"];
        assert_eq!(table.rows[0], mdel);
        assert_eq!(table.rows[1][3..], ["80.0", "95.0", "75.0", "85.0", "1 and 2"]);
        assert_eq!(table.rows[2][2..6], ["(trim)", "–", "10.0", "0"]);
        let said = caveats(Points { servers: &servers, points: &[] });
        let expected = "A on a simulated processor, manage: the mix is not the requested one: MDEL has 5.00 % in place of \
                        25.0 %";
        assert_eq!(said, [expected]);
        let servers = of(Vec::new());
        let none = Points { servers: &servers, points: &[] };
        assert!(mixes(none).is_none() && caveats(none).is_empty());
    }

    #[test]
    fn what_no_counter_tells_says_so() {
        let simulated = vec![Simulated::default()];
        let servers = [ServerFacts { name: "A".into(), simulated, ..ServerFacts::default() }];
        let table = not_offered(Points { servers: &servers, points: &[] }).unwrap();
        let refused = table.rows.iter().filter(|row| row[2].starts_with("not offered here: "));
        let figures: Vec<&str> = refused.map(|row| row[0].as_str()).collect();
        assert_eq!(figures, ["Figure 8", "Figure 9"]);
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        // A study without this step.
        let servers = [ServerFacts::default()];
        assert!(not_offered(Points { servers: &servers, points: &[] }).is_none());
    }

    #[test]
    fn misses_are_divided_by_their_cause_and_not_guessed() {
        let counts = SimulatedCounts {
            l1_instruction_misses: 50,
            l1_data_misses: 50,
            l1_store_misses: Some(30),
            last_level_misses: 0,
            last_level_instruction_misses: Some(0),
            last_level_store_misses: Some(0),
            ..SimulatedCounts::default()
        };
        let of = |counts| ServerFacts {
            name: "A".into(),
            simulated: vec![Simulated {
                workload: "koka-manage-frequencies".into(),
                counts,
                ..Simulated::default()
            }],
            ..ServerFacts::default()
        };
        let made = |counts| causes(Points { servers: &[of(counts)], points: &[] });
        let table = made(Offered::Value(counts)).unwrap();
        let cells = ["A", "manage", "first level", "20.0", "30.0", "50.0", "not simulated"];
        assert_eq!(table.rows[0], cells);
        assert_eq!((table.rows[1][3].as_str(), table.rows[2][5].as_str()), ("–", "10 to 15"));
        // A result of an earlier version, and a server that is not simulated.
        assert!(made(Offered::Value(SimulatedCounts::default())).is_none());
        assert!(made(Offered::NotOffered("no".into())).is_none());
    }
}
