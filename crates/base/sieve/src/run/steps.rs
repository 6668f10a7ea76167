//! Commands, one after the other.

use std::sync::Arc;

use posthaste_mime_summary::is_traced_header_bounded;

use crate::compiled::{Include, Op, PlacedCommand};
use crate::context::{Context, Location};
use crate::effect::{Effect, Outcome};
use crate::error::{Position, RunError};
use crate::extension::Extension;
use crate::run::actions::{add_header, change_flags, delete_header, extract_text, flags_of, redirect, set};
use crate::run::fault::Fault;
use crate::run::machine::Machine;
use crate::run::mime::parts_from;
use crate::run::replies::{notify, target, vacation};
use crate::run::tests::test;
use crate::script::Script;

/// The ways in which commands continue.
enum Flow<'s> {
    Next,
    /// The run ends.
    Stop,
    /// The script ends, and the one that included it continues.
    Return,
    /// The loop of this name ends; without a name, the innermost one.
    Break(Option<&'s str>),
}

/// The scripts that are open, and those that were.
struct Open {
    /// The names of those that are included one in the other.
    stack: Vec<(Location, Box<str>)>,
    /// All that were included.
    seen: Vec<(Location, Box<str>)>,
}

impl Script {
    /// Runs the script for one message. Always ends, and always says what to do with the message.
    /// One whose header is over the bounds for mail that comes in, and for what is added here, is
    /// kept with an error. Takes at most eight times the memory of the message, and 4 MiB.
    pub fn run(&self, message: &[u8], context: &dyn Context) -> Outcome {
        if !is_traced_header_bounded(message) {
            let error = RunError {
                script: String::new(),
                place: Position { line: 1, column: 1 },
                message: "the message has a header that is too large".to_owned(),
            };
            return kept(error, Vec::new(), 0);
        }
        let mut machine = Machine::new(context, &self.limits, message);
        let mut open = Open { stack: Vec::new(), seen: Vec::new() };
        let ended = run_script(&mut machine, self, &mut open);
        let steps = machine.meter.steps();
        let notes = std::mem::take(&mut machine.results.notes);
        match ended {
            Ok(_) => {
                let flags = std::mem::take(&mut machine.flags);
                let effects = machine.results.finish(flags);
                let (headers, body_start) = (machine.results.headers, machine.message.body_start());
                Outcome { effects, headers, body_start, error: None, notes, steps }
            }
            // RFC 5228 §2.10.6: the message as it came is kept, and nothing else is done.
            Err(error) => kept(error, notes, steps),
        }
    }
}

/// The outcome of a run that failed.
fn kept(error: RunError, notes: Vec<String>, steps: u64) -> Outcome {
    let keep = Effect::Keep { flags: Vec::new(), version: 0, is_implicit: true };
    Outcome { effects: vec![keep], error: Some(error), notes, steps, ..Outcome::default() }
}

/// Runs the commands of one script with variables of its own.
fn run_script(machine: &mut Machine<'_>, script: &Script, open: &mut Open) -> Result<bool, RunError> {
    let locals = std::mem::replace(&mut machine.locals, vec![String::new(); usize::from(script.locals)]);
    let matched = std::mem::take(&mut machine.matched);
    let had_variables =
        std::mem::replace(&mut machine.has_variables, script.enabled.has(Extension::Variables));
    let flow = run_block(machine, &script.block, open)?;
    let left = std::mem::replace(&mut machine.locals, locals);
    machine.variables_bytes -= left.iter().map(String::len).sum::<usize>();
    machine.matched = matched;
    machine.has_variables = had_variables;
    Ok(matches!(flow, Flow::Stop))
}

fn run_block<'s>(
    machine: &mut Machine<'_>,
    block: &'s [PlacedCommand],
    open: &mut Open,
) -> Result<Flow<'s>, RunError> {
    for step in block {
        match run_step(machine, step, open)? {
            Flow::Next => {}
            flow => return Ok(flow),
        }
    }
    Ok(Flow::Next)
}

fn run_step<'s>(
    machine: &mut Machine<'_>,
    step: &'s PlacedCommand,
    open: &mut Open,
) -> Result<Flow<'s>, RunError> {
    let script = open.stack.last().map_or("", |(_, name)| name).to_string();
    let place = step.place;
    let at = |fault: Fault| RunError { script: script.clone(), place, message: fault.0 };
    machine.step(1).map_err(at)?;
    match &step.op {
        Op::If(branches, otherwise) => {
            for (condition, block) in branches {
                if test(machine, condition).map_err(at)? {
                    return run_block(machine, block, open);
                }
            }
            run_block(machine, otherwise, open)
        }
        Op::Stop => Ok(Flow::Stop),
        Op::Return => Ok(Flow::Return),
        Op::Break(name) => Ok(Flow::Break(name.as_deref())),
        Op::ForEveryPart { name, block } => for_every_part(machine, name.as_deref(), block, open, place),
        Op::Include(include) => run_include(machine, include, open, place),
        _ => run_action(machine, &step.op).map_err(at).map(|()| Flow::Next),
    }
}

