//! A server of its own, its accounts, and what attackers use to talk to it.

use std::io::{Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::{DnsRecord, DnsServer, LONG_POLL, LineClient, Poll, Server, ServerBuilder};
use socket2::{Domain, Socket, Type};

use crate::{Gate, Gauge, Neighbour};

/// The account of the attacker, who knows its password.
pub const ATTACKER: &str = "mallory@example.org";
/// Whose rich mail (TNEF) is converted at delivery.
pub const RICH: &str = "rich@example.org";
/// Another account of the attacker, for as many mailboxes as one account may have.
pub const COLLECTOR: &str = "collector@example.org";
/// Another account of the attacker, for subscriptions whose names have as many levels as possible.
pub const LISTER: &str = "lister@example.org";
/// Another account of the attacker, for as many shared mailboxes as one account may have.
pub const SHARER: &str = "sharer@example.org";
/// Somebody who logs in and gets mail while others are attacked.
pub const BYSTANDER: &str = "bystander@example.org";
/// Whose listing is measured.
const NEIGHBOUR: &str = "neighbour@example.org";
/// A domain of the attacker, with a key.
pub const SIGNER: &str = "signer.example";
/// A domain of the attacker whose names have as many texts as an answer holds.
pub const LONG_ANSWERS: &str = "answers.example";
/// The password of all of them.
pub const PASSWORD: &str = "correct horse battery";

/// All protocols, and the ports where TLS begins at once.
pub const PROTOCOLS: [&str; 9] =
    ["imap", "imaps", "pop3", "pop3s", "lmtp", "submission", "submissions", "smtp", "sieve"];
/// Those of them where TLS begins at once.
const TLS_PROTOCOLS: [&str; 3] = ["imaps", "pop3s", "submissions"];

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// So little that the test command can wait for it, on a debug build.
    Quick,
    /// As much as a peer may do.
    Full,
}

/// Everything an attack needs.
pub struct Stage {
    /// How much.
    pub scale: Scale,
    /// The server's memory and CPU time.
    pub gauge: Gauge,
    /// Who fetches all the while.
    pub neighbour: Neighbour,
    /// Where attacks wait for each other once they have reached their state, if they shall.
    pub gate: Gate,
    /// Descriptors that this process may have.
    pub descriptors: u64,
    large: OnceLock<usize>,
    /// Lines about long polls that were looked at.
    polls_seen: AtomicUsize,
    /// How many times somebody else logged in and got mail, since the last look.
    served: AtomicUsize,
    /// Accounts that were made for a first login.
    newcomers: AtomicUsize,
    server: Server,
}

impl Stage {
    /// Where the server has to listen. What tries the attacks judges its long polls.
    pub fn listen(builder: ServerBuilder) -> ServerBuilder {
        let builder = builder.polls_are_judged_elsewhere();
        PROTOCOLS.iter().fold(builder, |builder, name| builder.listen(&format!("{name}=127.0.0.1:0")))
    }

    /// A name server that knows the attacker's domain, and gives answers of 64 KiB (RFC 1035
    /// §4.2.2) for all names of another one.
    pub fn name_server() -> DnsServer {
        let key = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        let name = format!("s._domainkey.{SIGNER}");
        let any = format!("*.{LONG_ANSWERS}");
        let long = (0..4_000).map(|n| (any.as_str(), DnsRecord::Txt(format!("{n:03x}"))));
        DnsServer::start(long.chain([(name.as_str(), DnsRecord::Txt(key.to_owned()))]))
    }

    /// The part of the configuration that attacks need: the name server, that not all of
    /// loopback is believed, and that messages may have annotations. One address of loopback is a
    /// proxy, so that attackers come from any address, and users log in from there.
    pub fn settings(dns: &DnsServer) -> String {
        let others = "[authentication]\ntrusted_networks = [\"127.0.0.1/32\"]\n[imap]\nannotations = true\n\
                      [listen]\nproxy_networks = [\"127.0.0.3\"]\n[login]\nplaintext = \"always\"\n";
        format!("[relay]\ndns = [\"{}\"]\n{others}", dns.address())
    }

