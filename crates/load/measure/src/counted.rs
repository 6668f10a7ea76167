//! Reads a server's own counts: `GET /cost` (JSON) and `GET /metrics` (OpenMetrics text). Posthaste
//! offers them at `listen.metrics` and on a socket in its data directory.
//!
//! Two [`Reading`]s make a [`Counted`]. A server without `/cost` has no figures of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use posthaste_load_results::{Amounts, Counted, CountedClient, CountedCommand, CountedThread};
use serde::Deserialize;

use crate::deadline::{TIMEOUT, Timed, Until};

/// The longest answer taken: 100,000 accounts take some 40 MB.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Longest wait for a whole answer: that of 100,000 accounts takes some 4 s over 100 Mbit/s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The place where a server gives its own figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figures {
    /// HTTP at this host and port.
    Http(String),
    /// HTTP on a Unix socket: `metrics.sock` of the data directory.
    Socket(PathBuf),
}

impl FromStr for Figures {
    type Err = String;

    /// `http://HOST:PORT`, or the path of a socket or of the data directory that has it.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("http://") {
            let host = rest.trim_end_matches('/');
            let host = host.strip_suffix("/metrics").or(host.strip_suffix("/cost")).unwrap_or(host);
            return match host.rsplit_once(':') {
                Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Self::Http(host.to_owned()))
                }
                _ => Err(format!("`{text}` needs a host and a port: http://127.0.0.1:9100")),
            };
        }
        if !text.contains('/') {
            let what =
                "is neither http://HOST:PORT nor the path of a socket or data directory (./posthaste-data)";
            return Err(format!("`{text}` {what}"));
        }
        let path = PathBuf::from(text);
        Ok(Self::Socket(if path.is_dir() { path.join("metrics.sock") } else { path }))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(host) => write!(f, "http://{host}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The counts of a server at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    source: String,
    /// The time when it was read; a file has no time.
    at: Option<Instant>,
    /// By protocol, command, class of folder.
    commands: BTreeMap<(String, String, String), Amounts>,
    accounts: BTreeMap<String, Amounts>,
    clients: BTreeMap<String, Amounts>,
    threads: BTreeMap<String, f64>,
}

impl Figures {
    /// Reads both.
    ///
    /// # Errors
    /// The server does not answer, or what it answers to `/cost` is not such a list.
    pub fn read(&self) -> io::Result<Reading> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{self}: {e}"));
        let cost = self.get("/cost").map_err(named)?;
        let mut reading = Reading::parse(&cost, &self.to_string()).map_err(named)?;
        // A server without /metrics has no roles of threads.
        if let Ok(text) = self.get("/metrics") {
            reading.threads = threads(&String::from_utf8_lossy(&text));
        }
        reading.at = Some(Instant::now());
        Ok(reading)
    }

    fn get(&self, path: &str) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        match self {
            Self::Http(host) => {
                let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                let address = host.to_socket_addrs()?.next().ok_or_else(none)?;
                let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                get_over(stream, host, path, deadline)
            }
            Self::Socket(socket) => {
                let stream = UnixStream::connect(socket)?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                get_over(stream, "localhost", path, deadline)
            }
        }
    }
}

/// One request by HTTP/1.0: the answer ends with the connection, and is never in chunks
/// (RFC 1945 §7.2.2).
fn get_over(mut stream: impl Timed, host: &str, path: &str, deadline: Instant) -> io::Result<Vec<u8>> {
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    Until { stream, deadline }.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer)?;
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err(bad(format!("the answer to {path} is longer than {ANSWER_BYTES_MAX} bytes")));
    }
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.ok_or_else(|| bad(format!("no HTTP server answers to {path}")))?;
    let first = String::from_utf8_lossy(&answer[..end]);
    let first = first.lines().next().unwrap_or_default().to_owned();
    if first.split(' ').nth(1) != Some("200") {
        return Err(bad(format!("GET {path} is answered `{first}`")));
    }
    answer.drain(..end + 4);
    Ok(answer)
}

#[derive(Deserialize)]
struct Cost {
    commands: Vec<CountedCommand>,
    #[serde(default)]
    accounts: Vec<OfAccount>,
    #[serde(default)]
    clients: Vec<CountedClient>,
}

#[derive(Deserialize)]
struct OfAccount {
    account: String,
    #[serde(flatten)]
    amounts: Amounts,
}

