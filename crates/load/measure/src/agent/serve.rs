//! The agent's end: serves figures to instruments that know the token.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::proof::{End, Nonces, hex, nonce, nonce_of};
use super::wire::{Answer, CLOCK, Challenge, Hello, Lines, SAME_VERSION, VERSION, bad};
use crate::machine;
use crate::monitor::Monitor;
use crate::sample::WatchTarget;

/// The options of an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The token both know.
    pub token: String,
    /// The process to report, unless the instrument names one.
    pub pid: Option<u32>,
    /// The control group to report.
    pub cgroup: Option<PathBuf>,
    /// The folder of the server's mail, for the time that its disk was busy.
    pub data: Option<PathBuf>,
}

/// Instruments served at the same time; more are refused.
const INSTRUMENTS_MAX: usize = 16;
/// Connections that have not proved yet that they know the token. One more ends the oldest one of
/// the network with the most. So a network that connects again and again only ends its own. Each
/// has a thread and at most a line of 256 KiB.
const UNAUTHENTICATED_MAX: usize = 64;
/// Pause after a connection could not be accepted. Long enough to cost nothing while the process
/// has no descriptor left, short enough for an instrument that waits.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A connection that has not proved the token yet.
struct Unauthenticated {
    number: u64,
    network: IpAddr,
    stream: TcpStream,
}

/// The network of an address. A host with IPv6 may choose any address of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Where the connection is that ends for another one: the oldest of the network with the most.
fn surplus(connections: &VecDeque<Unauthenticated>) -> Option<usize> {
    let mut counts = HashMap::<IpAddr, usize>::new();
    for connection in connections {
        *counts.entry(connection.network).or_default() += 1;
    }
    let most = counts.values().max()?;
    connections.iter().position(|connection| counts.get(&connection.network) == Some(most))
}

/// The peers that are connected.
#[derive(Default)]
struct ConnectedPeers {
    unauthenticated: Mutex<VecDeque<Unauthenticated>>,
    instruments: AtomicUsize,
}

impl ConnectedPeers {
    fn unauthenticated(&self) -> MutexGuard<'_, VecDeque<Unauthenticated>> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection from this address. Another one is closed for it if they are too many.
    fn enter(&self, number: u64, from: IpAddr, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut unauthenticated = self.unauthenticated();
        unauthenticated.push_back(Unauthenticated { number, network: network(from), stream });
        if unauthenticated.len() > UNAUTHENTICATED_MAX
            && let Some(closed) = surplus(&unauthenticated).and_then(|at| unauthenticated.remove(at))
        {
            // Its thread notices. A connection that is closed already cannot be shut down.
            let _ = closed.stream.shutdown(Shutdown::Both);
        }
        Ok(())
    }

    /// A connection has proved the token, or was closed.
    fn forget_unauthenticated(&self, number: u64) {
        self.unauthenticated().retain(|other| other.number != number);
    }

    /// A place for an instrument, if there is one left.
    fn place(&self) -> Option<ConnectionSlot<'_>> {
        let more = |n: usize| (n < INSTRUMENTS_MAX).then_some(n + 1);
        let got = self.instruments.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        got.is_ok().then_some(ConnectionSlot(&self.instruments))
    }
}

/// An instrument's place, given back when dropped.
struct ConnectionSlot<'a>(&'a AtomicUsize);

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves connections for ever, a thread each. `on_end` is called with how each one ended, and when
/// connections cannot be accepted.
pub fn serve(
    listener: &TcpListener,
    options: &AgentOptions,
    on_end: impl Fn(&str) + Send + Sync + 'static,
) -> ! {
    let on_end = Arc::new(on_end);
    let guests = Arc::new(ConnectedPeers::default());
    let mut failed = false;
    for number in 0u64.. {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if !failed {
                    on_end(&format!("connections cannot be accepted, trying again: {error}"));
                }
                failed = true;
                std::thread::sleep(ACCEPT_AGAIN);
                continue;
            }
        };
        failed = false;
        let thread = guests.enter(number, peer.ip(), &stream).and_then(|()| {
            let (options, on_end, guests) = (options.clone(), on_end.clone(), guests.clone());
            std::thread::Builder::new().name("instrument".into()).spawn(move || {
                let done = serve_one(stream, &options, (&guests, number));
                guests.forget_unauthenticated(number);
                match done {
                    Ok(()) => on_end(&format!("{peer} has disconnected")),
                    Err(error) => on_end(&format!("{peer}: {error}")),
                }
            })
        });
        if let Err(error) = thread {
            guests.forget_unauthenticated(number);
            on_end(&format!("{peer}: {error}"));
        }
    }
    unreachable!("there are more numbers than connections")
}

