//! Seed 004's Figures 6 to 10 by a simulated processor.

use posthaste_load_results::{Offered, SimulatedCounts, Table};

use super::points::{Points, figure, mix};

/// The tables; none if the study has no such step.
pub(super) fn tables(points: Points) -> impl Iterator<Item = Table> {
    table(points).into_iter().chain(causes(points))
}

/// Instructions, their mix and all misses.
fn table(points: Points) -> Option<Table> {
    let head = [
        "Server",
        "mix",
        "transactions",
        "instructions per transaction",
        "loads and stores (%)",
        "branches (%)",
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
    let article = ["the article, IMAP", "both", "", "", "60", "11", "29", "", "", "", ""];
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

#[cfg(test)]
mod tests {
    use posthaste_load_results::{ServerFacts, Simulated};

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
            simulated: vec![Simulated { workload: "koka-browse-frequencies".into(), counts }],
            ..ServerFacts::default()
        };
        let servers = [of("A", Offered::Value(counts)), of("B", Offered::NotOffered("no".into()))];
        let table = table(Points { servers: &servers, points: &[] }).unwrap();
        assert_eq!(table.rows[0][1..8], ["browse", "10", "100", "50.0", "10.0", "40.0", "5.00"]);
        assert_eq!((table.rows[0][9].as_str(), table.rows[1][2].as_str()), ("20.0", "not offered here: no"));
        assert_eq!((table.rows.len(), table.rows[2][4].as_str()), (3, "60"));
        assert!(super::table(Points { servers: &[], points: &[] }).is_none());
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
            simulated: vec![Simulated { workload: "koka-manage-frequencies".into(), counts }],
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
