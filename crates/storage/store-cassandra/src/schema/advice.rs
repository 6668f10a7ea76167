//! Advice on a cluster: copies of each row, the sync of its commit logs, encryption.
//!
//! Nothing here refuses a cluster. `posthaste engine init` prints the advice, and `posthaste serve`
//! logs it as warnings.

use std::collections::BTreeMap;
use std::net::IpAddr;

use async_recursion::async_recursion as boxed;
use posthaste_store::Result;

use crate::cluster::connection::Connection;
use crate::options::Options;

/// Copies of each row: with three, a quorum of two survives the loss of one node. With two, both
/// are needed.
const COPIES_MIN: u32 = 3;

/// Names the settings of the cluster that make acknowledged mail less safe than possible, or let
/// others read it: a sentence each.
#[boxed]
pub async fn advice(options: &Options) -> Result<Vec<String>> {
    let connection = Connection::open(options).await?;
    let keyspace = &options.keyspace;
    let mut advice = Vec::from_iter(on_encryption(options));
    advice.extend(match connection.replication(keyspace).await? {
        Some((replication, durable_writes)) => {
            on_replication(keyspace, &replication, durable_writes, options.datacenter.as_deref())
        }
        None => Vec::new(),
    });
    for (node, setting) in connection.settings("commitlog_sync").await {
        advice.extend(on_commit_log(&node, setting));
    }
    Ok(advice)
}

/// `replication` is a keyspace's map in `system_schema.keyspaces`: the strategy's class, and copies
/// by data centre or in all.
fn on_replication(
    keyspace: &str,
    replication: &BTreeMap<String, String>,
    durable_writes: bool,
    datacenter: Option<&str>,
) -> Vec<String> {
    let mut advice = Vec::new();
    let copies = replication.iter().filter(|(place, _)| *place != "class");
    for (place, copies) in copies.filter(|(place, _)| datacenter.is_none_or(|dc| dc == *place)) {
        // A transient copy is written as `3/1`.
        let number = copies.split('/').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
        if number < COPIES_MIN {
            let place = if place == "replication_factor" { String::new() } else { format!(" in {place}") };
            advice.push(format!(
                "keyspace {keyspace} keeps {number} of each row{place}: mail needs {COPIES_MIN} to outlive the loss of a node \
                 (ALTER KEYSPACE, then nodetool repair --full)"
            ));
        }
    }
    if !durable_writes {
        advice.push(format!(
            "keyspace {keyspace} has durable_writes = false, so a crash may lose acknowledged mail: set it to true \
             (ALTER KEYSPACE)"
        ));
    }
    advice
}

/// Mail, password verifiers and the database's password cross the network.
fn on_encryption(options: &Options) -> Option<String> {
    let host = options.hosts.iter().find(|host| !is_loopback(host)).filter(|_| options.tls.is_none())?;
    Some(format!(
        "connections to {host} and its cluster are not encrypted: mail and password verifiers cross the \
         network in clear (add tls=yes&ca=FILE to `engine`, or use a network that nobody else can reach)"
    ))
}

/// `host` is as in [`Options::hosts`].
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or(host);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn on_commit_log(node: &str, setting: Result<Option<String>>) -> Option<String> {
    match setting {
        Ok(Some(sync)) if sync == "batch" || sync == "group" => None,
        Ok(Some(sync)) => Some(format!(
            "node {node} has commitlog_sync: {sync}: it answers before a write is on its disk, so a power cut of all nodes loses \
             acknowledged mail (set batch or group in cassandra.yaml)"
        )),
        Ok(None) => Some(format!(
            "node {node} does not show its setting commitlog_sync: see that it is batch or group in cassandra.yaml"
        )),
        Err(error) => Some(format!(
            "node {node} does not show its setting commitlog_sync ({error}): see that it is batch or group in cassandra.yaml"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replication(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn mail_in_clear_is_named() {
        let of = |url: &str| on_encryption(&Options::from_url(url).unwrap());
        let why = of("cassandra://127.0.0.1,db2.example:9042/mail").unwrap_or_default();
        assert!(why.contains("db2.example:9042") && why.contains("tls=yes"), "{why}");
        assert!(of("cassandra://[fd00::1]:9042/mail").is_some());
        for safe in ["localhost:9042", "127.0.0.2", "[::1]:9042"] {
            assert_eq!(of(&format!("cassandra://{safe}/mail")), None);
        }
        assert_eq!(of("cassandra://db2.example/mail?tls=yes&ca=/ca.pem"), None);
    }

    #[test]
    fn few_copies_and_lazy_logs_are_named() {
        let good = replication(&[("class", "x.NetworkTopologyStrategy"), ("east", "3"), ("west", "5")]);
        assert_eq!(on_replication("mail", &good, true, None), [""; 0]);
        let few = replication(&[("class", "x.NetworkTopologyStrategy"), ("east", "2"), ("west", "3")]);
        let [why] = &on_replication("mail", &few, true, None)[..] else { panic!("one sentence") };
        assert!(why.contains("keeps 2 of each row in east"), "{why}");
        assert_eq!(on_replication("mail", &few, true, Some("west")), [""; 0]);
        let simple = replication(&[("class", "x.SimpleStrategy"), ("replication_factor", "1")]);
        let both = on_replication("mail", &simple, false, None);
        assert_eq!(both.len(), 2);
        assert!(both[1].contains("durable_writes"), "{both:?}");
        assert_eq!(on_commit_log("n", Ok(Some("batch".into()))), None);
        assert_eq!(on_commit_log("n", Ok(Some("group".into()))), None);
        let why = on_commit_log("10.0.0.1", Ok(Some("periodic".into()))).unwrap_or_default();
        assert!(why.contains("10.0.0.1") && why.contains("periodic"), "{why}");
        assert!(on_commit_log("n", Ok(None)).is_some());
    }
}