fn serve_one(
    stream: TcpStream,
    options: &AgentOptions,
    (guests, number): (&ConnectedPeers, u64),
) -> io::Result<()> {
    let mut lines = Lines::new(stream)?;
    let (pid, proof) = authenticate(&mut lines, &options.token)?;
    guests.forget_unauthenticated(number);
    let Some(_place) = guests.place() else {
        let why = format!("{INSTRUMENTS_MAX} instruments are connected already");
        return Err(refuse(&mut lines, &why));
    };
    let target = WatchTarget::Local {
        pid: pid.or(options.pid),
        cgroup: options.cgroup.clone(),
        data: options.data.clone(),
    };
    let mut monitor = match Monitor::start(&target) {
        Ok(Some(monitor)) => monitor,
        Ok(None) => return lines.send(&Answer::Error("no process and no control group to report".into())),
        Err(error) => return lines.send(&Answer::Error(error.to_string())),
    };
    lines.send(&Answer::Ready { proof })?;
    loop {
        let request = match lines.receive::<String>() {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        if request == CLOCK {
            lines.send(&Answer::Clock(machine::clock()))?;
            continue;
        }
        match monitor.read_sample() {
            Ok(sample) => lines.send(&Answer::Sample(Box::new(sample)))?,
            Err(error) => lines.send(&Answer::Error(error.to_string()))?,
        }
    }
}

/// Lets the instrument prove that it knows the token. Returns the process that it names, and the
/// agent's own proof.
fn authenticate(lines: &mut Lines, token: &str) -> io::Result<(Option<u32>, String)> {
    let own = nonce()?;
    lines.send(&Challenge { nonce: hex(&own), version: VERSION })?;
    let hello: Hello = lines.receive()?;
    let Some(other) = &hello.nonce else {
        return Err(refuse(lines, &format!("the instrument has another version; {SAME_VERSION}")));
    };
    let nonces = Nonces { agent: own, instrument: nonce_of(other)? };
    match nonces.is_proof(&hello.proof, End::Instrument, token)? {
        true => Ok((hello.pid, nonces.proof(End::Agent, token)?)),
        false => Err(refuse(lines, "wrong token")),
    }
}

/// Sends the reason of a refusal, and returns it.
fn refuse(lines: &mut Lines, why: &str) -> io::Error {
    match lines.send(&Answer::Error(why.to_owned())) {
        Ok(()) => bad(why),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use super::super::Remote;
    use super::*;
    use crate::clock::Reference;

    fn agent() -> String {
        agent_on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn agent_on(listener: TcpListener) -> String {
        let address = listener.local_addr().unwrap().to_string();
        let options = AgentOptions {
            token: "open sesame".into(),
            pid: Some(std::process::id()),
            cgroup: None,
            data: None,
        };
        std::thread::spawn(move || serve(&listener, &options, |_| ()));
        address
    }

    #[test]
    fn an_error_of_accept_does_not_end_the_agent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Every accept fails from now on, unless somebody waits already.
        listener.set_nonblocking(true).unwrap();
        let address = agent_on(listener);
        for _ in 0..3 {
            assert!(Remote::connect(&address, "open sesame", None).unwrap().sample().is_ok());
        }
    }

    #[test]
    fn peers_that_say_nothing_keep_no_instrument_out() {
        let address = agent();
        let silent: Vec<TcpStream> =
            (0..2 * UNAUTHENTICATED_MAX).map(|_| TcpStream::connect(&address).unwrap()).collect();
        let mut remote = Remote::connect(&address, "open sesame", None).unwrap();
        assert!(remote.sample().is_ok());
        // Later connections do not end it, either.
        let more: Vec<TcpStream> =
            (0..2 * UNAUTHENTICATED_MAX).map(|_| TcpStream::connect(&address).unwrap()).collect();
        let _other = Remote::connect(&address, "open sesame", None).unwrap();
        assert!(remote.sample().is_ok());
        drop((silent, more));
    }

    #[test]
    fn a_network_that_connects_again_and_again_ends_only_its_own_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peers, count) = (ConnectedPeers::default(), UNAUTHENTICATED_MAX as u64);
        let enter = |number, from: &str| peers.enter(number, from.parse().unwrap(), &stream).unwrap();
        let waits = |number| peers.unauthenticated().iter().any(|one| one.number == number);
        enter(0, "192.0.2.1");
        // Each has another address of one network.
        (1..2 * count).for_each(|number| enter(number, &format!("2001:db8::{number:x}")));
        assert!(waits(0) && waits(2 * count - 1) && !waits(1));
        // It still has the most while a second network gets half of the places.
        let second = 2 * count..2 * count + count / 2;
        second.clone().for_each(|number| enter(number, "198.51.100.7"));
        assert!(second.clone().all(waits) && waits(0));
        assert_eq!(peers.unauthenticated().len(), UNAUTHENTICATED_MAX);
        // With one of each network the oldest ends.
        let many = ConnectedPeers::default();
        for number in 0..=count {
            many.enter(number, Ipv6Addr::from_bits(u128::from(number) << 64).into(), &stream).unwrap();
        }
        assert_eq!(many.unauthenticated().front().map(|one| one.number), Some(1));
    }

    /// Reads a line, answers it, and reads another one. The other end may leave meanwhile.
    fn line_after(mut peer: TcpStream, line: &str) -> String {
        let (mut lines, mut answer) = (BufReader::new(peer.try_clone().unwrap()), String::new());
        let _ = lines.read_line(&mut String::new());
        let _ = peer.write_all(line.as_bytes());
        let _ = lines.read_line(&mut answer);
        answer
    }

    #[test]
    fn an_instrument_of_the_first_version_gets_the_remedy() {
        let peer = TcpStream::connect(agent()).unwrap();
        let said = line_after(peer, "{\"proof\": \"00\", \"pid\": null}\n");
        assert!(said.contains("use the same version of posthaste-load on both machines"), "{said}");
    }

    /// The error of an instrument whose agent sends these two lines.
    fn refused(first: &'static str, second: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(first.as_bytes()).unwrap();
            line_after(peer, second)
        });
        let error = Remote::connect(&address, "open sesame", None).err().unwrap().to_string();
        let _ = peer.join();
        error
    }

    #[test]
    fn an_agent_of_the_first_version_gets_no_proof() {
        let said = refused("{\"nonce\": \"00\"}\n", "\"ready\"\n");
        assert!(said.contains("use the same version of posthaste-load on both machines"), "{said}");
    }

    #[test]
    fn an_agent_that_does_not_know_the_token_is_not_believed() {
        let challenge = "{\"nonce\": \"000102030405060708090a0b0c0d0e0f\", \"version\": 2}\n";
        let said = refused(challenge, "{\"ready\": {\"proof\": \"00\"}}\n");
        assert!(said.contains("does not know the token"), "{said}");
    }

    #[test]
    fn instruments_have_a_limit_and_give_their_places_back() {
        let address = agent();
        let connect = || Remote::connect(&address, "open sesame", None);
        let mut all: Vec<Remote> = (0..INSTRUMENTS_MAX).map(|_| connect().unwrap()).collect();
        let refused = connect().err().unwrap();
        assert!(refused.to_string().contains("16 instruments are connected already"), "{refused}");
        drop(all.pop());
        // The place is free when the agent's thread has seen the end of the connection.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while connect().is_err() {
            assert!(std::time::Instant::now() < deadline, "the place is not given back");
        }
    }

    #[test]
    fn the_agents_clock_is_compared_with_the_generators() {
        let (address, token) = (agent(), "open sesame".to_owned());
        let target = WatchTarget::Agent { address, token, pid: None };
        let (theirs, own) = (Reference::of(&target).unwrap(), Reference::own());
        let now = std::time::Instant::now();
        // One machine, so one clock: as far apart as both were misread.
        let (there, here) = (theirs.clock(now), own.clock(now));
        let bound = there.reading_bound_s + here.reading_bound_s + 1e-5;
        assert!((there.start_unix_s - here.start_unix_s).abs() <= bound, "{there:?} {here:?}");
        assert_eq!(there.machine, here.machine);
        assert!(there.reference.contains("the agent 127.0.0.1:"), "{there:?}");
    }

    #[test]
    fn figures_come_for_the_token_only() {
        let address = agent();
        let wrong = Remote::connect(&address, "sesame", None).err().unwrap();
        assert!(wrong.to_string().contains("wrong token"), "{wrong}");
        let mut remote = Remote::connect(&address, "open sesame", None).unwrap();
        let sample = remote.sample().unwrap();
        assert!(sample.processes >= 1 && sample.source.starts_with("agent 127.0.0.1"));
        assert!(sample.cpu_s() > 0.0 || remote.sample().is_ok());
        let ended = Remote::connect(&address, "open sesame", Some(u32::MAX)).err().unwrap();
        assert!(ended.to_string().contains("does not exist"), "{ended}");
    }
}