    /// Makes the accounts on a server that has just started, and starts the neighbour.
    pub fn new(server: Server, scale: Scale) -> Result<Self> {
        for name in [ATTACKER, COLLECTOR, LISTER, SHARER, BYSTANDER, NEIGHBOUR, RICH] {
            server.add_account(name, PASSWORD);
        }
        let set = server.command(&["account", "set", RICH, "--format", "mime"], "");
        assert!(set.status.success(), "account set: {}", String::from_utf8_lossy(&set.stderr));
        let gauge = Gauge::new(server.pid());
        let neighbour = Neighbour::start(server.address("imap"), NEIGHBOUR, PASSWORD, gauge)?;
        let descriptors = raise_descriptors();
        let [polls_seen, served, newcomers] = [(); 3].map(|()| AtomicUsize::new(0));
        let (gate, large) = (Gate::default(), OnceLock::new());
        let stage =
            Self { scale, gauge, neighbour, gate, descriptors, large, polls_seen, served, newcomers, server };
        // An account that logged in from here before is not throttled for the failures of others.
        stage.login(BYSTANDER)?;
        // And its password is not hashed again: that takes 19 MiB, which an attack would count.
        stage.login(ATTACKER)?;
        Ok(stage)
    }

    /// One of two numbers, by the scale.
    pub fn of(&self, quick: usize, full: usize) -> usize {
        if self.scale == Scale::Quick { quick } else { full }
    }

    /// Where a protocol listens.
    pub fn address(&self, protocol: &str) -> SocketAddr {
        self.server.address(protocol)
    }

    /// Keeps an attack as it is until the neighbour has been answered some times. Meanwhile
    /// somebody else logs in and gets mail. If the gate is closed, it stays so until that opens.
    pub fn hold(&self) -> std::result::Result<(), String> {
        self.neighbour.wait_for(1)?;
        let session = self.login(BYSTANDER).map_err(|error| format!("meanwhile {error}"))?;
        self.bystander_gets_mail()?;
        drop(session);
        self.served.fetch_add(1, Ordering::Relaxed);
        self.neighbour.wait_for(self.of(1, 39))?;
        self.gate.pass();
        Ok(())
    }

    /// How many times somebody else was served during an attack, since the last call.
    pub fn times_served(&self) -> usize {
        self.served.swap(0, Ordering::Relaxed)
    }

