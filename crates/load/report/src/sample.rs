//! Results for tests of the report: plausible figures from a small generator, the same every time.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_load_results::Latency;
use posthaste_load_results::{
    Analysis, Bar, BarChart, BarRow, Counters, Curve, ErrorCount, ErrorSample, GeneratorCost, Machine,
    NamedSummary, Offered, Outcome, Plot, Role, RunResult, SCHEMA, Series, ServerCost, ServerFacts, Slow,
    StudyPoint, StudyResult, Summary, Transaction, Waits, Window, WorkloadFacts,
};
use posthaste_load_workload::Random;

/// Koka's ten: name, description, share, median in ms.
const TRANSACTIONS: [(&str, &str, f64, f64); 10] = [
    ("CRTE", "Create a mailbox", 0.005, 1.4),
    ("DELT", "Delete a mailbox", 0.005, 1.1),
    ("RENM", "Rename a mailbox", 0.005, 1.2),
    ("SRCH", "Search a message by subject", 0.045, 2.2),
    ("SELT", "Select a mailbox and fetch headers of all messages", 0.25, 4.8),
    ("COPY", "Copy a message to a random mailbox", 0.035, 1.6),
    ("MOVE", "Move a message to a random mailbox", 0.035, 2.1),
    ("VIEW", "View a message", 0.50, 0.42),
    ("DELM", "Delete a message", 0.08, 1.3),
    ("SEND", "Send a message to a random user", 0.04, 9.5),
];

/// A run that went well, `slow` times as slow as Posthaste.
pub fn run(label: &str, clients: u32, slow: f64) -> RunResult {
    let mut random = Random::new(7, u64::from(clients));
    let count = 40_000.0 / slow;
    let transactions: Vec<Transaction> = TRANSACTIONS
        .iter()
        .map(|(name, description, share, median)| Transaction {
            name: (*name).into(),
            description: (*description).into(),
            share_asked: Some(*share),
            share_realised: share * (0.97 + 0.06 * random.unit()),
            redrawn: random.below(30),
            summary: summary(&mut random, (count * share) as usize, median * slow),
        })
        .collect();
    let all: Vec<(u64, u64)> = transactions.iter().flat_map(|t| t.summary.histogram_us.clone()).collect();
    let total = Latency::from_buckets(&all).summary(60.0, 0, (123_456_789, 9_876_543));
    let server = server(slow, total.count);
    RunResult {
        schema: SCHEMA,
        tool: "posthaste-load 0.1.0".into(),
        command: [
            "posthaste-load",
            "run",
            "--workload",
            "koka-browse",
            "--users",
            "user{0..1199}@example.org",
        ]
        .map(String::from)
        .to_vec(),
        started_unix: 1_795_298_944,
        clock: None,
        label: label.into(),
        server_says: Offered::default(),
        workload: WorkloadFacts {
            name: "koka-browse".into(),
            description: "Interactive users who mostly read.".into(),
            toml: "name = \"koka-browse\"\n".into(),
        },
        settings: [("clients", clients.to_string()), ("think", "0s".into()), ("measure", "1m".into())]
            .map(|(k, v)| (k.to_owned(), v))
            .into(),
        clients,
        machine: machine(),
        outcome: Outcome {
            clean: true,
            headline: format!("no errors in {} transactions", total.count),
            ..Outcome::default()
        },
        caveats: vec!["server and generator share one machine of 2 processors".into()],
        window: Window {
            start_s: 15.0,
            end_s: 75.0,
            steady_start_s: 22.0,
            steady_end_s: 75.0,
            steady: true,
            drift: 0.012,
        },
        series: series(&mut random, total.rate_per_s, slow),
        total,
        commands: ["LOGIN", "SELECT", "FETCH", "SEARCH", "STORE", "COPY"]
            .map(|name| NamedSummary { name: name.into(), summary: summary(&mut random, 500, slow) })
            .to_vec(),
        transactions,
        kinds: Vec::new(),
        generators: Vec::new(),
        errors: Vec::new(),
        slowest: vec![Slow {
            ms: 140.2 * slow,
            at_s: 33.1,
            transaction: "SEND".into(),
            user: "user17@example.org".into(),
            command: "DATA 139.8 ms".into(),
        }],
        server: Some(server),
        counted: None,
        generator: GeneratorCost {
            cpu_user_s: 3.1,
            cpu_system_s: 1.2,
            cpu_us_per_transaction: Some(107.0),
            share_of_server: Some(0.08),
            rss_max_bytes: 31_000_000,
            late_p99_ms: None,
            other_cpus: Some(0.05),
        },
        audit: None,
    }
}

