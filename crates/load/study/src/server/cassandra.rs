//! The Apache Cassandra of a study that sweeps nodes: where it is, and the processes of its cost.
//!
//! The study makes a keyspace of its own, so that it never writes where mail is. A keyspace stays
//! after the study: only its administrator removes keyspaces.

use std::net::{TcpStream, ToSocketAddrs};
use std::process;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::watched::Watched;

/// The beginning of the names of a study's keyspaces.
const KEYSPACE: &str = "posthaste_study_";
/// The port of CQL, if an address names none.
const CQL_PORT: u16 = 9042;
/// Replicas of a keyspace, on as many nodes or more. Three tolerate the loss of one.
const REPLICAS_MAX: usize = 3;
/// Longest wait for a connection, before a study begins.
const CONNECT: Duration = Duration::from_secs(5);

/// The Cassandra of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cassandra {
    /// The cluster's address. Servers that already run have theirs.
    pub place: Option<CassandraPlace>,
    /// The processes of its nodes.
    pub watched: Vec<Watched>,
}

impl Cassandra {
    /// The address.
    ///
    /// # Errors
    /// There is none: the remedy.
    pub fn place(&self) -> Result<&CassandraPlace, String> {
        self.place.as_ref().ok_or_else(|| {
            "nodes of Posthaste share an Apache Cassandra: name one by --cassandra HOST:PORT. In Posthaste's sources, \
             `scripts/study scale-out` starts one on this machine for the study"
                .to_owned()
        })
    }
}

/// The address of a Cassandra: that of an engine, without its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassandraPlace {
    /// `[USER@]HOST[:PORT][,HOST…]`
    hosts: String,
    /// `?OPTION=VALUE&…`, or nothing.
    options: String,
}

impl FromStr for CassandraPlace {
    type Err = String;

    /// `[cassandra://][USER@]HOST[:PORT][,HOST…][?OPTION=VALUE&…]`
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let form = "[cassandra://][USER@]HOST[:PORT][,HOST…][?OPTION=VALUE&…]";
            Err(format!("{why}; the address of a Cassandra is {form}"))
        };
        let rest = text.strip_prefix("cassandra://").unwrap_or(text);
        let (hosts, options) = rest.find('?').map_or((rest, ""), |at| rest.split_at(at));
        if let Some((login, _)) = hosts.rsplit_once('@')
            && login.contains(':')
        {
            return wrong(
                "the command is part of the report, so it has no password: add ?password-file=FILE",
            );
        }
        if hosts.contains('/') {
            return wrong("a keyspace is not named: the study makes one of its own");
        }
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '\\';
        let place = Self { hosts: hosts.to_owned(), options: options.to_owned() };
        match rest.chars().all(is_plain) && place.hosts().all(|host| !host.is_empty()) {
            true => Ok(place),
            false => wrong(&format!("`{rest}` names no host")),
        }
    }
}

impl CassandraPlace {
    /// The address of an engine with this keyspace.
    pub fn engine(&self, keyspace: &str) -> String {
        format!("cassandra://{}/{keyspace}{}", self.hosts, self.options)
    }

    fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.rsplit_once('@').map_or(self.hosts.as_str(), |(_, hosts)| hosts).split(',')
    }

    /// The replicas of a study's keyspace: one for each host that is named.
    pub fn replicas(&self) -> usize {
        self.hosts().count().min(REPLICAS_MAX)
    }

    /// Whether all its hosts are this machine.
    pub fn is_here(&self) -> bool {
        self.hosts().all(|host| {
            host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]")
        })
    }

    /// Connects to one of the hosts.
    ///
    /// # Errors
    /// None of them accepts a connection.
    pub fn reach(&self) -> Result<(), String> {
        let mut said = String::new();
        for host in self.hosts() {
            match connect(&with_port(host)) {
                Ok(()) => return Ok(()),
                Err(why) => said = format!("{host}: {why}"),
            }
        }
        Err(format!("no Cassandra accepts connections ({said}): start it, or name another by --cassandra"))
    }
}

/// The host with its port.
fn with_port(host: &str) -> String {
    // The colons of an IPv6 address are in brackets.
    match host.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => host.to_owned(),
        _ => format!("{host}:{CQL_PORT}"),
    }
}

fn connect(host: &str) -> Result<(), String> {
    let mut why = "the name has no address".to_owned();
    for address in host.to_socket_addrs().map_err(|e| e.to_string())? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(_) => return Ok(()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// A name for a keyspace that no other study has.
pub fn new_keyspace() -> String {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    format!("{KEYSPACE}{ms}_{}", process::id())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn place(text: &str) -> CassandraPlace {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn an_address_becomes_the_engine_of_a_keyspace() {
        let one = place("127.0.0.1:19042");
        assert_eq!(one.engine("k"), "cassandra://127.0.0.1:19042/k");
        assert!(one.replicas() == 1 && one.is_here());
        let all = place("cassandra://mail@db1,db2:9142,db3,db4?password-file=/etc/pw&dc=a");
        assert_eq!(all.engine("k"), "cassandra://mail@db1,db2:9142,db3,db4/k?password-file=/etc/pw&dc=a");
        assert!(all.replicas() == 3 && !all.is_here());
        assert_eq!(with_port("db1"), "db1:9042");
        assert_eq!([with_port("[::1]"), with_port("[::1]:1")], ["[::1]:9042", "[::1]:1"]);
    }

    #[test]
    fn an_address_with_a_keyspace_or_a_password_is_refused() {
        let refused = |text: &str| text.parse::<CassandraPlace>().unwrap_err();
        assert!(refused("cassandra://db1/mail").contains("a keyspace is not named"));
        assert!(refused("mail:secret@db1").contains("?password-file=FILE"));
        assert!(!refused("mail:secret@db1").contains("secret"));
        for text in ["", "db1,,db2", "db1 db2", "db1?ca=\"x"] {
            assert!(refused(text).contains("names no host"), "{text}");
        }
        // CQL and the engine accept the name.
        let name = new_keyspace();
        assert!(
            name.len() <= 48
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        );
    }

    #[test]
    fn a_cassandra_that_does_not_answer_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        assert_eq!(place(&host).reach(), Ok(()));
        drop(listener);
        let said = place(&host).reach().unwrap_err();
        assert!(said.contains(&host) && said.contains("--cassandra"), "{said}");
        assert!(Cassandra::default().place().unwrap_err().contains("--cassandra HOST:PORT"));
    }
}
