//! A second process on the same store: an `import` while the server runs, a `check`, a command
//! that is killed.
//!
//! LMDB can be opened only once in a process, so the second process is a real one, the *visitor*.
//! Each process does its own steps, and follows the other's steps by their results
//! ([`StepResult`]). Only one runs at a time, as the driver decides, so that the seed determines
//! the order. The visitor writes its operations to a file before it does them, and from there they
//! enter the one log. So a killed visitor leaves the operations it did.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use posthaste_store_lmdb::{LmdbEngine, Rebuild};

use crate::driver::{Driver, Opening, RemoteResult, StepResult, check, options, rebuild_index};
use crate::model::Knowledge;
use crate::record::Recorder;
use crate::runtime::Runtime;
use crate::verify::Violation;

/// The longest wait for an answer: a visitor that waits for a lock of this process would wait for
/// ever.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The other process, seen from the process that keeps the log.
pub struct Visitor {
    program: PathBuf,
    seed: u64,
    root: PathBuf,
    sink: PathBuf,
    faulty: bool,
    running: Option<Running>,
    /// The results of all steps so far, for a visitor that starts later.
    history: Vec<String>,
    /// Whether it has the store open.
    open: bool,
}

struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    operations: File,
    /// Bytes of `operations` that were read.
    read: u64,
}

impl Running {
    /// Its operations since, up to this length of its sink; all of it if no length is given.
    fn operations(&mut self, upto: Option<u64>) -> std::io::Result<Vec<u8>> {
        let mut operations = Vec::new();
        let most = upto.map_or(u64::MAX, |upto| upto.saturating_sub(self.read));
        (&mut self.operations).take(most).read_to_end(&mut operations)?;
        self.read += operations.len() as u64;
        Ok(operations)
    }
}

/// How a command to the visitor ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It completed.
    Done,
    /// The store refused.
    Refused(String),
    /// The visitor was killed meanwhile.
    Killed,
}

impl Visitor {
    /// A visitor of the store in `root`. `program` is the `simulate` binary; `sink` lies outside of
    /// the store.
    pub fn new(program: PathBuf, seed: u64, root: &Path, sink: PathBuf, faulty: bool) -> Self {
        let (running, history) = (None, Vec::new());
        Self { program, seed, root: root.to_owned(), sink, faulty, running, history, open: false }
    }

    /// Whether it has the store open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Sends the results of a step that the logging process took.
    pub fn send_results(&mut self, results: &[StepResult]) -> std::io::Result<()> {
        let words: Vec<String> = results.iter().map(|t| t.word()).collect();
        let line = format!("follow {}", words.join(" "));
        if let Some(running) = &mut self.running {
            writeln!(running.input, "{line}")?;
        }
        self.history.push(line);
        Ok(())
    }