/// A sample run with errors.
pub fn run_with_errors(label: &str) -> RunResult {
    let mut run = run(label, 90, 1.4);
    run.outcome.clean = false;
    run.outcome.errors = 12;
    run.outcome.headline =
        "12 ERRORS: the server's answers cannot be trusted (9 wrong-answer, 3 connection-lost)".into();
    run.errors = vec![
        ErrorCount {
            kind: "wrong-answer".into(),
            count: 9,
            samples: vec![ErrorSample {
                at_s: 31.25,
                user: "user3@example.org".into(),
                transaction: "VIEW".into(),
                what: "the body's digest is wrong".into(),
                transcript: "C: a7 UID FETCH 12 (BODY.PEEK[])\nS: * 3 FETCH (UID 12 BODY[] {75012}\nS: …"
                    .into(),
            }],
        },
        ErrorCount { kind: "connection-lost".into(), count: 3, samples: Vec::new() },
    ];
    run.series.errors.iter_mut().skip(30).step_by(5).for_each(|e| *e = 2);
    run
}

fn summary(random: &mut Random, count: usize, median: f64) -> Summary {
    let mut latency = Latency::default();
    for _ in 0..count {
        latency.record(Duration::from_secs_f64(random.lognormal(median, 0.6) / 1e3));
    }
    latency.summary(60.0, 0, (count as u64 * 2_900, count as u64 * 150))
}

fn machine() -> Machine {
    Machine {
        cpu_model: "Example Processor 9000".into(),
        cpus: 2,
        mhz: 2_450.0,
        mhz_source: "/proc/cpuinfo".into(),
        memory_bytes: 8_320_000_000,
        kernel: "Linux 6.1".into(),
        build: "release".into(),
    }
}

fn series(random: &mut Random, rate: f64, slow: f64) -> Series {
    let length = 75;
    let ramp = |s: usize| (s as f64 / 20.0).min(1.0);
    let mut noisy = |base: f64, noise: f64| -> Vec<f64> {
        (0..length).map(|s| base * ramp(s) * (1.0 + noise * random.normal()).max(0.1)).collect()
    };
    Series {
        done: noisy(rate, 0.05).into_iter().map(|v| v as u64).collect(),
        errors: vec![0; length],
        mean_ms: noisy(2.1 * slow, 0.1).into_iter().map(|v| v + 0.4).collect(),
        max_ms: noisy(30.0 * slow, 0.5).into_iter().map(|v| v + 4.0).collect(),
        online: (0..length).map(|s| (90.0 * ramp(s)) as u64).collect(),
        unfinished: vec![0; length],
        server_cpus: noisy(1.5, 0.06),
        generator_cpus: noisy(0.14, 0.1),
    }
}

fn server(slow: f64, transactions: u64) -> ServerCost {
    let (user, system) = (42.0, 31.0 * slow);
    let megacycles = (user + system) * 2_450.0;
    ServerCost {
        source: "process tree of 4711".into(),
        seconds: 60.0,
        cpu_user_s: user,
        cpu_system_s: system,
        cpu_percent: (user + system) / 1.2,
        megacycles,
        sessions: 90,
        messages: transactions * 40,
        megacycles_per_session: Some(megacycles / 90.0),
        megacycles_per_message: Some(megacycles / (transactions * 40) as f64),
        megacycles_per_transaction: Some(megacycles / transactions as f64),
        pss_mean_bytes: Offered::Value(48_000_000),
        pss_max_bytes: Offered::Value(52_300_000),
        pss_own_max_bytes: Offered::Value(41_000_000),
        processes: 93,
        disk_operations: Offered::Value(12_345),
        disk_read_operations: Offered::default(),
        disk_read_bytes: Offered::Value(0),
        disk_write_bytes: Offered::Value(220_000_000),
        waits: Waits::default(),
        context_switches: Offered::Value(1_234_567),
        counters: if slow > 1.0 {
            Offered::NotOffered("the kernel refuses perf_event_open here".into())
        } else {
            Offered::Value(Counters {
                cycles: 1 << 37,
                instructions: 1 << 38,
                cache_misses: 1 << 24,
                cpi: 0.5,
            })
        },
        roles: vec![
            Role { name: "imap".into(), cpu_s: user * 0.8, processes: 90 },
            Role { name: "imap-login".into(), cpu_s: user * 0.1, processes: 2 },
            Role { name: "lmtp".into(), cpu_s: system * 0.4, processes: 1 },
        ],
        hottest: None,
        sampled: Vec::new(),
    }
}

