//! The sweep's second process: a signal caused by damage ends this process, not the sweep.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{Damage, Sample};
use crate::verify::Violation;

/// The other process: reads one damage a line, answers one line each. Ends with its input.
pub fn child(seed: u64, base: &Path, rebuild: bool) -> Result<(), Violation> {
    let sample = Sample::make(seed, base)?;
    for line in std::io::stdin().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let Ok(damage) = line.parse::<Damage>() else { return Err(format!("no damage: {line}")) };
        let answer = match sample.judge(&damage, base, rebuild) {
            Ok(()) => "right".to_owned(),
            Err(violation) => format!("wrong {}", violation.replace('\n', " ")),
        };
        println!("answer {answer}");
    }
    Ok(())
}

/// A process that judges damage. It is started again when damage ends it.
pub struct Sweep {
    program: PathBuf,
    seed: u64,
    rebuild: bool,
    running: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Sweep {
    /// `program` is the `simulate` binary.
    pub fn new(program: PathBuf, seed: u64) -> Self {
        Self { program, seed, rebuild: true, running: None }
    }

    /// Judges only what an open store answers.
    #[must_use]
    pub fn without_rebuild(mut self) -> Self {
        self.rebuild = false;
        self
    }

    /// Judges one damage in the other process.
    pub fn judge(&mut self, damage: &Damage) -> std::io::Result<Result<(), Violation>> {
        if self.running.is_none() {
            let mut child = Command::new(&self.program)
                .args(["--damage-child", "--seed", &self.seed.to_string()])
                .args(if self.rebuild { None } else { Some("--no-rebuild") })
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let missing = || std::io::Error::other("no pipe");
            let (input, output) = (input.ok_or_else(missing)?, output.ok_or_else(missing)?);
            self.running = Some((child, input, BufReader::new(output)));
        }
        let Some((child, input, output)) = &mut self.running else { return Ok(Ok(())) };
        writeln!(input, "{damage}")?;
        let mut line = String::new();
        while output.read_line(&mut line)? > 0 {
            if let Some(answer) = line.trim_end().strip_prefix("answer ") {
                return Ok(answer.strip_prefix("wrong ").map_or(Ok(()), |wrong| Err(wrong.to_owned())));
            }
            line.clear();
        }
        let status = child.wait()?;
        self.running = None;
        Ok(Err(format!("the process ended: {status}")))
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some((mut child, input, _)) = self.running.take() {
            drop(input);
            let _ = child.wait();
        }
    }
}