    fn running(&mut self) -> std::io::Result<&mut Running> {
        if self.running.is_none() {
            File::create(&self.sink)?;
            let mut child = Command::new(&self.program)
                .arg("--visitor")
                .arg(&self.root)
                .arg("--sink")
                .arg(&self.sink)
                .args(["--seed", &self.seed.to_string()])
                .args(self.faulty.then_some("--expect-faults"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let missing = || std::io::Error::other("no pipe");
            let mut input = child.stdin.take().ok_or_else(missing)?;
            let output = child.stdout.take().ok_or_else(missing)?;
            let (send, lines) = channel();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        return;
                    }
                }
            });
            for line in &self.history {
                writeln!(input, "{line}")?;
            }
            let operations = File::open(&self.sink)?;
            self.running = Some(Running { child, input, lines, operations, read: 0 });
        }
        self.running.as_mut().ok_or_else(|| std::io::Error::other("no visitor"))
    }

    /// Sends a command; returns the results reported meanwhile, and how the command ended.
    fn send_command(&mut self, command: &str) -> Result<(Vec<RemoteResult>, Ended), Violation> {
        let failed = |e: std::io::Error| format!("the visitor: {e}");
        let running = self.running().map_err(failed)?;
        writeln!(running.input, "{command}").map_err(failed)?;
        let mut heard = Vec::new();
        loop {
            let line = match running.lines.recv_timeout(TIMEOUT) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("another process waits for ever at: {command}"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    running.child.wait().map_err(failed)?;
                    let operations = running.operations(None).map_err(failed)?;
                    heard.push(RemoteResult { result: None, operations, at: None });
                    (self.running, self.open) = (None, false);
                    return Ok((heard, Ended::Killed));
                }
            };
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            // It continues after each result: operations after it belong to the next result.
            let answer = rest.split_once(' ').filter(|_| word == "result");
            let upto = answer.and_then(|(len, _)| len.parse().ok());
            let operations = running.operations(upto).map_err(failed)?;
            let result = answer.and_then(|(_, result)| StepResult::from_word(result));
            heard.push(RemoteResult { result, operations, at: None });
            match word {
                "result" => {}
                "ended" => return Ok((heard, Ended::Done)),
                "refused" => return Ok((heard, Ended::Refused(rest.to_owned()))),
                _ => return Err(format!("in another process: {line}")),
            }
        }
    }

    /// Makes it take the driver's next step, and makes the driver follow. `die`: it is killed
    /// before its operation with this number.
    pub async fn step(&mut self, driver: &mut Driver, die: Option<usize>) -> Result<(), Violation> {
        if let Some(count) = die {
            self.send_command(&format!("die {count}"))?;
        }
        let (heard, _) = self.send_command("step")?;
        let words: Vec<String> = heard.iter().filter_map(|h| h.result).map(StepResult::word).collect();
        driver.set_script(heard);
        self.history.push(format!("follow {}", words.join(" ")));
        driver.follow().await
    }

    /// Sends a command that is not a step: `open`, `close`, `check`, `rebuild`.
    pub fn command(&mut self, driver: &mut Driver, command: &str) -> Result<Ended, Violation> {
        let (heard, ended) = self.send_command(command)?;
        let operations: Vec<u8> = heard.into_iter().flat_map(|h| h.operations).collect();
        driver.elsewhere(&format!("in another process: {command}: {ended:?}"), &operations);
        match command {
            "open" => self.open = ended == Ended::Done,
            "close" => self.open = false,
            _ => {}
        }
        Ok(ended)
    }

    /// Ends the process with SIGKILL.
    pub fn kill(&mut self) {
        self.open = false;
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The visitor itself: executes commands from its input until the input ends.
pub fn visitor(root: &Path, sink: &Path, seed: u64, faulty: bool) -> Result<(), Violation> {
    let fails = |e: std::io::Error| e.to_string();
    let sink = std::fs::OpenOptions::new().append(true).open(sink).map_err(fails)?;
    let recorder = Recorder::watch_into(root, Some(sink)).map_err(fails)?;
    let runtime = Runtime::new().map_err(fails)?;
    let mut driver = Driver::new(Arc::clone(&recorder), Knowledge::default(), seed, 0)
        .with_faults(faulty)
        .with_options(options(seed));
    let listener = Arc::clone(&recorder);
    driver.set_listener(move |result| println!("result {} {}", listener.sunk(), result.word()));
    let mut engine: Option<LmdbEngine> = None;
    for line in std::io::stdin().lines() {
        let line = line.map_err(fails)?;
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match command {
            "follow" => {
                let results = rest.split_whitespace().filter_map(StepResult::from_word);
                driver
                    .set_script(results.map(|t| RemoteResult { result: Some(t), ..RemoteResult::default() }));
                runtime.block_on(driver.follow())?;
                continue;
            }
            "die" => recorder.die_after(rest.parse().unwrap_or(0)),
            "open" => match Opening::Command.open(root, options(seed)) {
                Ok(opened) => engine = Some(opened),
                Err(error) => {
                    println!("refused {}", error.to_string().replace('\n', " "));
                    continue;
                }
            },
            "close" => drop(engine.take()),
            "rebuild" => {
                if let Err(error) = rebuild_index(root, &options(seed), Rebuild::UnlessFaulty) {
                    println!("refused {}", error.to_string().replace('\n', " "));
                    continue;
                }
            }
            "check" | "step" => {
                let Some(engine) = &engine else { return Err("it is not open".into()) };
                let done = match command {
                    "step" => runtime.block_on(driver.steps(Some(engine), 1)),
                    _ => runtime.block_on(check(engine)),
                };
                if let Err(violation) = done {
                    println!("violation {}", violation.replace('\n', " "));
                    continue;
                }
            }
            _ => return Err(format!("no command: {line}")),
        }
        println!("ended");
    }
    Ok(())
}
