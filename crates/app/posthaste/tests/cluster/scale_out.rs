//! The study `scale-out` on a real Cassandra: the instrument starts nodes of this server, fills
//! accounts, and measures the cost of each node and of the store.
//!
//! Only where `POSTHASTE_CASSANDRA` names one (`scripts/cassandra env`). Windows are short, and say
//! nothing about speed.

use posthaste_load_study::{
    Build, Cassandra, Length, Options, ServerChoice, Watched, conduct, load, may_begin,
};

/// A variable that is set.
fn offered(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn nodes_on_one_cassandra_are_started_filled_and_measured() {
    let Some(host) = offered("POSTHASTE_CASSANDRA") else {
        eprintln!("SKIPPED: POSTHASTE_CASSANDRA names no Cassandra (scripts/cassandra start; env)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let study = load("scale-out", Length::Shortest).unwrap_or_else(|e| panic!("{e}"));
    let build = Build { name: "Posthaste".into(), program: env!("CARGO_BIN_EXE_posthaste").into() };
    let pid = offered("POSTHASTE_CASSANDRA_PID").map(|pid| Watched::process(pid.parse().unwrap()));
    let cassandra = Cassandra { place: Some(host.parse().unwrap()), watched: pid.into_iter().collect() };
    let has_store = !cassandra.watched.is_empty();
    let servers = vec![ServerChoice::Build(build)];
    let options = Options { cassandra, ..Options::new(servers, folder.path().join("work")) };
    assert_eq!(may_begin(&study, &options), Ok(()));
    let result = conduct(&study, &options).unwrap();
    assert_eq!((result.points.len(), result.unmeasured), (2, 0));
    for (point, nodes) in result.points.iter().zip(1..) {
        let run = point.run.as_ref().unwrap_or_else(|why| panic!("{why}"));
        assert!(run.outcome.clean, "{}: {:?}", run.outcome.headline, run.errors);
        assert_eq!(point.at["nodes"], f64::from(nodes));
        let mut roles: Vec<String> =
            run.server.as_ref().unwrap().roles.iter().map(|role| role.name.clone()).collect();
        roles.sort_unstable();
        let store = has_store.then(|| "store 1".to_owned());
        let expected: Vec<String> = (1..=nodes).map(|n| format!("access {n}")).chain(store).collect();
        assert_eq!(roles, expected);
    }
    let [throughput, ..] = &result.analysis.tables[..] else { panic!("no tables") };
    assert_eq!(throughput.rows.len(), 2, "{throughput:?}");
    assert!(result.caveats.iter().any(|caveat| caveat.contains("all nodes run on this machine")));
    let facts = &result.servers[0];
    assert!(facts.settings.contains(&format!("cassandra://{host}/KEYSPACE")), "{}", facts.settings);
}