fn facts(name: &str) -> ServerFacts {
    ServerFacts {
        name: name.into(),
        version: "1.0".into(),
        settings: "protocols = imap\n".into(),
        ..ServerFacts::default()
    }
}

/// A study of item counts of these servers, each costlier than the one before.
pub fn item_count(servers: &[&str]) -> StudyResult {
    const ITEMS: [f64; 8] = [100.0, 500.0, 1e3, 5e3, 1e4, 5e4, 1e5, 5e5];
    let mut points = Vec::new();
    let (mut sessions, mut messages) = (Vec::new(), Vec::new());
    for (n, server) in servers.iter().enumerate() {
        let cost = |items: f64| {
            let per = 0.0009 * (1.0 + 2.0 * n as f64);
            1.2 + per * items * (1.0 + if n > 0 { (items / 60_000.0).powf(0.8) } else { 0.0 })
        };
        let curve = |name: &str, y: &dyn Fn(f64) -> f64, fitted| Curve {
            name: name.into(),
            points: ITEMS.iter().map(|x| (*x, y(*x))).collect(),
            fitted,
        };
        sessions.push(curve(server, &cost, false));
        messages.push(curve(server, &|x| cost(x) / x, false));
        for items in ITEMS {
            let mut run = run(server, 4, 1.0 + n as f64);
            run.workload.name = "inbox-sync".into();
            run.transactions.truncate(1);
            if let Some(server) = &mut run.server {
                server.megacycles_per_session = Some(cost(items));
                server.megacycles_per_message = Some(cost(items) / items);
            }
            points.push(StudyPoint {
                server: (*server).into(),
                at: BTreeMap::from([("items".to_owned(), items)]),
                workload: "inbox-sync".into(),
                round: 0,
                run: if items > 4e5 && n > 0 { Err("out of time".into()) } else { Ok(Box::new(run)) },
            });
        }
    }
    let plot = |title: &str, y: &str, log_y, curves| Plot {
        title: title.into(),
        x: "messages in the folder".into(),
        y: y.into(),
        log_x: true,
        log_y,
        curves,
        marks: vec![("knee of Dovecot".into(), "x".into(), 10_000.0)],
    };
    StudyResult {
        schema: SCHEMA,
        tool: "posthaste-load 0.1.0".into(),
        command: ["posthaste-load", "study", "item-count", "--quick"].map(String::from).to_vec(),
        study: "item-count".into(),
        description: "What a session costs as the folder it opens grows.".into(),
        after: "seed 000, Exchange 2007".into(),
        published: String::new(),
        toml: String::new(),
        quick: true,
        machine: machine(),
        servers: servers.iter().map(|name| facts(name)).collect(),
        points,
        analysis: Analysis {
            findings: vec!["Posthaste: flat to 500,000 messages.".into()],
            plots: vec![
                plot("Megacycles per session", "megacycles per session", true, sessions),
                plot("Megacycles per message", "megacycles per message", false, messages),
            ],
            charts: vec![BarChart {
                title: "CPU by server".into(),
                x: "CPU (% of the machine)".into(),
                series: vec!["user".into(), "kernel".into()],
                rows: vec![BarRow {
                    name: "Posthaste".into(),
                    bars: vec![Bar { parts: vec![(0, 40.0), (1, 6.5)], note: "46.5 %".into() }],
                }],
            }],
            tables: Vec::new(),
            headline: None,
        },
        caveats: vec!["quick: fewer points and shorter windows than the study defines".into()],
        rounds: 1,
        planned: 8 * servers.len(),
        unmeasured: 0,
        simulations_left: 0,
        settings: BTreeMap::new(),
        sittings: Vec::new(),
    }
}
