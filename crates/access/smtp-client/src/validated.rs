//! DNS answers that a resolver has marked as validated (the AD bit, RFC 6840 §5.7, §5.8).
//!
//! The resolver and the path to it must be trusted. So it must run on this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use hickory_resolver::proto::op::{Edns, Message, Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use posthaste_net::on_dns_thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::dane::Tlsa;

/// For one server: a resolver that validates may have to query many others.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Queries to each server.
const TRIES: usize = 2;
/// RFC 6891 §6.2.5: what passes most networks in one piece.
const UDP_LEN_MAX: u16 = 1_232;
/// Aliases that are followed from one name.
const ALIASES_MAX: usize = 8;
/// Records of an answer that are used, whichever resolver sent it. A domain has a handful of
/// hosts, and a host a handful of addresses.
pub(crate) const RECORDS_MAX: usize = 64;
/// Records of a host that are looked at.
const TLSA_MAX: usize = 32;

/// Asks resolvers that validate.
#[derive(Debug, Clone)]
pub(crate) struct Validated {
    servers: Vec<SocketAddr>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub records: Vec<Record>,
    /// Whether the resolver reports that DNSSEC proves the answer, also an empty one.
    pub is_secure: bool,
    /// Whether the name does not exist.
    pub is_nowhere: bool,
}

impl Validated {
    pub fn new(servers: &[SocketAddr]) -> Self {
        Self { servers: servers.to_vec() }
    }

    /// The answer to a question. An error also if the answer is proven to be forged (SERVFAIL).
    /// The caller's thread parses it: call this within [`on_dns_thread`].
    #[boxed]
    pub async fn lookup(&self, name: &str, kind: RecordType) -> Result<Answer, String> {
        let mut last = "no name server is set: name them in `relay.dns`".to_owned();
        for _ in 0..TRIES {
            for server in &self.servers {
                let answer = timeout(ANSWER_WITHIN, query_server(*server, name, kind)).await;
                match answer.unwrap_or_else(|_| Err(format!("{server} does not answer"))) {
                    Ok(answer) => return Ok(answer),
                    Err(why) => last = why,
                }
            }
        }
        Err(last)
    }

    /// The TLSA records of a host's port, or those of the name that it is an alias of; with the
    /// name that they are of. `None` if DNSSEC does not vouch for any (RFC 7672 §2.2).
    pub async fn tlsa(&self, host: &str, port: u16) -> Result<Option<(String, Vec<Tlsa>)>, String> {
        let (this, host) = (self.clone(), host.to_owned());
        on_dns_thread(async move { this.read_tlsa(&host, port).await }).await
    }

    #[boxed]
    async fn read_tlsa(&self, host: &str, port: u16) -> Result<Option<(String, Vec<Tlsa>)>, String> {
        let addresses = self.lookup(host, RecordType::A).await?;
        if !addresses.is_secure {
            // RFC 7672 §2.2.2: addresses that anybody could have forged.
            return Ok(None);
        }
        for base in [canonical(host, &addresses.records), host.to_owned()] {
            let answer = self.lookup(&format!("_{port}._tcp.{base}"), RecordType::TLSA).await?;
            let records: Vec<Tlsa> = answer.records.iter().filter_map(tlsa).take(TLSA_MAX).collect();
            if answer.is_secure && !records.is_empty() {
                return Ok(Some((base, records)));
            }
        }
        Ok(None)
    }
}

fn tlsa(record: &Record) -> Option<Tlsa> {
    let RData::TLSA(tlsa) = &record.data else { return None };
    Some(Tlsa {
        usage: tlsa.cert_usage.into(),
        selector: tlsa.selector.into(),
        matching: tlsa.matching.into(),
        data: tlsa.cert_data.clone(),
    })
}

/// The name at the end of the aliases of an answer.
fn canonical(name: &str, records: &[Record]) -> String {
    let plain = |name: &Name| name.to_ascii().trim_end_matches('.').to_ascii_lowercase();
    let mut at = name.to_ascii_lowercase();
    for _ in 0..ALIASES_MAX {
        let next = records.iter().find_map(|record| match &record.data {
            RData::CNAME(alias) if plain(&record.name) == at => Some(plain(&alias.0)),
            _ => None,
        });
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}

async fn query_server(server: SocketAddr, name: &str, kind: RecordType) -> Result<Answer, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("DNS for {name} at {server}: {error}");
    let query = query(name, kind).map_err(|error| wrong(&error))?;
    let bytes = query.to_vec().map_err(|error| wrong(&error))?;
    let mut reply = over_udp(server, &bytes, &query).await.map_err(|error| wrong(&error))?;
    if reply.metadata.truncation {
        let bytes = over_tcp(server, &bytes).await.map_err(|error| wrong(&error))?;
        reply = Message::from_vec(&bytes).map_err(|error| wrong(&error))?;
        if !is_answer(&reply, &query) {
            return Err(wrong(&"the answer is to something else"));
        }
    }
    match reply.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => Ok(Answer {
            is_secure: reply.metadata.authentic_data,
            is_nowhere: reply.metadata.response_code == ResponseCode::NXDomain,
            records: reply.answers.into_iter().take(RECORDS_MAX).collect(),
        }),
        code => Err(wrong(&code)),
    }
}

fn query(name: &str, kind: RecordType) -> Result<Message, String> {
    let mut name = Name::from_ascii(name).map_err(|error| error.to_string())?;
    name.set_fqdn(true);
    let mut query = Message::query();
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|error| error.to_string())?;
    query.metadata.id = u16::from_ne_bytes(id);
    query.metadata.recursion_desired = true;
    // RFC 6840 §5.7: the bit says that we understand AD in the answer.
    query.metadata.authentic_data = true;
    query.add_query(Query::query(name, kind));
    query.edns.get_or_insert_with(Edns::new).set_max_payload(UDP_LEN_MAX);
    Ok(query)
}

/// The answer over UDP, from a port that the system draws. Records that do not match the query
/// are skipped: it may be forged.
async fn over_udp(server: SocketAddr, bytes: &[u8], query: &Message) -> std::io::Result<Message> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let len = socket.recv(&mut buffer).await?;
        match Message::from_vec(&buffer[..len]) {
            Ok(reply) if is_answer(&reply, query) => return Ok(reply),
            _ => {}
        }
    }
}

async fn over_tcp(server: SocketAddr, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut tcp = TcpStream::connect(server).await?;
    let len = u16::try_from(bytes.len()).map_err(std::io::Error::other)?;
    tcp.write_all(&[&len.to_be_bytes(), bytes].concat()).await?;
    let mut reply = vec![0; usize::from(tcp.read_u16().await?)];
    tcp.read_exact(&mut reply).await?;
    Ok(reply)
}

fn is_answer(reply: &Message, query: &Message) -> bool {
    reply.metadata.id == query.metadata.id && reply.queries == query.queries
}
