//! The instrument against this server: what the server counts itself, workloads made of it, POP3,
//! addresses of another protocol, two builds compared.
//!
//! Runs are short and say nothing about speed: what is compared are counts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::populate::{Contents, PopulateOptions, populate};
use posthaste_load_drive::run::{
    Begin, ClusterOptions, Outside, Pools, RunOptions, SendBy, identify, refuse_wrong_protocols, run,
    run_from,
};
use posthaste_load_drive::{Accounts, Target, observed};
use posthaste_load_measure::agent::{AgentOptions, serve};
use posthaste_load_measure::{Figures, Reference, WatchTarget};
use posthaste_load_null_server::sink;
use posthaste_load_results::{Counted, OVERLAP_MIN, RunResult, Summary, merge};
use posthaste_load_study::{
    Build, Course, Length, Options, ServerChoice, Versions, conduct, conduct_on, judge, load, may_resume,
};
use posthaste_load_workload::learned::{Profile, learn};
use posthaste_load_workload::{Think, Workload, parse};
use posthaste_testkit::{Server, ServerBuilder};

const USERS: u32 = 2;

/// A server with accounts.
fn server() -> Server {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    for n in 0..USERS {
        server.add_account(&format!("user{n}@example.org"), "measured");
    }
    server
}

fn accounts() -> Accounts {
    Accounts::parse(&format!("user{{0..{}}}@example.org", USERS - 1)).unwrap().with_password("measured")
}

fn dialer() -> Dialer {
    Dialer::new(Trust::Anyone, Duration::from_secs(60)).unwrap()
}

fn target(server: &Server, protocol: &str) -> Target {
    format!("{protocol}://{}", server.address(protocol)).parse().unwrap()
}

fn figures(server: &Server) -> Figures {
    server.data().to_str().unwrap().parse().unwrap()
}

fn fill(server: &Server, workload: &Workload) {
    let fill = &workload.fill;
    let done = populate(PopulateOptions {
        server: target(server, "imap"),
        lmtp: None,
        accounts: accounts(),
        // Small: only counts are measured here.
        contents: Contents::new(
            fill.inbox.min(60),
            fill.folders,
            fill.per_folder.min(20),
            "fixed:1k".parse().unwrap(),
        ),
        seed: 1,
        mail: None,
        parallel: 2,
        dialer: dialer(),
        live: false,
    });
    assert_eq!(done.unwrap().failed, 0);
}

/// A run of this many seconds.
fn options(server: &Server, workload: &Workload, protocol: &str, seconds: u64) -> RunOptions {
    RunOptions {
        workload: workload.clone(),
        server: target(server, protocol),
        cluster: ClusterOptions::default(),
        send: workload.sends().then(|| SendBy::Mail(target(server, "lmtp"))),
        deliver: None,
        accounts: accounts(),
        pools: Pools::default(),
        clients: USERS,
        think: Some(Think::Fixed(0.005)),
        arrivals: None,
        ramp: Duration::ZERO,
        warmup: Duration::ZERO,
        measure: Duration::from_secs(seconds),
        transactions_each: None,
        threads: 1,
        seed: 1,
        audit: false,
        dialer: dialer(),
        watch: WatchTarget::Local { pid: Some(server.pid()), cgroup: None, data: None },
        figures: Some(figures(server)),
        mhz: None,
        label: "Posthaste".into(),
        command: Vec::new(),
        settings: Default::default(),
        live: false,
    }
}

fn clean(options: RunOptions) -> RunResult {
    let result = run(options, None).unwrap().result;
    assert!(result.outcome.clean, "{}: {:?}", result.outcome.headline, result.errors);
    result
}

/// Runs a workload for a second, and longer if the machine is so busy that nothing ended in it.
fn measured(server: &Server, workload: &Workload, protocol: &str) -> RunResult {
    let runs = [1, 5, 20].into_iter().map(|seconds| clean(options(server, workload, protocol, seconds)));
    runs.into_iter().find(|result| result.total.count > 0).expect("something ends in 20 s")
}

