//! A name server on loopback that answers from a table (RFC 1035), over UDP and TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// Octets of an answer over UDP (RFC 6891 §6.2.5). A longer one is cut, so that the client asks
/// again over TCP.
const UDP_LEN_MAX: usize = 1_232;
/// Octets of the header (RFC 1035 §4.1.1).
const HEADER_LEN: usize = 12;

/// A record's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsRecord {
    /// An IPv4 address.
    A([u8; 4]),
    /// A host that takes mail, with its preference; the empty name is the null MX (RFC 7505).
    Mx(u16, String),
    /// A name, most often of an address: `1.0.0.127.in-addr.arpa`.
    Ptr(String),
    /// A text.
    Txt(String),
    /// The data that a certificate must match: usage, selector, matching type, data (RFC 6698
    /// §2.1).
    Tlsa(u8, u8, u8, Vec<u8>),
}

impl DnsRecord {
    /// RFC 1035 §3.2.2.
    const fn kind(&self) -> u16 {
        match self {
            Self::A(_) => 1,
            Self::Ptr(_) => 12,
            Self::Mx(..) => 15,
            Self::Txt(_) => 16,
            Self::Tlsa(..) => 52,
        }
    }

    fn data(&self) -> Vec<u8> {
        match self {
            Self::A(address) => address.to_vec(),
            Self::Mx(preference, host) => [preference.to_be_bytes().to_vec(), labels(host)].concat(),
            Self::Ptr(host) => labels(host),
            Self::Tlsa(usage, selector, matching, data) => {
                [&[*usage, *selector, *matching], data.as_slice()].concat()
            }
            Self::Txt(text) => {
                let parts = text.as_bytes().chunks(255);
                parts.flat_map(|part| [&[part.len() as u8], part].concat()).collect()
            }
        }
    }
}

/// The records of a piece of a zone file as `posthaste domain` prints it, as name and content.
/// Panics at any other line.
pub fn zone(text: &str) -> Vec<(String, DnsRecord)> {
    let lines: String =
        text.lines().filter(|line| !line.starts_with(';')).map(|line| format!("{line}\n")).collect();
    let mut records = Vec::new();
    for line in lines.replace("(\n", "(").replace("\"\n    ", "\"").lines() {
        let (name, rest) = line.split_once(". IN ").unwrap_or_else(|| panic!("{line}"));
        let record = match rest.split_once(' ') {
            Some(("MX", to)) => {
                let host = to.strip_prefix("10 ").unwrap_or_else(|| panic!("{line}"));
                DnsRecord::Mx(10, host.trim_end_matches('.').to_owned())
            }
            Some(("TXT", strings)) => {
                let strings: Vec<&str> = strings.split('"').skip(1).step_by(2).collect();
                assert!(strings.iter().all(|string| string.len() <= 255), "{line}");
                DnsRecord::Txt(strings.concat())
            }
            _ => panic!("{line}"),
        };
        records.push((name.to_owned(), record));
    }
    records
}

/// A name server that runs as long as the test.
#[derive(Debug)]
pub struct DnsServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

#[derive(Debug, Default)]
struct Zone {
    records: Vec<(String, DnsRecord)>,
    /// Whether answers claim that DNSSEC proves them.
    is_secure: bool,
    /// Names that fail (SERVFAIL).
    failing: Vec<String>,
    /// Names without an answer.
    mute: Vec<String>,
}

impl DnsServer {
    /// Serves these records. A name without any does not exist (NXDOMAIN). The star of
    /// `*.evil.test` is one label or several.
    pub fn start<'n>(records: impl IntoIterator<Item = (&'n str, DnsRecord)>) -> Self {
        let server = Self::listen();
        server.serve(records);
        server
    }

    /// Serves these records, and says of each answer that DNSSEC proves it (RFC 4035 §3.2.3).
    pub fn start_secure<'n>(records: impl IntoIterator<Item = (&'n str, DnsRecord)>) -> Self {
        let server = Self::start(records);
        server.prove();
        server
    }

    /// Says from now on that DNSSEC proves the answers.
    pub fn prove(&self) {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).is_secure = true;
    }

    /// Fails from now on at queries for this name (SERVFAIL).
    pub fn fail(&self, name: &str) {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).failing.push(name.to_owned());
    }

    /// Answers no queries for this name from now on.
    pub fn mute(&self, name: &str) {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).mute.push(name.to_owned());
    }

    /// Serves these records from now on.
    pub fn serve<'n>(&self, records: impl IntoIterator<Item = (&'n str, DnsRecord)>) {
        let records = records.into_iter().map(|(name, record)| (name.to_owned(), record)).collect();
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).records = records;
    }

    fn listen() -> Self {
        let zone: Arc<Mutex<Zone>> = Arc::default();
        let (udp, tcp) = (0..100).find_map(|_| sockets()).expect("two sockets on loopback");
        let address = udp.local_addr().expect("an address");
        let served = Arc::clone(&zone);
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((len, from)) = udp.recv_from(&mut query) {
                let zone = served.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(reply) = query.get(..len).and_then(|query| answer(query, &zone, UDP_LEN_MAX)) {
                    let _ = udp.send_to(&reply, from);
                }
            }
        });
        let served = Arc::clone(&zone);
        std::thread::spawn(move || {
            for connection in tcp.incoming().map_while(Result::ok) {
                let served = Arc::clone(&served);
                std::thread::spawn(move || serve_connection(connection, &served));
            }
        });
        Self { address, zone }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A resolver that asks this server alone.
    #[cfg(feature = "resolver")]
    pub fn resolver(&self) -> hickory_resolver::TokioResolver {
        use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
        use hickory_resolver::net::runtime::TokioRuntimeProvider;

        let mut udp = ConnectionConfig::udp();
        udp.port = self.address().port();
        let server = NameServerConfig::new(self.address().ip(), true, vec![udp]);
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let built =
            hickory_resolver::TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        built.build().expect("a resolver of one server")
    }
}

