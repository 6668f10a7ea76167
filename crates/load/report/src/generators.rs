//! The generators of a merged result: what each did, what it cost, and when its window was.

use posthaste_load_results::{GeneratorResult, Offered, RunResult};
use posthaste_load_text::figure::{bytes, figure, percent, whole};

use crate::markup::Markup;
use crate::table::{Cell, Table, faults};

/// A table with a row for each generator; nothing for a result of one.
pub fn section(run: &RunResult, out: &mut Markup) {
    if run.generators.is_empty() {
        return;
    }
    out.element("h3", &[], "Generators");
    if let Some(common) = run.settings.get("common window") {
        out.element("p", &[("class", &"quiet")], &format!("Common window: {common}."));
    }
    work(&run.generators).draw(out);
    machines(&run.generators).draw(out);
}

/// The work and the cost of each generator.
fn work(generators: &[GeneratorResult]) -> Table {
    let mut table = Table::new(&[
        "Generator",
        "users",
        "transactions",
        "per s",
        "mean ms",
        "50 %",
        "99 %",
        "errors",
        "CPU s",
        "µs each",
        "memory",
        "other work there",
        "server's processors",
    ]);
    for one in generators {
        let (total, cost) = (&one.total, &one.cost);
        let time = |ms: f64| Cell::from(if total.count > 0 { figure(ms) } else { "–".into() });
        let maybe = |value: Option<f64>| Cell::from(value.map_or("–".into(), figure));
        table.rows.push(vec![
            one.name.clone().into(),
            whole(u64::from(one.clients)).into(),
            whole(total.count).into(),
            figure(total.rate_per_s).into(),
            time(total.mean_ms),
            time(total.p50_ms),
            time(total.p99_ms),
            faults(total.errors),
            figure(cost.cpu_user_s + cost.cpu_system_s).into(),
            maybe(cost.cpu_us_per_transaction),
            bytes(cost.rss_max_bytes).into(),
            cost.other_cpus
                .map_or("–".into(), |cpus| percent(cpus / f64::from(one.machine.cpus.max(1))).into()),
            maybe(one.server_cpus),
        ]);
    }
    table
}

/// The machine, the accounts and the clock of each generator.
fn machines(generators: &[GeneratorResult]) -> Table {
    let row = |one: &GeneratorResult| {
        let utc = match &one.clock.utc_bound_s {
            Offered::Value(seconds) => format!("{} ms from UTC at most", figure(seconds * 1e3)),
            Offered::NotOffered(why) => format!("distance from UTC unknown: {why}"),
        };
        let text = format!(
            "accounts {}; window from {:.2} s to {:.2} s by {} (read within {} ms; {utc}); {} processors, {}, {}",
            one.users,
            one.start_s,
            one.end_s,
            one.clock.reference,
            figure(one.clock.reading_bound_s * 1e3),
            one.machine.cpus,
            one.machine.cpu_model,
            one.machine.kernel
        );
        (one.name.clone(), text)
    };
    Table::words(generators.iter().map(row).collect())
}

/// A line for each generator, at the end of a merge.
pub fn lines(run: &RunResult) -> String {
    let line = |one: &GeneratorResult| {
        format!(
            "generator {}: {} users, {} transactions, {:.1}/s, p99 {:.2} ms, {} errors, {:.2} s CPU\n",
            one.name,
            one.clients,
            one.total.count,
            one.total.rate_per_s,
            one.total.p99_ms,
            one.total.errors,
            one.cost.cpu_user_s + one.cost.cpu_system_s
        )
    };
    run.generators.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Results, Summary};

    use super::*;
    use crate::{html, sample};

    #[test]
    fn a_merged_result_names_its_generators() {
        let mut run = sample::run("Posthaste", 90, 1.0);
        assert_eq!(lines(&run), "");
        let one = |name: &str, count: u64| GeneratorResult {
            name: name.into(),
            command: vec!["posthaste-load".into(), "run".into(), "--out".into(), name.into()],
            users: format!("{name}{{0..9}}"),
            clients: 10,
            total: Summary { count, ..Summary::default() },
            ..GeneratorResult::default()
        };
        run.generators = vec![one("east", 1234), one("west", 77)];
        run.settings.insert("common window".into(), "9.9 s of 10.0 s".into());
        let page = html(&[Results::Run(Box::new(run.clone()))]);
        for wanted in [
            "Generators</h3>",
            "Common window: 9.9 s of 10.0 s.",
            "east</",
            "1,234",
            "accounts west{0..9}",
            "posthaste-load run --out west",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert!(lines(&run).starts_with("generator east: 10 users, 1234 transactions"));
        let alone = html(&[Results::Run(Box::new(sample::run("Posthaste", 90, 1.0)))]);
        assert!(!alone.contains("Generators</h3>"));
    }
}