fn count(counted: &Counted, command: &str) -> u64 {
    counted.commands.iter().filter(|c| c.command == command).map(|c| c.amounts.commands).sum()
}

fn profile(counted: &Counted) -> Profile {
    Profile {
        source: counted.source.clone(),
        seconds: Some(counted.seconds),
        users: counted.accounts,
        commands: observed(counted),
        clients: Vec::new(),
    }
}

#[test]
fn the_servers_own_figures_are_read_at_both_ends_of_the_window() {
    let server = server();
    let workload = posthaste_load_workload::load("koka-manage-frequencies").unwrap();
    fill(&server, &workload);
    let before = figures(&server).read().unwrap();
    let result = measured(&server, &workload, "imap");
    let counted = result.counted.unwrap();
    let counted = counted.value().unwrap_or_else(|| panic!("{counted:?}"));
    assert!(counted.seconds > 0.5 && counted.source.ends_with("metrics.sock"), "{counted:?}");
    // Work before the window is not in it: filling took APPENDs.
    assert!(count(&before.since(None), "APPEND") > 0);
    assert_eq!(count(counted, "APPEND"), 0);
    assert!(counted.total().commands > 0 && counted.total().cpu_ns > 0);
    assert!(counted.threads.iter().any(|t| t.role == "writer"), "{:?}", counted.threads);
}

#[test]
fn a_workload_learnt_from_a_server_is_done_without_errors_and_makes_the_same_commands() {
    let server = server();
    let sync = posthaste_load_workload::load("inbox-sync").unwrap();
    fill(&server, &sync);
    let before = figures(&server).read().unwrap();
    measured(&server, &sync, "imap");
    let counted = figures(&server).read().unwrap().since(Some(&before));
    let learned = learn("mine", &profile(&counted), None).unwrap();
    let workload = parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml));
    // LOGIN, SELECT and a whole listing of the flags: the session that was done.
    let steps: Vec<_> = workload.transactions.iter().flat_map(|t| &t.steps).map(|s| s.verb()).collect();
    assert!(steps.starts_with(&["SELECT", "FETCH"]), "{}", learned.toml);
    assert!(learned.toml.contains("items = \"UID FLAGS\""), "{}", learned.toml);
    let before = figures(&server).read().unwrap();
    measured(&server, &workload, "imap");
    let again = figures(&server).read().unwrap().since(Some(&before));
    let (logins, selects) = (count(&again, "LOGIN"), count(&again, "SELECT"));
    // A session more or less may be open at either reading.
    assert!(logins > 0 && logins.abs_diff(selects) <= 2 * u64::from(USERS), "{again:?}");
}

#[test]
fn a_workload_that_changes_mail_can_be_learnt_and_done() {
    let server = server();
    let koka = posthaste_load_workload::load("koka-browse-frequencies").unwrap();
    fill(&server, &koka);
    let before = figures(&server).read().unwrap();
    measured(&server, &koka, "imap");
    let counted = figures(&server).read().unwrap().since(Some(&before));
    let learned = learn("mine", &profile(&counted), None).unwrap();
    let workload = parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml));
    measured(&server, &workload, "imap");
}

#[test]
fn pop3_users_take_what_arrived_and_the_server_counts_them() {
    let server = server();
    let workload = posthaste_load_workload::load("pop3-check").unwrap();
    fill(&server, &workload);
    // Mail arrives 600 times as fast. All read at once: a modem would hold sessions for seconds.
    let mut workload = workload.hurried(600.0);
    workload.modem = None;
    let result = measured(&server, &workload, "pop3");
    let counted = result.counted.unwrap();
    let counted = counted.value().unwrap_or_else(|| panic!("{counted:?}"));
    assert!(count(counted, "STAT") + count(counted, "QUIT") > 0, "{counted:?}");
}

