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
}

#[derive(Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// Takes one run of a row; the least counts.
    pub fn take(
        &mut self,
        name: &str,
        reach: &'static str,
        unit: &'static str,
        per: f64,
        (cpu_ns, wall_ns): (u64, u64),
    ) {
        let at = self.0.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let row = Row { name: name.to_owned(), reach, unit, per, least: f64::MAX, wall: f64::MAX };
            self.0.push(row);
            self.0.len() - 1
        });
        let row = &mut self.0[at];
        row.least = row.least.min(cpu_ns as f64 / row.per);
        row.wall = row.wall.min(wall_ns as f64 / row.per);
    }

    pub fn print(&self) {
        println!("| operation | server CPU | wall | reach |\n| --- | --- | --- | --- |");
        for row in &self.0 {
            println!("| {} | {} | {} | {} |", row.name, row.cpu(), row.wall(), row.reach);
        }
    }

    /// The same rows of two builds. The ratio is over 1 where this build costs more.
    pub fn print_beside(&self, baseline: &Self) {
        println!("| operation | CPU, baseline | CPU, this | ratio | wall, baseline | wall, this |");
        println!("| --- | --- | --- | --- | --- | --- |");
        for row in &self.0 {
            let Some(before) = baseline.0.iter().find(|b| b.name == row.name) else { continue };
            let ratio = match before.least {
                0.0 => String::new(),
                least => format!("{:.3}", row.least / least),
            };
            let (cpu, wall) = ((before.cpu(), row.cpu()), (before.wall(), row.wall()));
            println!("| {} | {} | {} | {ratio} | {} | {} |", row.name, cpu.0, cpu.1, wall.0, wall.1);
        }
    }
}

impl Row {
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
