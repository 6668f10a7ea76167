//! The savings of smaller folders. The cost of each command is a line through its mean costs in
//! folders of each size, over all accounts.

use std::collections::BTreeMap;

use posthaste_metrics::{FolderSize, Line};
use serde_json::{Value, json};

use super::served::{OfCommand, Sums, Use, class_of};

/// Commands that a folder size has at least if its mean counts. One slow command among nine others
/// moves the mean of ten by a tenth of its own cost.
pub const COMMANDS_LEAST: u64 = 10;

/// The curves of all commands, by protocol and name.
pub struct Curves(BTreeMap<(String, String), Curve>);

/// The cost of one command by the messages of its folder, in nanoseconds.
#[derive(Debug, Default)]
pub struct Curve {
    /// `None` with fewer than two folder sizes that count.
    pub line: Option<Line>,
    /// Folder sizes that count.
    pub sizes: usize,
    /// Folder sizes with fewer than [`COMMANDS_LEAST`] commands.
    pub left_out: usize,
    /// The distance of the means from the line: the root mean square over the commands, as a part
    /// of the mean cost. `None` with fewer than three sizes: a line fits any two.
    pub spread: Option<f64>,
}

/// CPU time now, and with smaller folders, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saving {
    pub now: f64,
    pub then: f64,
    /// The part of `now` that was used in larger folders by commands without a line. It is in
    /// `then`, too.
    pub unknown: f64,
}

impl Saving {
    /// The part that is saved, in percent.
    pub fn percent(&self) -> f64 {
        if self.now > 0.0 { 100.0 * (self.now - self.then) / self.now } else { 0.0 }
    }

    /// In seconds.
    pub fn as_json(&self) -> Value {
        json!({"cpu_s": self.now / 1e9, "then_s": self.then / 1e9, "unknown_s": self.unknown / 1e9})
    }
}

impl Curves {
    pub fn of(commands: &[OfCommand]) -> Self {
        let mut sizes = BTreeMap::<(String, String), Vec<&Sums>>::new();
        for OfCommand { protocol, command, folder, sums } in commands {
            let has_folder = class_of(folder).is_some_and(|class| class != FolderSize::None);
            if has_folder && sums.commands > 0 {
                sizes.entry((protocol.clone(), command.clone())).or_default().push(sums);
            }
        }
        Self(sizes.into_iter().map(|(name, sizes)| (name, Curve::of(&sizes))).collect())
    }

    /// `None` for a command that had no folder.
    pub fn get(&self, protocol: &str, command: &str) -> Option<&Curve> {
        self.0.get(&(protocol.to_owned(), command.to_owned()))
    }

    /// The savings if no folder had more messages than this.
    pub fn cut<'u>(&self, uses: impl IntoIterator<Item = &'u Use>, most: u32) -> Saving {
        let mut saving = Saving::default();
        for used in uses {
            let (cpu, messages) = (used.cpu_ns as f64, used.messages());
            let line = self.get(&used.protocol, &used.command).and_then(|curve| curve.line);
            let left = match line {
                _ if messages <= f64::from(most) => 1.0,
                Some(line) => left(line, messages, f64::from(most)),
                None => {
                    saving.unknown += cpu;
                    1.0
                }
            };
            saving.now += cpu;
            saving.then += cpu * left;
        }
        saving
    }
}

impl Curve {
    /// Through the means of folder sizes.
    fn of(sizes: &[&Sums]) -> Self {
        let point = |sums: &&Sums| {
            let commands = sums.commands as f64;
            (sums.folder_messages as f64 / commands, sums.cpu_ns as f64 / commands, commands)
        };
        let counts = sizes.iter().filter(|sums| sums.commands >= COMMANDS_LEAST);
        let points: Vec<(f64, f64, f64)> = counts.map(point).collect();
        let line = Line::through(&points);
        let spread = line.filter(|_| points.len() > 2).map(|line| spread(&line, &points));
        Self { line, sizes: points.len(), left_out: sizes.len() - points.len(), spread }
    }
}

/// The part of a command's cost that is left in a smaller folder.
fn left(line: Line, messages: f64, most: f64) -> f64 {
    let (now, then) = (line.at(messages), line.at(most));
    if now > 0.0 { (then / now).clamp(0.0, 1.0) } else { 1.0 }
}

