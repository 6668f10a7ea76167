//! The agent's end: serves figures to instruments that know the token.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hmac::Mac;

use super::wire::{Answer, CLOCK, Challenge, Hello, Lines, bad, hex, proof, unhex};
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
/// Connections that have not proved yet that they know the token. One more ends the oldest of them:
/// an instrument needs a round trip for it, so peers that only wait keep nobody out. Each has a
/// thread and at most a line of 256 KiB.
const UNAUTHENTICATED_MAX: usize = 64;
/// Pause after a connection could not be accepted. Long enough to cost nothing while the process
/// has no descriptor left, short enough for an instrument that waits.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The peer that is connected.
#[derive(Default)]
struct ConnectedPeer {
    unauthenticated: Mutex<VecDeque<(u64, TcpStream)>>,
    instruments: AtomicUsize,
}

impl ConnectedPeer {
    fn unauthenticated(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. The oldest unauthenticated connections are closed for it.
    fn enter(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut unauthenticated = self.unauthenticated();
        while unauthenticated.len() >= UNAUTHENTICATED_MAX {
            if let Some((_, oldest)) = unauthenticated.pop_front() {
                // Its thread notices. A connection that is closed already cannot be shut down.
                let _ = oldest.shutdown(Shutdown::Both);
            }
        }
        unauthenticated.push_back((number, stream));
        Ok(())
    }

    /// A connection has proved the token, or was closed.
    fn forget_unauthenticated(&self, number: u64) {
        self.unauthenticated().retain(|(other, _)| *other != number);
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
    let guests = Arc::new(ConnectedPeer::default());
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
        let thread = guests.enter(number, &stream).and_then(|()| {
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
    (guests, number): (&ConnectedPeer, u64),
) -> io::Result<()> {
    let mut lines = Lines::new(stream)?;
    let mut random = [0u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let nonce = hex(&random);
    lines.send(&Challenge { nonce: nonce.clone() })?;
    let hello: Hello = lines.receive()?;
    let given = unhex(&hello.proof).unwrap_or_default();
    // verify_slice compares in constant time.
    if proof(&options.token, &nonce).is_none_or(|mac| mac.verify_slice(&given).is_err()) {
        lines.send(&Answer::Error("wrong token".into()))?;
        return Err(bad("wrong token"));
    }
    guests.forget_unauthenticated(number);
    let Some(_place) = guests.place() else {
        let why = format!("{INSTRUMENTS_MAX} instruments are connected already");
        lines.send(&Answer::Error(why.clone()))?;
        return Err(bad(&format!("refused, {why}")));
    };
    let target = WatchTarget::Local {
        pid: hello.pid.or(options.pid),
        cgroup: options.cgroup.clone(),
        data: options.data.clone(),
    };
    let mut monitor = match Monitor::start(&target) {
        Ok(Some(monitor)) => monitor,
        Ok(None) => return lines.send(&Answer::Error("no process and no control group to report".into())),
        Err(error) => return lines.send(&Answer::Error(error.to_string())),
    };
    lines.send(&Answer::Ready)?;
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

#[cfg(test)]
mod tests {
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
