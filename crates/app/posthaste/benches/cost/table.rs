//! The table of results.

/// Nanoseconds in a millisecond.
pub const MS: f64 = 1e6;

/// One row of the table.
struct Row {
    name: String,
    reach: &'static str,
    unit: &'static str,
    /// The divisor that brings one run to `unit`.
    per: f64,
    least: f64,
    wall: f64,
    /// The least CPU of each round. Rounds without this row are missing.
    rounds: Vec<(usize, f64)>,
}

/// The rows of one build.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
    /// The round that is being measured.
    round: usize,
}

impl Table {
    /// What is taken from now on belongs to this round.
    pub fn begin_round(&mut self, round: usize) {
        self.round = round;
    }

    /// Takes one run of a row; the least counts.
    pub fn take(
        &mut self,
        name: &str,
        reach: &'static str,
        unit: &'static str,
        per: f64,
        (cpu_ns, wall_ns): (u64, u64),
    ) {
        let at = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let (least, wall, rounds) = (f64::MAX, f64::MAX, Vec::new());
            self.rows.push(Row { name: name.to_owned(), reach, unit, per, least, wall, rounds });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        let cpu = cpu_ns as f64 / row.per;
        row.least = row.least.min(cpu);
        row.wall = row.wall.min(wall_ns as f64 / row.per);
        match row.rounds.last_mut() {
            Some((round, least)) if *round == self.round => *least = least.min(cpu),
            _ => row.rounds.push((self.round, cpu)),
        }
    }

    pub fn print(&self) {
        println!("| operation | server CPU | wall | reach |\n| --- | --- | --- | --- |");
        for row in &self.rows {
            println!("| {} | {} | {} | {} |", row.name, row.cpu(), row.wall(), row.reach);
        }
    }

    /// The same rows of two builds. The ratio is over 1 where this build costs more: the median of
    /// the rounds, each with its own pair, and their quartiles.
    pub fn print_beside(&self, baseline: &Self) {
        println!("| operation | CPU, baseline | CPU, this | ratio | wall, baseline | wall, this |");
        println!("| --- | --- | --- | --- | --- | --- |");
        for row in &self.rows {
            let Some(before) = baseline.rows.iter().find(|b| b.name == row.name) else { continue };
            let ratio = row.ratio_to(before);
            let (cpu, wall) = ((before.cpu(), row.cpu()), (before.wall(), row.wall()));
            println!("| {} | {} | {} | {ratio} | {} | {} |", row.name, cpu.0, cpu.1, wall.0, wall.1);
        }
    }
}

impl Row {
    /// The ratio of the CPU of this row to that of a baseline. Empty if no round has both.
    fn ratio_to(&self, baseline: &Self) -> String {
        let before = |round| baseline.rounds.iter().find(|(of, _)| *of == round).map(|(_, cpu)| *cpu);
        let pair = |(round, cpu): &(usize, f64)| before(*round).filter(|cpu| *cpu > 0.0).map(|of| cpu / of);
        let mut ratios: Vec<f64> = self.rounds.iter().filter_map(pair).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |quarter: usize| ratios.get(ratios.len() * quarter / 4).copied();
        match [at(1), at(2), at(3)] {
            [Some(low), Some(middle), Some(high)] => format!("{middle:.3} ({low:.3}–{high:.3})"),
            _ => String::new(),
        }
    }

    fn cpu(&self) -> String {
        self.in_unit(self.least)
    }

    fn wall(&self) -> String {
        self.in_unit(self.wall)
    }

    /// Empty for 0: a wait takes no CPU time, and nobody waits for work in the background.
    fn in_unit(&self, n: f64) -> String {
        if n == 0.0 {
            return String::new();
        }
        let number = match n {
            0.0..10.0 => format!("{n:.3}"),
            10.0..100.0 => format!("{n:.1}"),
            _ => format!("{n:.0}"),
        };
        format!("{number} {}", self.unit)
    }
}