fn spread(line: &Line, points: &[(f64, f64, f64)]) -> f64 {
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let weight = sum(&|point| point.2);
    let mean = sum(&|point| point.2 * point.1) / weight;
    let square = sum(&|point| point.2 * (point.1 - line.at(point.0)).powi(2)) / weight;
    if mean > 0.0 { square.sqrt() / mean } else { 0.0 }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Commands in a folder size that each cost this many nanoseconds.
    pub fn mean(command: &str, folder: &str, commands: u64, messages: u64, each_ns: u64) -> OfCommand {
        let sums = Sums {
            cpu_ns: each_ns * commands,
            commands,
            folder_messages: messages * commands,
            ..Sums::default()
        };
        OfCommand {
            protocol: "imap".to_owned(),
            command: command.to_owned(),
            folder: folder.to_owned(),
            sums,
        }
    }

    pub fn used(command: &str, folder: &str, inbox: bool, commands: u64, messages: u64, cpu_ns: u64) -> Use {
        Use {
            protocol: "imap".to_owned(),
            command: command.to_owned(),
            folder: folder.to_owned(),
            inbox,
            cpu_ns,
            commands,
            folder_messages: messages * commands,
        }
    }

    /// FETCH costs 1 ms and 1 ms for every 10,000 messages. NOOP costs the same in any folder.
    /// Folders have fewer messages than the bound of their class.
    pub fn commands() -> Vec<OfCommand> {
        vec![
            mean("FETCH", "none", 500, 0, 77),
            mean("FETCH", "10000", 10, 8_000, 1_800_000),
            mean("FETCH", "50000", 20, 30_000, 4_000_000),
            mean("FETCH", "100000", 100, 60_000, 7_000_000),
            mean("NOOP", "1000", 10, 500, 50_000),
            mean("NOOP", "100000", 10, 60_000, 50_000),
            mean("SEARCH", "1000", 9, 500, 1_000),
            mean("SEARCH", "100000", 90, 60_000, 9_000_000),
        ]
    }

    #[test]
    fn each_command_saves_what_its_own_line_says() {
        let curves = Curves::of(&commands());
        let share = |used: Use| curves.cut([&used], 10_000).percent();
        assert!((share(used("FETCH", "100000", true, 7, 60_000, 49_000_000)) - 500.0 / 7.0).abs() < 1e-6);
        assert!(share(used("NOOP", "100000", true, 7, 60_000, 350_000)).abs() < 1e-6);
        // A folder of the same class that is small enough saves nothing.
        assert_eq!(share(used("FETCH", "10000", true, 7, 8_000, 9_000_000)), 0.0);
        let fetch = curves.get("imap", "FETCH").unwrap();
        assert!(fetch.sizes == 3 && fetch.spread.unwrap() < 1e-9, "{fetch:?}");
        let noop = curves.get("imap", "NOOP").unwrap();
        assert_eq!((noop.sizes, noop.spread), (2, None));
    }

    #[test]
    fn too_little_data_is_no_line() {
        let curves = Curves::of(&commands());
        // Nine commands in one of the sizes are too few.
        let search = curves.get("imap", "SEARCH").unwrap();
        assert!(search.line.is_none() && (search.sizes, search.left_out) == (1, 1), "{search:?}");
        let uses =
            [used("SEARCH", "100000", true, 2, 60_000, 800), used("SORT", "100000", true, 1, 60_000, 200)];
        let saving = curves.cut(&uses, 10_000);
        assert_eq!((saving.now, saving.then, saving.unknown), (1_000.0, 1_000.0, 1_000.0));
        // It is known that a folder that is small enough saves nothing.
        assert_eq!(curves.cut(&uses, 60_000).unknown, 0.0);
    }

    #[test]
    fn the_spread_is_the_distance_from_the_line() {
        let off = |each| {
            [
                mean("FETCH", "1000", 10, 1_000, 100),
                mean("FETCH", "5000", 10, 2_000, each),
                mean("FETCH", "10000", 10, 3_000, 300),
            ]
        };
        let spread = |each| Curves::of(&off(each)).get("imap", "FETCH").unwrap().spread.unwrap();
        assert!(spread(200) < 1e-9);
        // The line is 10 above two means and 20 below the third.
        assert!((spread(230) - 200_f64.sqrt() / 210.0).abs() < 1e-6, "{}", spread(230));
    }

    /// Where a line would begin below zero, it begins at zero.
    #[test]
    fn no_cost_is_negative() {
        let curves = Curves::of(&[
            mean("FETCH", "1000", 10, 1_000, 1_000_000),
            mean("FETCH", "10000", 10, 10_000, 100_000_000),
        ]);
        let saving = curves.cut(&[used("FETCH", "10000", false, 1, 10_000, 1_000_000)], 500);
        assert!(saving.then > 0.04 * saving.now, "{saving:?}");
    }
}