    /// A socket of a protocol, nothing read.
    pub fn socket(&self, protocol: &str) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address(protocol))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A socket of a host that nobody believes: see [`Stage::settings`].
    pub fn untrusted_host(&self, protocol: &str) -> Result<TcpStream> {
        socket_of(Ipv4Addr::new(127, 0, 0, 2), self.address(protocol))
    }

    /// A socket that the server takes for one of this address, because a proxy says so.
    pub fn socket_from(&self, protocol: &str, address: Ipv4Addr) -> Result<TcpStream> {
        let mut socket = socket_of(Ipv4Addr::new(127, 0, 0, 3), self.address(protocol))?;
        socket.write_all(format!("PROXY TCP4 {address} 198.51.100.1 9 143\r\n").as_bytes())?;
        Ok(socket)
    }

    /// A client of a protocol whose greeting was read.
    pub fn client(&self, protocol: &str) -> Result<LineClient> {
        let mut client = LineClient::connect(self.address(protocol))?;
        client.line()?;
        Ok(client)
    }

    /// Waits until the server has taken every connection that was made so far. A listener takes
    /// them in their order, so those before one that is greeted are not on the way any more.
    pub fn all_are_admitted(&self) -> Result<()> {
        for protocol in PROTOCOLS {
            let client = LineClient::connect(self.address(protocol))?;
            let mut client = if TLS_PROTOCOLS.contains(&protocol) { client.tls()? } else { client };
            client.line()?;
        }
        Ok(())
    }

    /// An IMAP session of an account.
    pub fn login(&self, user: &str) -> Result<LineClient> {
        logged_in(self.client("imap")?, user)
    }

    /// An IMAP session of an account, from this address.
    pub fn login_from(&self, address: Ipv4Addr, user: &str) -> Result<LineClient> {
        let mut client = LineClient::over(self.socket_from("imap", address)?)?;
        client.line()?;
        logged_in(client, user)
    }

    /// Delivers a message by LMTP from this address; the reply for its recipient.
    pub fn deliver_from(&self, address: Ipv4Addr, to: &str, message: &[u8]) -> Result<String> {
        let mut client = LineClient::over(self.socket_from("lmtp", address)?)?;
        client.line()?;
        hand_in(client, "LHLO", to, message)
    }

    /// A new account of somebody who has never logged in. The server remembers no password of it.
    pub fn newcomer(&self) -> Result<String> {
        let number = self.newcomers.fetch_add(1, Ordering::Relaxed);
        let name = format!("newcomer{number}@example.org");
        let made = self.server.command(&["account", "add", &name, "--password-stdin"], PASSWORD);
        match made.status.success() {
            true => Ok(name),
            false => {
                let said = String::from_utf8_lossy(&made.stderr);
                Err(std::io::Error::other(format!("account add: {said}")))
            }
        }
    }

    /// A POP3 session of an account.
    pub fn pop3(&self, user: &str) -> Result<LineClient> {
        let mut client = self.client("pop3")?;
        client.send(format!("USER {user}\r\nPASS {PASSWORD}\r\n").as_bytes())?;
        client.line()?;
        match client.line()? {
            line if line.starts_with("+OK") => Ok(client),
            line => Err(std::io::Error::other(format!("{user} cannot log in: {line}"))),
        }
    }

    /// A ManageSieve session of an account.
    pub fn sieve(&self, user: &str) -> Result<LineClient> {
        let mut client = LineClient::connect(self.address("sieve"))?;
        while !client.line()?.starts_with("OK") {}
        let response = STANDARD.encode(format!("\0{user}\0{PASSWORD}"));
        client.send(format!("AUTHENTICATE \"PLAIN\" \"{response}\"\r\n").as_bytes())?;
        match client.line()? {
            line if line.starts_with("OK") => Ok(client),
            line => Err(std::io::Error::other(format!("{user} cannot log in: {line}"))),
        }
    }

    /// Delivers a message by LMTP; the reply for its recipient.
    pub fn deliver(&self, to: &str, message: &[u8]) -> Result<String> {
        self.deliver_by("lmtp", to, message)
    }

    /// Delivers a message by LMTP or SMTP.
    pub fn deliver_by(&self, protocol: &str, to: &str, message: &[u8]) -> Result<String> {
        hand_in(self.client(protocol)?, if protocol == "lmtp" { "LHLO" } else { "EHLO" }, to, message)
    }

    /// The lines about sessions that kept a thread for longer than `log.long_polls`, or than a
    /// debug build may.
    pub fn long_polls(&self) -> Vec<String> {
        self.server.logged(LONG_POLL)
    }

    /// The longest poll that was logged since the last call.
    pub fn longest_poll(&self) -> Option<Poll> {
        let lines = self.long_polls();
        let seen = self.polls_seen.swap(lines.len(), Ordering::Relaxed);
        lines.iter().skip(seen).filter_map(|line| Poll::read(line)).max_by_key(|poll| poll.cpu)
    }

    /// That somebody else gets mail now.
    pub fn bystander_gets_mail(&self) -> std::result::Result<(), String> {
        match self.deliver(BYSTANDER, b"Subject: hello\r\n\r\nhello\r\n") {
            Ok(reply) if reply.starts_with("250") => Ok(()),
            other => Err(format!("mail for somebody else: {other:?}")),
        }
    }

    /// A session of the attacker in the mailbox `Large`, whose one message is large and made of
    /// words.
    pub fn in_large(&self) -> Result<LineClient> {
        let mut client = self.login(ATTACKER)?;
        if self.large.get().is_none() {
            let text = words(self.of(2 << 20, 50 << 20));
            client.imap("CREATE Large")?;
            client.send(format!("t APPEND Large {{{}}}\r\n", text.len()).as_bytes())?;
            client.line()?;
            client.send(&text)?;
            client.imap("")?;
            let _ = self.large.set(text.len());
        }
        client.imap("SELECT Large")?;
        Ok(client)
    }

    /// Whether the server runs still.
    pub fn is_alive(&self) -> bool {
        self.gauge.memory() > 0
    }
}