/// A client that leaves mail on the server knows by UIDL what it has read.
#[test]
fn pop3_users_who_leave_mail_on_the_server_read_each_message_once() {
    let server = server();
    let text = "name = 'keep'\ndescription = 'x'\nprotocol = 'pop3'\n[session]\nkind = 'each'\n\
                [fill]\ninbox = 5\n[choose]\nby = 'sequence'\n[[transaction]]\nname = 'fetch'\n\
                steps = [{ do = 'stat' }, { do = 'retr', messages = 'new' }]\n";
    let workload = parse(text, "keep").unwrap_or_else(|e| panic!("{e}"));
    fill(&server, &workload);
    let options = options(&server, &workload, "pop3", 3600);
    let result = clean(RunOptions { transactions_each: Some(3), ..options });
    let done = |command: &str| {
        let of = result.commands.iter().filter(|c| c.name == command);
        of.map(|c| c.summary.count).sum::<u64>()
    };
    // Three sessions of each user.
    let users = u64::from(USERS);
    assert_eq!((done("UIDL"), done("RETR"), done("QUIT")), (3 * users, 5 * users, 3 * users));
}

/// A server with POP3 and no IMAP: mail that is delivered fills it, and its users submit.
#[test]
fn a_running_server_of_pop3_alone_is_filled_and_measured() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let [workload, study] = ["check.toml", "study.toml"].map(|name| folder.path().join(name));
    let text = "name = 'check'\ndescription = 'x'\nprotocol = 'pop3'\ntls = true\n[session]\nkind = 'each'\n\
                [mail]\nsizes = 'fixed:2k'\narrivals_per_user_per_hour = 7200\n[fill]\ninbox = 3\n\
                [choose]\nby = 'sequence'\n\
                [[transaction]]\nname = 'send'\nsteps = [{ do = 'send', to = 'random' }]\n\
                [[transaction]]\nname = 'fetch'\nsteps = [{ do = 'stat' }, { do = 'retr', messages = 'new' }, { do = 'dele' }]\n";
    std::fs::write(&workload, text).unwrap();
    let path = workload.display();
    let text = format!(
        "name = 'mine'\ndescription = 'x'\nanalysis = 'pop3'\nworkloads = ['{path}']\nsubmission = ['{path}']\n\
         sizes = 'fixed:1k'\nsweep = [{{ clients = [2] }}]\ntime = {{ ramp = '0s', warmup = '0s', measure = '3s' }}\n"
    );
    std::fs::write(&study, text).unwrap();
    let study = load(study.to_str().unwrap(), Length::Full).unwrap_or_else(|e| panic!("{e}"));
    for n in 0..2 {
        server.add_account(&format!("check-{n}@example.org"), "measured");
    }
    let at = ["pop3s", "lmtp", "submissions"].map(|p| format!("{p}://{}", server.address(p))).join(",");
    let which: ServerChoice = format!("A={at}").parse().unwrap();
    let result = conduct(&study, &Options::new(vec![which], folder.path().join("work"))).unwrap();
    let run = result.points[0].run.as_ref().unwrap_or_else(|why| panic!("{why}"));
    assert!(run.outcome.clean, "{:?}", run.errors);
    let ways = ["users send by", "mail arrives by"].map(|name| run.settings[name].as_str());
    assert_eq!(ways, ["submission", "LMTP"]);
    let counted = figures(&server).read().unwrap().since(None);
    let commands = |protocol: &str| {
        let of = counted.commands.iter().filter(|c| c.protocol == protocol);
        of.map(|c| c.amounts.commands).sum::<u64>()
    };
    // Filling alone: two accounts of three messages.
    assert!(commands("lmtp") >= 6 && commands("pop3") > 0, "{counted:?}");
    assert_eq!(commands("imap"), 0, "{counted:?}");
}

#[test]
fn an_address_of_another_protocol_is_refused_before_the_run() {
    let server = server();
    let refused = |address: &str, scheme: &str| {
        let target: Target = format!("{scheme}://{}", server.address(address)).parse().unwrap();
        refuse_wrong_protocols(&dialer(), [&target])
    };
    for right in ["imap", "pop3", "lmtp", "imaps", "pop3s"] {
        assert_eq!(refused(right, right), Ok(()));
    }
    let said = refused("imap", "pop3").unwrap_err();
    assert!(said.contains("a server for IMAP answers there") && said.contains("not one for POP3"), "{said}");
    assert!(refused("pop3", "imap").unwrap_err().contains("a server for POP3 answers there"));
    assert!(refused("lmtp", "smtp").unwrap_err().contains("write lmtp://"));
    assert!(refused("imap", "imaps").unwrap_err().contains("write imap://"));
}