/// Both sockets of one port. A port that is free for UDP may be taken for TCP.
fn sockets() -> Option<(UdpSocket, TcpListener)> {
    let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
    let tcp = TcpListener::bind(udp.local_addr().ok()?).ok()?;
    Some((udp, tcp))
}

/// Answers the queries of a connection, each after its length (RFC 1035 §4.2.2).
fn serve_connection(mut connection: TcpStream, zone: &Mutex<Zone>) -> Option<()> {
    loop {
        let mut len = [0; 2];
        connection.read_exact(&mut len).ok()?;
        let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
        connection.read_exact(&mut query).ok()?;
        let reply = answer(&query, &zone.lock().unwrap_or_else(PoisonError::into_inner), u16::MAX.into());
        if let Some(reply) = reply {
            let len = u16::try_from(reply.len()).ok()?;
            connection.write_all(&[&len.to_be_bytes(), reply.as_slice()].concat()).ok()?;
        }
    }
}

/// Whether a record of this name, perhaps with a star, is one of the name of a query.
fn is_of(record: &str, name: &str) -> bool {
    match record.strip_prefix('*') {
        Some(end) => name.to_ascii_lowercase().ends_with(end),
        None => record.eq_ignore_ascii_case(name),
    }
}

/// The answer to a query (RFC 1035 §4.1), without records if it has more octets than `len_max`;
/// `None` if it is not a query.
fn answer(query: &[u8], zone: &Zone, len_max: usize) -> Option<Vec<u8>> {
    let (name, after) = name_at(query, 12)?;
    let kind = u16::from_be_bytes(query.get(after..after + 2)?.try_into().ok()?);
    let question = query.get(12..after + 4)?;
    let of_name = || zone.records.iter().filter(|(of, _)| is_of(of, &name));
    let found: Vec<&DnsRecord> = of_name().map(|(_, record)| record).filter(|r| r.kind() == kind).collect();
    let lower = name.to_ascii_lowercase();
    if zone.mute.contains(&lower) {
        return None;
    }
    let code: u8 = match of_name().next() {
        _ if zone.failing.contains(&lower) => 2,
        Some(_) => 0,
        None => 3,
    };
    let mut records: Vec<u8> = Vec::new();
    for record in &found {
        let data = record.data();
        // The name is a pointer to the question's; class IN, one minute.
        records.extend([0xc0, 12]);
        records.extend(kind.to_be_bytes());
        records.extend([0, 1, 0, 0, 0, 60]);
        records.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        records.extend(data);
    }
    let is_cut = HEADER_LEN + question.len() + records.len() > len_max;
    let (count, cut): (u16, u8) = if is_cut { (0, 2) } else { (u16::try_from(found.len()).ok()?, 0) };
    let mut reply = query.get(..2)?.to_vec();
    // A response, authoritative, perhaps truncated, recursion wanted and available; perhaps AD.
    let secure = if zone.is_secure { 0x20 } else { 0 };
    reply.extend([0x85 | cut, 0x80 | secure | code, 0, 1]);
    reply.extend(count.to_be_bytes());
    reply.extend([0; 4]);
    reply.extend(question);
    if !is_cut {
        reply.extend(records);
    }
    Some(reply)
}

/// The name at an offset of a query, and where it ends.
fn name_at(query: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut parts = Vec::new();
    loop {
        let len = usize::from(*query.get(at)?);
        if len == 0 {
            return Some((parts.join("."), at + 1));
        }
        parts.push(String::from_utf8_lossy(query.get(at + 1..at + 1 + len)?).into_owned());
        at += 1 + len;
    }
}

fn labels(name: &str) -> Vec<u8> {
    let parts = name.split('.').filter(|part| !part.is_empty());
    parts.flat_map(|part| [&[part.len() as u8], part.as_bytes()].concat()).chain([0]).collect()
}
