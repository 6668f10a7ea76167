//! The server's own counts in the window of a run.

use posthaste_load_results::{Amounts, Counted, Offered, RunResult};
use posthaste_load_text::figure::{bytes, figure, whole};

use crate::markup::Markup;
use crate::paths::without_folders;
use crate::table::{Cell, Table};

/// Rows of the table of commands: the costliest. `results.json` has all.
const COMMANDS_SHOWN: usize = 20;
/// Client programs named.
const CLIENTS_SHOWN: usize = 5;

/// The section, if the server's own figures were read.
pub fn section(run: &RunResult, out: &mut Markup) {
    let Some(counted) = &run.counted else { return };
    out.element("h3", &[], "What the server itself counted");
    match counted {
        Offered::NotOffered(why) => {
            out.element("p", &[("class", &"quiet")], &format!("not offered here: {}", without_folders(why)));
        }
        Offered::Value(counted) => {
            sums(counted, run.clients, out);
            commands(counted, out);
        }
    }
}

fn sums(counted: &Counted, users: u32, out: &mut Markup) {
    let total = counted.total();
    let each = |n: u64| {
        let rate = counted.per_user(n, users).map_or("–".to_owned(), figure);
        format!("{} in all, {rate} a second and user", whole(n))
    };
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("Read at", format!("{}, {} s apart", without_folders(&counted.source), figure(counted.seconds))),
        row("Accounts at work", whole(counted.accounts)),
        row("Store operations", each(total.store_operations())),
        row("Records of messages read", each(total.record_reads)),
        row("Directory look-ups", each(total.directory_reads)),
        row("Conversions of rich mail", each(total.conversions)),
    ];
    let threads: Vec<String> =
        counted.threads.iter().map(|t| format!("{} {} s", t.role, figure(t.cpu_s))).collect();
    if !threads.is_empty() {
        rows.push(row("CPU by role of threads", threads.join("; ")));
    }
    let clients = counted.clients.iter().take(CLIENTS_SHOWN);
    let clients: Vec<String> =
        clients.map(|c| format!("{} {} commands", c.client, whole(c.amounts.commands))).collect();
    if !clients.is_empty() {
        rows.push(row("Client programs", clients.join("; ")));
    }
    Table::words(rows).draw(out);
}

fn commands(counted: &Counted, out: &mut Markup) {
    let head = [
        "Command",
        "folder up to",
        "count",
        "CPU s",
        "CPU ms each",
        "received",
        "sent",
        "changes",
        "body reads",
        "record reads",
        "directory look-ups",
    ];
    let mut table = Table::new(&head);
    let mut commands: Vec<_> = counted.commands.iter().collect();
    commands.sort_by_key(|c| u64::MAX - c.amounts.cpu_ns);
    for command in commands.into_iter().take(COMMANDS_SHOWN) {
        let Amounts { cpu_ns, commands, received, sent, commits, .. } = command.amounts;
        let Amounts { body_reads, record_reads, directory_reads, .. } = command.amounts;
        let folder = match command.folder.as_str() {
            "none" => "–".to_owned(),
            "+Inf" => "over 1,000,000".to_owned(),
            most => most.parse().map_or(most.to_owned(), whole),
        };
        let each =
            if commands > 0 { figure(cpu_ns as f64 / 1e6 / commands as f64) } else { "–".to_owned() };
        let name = format!("{} {}", command.protocol, command.command);
        let mut row: Vec<Cell> = vec![name.into(), folder.into(), whole(commands).into()];
        row.extend([figure(cpu_ns as f64 / 1e9), each].map(Cell::from));
        row.extend([bytes(received), bytes(sent)].map(Cell::from));
        row.extend([commits, body_reads, record_reads, directory_reads].map(|n| Cell::from(whole(n))));
        table.rows.push(row);
    }
    table.draw(out);
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{CountedCommand, CountedThread};

    use super::*;
    use crate::sample;

    fn drawn(counted: Option<Offered<Counted>>) -> String {
        let mut run = sample::run("Posthaste", 4, 1.0);
        run.counted = counted;
        let mut out = Markup::new();
        section(&run, &mut out);
        out.into_string()
    }

    #[test]
    fn figures_of_the_server_are_shown_for_each_user() {
        let amounts = Amounts {
            commands: 400,
            commits: 100,
            body_reads: 300,
            record_reads: 1_200,
            directory_reads: 80,
            ..Amounts::default()
        };
        let fetch = CountedCommand {
            protocol: "imap".into(),
            command: "FETCH".into(),
            folder: "1000".into(),
            amounts,
        };
        let counted = Counted {
            seconds: 10.0,
            commands: vec![fetch],
            threads: vec![CountedThread { role: "writer".into(), cpu_s: 0.25 }],
            ..Counted::default()
        };
        let text = drawn(Some(Offered::Value(counted)));
        // 400 store operations in 10 s by 4 users.
        assert!(text.contains("400 in all, 10.0 a second and user"), "{text}");
        assert!(text.contains("80 in all, 2.00 a second and user"), "{text}");
        assert!(text.contains("1,200 in all, 30.0 a second and user"), "{text}");
        assert!(
            text.contains("imap FETCH") && text.contains("1,000") && text.contains("writer 0.250 s"),
            "{text}"
        );
    }

    #[test]
    fn a_server_that_does_not_answer_is_no_zero() {
        assert_eq!(drawn(None), "");
        assert!(drawn(Some(Offered::NotOffered("no socket".into()))).contains("not offered here: no socket"));
    }
}