#[test]
fn a_run_of_a_fixed_number_of_transactions_ends_with_the_last() {
    let server = server();
    let sync = posthaste_load_workload::load("inbox-sync").unwrap();
    fill(&server, &sync);
    // An hour, which is not waited for.
    let all = RunOptions { transactions_each: Some(3), ..options(&server, &sync, "imap", 3600) };
    let result = clean(all);
    assert_eq!(result.total.count, 3 * u64::from(USERS));
    assert!(!result.outcome.interrupted);
    let counted = result.counted.unwrap();
    assert!(counted.value().is_some_and(|c| count(c, "LOGIN") > 0), "{counted:?}");
}

#[test]
fn mail_to_another_server_arrives_unaltered() {
    let (address, taken) = sink("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, format!("[relay]\nenabled = true\nsmarthost = \"{address}\"\n"))
        .start();
    for n in 0..USERS {
        server.add_account(&format!("user{n}@example.org"), "measured");
    }
    let text = "name = 'send'\ndescription = 'x'\n[session]\nopen = [{ do = 'select', mailbox = 'inbox' }]\n\
                [mail]\nsizes = 'fixed:3k'\n[choose]\nby = 'sequence'\n[[transaction]]\nname = 'SEND'\n\
                steps = [{ do = 'send', to = 'random' }]\n";
    let workload = parse(text, "send").unwrap_or_else(|e| panic!("{e}"));
    let outside = Outside { domain: "elsewhere.example.net".into(), share: 1.0, by: None };
    let result = clean(RunOptions {
        send: Some(SendBy::Mail(target(&server, "submissions"))),
        pools: Pools { receiving: Some(1), outside: Some(outside) },
        transactions_each: Some(3),
        ..options(&server, &workload, "imap", 3600)
    });
    let sent = result.total.count;
    assert_eq!(sent, 3 * u64::from(USERS));
    // The queue sends when it can. The deadline is for a server that never does.
    let deadline = Instant::now() + Duration::from_secs(120);
    while taken.messages() < sent {
        assert!(Instant::now() < deadline, "{taken:?} of {sent}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((taken.messages(), taken.altered(), taken.foreign()), (sent, 0, 0));
}

/// An agent on the server's machine.
fn agent(server: &Server) -> WatchTarget {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, token) = (listener.local_addr().unwrap().to_string(), "open sesame".to_owned());
    let options = AgentOptions { token: token.clone(), pid: Some(server.pid()), cgroup: None, data: None };
    std::thread::spawn(move || serve(&listener, &options, |_| ()));
    WatchTarget::Agent { address, token, pid: None }
}

/// Runs of two generators at once, each with an account of its own, by the clock of the agent.
fn two_generators(server: &Server, workload: &Workload) -> [RunResult; 2] {
    let agent = agent(server);
    // On a busy machine a generator may be ready too late, or nothing ends in the window.
    for (lead_s, seconds) in [(2, 1), (10, 5), (60, 20)] {
        let clock = Reference::of(&agent).unwrap();
        let begin = Begin { at: Some(Instant::now() + Duration::from_secs(lead_s)), clock };
        let one = |n: u32| {
            let settings = [("users", format!("user{n}@example.org")), ("seed", n.to_string())];
            let options = RunOptions {
                accounts: accounts().part(n, 1),
                clients: 1,
                seed: u64::from(n),
                watch: agent.clone(),
                settings: settings.map(|(key, value)| (key.to_owned(), value)).into(),
                ..options(server, workload, "imap", seconds)
            };
            run_from(options, None, &begin).ok().map(|ended| ended.result)
        };
        let [first, second] = std::thread::scope(|scope| {
            [0, 1].map(|n| scope.spawn(move || one(n))).map(|generator| generator.join().unwrap())
        });
        if let (Some(first), Some(second)) = (first, second)
            && first.total.count > 0
            && second.total.count > 0
        {
            return [first, second];
        }
    }
    panic!("two generators do not get ready, or nothing ends in 20 s");
}

