//! CPU by role. Posthaste counts its own work by protocol, and its writing thread works for all.
//! Other servers have a program for each role.

use posthaste_load_results::{Counted, RunResult};

/// The server's own counts in the window, if it has some.
pub(super) fn counted(run: &RunResult) -> Option<&Counted> {
    run.counted.as_ref()?.value()
}

/// CPU seconds by role.
pub(super) fn of(run: &RunResult) -> Vec<(String, f64)> {
    let Some(counted) = counted(run) else {
        let programs = run.server.iter().flat_map(|server| &server.roles);
        return programs.map(|role| (role.name.clone(), role.cpu_s)).collect();
    };
    let mut roles: Vec<(String, f64)> = Vec::new();
    let mut add = |name: String, seconds: f64| match roles.iter_mut().find(|(known, _)| *known == name) {
        Some((_, sum)) => *sum += seconds,
        None => roles.push((name, seconds)),
    };
    for command in &counted.commands {
        let name = match command.protocol.as_str() {
            "imap" | "pop3" => format!("{} sessions", command.protocol.to_uppercase()),
            "lmtp" | "smtp" | "submission" | "queue" => "router".to_owned(),
            "index" => "search index".to_owned(),
            _ => "background".to_owned(),
        };
        add(name, command.amounts.cpu_ns as f64 / 1e9);
    }
    for thread in counted.threads.iter().filter(|thread| is_of_the_store(&thread.role)) {
        add(format!("store ({})", thread.role), thread.cpu_s);
    }
    roles
}

/// CPU seconds of one role.
pub(super) fn seconds(run: &RunResult, role: &str) -> Option<f64> {
    let mine = of(run).into_iter().filter(|(name, _)| name == role).map(|(_, seconds)| seconds);
    Some(mine.sum::<f64>()).filter(|seconds| *seconds > 0.0)
}

/// CPU of one role in percent of the processors that the server may use.
pub(super) fn percent(run: &RunResult, role: &str) -> Option<f64> {
    let server = run.server.as_ref()?;
    let all = server.cpu_user_s + server.cpu_system_s;
    let share = seconds(run, role)? / all;
    (all > 0.0).then_some(share * server.cpu_percent)
}

/// Threads that work for all sessions. The others run sessions, which are counted by command.
fn is_of_the_store(role: &str) -> bool {
    role.contains("writer") || role.contains("store") || role.contains("sync")
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Amounts, CountedCommand, CountedThread, Offered, Role};

    use super::super::sample;
    use super::*;

    /// A run that took 2 s of CPU, 40 % of the server's processors.
    fn run() -> RunResult {
        let mut run = sample::run(2.0, 10);
        run.server.as_mut().unwrap().cpu_percent = 40.0;
        run
    }

    #[test]
    fn posthaste_counts_by_protocol_and_its_writer_works_for_all() {
        let command = |protocol: &str, seconds: u64| CountedCommand {
            protocol: protocol.into(),
            amounts: Amounts { cpu_ns: seconds * 500_000_000, ..Amounts::default() },
            ..CountedCommand::default()
        };
        let thread = |role: &str| CountedThread { role: role.into(), cpu_s: 0.25 };
        let counted = Counted {
            commands: vec![command("imap", 1), command("submission", 1), command("queue", 1)],
            threads: vec![thread("writer"), thread("session")],
            ..Counted::default()
        };
        let run = RunResult { counted: Some(Offered::Value(counted)), ..run() };
        let names: Vec<String> = of(&run).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["IMAP sessions", "router", "store (writer)"]);
        // Of 2 s, which are 40 %.
        let percent = |role: &str| percent(&run, role);
        assert_eq!([percent("IMAP sessions"), percent("router")], [Some(10.0), Some(20.0)]);
        assert_eq!([percent("store (writer)"), percent("LMTP")], [Some(5.0), None]);
    }

    #[test]
    fn other_servers_have_a_program_for_each_role() {
        let mut run = run();
        let role = |name: &str, cpu_s: f64| Role { name: name.into(), cpu_s, processes: 1 };
        run.server.as_mut().unwrap().roles = vec![role("imap", 1.5), role("lmtp", 0.5)];
        assert_eq!(of(&run), [("imap".to_owned(), 1.5), ("lmtp".to_owned(), 0.5)]);
        assert_eq!(percent(&run, "imap"), Some(30.0));
    }
}
