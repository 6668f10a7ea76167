//! Where the cluster is and how patient to be with it.

use std::time::Duration;

use crate::schema;

/// How an engine is opened.
#[derive(Clone)]
pub struct Options {
    /// Some of the cluster's nodes as `host` or `host:port`; the others are learnt from them.
    pub hosts: Vec<String>,
    /// The keyspace: lower-case letters, digits and `_`.
    pub keyspace: String,
    /// User and password, if the cluster asks for them.
    pub login: Option<(String, String)>,
    /// The data centre whose nodes are asked, if the cluster has several. `None`: those of any.
    pub datacenter: Option<String>,
    /// After this the database counts as silent. Above Cassandra's own time-outs (5 s for reads, 1.8 s for Paxos under
    /// contention), so that it is the database that gives up first and says what it knows.
    pub request_timeout: Duration,
    /// What no commit refers to is left alone for this long: far longer than any commit takes, and than clocks differ.
    pub sweep_after: Duration,
    /// A sweep begins at most this often. It reads all keys.
    pub sweep_every: Duration,
}

impl Options {
    /// For a server.
    pub fn new(hosts: Vec<String>, keyspace: impl Into<String>) -> Self {
        Self {
            hosts,
            keyspace: keyspace.into(),
            login: None,
            datacenter: None,
            request_timeout: Duration::from_secs(8),
            sweep_after: Duration::from_secs(3600),
            sweep_every: Duration::from_secs(7 * 86_400),
        }
    }

    /// From `cassandra://HOST[:PORT][,HOST…]/KEYSPACE`; the error is one sentence.
    pub fn from_url(url: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| Err(format!("{url}: {why}; it should read cassandra://HOST[:PORT][,HOST…]/KEYSPACE"));
        let Some(rest) = url.strip_prefix("cassandra://") else {
            return wrong("it is no cassandra:// address");
        };
        let Some((hosts, keyspace)) = rest.split_once('/') else { return wrong("the keyspace is missing") };
        if !schema::keyspace_is_valid(keyspace) {
            return wrong("a keyspace has lower-case letters, digits and _ only, 48 at most, a letter first");
        }
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if hosts.iter().any(String::is_empty) || rest.contains('@') {
            return wrong("a host is missing, or a password is in the address");
        }
        Ok(Self::new(hosts, keyspace))
    }
}

impl std::fmt::Debug for Options {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cassandra://{}/{}", self.hosts.join(","), self.keyspace)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let options = Options::from_url("cassandra://a:9042,b/mail").unwrap();
        assert_eq!(
            (options.hosts, options.keyspace.as_str()),
            (vec!["a:9042".to_owned(), "b".to_owned()], "mail")
        );
        for wrong in [
            "cassandra://a",
            "cassandra:///mail",
            "cassandra://a,/mail",
            "lmdb:/x",
            "cassandra://a/Mail",
            "cassandra://u:p@a/m",
        ] {
            assert!(Options::from_url(wrong).is_err(), "{wrong}");
        }
    }
}