#[test]
fn results_of_two_generators_are_merged_and_their_counts_are_the_sums() {
    let server = server();
    let koka = posthaste_load_workload::load("koka-browse-frequencies").unwrap();
    fill(&server, &koka);
    let mut runs = two_generators(&server, &koka);
    for run in &mut runs {
        assert!(run.outcome.clean, "{:?}", run.errors);
        run.server_says = identify(&dialer(), &target(&server, "imap"));
    }
    let [one, two] = runs;
    assert!(one.server_says.value().is_some_and(|said| said.contains("Posthaste")), "{:?}", one.server_says);
    let both = vec![("one".to_owned(), one.clone()), ("two".to_owned(), two.clone())];
    let all = merge(both, OVERLAP_MIN).unwrap_or_else(|why| panic!("{why}"));
    let sum = |of: &dyn Fn(&RunResult) -> u64| assert_eq!(of(&all), of(&one) + of(&two));
    sum(&|run| run.total.count);
    sum(&|run| run.total.errors);
    sum(&|run| run.total.bytes_in);
    sum(&|run| u64::from(run.clients));
    let in_buckets = |summary: &Summary| summary.histogram_us.iter().map(|bucket| bucket.1).sum::<u64>();
    sum(&|run| in_buckets(&run.total));
    for row in &all.transactions {
        sum(&|run| run.transactions.iter().filter(|t| t.name == row.name).map(|t| t.summary.count).sum());
    }
    for row in &all.commands {
        sum(&|run| run.commands.iter().filter(|c| c.name == row.name).map(|c| in_buckets(&c.summary)).sum());
    }
    let cpu = |run: &RunResult| run.generator.cpu_user_s + run.generator.cpu_system_s;
    assert!((cpu(&all) - cpu(&one) - cpu(&two)).abs() < 1e-9);
    // The server's cost is one of both readings, and the agent's clock is that of both.
    let costs = [&one, &two].map(|run| run.server.as_ref().unwrap().cpu_user_s);
    assert!(costs.contains(&all.server.as_ref().unwrap().cpu_user_s), "{costs:?}");
    let clock = all.clock.unwrap();
    assert!(clock.reference.contains("agent") && !clock.machine.is_empty(), "{clock:?}");
}

/// Two rounds of two builds that are one: measured in turns, and judged one way or another.
#[test]
fn two_builds_take_turns_and_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.toml");
    let text = "name = 'regress'\ndescription = 'x'\nanalysis = 'regress'\nworkloads = ['inbox-sync']\nthink = '5ms'\n\
                sizes = 'fixed:1k'\nrounds = 2\nsweep = [{ items = [20], clients = [1] }]\n\
                time = { ramp = '0s', warmup = '0s', measure = '1s' }\n";
    std::fs::write(&file, text).unwrap();
    let study = load(file.to_str().unwrap(), Length::Full).unwrap_or_else(|e| panic!("{e}"));
    let build = |name: &str| {
        ServerChoice::Build(Build { name: name.into(), program: env!("CARGO_BIN_EXE_posthaste").into() })
    };
    let options = Options::new(vec![build("old"), build("new")], folder.path().join("work"));
    let result = conduct(&study, &options).unwrap();
    let order: Vec<(&str, u32)> = result.points.iter().map(|p| (p.server.as_str(), p.round)).collect();
    assert_eq!(order, [("old", 0), ("new", 0), ("new", 1), ("old", 1)]);
    for point in &result.points {
        let run = point.run.as_ref().unwrap_or_else(|why| panic!("{why}"));
        assert!(run.outcome.clean, "{:?}", run.errors);
        assert!(run.counted.as_ref().is_some_and(|c| c.value().is_some()), "{:?}", run.counted);
    }
    if result.points.iter().all(|p| p.run.as_ref().is_ok_and(|r| r.total.count > 0)) {
        assert!(judge(&result).is_some(), "{:?}", result.analysis.findings);
        assert_eq!(result.analysis.tables[0].rows.len(), 1);
    }
}