/// A socket of this address of loopback.
pub fn socket_of(own: Ipv4Addr, address: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((own, 0)).into())?;
    socket.connect(&address.into())?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// Logs in after the greeting.
fn logged_in(mut client: LineClient, user: &str) -> Result<LineClient> {
    let answer = client.imap(&format!("LOGIN {user} \"{PASSWORD}\""))?;
    match answer.last().filter(|line| line.starts_with("t OK")) {
        Some(_) => Ok(client),
        None => Err(std::io::Error::other(format!("{user} cannot log in: {answer:?}"))),
    }
}

/// Hands a message in after the greeting; the reply for its recipient.
fn hand_in(mut client: LineClient, hello: &str, to: &str, message: &[u8]) -> Result<String> {
    client.ask(&format!("{hello} hostile.example"))?;
    client.ask("MAIL FROM:<a@example.net>")?;
    client.ask(&format!("RCPT TO:<{to}>"))?;
    client.ask("DATA")?;
    client.send(&posthaste_testkit::dot_stuffed(message))?;
    client.reply()
}

/// A message of hexadecimal words that do not repeat, about so long.
pub fn words(len: usize) -> Vec<u8> {
    let mut text = b"Subject: words\r\n\r\n".to_vec();
    let mut n = 0_u64;
    while text.len() < len {
        n += 1;
        text.extend(format!("{:016x}\r\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bytes());
    }
    text
}

/// Lets this process have as many descriptors as the system allows; how many.
fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    current.unwrap_or(u64::MAX)
}

/// Sends without ever waiting for the server for long: what it has not taken after the neighbour
/// was answered thrice is not sent. How many bytes were.
pub fn push(
    stage: &Stage,
    socket: &mut TcpStream,
    mut bytes: impl FnMut() -> Option<Vec<u8>>,
) -> std::result::Result<u64, String> {
    socket.set_nonblocking(true).map_err(|e| e.to_string())?;
    let mut sent = 0;
    'pieces: while let Some(piece) = bytes() {
        let (mut rest, mut refusals) = (&piece[..], 0);
        while !rest.is_empty() {
            match socket.write(rest) {
                Ok(count) => {
                    sent += count as u64;
                    rest = &rest[count..];
                    refusals = 0;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && refusals < 3 => {
                    refusals += 1;
                    stage.neighbour.wait_for(1)?;
                }
                // It closed the connection or stopped reading: it may do either.
                Err(_) => break 'pieces,
            }
        }
    }
    socket.set_nonblocking(false).map_err(|e| e.to_string())?;
    Ok(sent)
}

/// Reads until the answers contain `what`. An error if the connection ends before.
pub fn until(socket: &mut TcpStream, what: &str) -> Result<()> {
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let (mut said, mut piece) = (String::new(), [0; 4096]);
    while !said.contains(what) {
        match socket.read(&mut piece)? {
            0 => return Err(std::io::Error::other(format!("hung up before {what:?}: {said:?}"))),
            count => said += &String::from_utf8_lossy(&piece[..count]),
        }
    }
    Ok(())
}

/// Ends our side and reads the rest of the server's octets, up to 1 MiB. A reset is an end.
pub fn last_words(socket: &mut TcpStream) -> Result<String> {
    let _ = socket.shutdown(std::net::Shutdown::Write);
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let (mut said, mut piece) = (Vec::new(), [0; 16 * 1024]);
    loop {
        match socket.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => {
                if said.len() < 1 << 20 {
                    said.extend_from_slice(&piece[..count]);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}