fn run_action(machine: &mut Machine<'_>, op: &Op) -> Result<(), Fault> {
    match op {
        Op::Keep(flags) => {
            let flags = flags_of(machine, flags.as_deref())?;
            machine.results.keep(flags)
        }
        Op::Discard => {
            machine.results.discard();
            Ok(())
        }
        Op::FileInto(filed) => {
            let mailbox = machine.text(&filed.mailbox)?.into_owned();
            let target = target(machine, mailbox, &filed.options)?;
            machine.results.file_into(target, filed.copy)
        }
        Op::Redirect { address, copy } => redirect(machine, address, *copy),
        Op::Reject { reason, is_strict } => {
            let reason = machine.text(reason)?.into_owned();
            machine.results.reject(reason, *is_strict)
        }
        Op::Set { variable, modifiers, value } => set(machine, variable, modifiers, value),
        Op::Flags { change, variable, flags } => change_flags(machine, *change, variable.as_ref(), flags),
        Op::Vacation(reply) => vacation(machine, reply),
        Op::Notify(notification) => notify(machine, notification),
        Op::AddHeader { name, value, last } => add_header(machine, name, value, *last),
        Op::DeleteHeader(delete) => delete_header(machine, delete),
        Op::ExtractText { variable, modifiers, first } => extract_text(machine, variable, modifiers, *first),
        // RFC 5463 §5.
        Op::Error(message) => Err(Fault(machine.text(message)?.into_owned())),
        Op::If(..) | Op::Stop | Op::Return | Op::Break(_) | Op::ForEveryPart { .. } | Op::Include(_) => {
            Ok(())
        }
    }
}

/// RFC 5703 §3: the outermost loop goes over the message and all its parts. A loop in a loop goes
/// over the parts in the current part.
fn for_every_part<'s>(
    machine: &mut Machine<'_>,
    name: Option<&str>,
    block: &'s [PlacedCommand],
    open: &mut Open,
    place: Position,
) -> Result<Flow<'s>, RunError> {
    let outer = machine.part;
    let script = open.stack.last().map_or("", |(_, name)| name).to_string();
    let at = |fault: Fault| RunError { script: script.clone(), place, message: fault.0 };
    let mut parts = parts_from(&machine.message, outer.unwrap_or(0));
    machine.step(1 + parts.len() as u64 / 8).map_err(at)?;
    if outer.is_some() {
        parts.remove(0);
    }
    let mut flow = Flow::Next;
    for part in parts {
        machine.part = Some(part);
        machine.step(1).map_err(at)?;
        match run_block(machine, block, open)? {
            Flow::Next => {}
            Flow::Break(None) => break,
            Flow::Break(wanted) if wanted == name => break,
            other => {
                flow = other;
                break;
            }
        }
    }
    machine.part = outer;
    Ok(flow)
}

/// RFC 6609 §3.1.
fn run_include<'s>(
    machine: &mut Machine<'_>,
    include: &'s Include,
    open: &mut Open,
    place: Position,
) -> Result<Flow<'s>, RunError> {
    let location = if include.is_global { Location::Global } else { Location::Personal };
    let key = (location, include.name.clone());
    let outer = open.stack.last().map_or("", |(_, name)| name).to_string();
    let fault = |message: String| RunError { script: outer.clone(), place, message };
    let name = &include.name;
    if include.once && open.seen.contains(&key) {
        return Ok(Flow::Next);
    }
    if open.stack.contains(&key) {
        return Err(fault(format!("the script \"{name}\" includes itself")));
    }
    if open.stack.len() >= machine.limits.include_depth_max || open.seen.len() >= machine.limits.includes_max
    {
        return Err(fault(format!("too many scripts are included, \"{name}\" is over the limit")));
    }
    let found = machine.context.script(location, name);
    let found: Option<Arc<Script>> =
        found.map_err(|reason| fault(format!("the script \"{name}\" cannot be included: {reason}")))?;
    let Some(script) = found else {
        return match include.optional {
            true => Ok(Flow::Next),
            false => {
                Err(fault(format!("there is no script \"{name}\" to include: make it, or write :optional")))
            }
        };
    };
    open.stack.push(key.clone());
    open.seen.push(key);
    // A loop is one of its own script: an included one begins outside of it.
    let part = machine.part.take();
    let is_stopped = run_script(machine, &script, open)?;
    machine.part = part;
    open.stack.pop();
    Ok(if is_stopped { Flow::Stop } else { Flow::Next })
}