/// Every row of `operations`, those that are measured alone and those after a new start included.
#[test]
fn every_operation_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let study = load("operations", Length::Shortest).unwrap_or_else(|e| panic!("{e}"));
    let server = Build { name: "A".into(), program: env!("CARGO_BIN_EXE_posthaste").into() };
    let options = Options::new(vec![ServerChoice::Build(server)], folder.path().join("work"));
    let result = conduct(&study, &options).unwrap();
    assert_eq!((result.points.len(), result.unmeasured), (result.planned, 0));
    let mut alone = Vec::new();
    for point in &result.points {
        let run = point.run.as_ref().unwrap_or_else(|why| panic!("{}: {why}", point.workload));
        assert!(run.outcome.clean, "{}: {:?}", point.workload, run.errors);
        if run.settings.contains_key("transactions") {
            alone.push(point.workload.as_str());
            assert_eq!(run.total.count, u64::from(study.transactions_alone), "{}", point.workload);
            assert!(run.server.is_some(), "{}: {:?}", point.workload, run.caveats);
        }
    }
    assert_eq!(
        alone,
        [
            "SELECT, cold",
            "STORE +FLAGS.SILENT of 1,000",
            "STORE -FLAGS.SILENT of 1,000",
            "COPY of 1,000",
            "EXPUNGE of 1,000"
        ]
    );
    let rows: Vec<&str> = result.analysis.tables[0].rows.iter().map(|row| row[0].as_str()).collect();
    for row in ["LMTP delivery", "APPEND", "SELECT, warm", "connect, LOGIN, SELECT, LOGOUT"] {
        assert!(rows.contains(&row), "{rows:?}");
    }
}

/// A study that is stopped after its first point continues with the same server, and with no other.
#[test]
fn a_study_goes_on_from_what_was_saved_with_the_same_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.toml");
    let text = "name = 'mine'\ndescription = 'x'\nanalysis = 'compare'\nworkloads = ['inbox-sync']\nthink = '5ms'\n\
                sizes = 'fixed:1k'\nrounds = 2\nput_back = true\nsweep = [{ items = [20], clients = [1] }]\n\
                time = { ramp = '0s', warmup = '0s', measure = '1s' }\n";
    std::fs::write(&file, text).unwrap();
    let study = load(file.to_str().unwrap(), Length::Full).unwrap_or_else(|e| panic!("{e}"));
    let server = Build { name: "A".into(), program: env!("CARGO_BIN_EXE_posthaste").into() };
    let options = Options::new(vec![ServerChoice::Build(server)], folder.path().join("work"));
    let mut saved = Vec::new();
    let save = Box::new(|result: &posthaste_load_results::StudyResult| saved.push(result.clone()));
    conduct_on(&study, &options, Course { earlier: None, save, max_time: None }).unwrap();
    let first = saved.first().unwrap().clone();
    assert_eq!((first.points.len(), first.unmeasured, first.planned), (1, 1, 2));

    let may = |result| may_resume(result, &study, &options, Versions::Same);
    assert_eq!(may(&first), Ok(()));
    let mut newer = first.clone();
    newer.servers[0].version.push_str(" of yesterday");
    assert!(may(&newer).unwrap_err().contains("--mix-versions"));
    let mut other = first.clone();
    other.servers[0].settings.push_str("\nstore.format = \"rich\"");
    assert!(may(&other).unwrap_err().contains("a setting of A was `store.format"), "{:?}", may(&other));

    let course = Course { earlier: Some(first.clone()), save: Box::new(|_| ()), max_time: None };
    let whole = conduct_on(&study, &options, course).unwrap();
    let rounds: Vec<(u32, u64)> =
        whole.points.iter().map(|p| (p.round, p.run.as_ref().unwrap().started_unix)).collect();
    assert_eq!((rounds.len(), whole.unmeasured), (2, 0));
    assert_eq!(rounds[0], (0, first.points[0].run.as_ref().unwrap().started_unix));
    assert_eq!(whole.sittings.iter().map(|s| s.points).collect::<Vec<_>>(), [1, 1]);
}