impl Reading {
    /// Reads the JSON of `/cost`; `source` is the name of it in errors and reports.
    ///
    /// # Errors
    /// It is not such a list.
    pub fn parse(json: &[u8], source: &str) -> io::Result<Self> {
        let cost: Cost = serde_json::from_slice(json).map_err(|e| {
            let what = format!("this is not the JSON of a server's /cost: {e}");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        let commands =
            cost.commands.into_iter().map(|c| ((c.protocol, c.command, c.folder), c.amounts)).collect();
        Ok(Self {
            source: source.to_owned(),
            at: None,
            commands,
            accounts: cost.accounts.into_iter().map(|a| (a.account, a.amounts)).collect(),
            clients: cost.clients.into_iter().map(|c| (c.client, c.amounts)).collect(),
            threads: BTreeMap::new(),
        })
    }

    /// The counts since an earlier reading; since the server's start without one.
    pub fn since(&self, earlier: Option<&Self>) -> Counted {
        let then = |amounts: Option<&Amounts>| amounts.copied().unwrap_or_default();
        let commands = self
            .commands
            .iter()
            .map(|(key, now)| CountedCommand {
                protocol: key.0.clone(),
                command: key.1.clone(),
                folder: key.2.clone(),
                amounts: now.since(then(earlier.and_then(|e| e.commands.get(key)))),
            })
            .filter(|c| c.amounts != Amounts::default())
            .collect();
        let active = |(name, now): &(&String, &Amounts)| {
            now.since(then(earlier.and_then(|e| e.accounts.get(*name)))).commands > 0
        };
        let mut clients: Vec<CountedClient> = self
            .clients
            .iter()
            .map(|(name, now)| CountedClient {
                client: name.clone(),
                amounts: now.since(then(earlier.and_then(|e| e.clients.get(name)))),
            })
            .filter(|c| c.amounts.commands > 0)
            .collect();
        clients.sort_by_key(|c| u64::MAX - c.amounts.cpu_ns);
        let threads = self.threads.iter().map(|(role, now)| {
            let then = earlier.and_then(|e| e.threads.get(role)).filter(|then| *then <= now);
            CountedThread { role: role.clone(), cpu_s: now - then.copied().unwrap_or(0.0) }
        });
        let mut threads: Vec<CountedThread> = threads.collect();
        threads.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        let times = self.at.zip(earlier.and_then(|e| e.at));
        Counted {
            source: self.source.clone(),
            seconds: times.map_or(0.0, |(now, then)| now.saturating_duration_since(then).as_secs_f64()),
            accounts: self.accounts.iter().filter(active).count() as u64,
            commands,
            clients,
            threads,
        }
    }
}

/// CPU seconds by role: `posthaste_thread_cpu_seconds{role="writer"} 0.5`.
fn threads(text: &str) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let rest = line.strip_prefix("posthaste_thread_cpu_seconds{role=\"")?;
        let (role, value) = rest.split_once("\"} ")?;
        Some((role.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    const COST: &str = r#"{"commands": [
        {"protocol": "imap", "command": "FETCH", "folder": "100", "cpu_ns": 500, "commands": 5, "body_reads": 2},
        {"protocol": "imap", "command": "NOOP", "folder": "none", "commands": 1, "new_figure": 7}],
        "accounts": [{"account": "ana@example.org", "commands": 6, "folders": []}],
        "clients": [{"client": "aerc", "commands": 6, "cpu_ns": 500}]}"#;

    /// Answers requests in order.
    fn server(answers: Vec<String>) -> Figures {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Figures::Http(address.to_string())
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.0 200 OK\r\ncontent-type: x\r\n\r\n{body}")
    }

    #[test]
    fn two_readings_make_a_window() {
        let more = COST
            .replace("\"commands\": 5", "\"commands\": 8")
            .replace("\"body_reads\": 2", "\"body_reads\": 4");
        let threads =
            |cpu| ok(&format!("# HELP x\nposthaste_thread_cpu_seconds{{role=\"writer\"}} {cpu}\n# EOF\n"));
        let figures = server(vec![ok(COST), threads("1.5"), ok(&more), threads("2.0")]);
        let before = figures.read().unwrap();
        let window = figures.read().unwrap().since(Some(&before));
        // NOOP was not given again, and the account's sum stayed as it was.
        assert_eq!((window.commands.len(), window.accounts, window.clients.len()), (1, 0, 0));
        let fetch = &window.commands[0];
        assert_eq!(
            (fetch.command.as_str(), fetch.amounts.commands, fetch.amounts.body_reads),
            ("FETCH", 3, 2)
        );
        assert_eq!(window.threads, [CountedThread { role: "writer".into(), cpu_s: 0.5 }]);
        let all = before.since(None);
        assert_eq!((all.commands.len(), all.accounts, all.clients[0].client.as_str()), (2, 1, "aerc"));
        assert_eq!(all.seconds, 0.0);
    }

    #[test]
    fn an_answer_without_figures_is_an_error_that_names_the_server() {
        let refused = server(vec!["HTTP/1.0 404 Not Found\r\n\r\n".into()]).read().unwrap_err().to_string();
        assert!(refused.starts_with("http://127.0.0.1:") && refused.contains("404 Not Found"), "{refused}");
        let other = server(vec![ok("{}")]).read().unwrap_err().to_string();
        assert!(other.contains("not the JSON of a server's /cost"), "{other}");
        let mail = server(vec!["* OK IMAP4rev1\r\n".into()]).read().unwrap_err().to_string();
        assert!(mail.contains("no HTTP server answers"), "{mail}");
    }

    #[test]
    fn an_answer_must_be_whole_by_its_deadline() {
        let get = |deadline| {
            let (own, mut server) = UnixStream::pair().unwrap();
            server.write_all(ok("{}").as_bytes()).unwrap();
            server.shutdown(std::net::Shutdown::Write).unwrap();
            get_over(own, "localhost", "/cost", deadline).map_err(|e| e.kind())
        };
        assert_eq!(get(Instant::now()), Err(io::ErrorKind::TimedOut));
        assert_eq!(get(Instant::now() + ANSWER_TIMEOUT), Ok(b"{}".to_vec()));
    }

    #[test]
    fn addresses() {
        assert_eq!("http://127.0.0.1:9100/metrics".parse(), Ok(Figures::Http("127.0.0.1:9100".into())));
        assert_eq!("./x.sock".parse(), Ok(Figures::Socket("./x.sock".into())));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert_eq!(path.parse(), Ok(Figures::Socket(folder.path().join("metrics.sock"))));
        for wrong in ["9100", "http://host", "http://:1", "http://host:x"] {
            assert!(wrong.parse::<Figures>().is_err(), "{wrong}");
        }
    }
}
