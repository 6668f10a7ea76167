//! The agent's end: serves figures to instruments that know the token.

use super::wire::{Answer, Challenge, Hello, Lines, bad, hex, proof, unhex};
use crate::monitor::Monitor;
use crate::sample::WatchTarget;
use hmac::Mac;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

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
    use super::super::Remote;
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
