//! The agent: runs beside a server on another machine and tells the instrument what it costs.
//!
//! One JSON object per line, both ways. The agent sends a nonce; the instrument answers with its
//! HMAC-SHA-256 under the token both know, so that the token never travels. What is asked for is a
//! process number and nothing else: an agent gives figures of processes, it runs nothing.

use crate::measure::{Monitor, Sample, WatchTarget};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The longest line taken: a sample with some hundred roles.
const LINE_BYTES_MAX: u64 = 256 * 1024;
/// Longest wait for the other side.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Serialize, Deserialize)]
struct Challenge {
    nonce: String,
}

#[derive(Serialize, Deserialize)]
struct Hello {
    proof: String,
    pid: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ready,
    Sample(Box<Sample>),
    Error(String),
}

fn proof(token: &str, nonce: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).ok()?;
    mac.update(nonce.as_bytes());
    Some(mac)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.as_bytes().chunks(2).map(digit).collect()
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// A connection: lines of JSON.
struct Lines {
    reader: BufReader<TcpStream>,
}

impl Lines {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    fn send<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    fn receive<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<T> {
        let mut line = Vec::new();
        self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

/// The instrument's end.
pub struct Remote {
    lines: Lines,
    address: String,
}

impl Remote {
    /// Connects and proves to know the token.
    pub fn connect(address: &str, token: &str, pid: Option<u32>) -> io::Result<Self> {
        let to = address.to_socket_addrs()?.next().ok_or_else(|| bad("the agent's name has no address"))?;
        let mut lines = Lines::new(TcpStream::connect_timeout(&to, PATIENCE)?)?;
        let challenge: Challenge = lines.receive()?;
        let mac = proof(token, &challenge.nonce).ok_or_else(|| bad("the token cannot be used"))?;
        lines.send(&Hello { proof: hex(&mac.finalize().into_bytes()), pid })?;
        match lines.receive()? {
            Answer::Ready => Ok(Self { lines, address: address.to_owned() }),
            Answer::Error(why) => Err(bad(&format!("agent {address}: {why}"))),
            Answer::Sample(_) => Err(bad("agent: an answer out of turn")),
        }
    }

    /// Requests totals.
    pub fn sample(&mut self) -> io::Result<Sample> {
        self.lines.send(&"sample")?;
        match self.lines.receive()? {
            Answer::Sample(mut sample) => {
                sample.source = format!("agent {}: {}", self.address, sample.source);
                Ok(*sample)
            }
            Answer::Error(why) => Err(bad(&format!("agent {}: {why}", self.address))),
            Answer::Ready => Err(bad("agent: an answer out of turn")),
        }
    }
}

/// What an agent is started with.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The token both know.
    pub token: String,
    /// The process to report, unless the instrument names one.
    pub pid: Option<u32>,
    /// The control group to report.
    pub cgroup: Option<PathBuf>,
}

/// Instruments served at the same time; more are refused.
const INSTRUMENTS_MAX: usize = 16;

/// Serves connections for ever, a thread each. `on_end` is called with how each one ended.
pub fn serve(
    listener: &TcpListener,
    options: &AgentOptions,
    on_end: impl Fn(&str) + Send + Sync + 'static,
) -> io::Result<()> {
    let on_end = Arc::new(on_end);
    let busy = Arc::new(());
    loop {
        let (stream, peer) = listener.accept()?;
        // Each thread holds one count of `busy`, and so do we.
        if Arc::strong_count(&busy) > INSTRUMENTS_MAX {
            on_end(&format!("{peer}: refused, {INSTRUMENTS_MAX} instruments are connected already"));
            continue;
        }
        let (options, on_end, busy) = (options.clone(), on_end.clone(), busy.clone());
        std::thread::Builder::new().name("instrument".into()).spawn(move || {
            match serve_one(stream, &options) {
                Ok(()) => on_end(&format!("{peer} has disconnected")),
                Err(error) => on_end(&format!("{peer}: {error}")),
            }
            drop(busy);
        })?;
    }
}

fn serve_one(stream: TcpStream, options: &AgentOptions) -> io::Result<()> {
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
    let target = WatchTarget::Local { pid: hello.pid.or(options.pid), cgroup: options.cgroup.clone() };
    let mut monitor = match Monitor::start(&target) {
        Ok(Some(monitor)) => monitor,
        Ok(None) => return lines.send(&Answer::Error("no process and no control group to report".into())),
        Err(error) => return lines.send(&Answer::Error(error.to_string())),
    };
    lines.send(&Answer::Ready)?;
    loop {
        match lines.receive::<String>() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        match monitor.look() {
            Ok(sample) => lines.send(&Answer::Sample(Box::new(sample)))?,
            Err(error) => lines.send(&Answer::Error(error.to_string()))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let options =
            AgentOptions { token: "open sesame".into(), pid: Some(std::process::id()), cgroup: None };
        std::thread::spawn(move || serve(&listener, &options, |_| ()));
        address
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
